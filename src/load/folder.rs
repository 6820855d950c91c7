//! The scenario of a run that left a folder behind.

use std::path::{Path, PathBuf};

use super::error::{LoadError, fail};

const RESOLVED: &str = "scenario.resolved.toml";

/// The scenario file of what is given: a file itself, or the resolved scenario in the folder of a run.
///
/// # Errors
/// When a folder has none, or those of several runs.
pub(super) fn scenario_of(given: &Path) -> Result<PathBuf, LoadError> {
    if !given.is_dir() {
        return Ok(given.to_path_buf());
    }
    let own = given.join(RESOLVED);
    if own.is_file() {
        return Ok(own);
    }
    let entries = given.read_dir().into_iter().flatten().flatten();
    let below = entries.map(|entry| entry.path()).filter(|path| path.join(RESOLVED).is_file());
    let mut below: Vec<String> = below.map(|path| path.display().to_string()).collect();
    below.sort();
    let rule = if below.is_empty() {
        format!("holds no {RESOLVED}; give a folder that `servecast run` wrote, or a scenario file")
    } else {
        format!("holds several runs; give the folder of one: {}", below.join(", "))
    };
    Err(fail(&given.display().to_string(), rule))
}
