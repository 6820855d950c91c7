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

use super::error::SweepError;
use super::journal::{Journal, Known};
use super::plan::{Plan, Shard};
use crate::io::output::OutputFile;
use crate::io::results::{self, NamedCells};
use crate::io::rundir::RunDirError;
use crate::io::text;
use crate::load::{Listener, Note};

const MANIFEST: &str = "sweep.json";
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
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, SweepError> {
        let path = folder.join(MANIFEST);
        let text = match text::whole(&path, text::RESULTS_MIB_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SweepError::folder(&path, error)),
        };
        let read = serde_json::from_str(&text);
        let fail = |error| SweepError::folder(&path, format_args!("is none of a sweep: {error}"));
        read.map(Some).map_err(fail)
    }

    fn write(&self, folder: &Path) -> Result<(), SweepError> {
        let text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        replace(&folder.join(MANIFEST), |file| writeln!(file, "{text}"))
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
        listener: &Listener,
    ) -> Result<(Self, Journal, Known), SweepError> {
        let fail = |error: std::io::Error| SweepError::folder(path, error);
        if path.as_os_str() == "-" {
            return Err(RunDirError::Dash.into());
        }
        if path.exists() && !path.is_dir() {
            return Err(RunDirError::NotAFolder(path.to_owned()).into());
        }
        fs::create_dir_all(path).map_err(fail)?;
        let before = Manifest::read(path)?;
        if before.is_none() {
            let mut entries = fs::read_dir(path).map_err(fail)?.filter_map(Result::ok);
            // What an attempt that was cut off left of the manifest is nothing.
            let partial = format!("{MANIFEST}.partial");
            if entries.any(|entry| !entry.file_name().to_string_lossy().starts_with(&partial)) {
                let problem = "is not empty and holds no sweep; give another folder";
                return Err(SweepError::folder(path, problem));
            }
            manifest.write(path)?;
        }
        let (journal, known) = Journal::open(&path.join(JOURNAL), &manifest.sweep, listener)?;
        if before.as_ref() != Some(manifest) {
            if before.is_some() && path.join(CSV).exists() {
                listener.tell(&Note::Notice(format!(
                    "{} held another sweep; its runs are kept, its tables are replaced",
                    path.display()
                )));
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
    pub(super) fn write_results(&self, columns: &[NamedCells]) -> Result<(), SweepError> {
        replace(&self.path.join(CSV), |file| results::write_csv(file, columns))?;
        #[cfg(feature = "tables")]
        {
            let path = self.path.join(PARQUET);
            replace(&path, |file| {
                let staging = file.staging().unwrap_or(&path);
                crate::io::parquet::write(staging, columns)
            })?;
        }
        Ok(())
    }
}

/// Writes a file that is replaced as a whole or not at all.
fn replace<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    path: &Path,
    write: impl FnOnce(&mut OutputFile) -> Result<(), E>,
) -> Result<(), SweepError> {
    let mut file = OutputFile::create(path)?;
    write(&mut file).map_err(|error| SweepError::file(path, error))?;
    file.commit().map_err(|error| SweepError::file(path, error))
}
