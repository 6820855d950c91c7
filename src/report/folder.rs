//! Which command left a folder behind, and the files in it.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::ReportError;
use super::page::Page;
use crate::io::rundir::RunFile;
use crate::io::text;
use crate::load::Listener;
use crate::sweep::Report;

/// What a folder is of.
#[derive(Debug)]
pub(super) enum Kind {
    /// One run, or several beside each other.
    Run,
    /// A sweep.
    Sweep(Box<Report>),
    /// A plan.
    Plan,
    /// A comparison.
    Comparison,
}

impl Kind {
    /// Recognises a folder by its files.
    pub(super) fn of(folder: &Path, listener: &Listener) -> Result<Self, ReportError> {
        if !folder.is_dir() {
            return Err(ReportError::folder(folder, "is no folder"));
        }
        if let Some(told) = Report::read(folder, listener)? {
            return Ok(Self::Sweep(Box::new(told)));
        }
        let has = |name: &str| folder.join(name).is_file();
        if has("plan.json") {
            return Ok(Self::Plan);
        }
        if has("compare.json") {
            return Ok(Self::Comparison);
        }
        if has("run.json") {
            return Ok(Self::Run);
        }
        Err(ReportError::folder(
            folder,
            "holds none of run.json (run, bench), sweep.json (sweep, merge), plan.json (plan), compare.json \
             (compare)",
        ))
    }
}

/// Reads a JSON file.
pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    let text = text::whole(path, text::RESULTS_MIB_MAX);
    let text = text.map_err(|error| ReportError::folder(path, error))?;
    serde_json::from_str(&text).map_err(|error| ReportError::folder(path, error))
}

/// Reads a text file, if it is there.
pub(super) fn text(path: &Path) -> Result<Option<String>, ReportError> {
    match text::whole(path, text::RESULTS_MIB_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReportError::folder(path, error)),
    }
}

/// Says on the page what `run.json` says: command, seed, version. Nothing where it is not there.
pub(super) fn asked(folder: &Path, page: &mut Page) -> Result<RunFile, ReportError> {
    let path = folder.join("run.json");
    if !path.is_file() {
        return Ok(RunFile::default());
    }
    let run: RunFile = json(&path)?;
    if let [_, words @ ..] = &run.command[..] {
        // Where the program lay does not matter.
        let words =
            std::iter::once("servecast".to_owned()).chain(words.iter().map(|word| quoted(word)));
        page.asked.push(("Command", words.collect::<Vec<_>>().join(" ")));
    }
    page.asked.extend(run.seed.map(|seed| ("Seed", seed.0.to_string())));
    if !run.servecast.is_empty() {
        page.asked.push(("Version", run.servecast.clone()));
    }
    Ok(run)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
