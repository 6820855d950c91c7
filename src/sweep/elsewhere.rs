//! Sweeps whose runs are done elsewhere: by other processes, on other machines.
//!
//! Who hands runs out opens the folder of the sweep ([`Sweep::kept_in`]), which tells what is missing. A [`Worker`] simulates
//! some runs and sends their entries, each as a line with a hash of itself ([`Entry::line`]). What
//! comes is kept in the journal, in any order and as often as one likes; when nothing is missing, the tables are those of
//! a sweep that was simulated at once.

use std::path::{Path, PathBuf};

use super::error::SweepError;
use super::folder::{Folder, JOURNAL, Manifest};
use super::journal::{self, Entry, Journal};
use super::results::Results;
use super::runs::{Memory, Runs};
use super::study::Sweep;
use super::watch::Watch;
use crate::load::{Listener, LoadError};

/// Simulates runs of a sweep, and remembers what they read.
#[derive(Debug)]
pub struct Worker {
    sweep: Sweep,
    memory: Memory,
    /// The hash that names the sweep.
    name: String,
}

impl Worker {
    /// Of a sweep; the listener hears of what its runs read.
    ///
    /// # Errors
    /// When a setting has no place in a scenario.
    pub fn new(sweep: Sweep, listener: &Listener) -> Result<Self, SweepError> {
        let memory = Memory::told(listener);
        let name = Runs::new(&sweep, &Watch::default(), &memory).manifest(None)?.sweep;
        Ok(Self { sweep, memory, name })
    }

    /// The sweep.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Simulates these runs, and writes nothing. What fails is among the entries.
    ///
    /// # Errors
    /// When a setting has no place in a scenario.
    ///
    /// # Panics
    /// When a run is none of the sweep.
    pub fn simulate(&self, runs: &[u32]) -> Result<Vec<Entry>, SweepError> {
        assert!(runs.iter().all(|run| *run < self.sweep.runs()), "runs of the sweep");
        Runs::new(&self.sweep, &Watch::default(), &self.memory).each(runs, &self.name, None)
    }
}

/// The folder of a sweep that waits for its runs. No other process writes it meanwhile.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    folder: Folder,
    journal: Journal,
    manifest: Manifest,
    /// By their numbers, those of which figures are known.
    is_known: Vec<bool>,
    reused: u32,
}

impl Sweep {
    /// How many runs it has. They are numbered from 0, point by point.
    pub fn runs(&self) -> u32 {
        self.points().count() * self.plan().seeds
    }

    /// Opens its folder, to keep runs that are done elsewhere.
    ///
    /// # Errors
    /// When the folder holds something else, cannot be written, or is being written; or the sweep has policies of one's
    /// own.
    pub fn kept_in(&self, folder: &Path, listener: &Listener) -> Result<Kept, SweepError> {
        self.refuse_own_policies()?;
        let memory = Memory::told(listener);
        let manifest = Runs::new(self, &Watch::default(), &memory).manifest(None)?;
        let path = folder.to_owned();
        let (folder, journal, _) = Folder::open(&path, &manifest, listener)?;
        let mut is_known = vec![false; self.runs() as usize];
        // What is torn was told as the folder was opened.
        let told = journal::latest(&path.join(JOURNAL), &manifest.sweep, &Listener::default())?;
        for entry in told.values().filter(|entry| entry.figures().is_some()) {
            if let Some(known) = is_known.get_mut(run_of(entry, &manifest) as usize) {
                *known = true;
            }
        }
        let reused = is_known.iter().filter(|known| **known).count() as u32;
        Ok(Kept { path, folder, journal, manifest, is_known, reused })
    }

    /// Policies of one's own are code, of which a folder knows nothing.
    pub(super) fn refuse_own_policies(&self) -> Result<(), SweepError> {
        if self.drafts.iter().all(|draft| draft.policies().is_none()) {
            return Ok(());
        }
        let problem = "policies of one's own are code: a folder cannot know whether what it holds is of the same; \
                       run the sweep without one";
        Err(LoadError::Policy(problem.to_owned()).into())
    }
}

/// The number of its run.
fn run_of(entry: &Entry, manifest: &Manifest) -> u32 {
    entry.point * manifest.plan.seeds + entry.seed_number - 1
}

impl Kept {
    /// The runs of which no figures are known, by their numbers.
    pub fn missing(&self) -> Vec<u32> {
        (0..).zip(&self.is_known).filter(|(_, known)| !**known).map(|(run, _)| run).collect()
    }

    /// Keeps a run that was done elsewhere.
    ///
    /// # Errors
    /// When it is of another sweep, or cannot be written.
    pub fn keep(&mut self, entry: &Entry) -> Result<(), SweepError> {
        let run = run_of(entry, &self.manifest);
        if entry.sweep != self.manifest.sweep || run as usize >= self.is_known.len() {
            return Err(SweepError::Parts(format!(
                "point {} is one of another sweep: its worker has another version of servecast, or other files",
                entry.point
            )));
        }
        if std::mem::replace(&mut self.is_known[run as usize], true) {
            return Ok(());
        }
        self.journal.append(entry)
    }

    /// All runs that are kept, of which tables are written.
    ///
    /// # Errors
    /// When runs are missing, or tables cannot be written.
    pub fn finish(self) -> Result<Results, SweepError> {
        let missing = self.missing().len();
        if missing > 0 {
            return Err(SweepError::Parts(format!("{missing} runs of the sweep are missing")));
        }
        let told =
            journal::latest(&self.path.join(JOURNAL), &self.manifest.sweep, &Listener::default())?;
        let results = Results::new(self.manifest, told.into_values().collect())?;
        self.folder.write_results(&results.columns())?;
        Ok(results.of_runs(self.reused, true))
    }
}
