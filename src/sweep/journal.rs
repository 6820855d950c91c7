//! The journal of a sweep: a line for every run that has ended, whatever ends the sweep.
//!
//! A line is a JSON object whose last key, `check`, is a hash of what stands before it. A line that was
//! torn by a kill, a full disk or a crash of the machine does not agree with its hash, or has no end; it
//! is left out, and its run is simulated again. Lines are written whole and in one call each.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::error::SweepError;
use super::key::digest;
use crate::load::{Listener, Note};
use crate::metrics::Warning;
use crate::study::Figures;

/// A run that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// A hash that names the sweep it was done for.
    pub sweep: String,
    /// Its point, from 0.
    pub point: u32,
    /// Which run of the point, from 1.
    #[serde(alias = "replica")]
    pub seed_number: u32,
    /// Its seed.
    pub seed: u64,
    /// Its key: a hash of all that it reads.
    pub scenario: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What its figures hang on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was simulated.
    Figures(Figures),
    /// It could not be.
    Error(String),
}

impl Entry {
    /// A figure of it, by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures()?.get(name)
    }

    /// Its figures; nothing where it failed.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Figures(figures) => Some(figures),
            Outcome::Error(_) => None,
        }
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Figures(_) => None,
            Outcome::Error(error) => Some(error),
        }
    }

    /// Its point and the number of its seed.
    pub(super) fn run(&self) -> (u32, u32) {
        (self.point, self.seed_number)
    }

    fn telling(&self) -> (String, Option<String>) {
        (self.scenario.clone(), self.error().map(str::to_owned))
    }

    /// The line that says it, with a hash of itself.
    ///
    /// # Panics
    /// Never: an entry is JSON.
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self).expect("an entry is JSON");
        let text = text.strip_suffix('}').expect("an object ends");
        format!("{text}{CHECK}{}\"}}\n", digest(&[text]))
    }

    /// What a line says, without its end; nothing where it is torn.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let (text, check) = std::str::from_utf8(line).ok()?.rsplit_once(CHECK)?;
        let agrees = check.strip_suffix("\"}") == Some(&digest(&[text]));
        agrees.then(|| serde_json::from_str(&format!("{text}}}")).ok())?
    }
}

const CHECK: &str = ",\"check\":\"";

/// What a journal holds.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Of runs that were simulated, by their keys. Runs that failed are tried again: the reason may be gone.
    figures: HashMap<String, (Figures, Vec<Warning>)>,
    /// What it says last of each run of this sweep: its key, and the error.
    told: HashMap<(u32, u32), (String, Option<String>)>,
}

impl Known {
    fn new(sweep: &str, entries: Vec<Entry>) -> Self {
        let mut known = Self::default();
        for entry in entries {
            if entry.sweep == sweep {
                known.told.insert(entry.run(), entry.telling());
            }
            if let Outcome::Figures(figures) = entry.outcome {
                known.figures.insert(entry.scenario, (figures, entry.warnings));
            }
        }
        known
    }

    /// The figures of a run, with what they hang on.
    pub(super) fn figures(&self, scenario: &str) -> Option<&(Figures, Vec<Warning>)> {
        self.figures.get(scenario)
    }

    /// Whether the journal says so already.
    pub(super) fn is_told(&self, entry: &Entry) -> bool {
        self.told.get(&entry.run()) == Some(&entry.telling())
    }
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Nothing after a line could not be written whole.
    file: Mutex<Option<File>>,
}

impl Journal {
    /// Opens a journal for this process alone, cuts a torn end off, and gives what it holds.
    pub(super) fn open(
        path: &Path,
        sweep: &str,
        listener: &Listener,
    ) -> Result<(Self, Known), SweepError> {
        let fail = |error: std::io::Error| SweepError::file(path, error);
        let file = OpenOptions::new().create(true).read(true).append(true).open(path);
        let mut file = file.map_err(|error| SweepError::folder(path, error))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(SweepError::folder(path, "another sweep is writing it"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fail)?;
        let (entries, whole) = parse(path, &bytes, listener);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(fail)?;
        }
        let journal = Self { path: path.to_owned(), file: Mutex::new(Some(file)) };
        Ok((journal, Known::new(sweep, entries)))
    }

    /// Adds a run.
    pub(super) fn append(&self, entry: &Entry) -> Result<(), SweepError> {
        let line = entry.line();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = file.as_mut() else {
            return Err(SweepError::file(&self.path, "is closed"));
        };
        let written = open.write_all(line.as_bytes());
        written.map_err(|error| {
            *file = None;
            SweepError::file(&self.path, error)
        })
    }
}

/// The entries of a journal, in the order of their lines; none where it has not been begun.
fn read(path: &Path, listener: &Listener) -> Result<Vec<Entry>, SweepError> {
    match fs::read(path) {
        Ok(bytes) => Ok(parse(path, &bytes, listener).0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(SweepError::file(path, error)),
    }
}

/// What a journal says last of each run of a sweep: one that had failed was tried again.
pub(super) fn latest(
    path: &Path,
    sweep: &str,
    listener: &Listener,
) -> Result<BTreeMap<(u32, u32), Entry>, SweepError> {
    let entries = read(path, listener)?.into_iter().filter(|entry| entry.sweep == sweep);
    Ok(entries.map(|entry| (entry.run(), entry)).collect())
}

/// The entries that are whole, and the bytes up to the end of the last line.
fn parse(path: &Path, bytes: &[u8], listener: &Listener) -> (Vec<Entry>, usize) {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<Option<Entry>> =
        lines.map(|line| Entry::parse(&line[..line.len() - 1])).collect();
    let broken = lines.iter().filter(|entry| entry.is_none()).count();
    let torn = broken + usize::from(whole < bytes.len());
    if torn > 0 {
        let (lines, are) = if torn == 1 { ("line", "is") } else { ("lines", "are") };
        let text = format!("{}: {torn} torn {lines} {are} left out", path.display());
        listener.tell(&Note::Notice(text));
    }
    (lines.into_iter().flatten().collect(), whole)
}
