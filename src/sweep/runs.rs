//! Doing the runs of a sweep.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::SweepError;
use super::folder::{Folder, Manifest};
use super::journal::{Entry, Journal, Known, Outcome};
use super::key::{Keys, digest};
use super::plan::Shard;
use super::results::Results;
use super::study::Sweep;
use super::watch::Watch;
use crate::load::{Cases, Draft, Leaves, Listener, LoadError, Loaded};
use crate::metrics::{Warning, Warnings};
use crate::scenario::ScenarioFile;
use crate::study::Figures;
use crate::threads;

impl Sweep {
    /// Simulates all runs, on as many threads as there are; nothing is written.
    ///
    /// # Errors
    /// When a setting has no place in a scenario. A run that fails is among the results.
    pub fn run(&self, watch: &Watch<'_>) -> Result<Results, SweepError> {
        let memory = Memory::told(&watch.listener);
        let runs = Runs::new(self, watch, &memory);
        runs.complete(runs.manifest(None)?, None)
    }

    /// Simulates all runs, or those of a part, keeps each in a folder as soon as it has ended, and writes
    /// tables of them. What the folder holds of a run is not simulated again.
    ///
    /// # Errors
    /// When the folder holds something else or cannot be written. A run that fails is among the results.
    pub fn run_in(
        &self,
        folder: &Path,
        shard: Option<Shard>,
        watch: &Watch<'_>,
    ) -> Result<Results, SweepError> {
        self.refuse_own_policies()?;
        let memory = Memory::told(&watch.listener);
        let runs = Runs::new(self, watch, &memory);
        let manifest = runs.manifest(shard)?;
        let (folder, journal, known) = Folder::open(folder, &manifest, &watch.listener)?;
        let results = runs.complete(manifest, Some(&(journal, known)))?;
        folder.write_results(&results.columns())?;
        Ok(results)
    }
}

/// What runs read, for those that come later.
#[derive(Debug)]
pub(super) struct Memory {
    cases: Cases,
    keys: Keys,
}

impl Memory {
    pub(super) fn told(listener: &Listener) -> Self {
        // What runs are warned of is among their results.
        Self { cases: Cases::told_of_files(listener), keys: Keys::default() }
    }
}

/// A sweep whose runs are done.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    sweep: &'a Sweep,
    watch: &'a Watch<'a>,
    memory: &'a Memory,
    any_loaded: AtomicBool,
    reused: AtomicU32,
}

impl<'a> Runs<'a> {
    pub(super) fn new(sweep: &'a Sweep, watch: &'a Watch<'a>, memory: &'a Memory) -> Self {
        let (any_loaded, reused) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { sweep, watch, memory, any_loaded, reused }
    }

    /// What the folder of this sweep is about. The hash in it names the plan and, by the keys of their
    /// first runs, all that the scenario and its variants read.
    pub(super) fn manifest(&self, shard: Option<Shard>) -> Result<Manifest, SweepError> {
        let (plan, points) = (self.sweep.plan(), self.sweep.points());
        let of_variant = points.count() / plan.variants.len() as u32;
        let firsts = (0..plan.variants.len() as u32).map(|variant| {
            let draft = self.sweep.draft(&points.get(variant * of_variant))?;
            self.key(&draft).map(|(key, _)| key)
        });
        let firsts = firsts.collect::<Result<Vec<String>, LoadError>>()?;
        let text = serde_json::to_string(plan).expect("a plan is JSON");
        Ok(Manifest {
            servecast: env!("CARGO_PKG_VERSION").to_owned(),
            sweep: digest(&[&text, &firsts.join(" ")]),
            name: plan.variants[0].clone(),
            plan: plan.clone(),
            shard,
        })
    }

    /// The key of a scenario, and why it is none where it is none. One that breaks a rule goes by its form.
    fn key(&self, draft: &Draft) -> Result<(String, Result<Loaded, LoadError>), LoadError> {
        let loaded = draft.resolve();
        let key = match &loaded {
            Ok(loaded) => self.memory.keys.of(&loaded.scenario.written(), &loaded.folder),
            Err(_) => self.memory.keys.of(&draft.read::<ScenarioFile>()?, draft.folder()),
        };
        Ok((key, loaded))
    }

