//! The part of a scenario that says what is sent.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::LoadError;
use super::file::{deserialize, put_seed, read};
use super::overrides::{Override, blame, put_all};
use crate::rng::Seed;
use crate::scenario::{TraceConfig, WorkloadConfig};

/// The part of a scenario that says what is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    #[serde(default)]
    /// Seed of every random stream.
    pub seed: Seed,
    #[serde(default)]
    /// The trace that it reads, if it reads one.
    pub trace: Option<TraceConfig>,
    /// What is sent.
    pub workload: WorkloadConfig,
}

/// Reads that part of a scenario file, with the folder its paths are relative to.
pub fn workload(
    path: Option<&Path>,
    overrides: &[Override],
    seed: Option<u64>,
) -> Result<(WorkloadFile, PathBuf), LoadError> {
    let (name, mut root, folder) = read(path)?;
    for other in [
        "name",
        "cluster",
        "faults",
        "report",
        "measured",
        "variants",
        "fit",
        "calibration",
        "sweep",
    ] {
        root.remove(other);
    }
    put_all(&mut root, overrides)?;
    put_seed(&mut root, seed)?;
    let file = deserialize(&root);
    Ok((file.map_err(|problem| blame(&name, overrides, problem.into()))?, folder))
}
