//! Doing the runs of a sweep.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::folder::Manifest;
use super::journal::{Entry, Journal, Known, Outcome};
use super::key::{Keys, digest};
use super::study::Study;
use crate::cli::{Failure, progress};
use crate::load::Cases;
use crate::load::Draft;
use crate::load::Leaves;
use crate::scenario::ScenarioFile;
use crate::study::Figures;
use crate::sweep::Shard;
use crate::threads;

/// A study whose runs are done.
#[derive(Debug)]
pub(super) struct Runs {
    study: Study,
    cases: Cases,
    keys: Keys,
    any_resolved: AtomicBool,
}

/// All runs of a sweep, or of its part.
#[derive(Debug)]
pub(super) struct Done {
    /// By point and number of the seed.
    pub(super) entries: Vec<Entry>,
    /// How many of them had been simulated before.
    pub(super) reused: u32,
    /// Whether there is a scenario behind any of them.
    pub(super) any_resolved: bool,
}

impl Runs {
    pub(super) fn new(study: Study) -> Self {
        Self {
            study,
            cases: Cases::told(&crate::cli::listener()),
            keys: Keys::default(),
            any_resolved: AtomicBool::new(false),
        }
    }

    /// What the folder of this sweep is about. The hash in it names the plan and, by the keys of their
    /// first runs, all that the scenario and its variants read.
    pub(super) fn manifest(&self, shard: Option<Shard>) -> Result<Manifest, Failure> {
        let plan = &self.study.plan;
        let of_variant = self.study.points.count() / plan.variants.len() as u32;
        let firsts = (0..plan.variants.len() as u32).map(|variant| {
            let draft = self.study.draft(&self.study.points.get(variant * of_variant))?;
            self.key(&draft).map(|(key, _)| key)
        });
        let firsts = firsts.collect::<Result<Vec<String>, Failure>>()?;
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
    fn key(&self, draft: &Draft) -> Result<(String, Result<super::Loaded, Failure>), Failure> {
        let loaded = draft.resolve();
        let key = match &loaded {
            Ok(loaded) => self.keys.of(&loaded.scenario.file, &loaded.folder),
            Err(_) => self.keys.of(&draft.read::<ScenarioFile>()?, draft.folder()),
        };
        Ok((key, loaded.map_err(Failure::from)))
    }

    /// Simulates what is not known, and gives all runs.
    pub(super) fn complete(
        &self,
        manifest: &Manifest,
        journal: &Journal,
        known: &Known,
        shows_progress: bool,
    ) -> Result<Done, Failure> {
        let all = 0..self.study.points.count() * self.study.plan.seeds;
        let of_shard = |run: &u32| manifest.shard.is_none_or(|shard| shard.has(*run));
        let all: Vec<u32> = all.filter(of_shard).collect();
        let bar = shows_progress.then(|| progress::of_runs(all.len() as u64));
        let (stopped, reused) = (Mutex::new(None), AtomicU32::new(0));
        let entries = threads::map(&all, |run| {
            let is_stopped = || stopped.lock().unwrap_or_else(PoisonError::into_inner);
            if is_stopped().is_some() {
                return None;
            }
            let done = self.one(*run, &manifest.sweep, journal, known);
            if let Some(bar) = &bar {
                bar.inc(1);
            }
            match done {
                Ok((entry, was_known)) => {
                    reused.fetch_add(u32::from(was_known), Ordering::Relaxed);
                    Some(entry)
                }
                Err(failure) => {
                    is_stopped().get_or_insert(failure);
                    None
                }
            }
        });
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        match stopped.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(Done {
                entries: entries.into_iter().flatten().collect(),
                reused: reused.into_inner(),
                any_resolved: self.any_resolved.load(Ordering::Relaxed),
            }),
        }
    }

    /// A run that has ended and is in the journal, and whether it was known before.
    fn one(
        &self,
        run: u32,
        sweep: &str,
        journal: &Journal,
        known: &Known,
    ) -> Result<(Entry, bool), Failure> {
        let seeds = self.study.plan.seeds;
        let (point, number) = (run / seeds, run % seeds + 1);
        let draft = self.study.draft(&self.study.points.get(point))?;
        // The first run has the seed of the scenario, and so the figures that `run` prints.
        let draft = if number == 1 { draft } else { draft.reseeded(number)? };
        let (scenario, loaded) = self.key(&draft)?;
        self.any_resolved.fetch_or(loaded.is_ok(), Ordering::Relaxed);
        let before = known.figures(&scenario);
        let outcome = match (before, loaded) {
            (Some(figures), _) => Outcome::Figures(figures.clone()),
            (None, Ok(loaded)) => self.simulate(loaded),
            (None, Err(failure)) => Outcome::Error(one_line(&failure)),
        };
        let (sweep, seed) = (sweep.to_owned(), draft.seed().0);
        let entry = Entry { sweep, point, seed_number: number, seed, scenario, outcome };
        if !known.is_told(&entry) {
            journal.append(&entry)?;
        }
        Ok((entry, before.is_some()))
    }

    /// A run whose simulation breaks one of its own laws fails alone.
    fn simulate(&self, loaded: super::Loaded) -> Outcome {
        let figures = || -> Result<Figures, Failure> {
            Ok(self.cases.of(loaded, Leaves::Figures)?.figures()?)
        };
        match panic::catch_unwind(AssertUnwindSafe(figures)) {
            Ok(Ok(figures)) => Outcome::Figures(figures),
            Ok(Err(failure)) => Outcome::Error(one_line(&failure)),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
                Outcome::Error(format!(
                    "the simulation broke a law of its own: {}",
                    text.unwrap_or_default()
                ))
            }
        }
    }
}

fn one_line(failure: &Failure) -> String {
    let text = failure.to_string();
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