    /// Simulates what is not known, and gives all runs.
    fn complete(
        &self,
        manifest: Manifest,
        kept: Option<&(Journal, Known)>,
    ) -> Result<Results, SweepError> {
        let of_shard = |run: &u32| manifest.shard.is_none_or(|shard| shard.has(*run));
        let all = 0..self.sweep.points().count() * manifest.plan.seeds;
        let all: Vec<u32> = all.filter(of_shard).collect();
        let entries = self.each(&all, &manifest.sweep, kept)?;
        let results = Results::new(manifest, entries)?;
        let any_loaded = self.any_loaded.load(Ordering::Relaxed);
        Ok(results.of_runs(self.reused.load(Ordering::Relaxed), any_loaded))
    }

    /// These runs, in their order.
    pub(super) fn each(
        &self,
        all: &[u32],
        sweep: &str,
        kept: Option<&(Journal, Known)>,
    ) -> Result<Vec<Entry>, SweepError> {
        let (stopped, ended) = (Mutex::new(None), AtomicU32::new(0));
        self.watch.tell_progress(0, all.len() as u32);
        let entries = threads::map(all, |run| {
            let is_stopped = || stopped.lock().unwrap_or_else(PoisonError::into_inner);
            if is_stopped().is_some() {
                return None;
            }
            let done = self.one(*run, sweep, kept);
            self.watch.tell_progress(ended.fetch_add(1, Ordering::Relaxed) + 1, all.len() as u32);
            match done {
                Ok(entry) => Some(entry),
                Err(failure) => {
                    is_stopped().get_or_insert(failure);
                    None
                }
            }
        });
        if let Some(failure) = stopped.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(failure);
        }
        Ok(entries.into_iter().flatten().collect())
    }

    /// A run that has ended and is in the journal, if there is one.
    fn one(
        &self,
        run: u32,
        sweep: &str,
        kept: Option<&(Journal, Known)>,
    ) -> Result<Entry, SweepError> {
        let seeds = self.sweep.plan().seeds;
        let (point, number) = (run / seeds, run % seeds + 1);
        let draft = self.sweep.draft(&self.sweep.points().get(point))?;
        // The first run has the seed of the scenario, and so the figures that `run` prints.
        let draft = if number == 1 { draft } else { draft.reseeded(number)? };
        let (scenario, loaded) = self.key(&draft)?;
        self.any_loaded.fetch_or(loaded.is_ok(), Ordering::Relaxed);
        let before = kept.and_then(|(_, known)| known.figures(&scenario));
        let (outcome, warnings) = match (before, loaded) {
            (Some((figures, warnings)), _) => {
                self.reused.fetch_add(1, Ordering::Relaxed);
                (Outcome::Figures(figures.clone()), warnings.clone())
            }
            (None, Ok(loaded)) => self.simulate(loaded),
            (None, Err(error)) => (Outcome::Error(self.watch.line(error)), Vec::new()),
        };
        let (sweep, seed) = (sweep.to_owned(), draft.seed().0);
        let entry = Entry { sweep, point, seed_number: number, seed, scenario, outcome, warnings };
        if let Some((journal, known)) = kept
            && !known.is_told(&entry)
        {
            journal.append(&entry)?;
        }
        Ok(entry)
    }

    /// A run whose simulation breaks one of its own laws fails alone.
    fn simulate(&self, loaded: Loaded) -> (Outcome, Vec<Warning>) {
        let figures = || -> Result<(Figures, Warnings), LoadError> {
            Ok(self.memory.cases.of(loaded, Leaves::Figures)?.figures_and_warnings()?)
        };
        let error = match panic::catch_unwind(AssertUnwindSafe(figures)) {
            Ok(Ok((figures, warnings))) => return (Outcome::Figures(figures), warnings.each()),
            Ok(Err(error)) => self.watch.line(error),
            Err(cause) if threads::is_stop(&*cause) => panic::resume_unwind(cause),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
                format!("the simulation broke a law of its own: {}", text.unwrap_or_default())
            }
        };
        (Outcome::Error(error), Vec::new())
    }
}
