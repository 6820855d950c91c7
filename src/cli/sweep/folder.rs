//! The folder of a sweep.
//!
//! | file | what |
//! |---|---|
//! | `sweep.json` | what is varied, and which part of it this is |
//! | `runs.jsonl` | the journal |
//! | `results.csv`, `results.parquet` | one row per run, when all have ended |

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::journal::{Journal, Known};
use crate::cli::replace::replace;
use crate::cli::{Failure, say};
use crate::io::results::{self, NamedCells};
use crate::io::rundir::RunDirError;
use crate::io::text;
use crate::sweep::{Plan, Shard};

pub(super) const MANIFEST: &str = "sweep.json";
pub(super) const JOURNAL: &str = "runs.jsonl";
const CSV: &str = "results.csv";
const PARQUET: &str = "results.parquet";

/// What a folder is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version whose results they are.
    pub(super) servecast: String,
    /// A hash of the plan and of the scenarios it begins with.
    pub(super) sweep: String,
    /// Of the scenario.
    pub(super) name: String,
    /// What is varied.
    pub(super) plan: Plan,
    /// Which part of it; all of it if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<Shard>,
}

impl Manifest {
    /// Reads that of a folder; nothing where there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join(MANIFEST);
        let fail = |problem: String| Failure::input(format!("{}: {problem}", path.display()));
        let text = match text::whole(&path, text::RESULTS_MIB_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error.to_string())),
        };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| fail(format!("is none of a sweep: {error}")))
    }

    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        replace(&folder.join(MANIFEST), |file| Ok(writeln!(file, "{text}")?))
    }
}

/// The folder of a sweep.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens a folder for a sweep: a new one, an empty one, or one of an earlier sweep.
    pub(super) fn open(
        path: &Path,
        manifest: &Manifest,
    ) -> Result<(Self, Journal, Known), Failure> {
        let fail = |error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
        if path.as_os_str() == "-" {
            return Err(Failure::Input(RunDirError::Dash.into()));
        }
        if path.exists() && !path.is_dir() {
            return Err(Failure::input(format!("{}: is a file, not a folder", path.display())));
        }
        fs::create_dir_all(path).map_err(fail)?;
        let before = Manifest::read(path)?;
        if before.is_none() {
            let mut entries = fs::read_dir(path).map_err(fail)?.filter_map(Result::ok);
            // What an attempt that was cut off left of the manifest is nothing.
            let partial = format!("{MANIFEST}.partial");
            if entries.any(|entry| !entry.file_name().to_string_lossy().starts_with(&partial)) {
                return Err(Failure::input(format!(
                    "{}: is not empty and holds no sweep; give another folder",
                    path.display()
                )));
            }
            manifest.write(path)?;
        }
        let (journal, known) = Journal::open(&path.join(JOURNAL), &manifest.sweep)?;
        if before.as_ref() != Some(manifest) {
            if before.is_some() && path.join(CSV).exists() {
                say(&format!(
                    "note: {} held another sweep; its runs are kept, its tables are replaced",
                    path.display()
                ));
            }
            for results in [CSV, PARQUET] {
                match fs::remove_file(path.join(results)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail(error)),
                    _ => {}
                }
            }
            manifest.write(path)?;
        }
        Ok((Self { path: path.to_owned() }, journal, known))
    }

    /// Writes the tables of results.
    pub(super) fn write_results(&self, columns: &[NamedCells]) -> Result<(), Failure> {
        replace(&self.path.join(CSV), |file| Ok(results::write_csv(file, columns)?))?;
        #[cfg(feature = "tables")]
        {
            let path = self.path.join(PARQUET);
            replace(&path, |file| {
                let staging = file.staging().unwrap_or(&path);
                Ok(crate::io::tables::write_results(staging, columns)?)
            })?;
        }
        Ok(())
    }
}
