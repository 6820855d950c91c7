//! Changes, ranked by how far they move a percentile of a latency.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use serde::Serialize;

use super::ExplainError;
use super::changes::Change;
use super::pick::Metric;
use crate::compare::{Basis, Difference, Pairing, Verdict};
use crate::load::memory::Leaves;
use crate::load::{Cases, Draft, Listener, LoadError, Loaded, Note, Progress};
use crate::resolved::Scenario;
use crate::stats::{mean, percentile_sorted};
use crate::study::Sense;
use crate::threads;

/// What is ranked by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) metric: Metric,
    pub(super) percentile: f64,
    pub(super) seeds: u32,
    pub(super) confidence: f64,
}

/// A change and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// What is changed.
    #[serde(flatten)]
    pub change: Change,
    /// The percentile of the latency without it, in ms: the mean over the seeds.
    pub now_ms: f64,
    /// The same with it.
    pub then_ms: f64,
    /// The second minus the first.
    pub difference_ms: f64,
    /// Half the width of the interval of the difference.
    pub half_width_ms: f64,
    /// `better`, `worse`, `no difference` or `identical`.
    pub verdict: &'static str,
    /// GPUs that it takes.
    pub gpus: u64,
    /// The share of requests that are answered with it, less the share without it.
    pub answered_change: f64,
}

/// A change that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Which.
    pub name: String,
    /// Why.
    pub why: String,
}

/// All changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// Seeds of each.
    pub seeds: u32,
    /// How often an interval holds the truth.
    pub confidence: f64,
    /// Those of the cluster: first what is better, the most first; then what is worse; then what makes no difference
    /// that was found.
    pub changes: Vec<Ranked>,
    /// Less load, to compare with.
    pub less_load: Option<Ranked>,
    /// Those that break a rule of the scenario.
    pub left_out: Vec<LeftOut>,
}

/// What a run is judged by.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    latency_ms: f64,
    answered: f64,
}

/// A scenario that is run under all seeds.
struct Candidate {
    change: Option<Change>,
    draft: Draft,
    gpus: u64,
}

impl Ranking {
    /// Simulates a scenario and its changes.
    pub(super) fn new(
        draft: &Draft,
        scenario: &Scenario,
        scale: Scale,
        listener: &Listener,
    ) -> Result<Self, ExplainError> {
        let mut left_out = Vec::new();
        let own = Candidate { change: None, draft: draft.clone(), gpus: scenario.gpus() };
        let mut candidates = vec![own];
        for change in Change::all(draft, scenario) {
            let resolved = change.of(draft).and_then(|draft| Ok((draft.resolve()?, draft)));
            match resolved {
                Ok((loaded, draft)) => {
                    let gpus = loaded.scenario.gpus();
                    candidates.push(Candidate { change: Some(change), draft, gpus });
                }
                Err(error) => left_out.push(LeftOut::new(&change, &error)),
            }
        }
        let runs =
            (0..candidates.len()).flat_map(|of| (1..=scale.seeds).map(move |seed| (of, seed)));
        let runs: Vec<(usize, u32)> = runs.collect();
        let now = format!("{} changes under {} seeds", candidates.len() - 1, scale.seeds);
        let tell = |ended| {
            let of = Some(runs.len());
            listener.tell(&Note::Progress(Progress { ended, of, now: now.clone() }));
        };
        tell(0);
        let ended = AtomicUsize::new(0);
        // What the scenario itself is warned of has been told.
        let cases = Cases::default();
        let outcomes = threads::map(&runs, |(of, seed)| {
            let found = outcome(&cases, candidates[*of].draft.reseeded(*seed)?.resolve()?, scale);
            tell(1 + ended.fetch_add(1, Memory::Relaxed));
            found
        });
        let mut outcomes = outcomes.into_iter();
        let mut of_next = || -> Result<Vec<Outcome>, ExplainError> {
            let each: Vec<_> = outcomes.by_ref().take(scale.seeds as usize).collect();
            let none = || ExplainError::NoAnswer(scale.metric.title());
            each.into_iter().map(|one| one?.ok_or_else(none)).collect()
        };
        let now = of_next()?;
        let (mut changes, mut less_load) = (Vec::new(), None);
        for candidate in candidates {
            let Some(change) = candidate.change else { continue };
            match of_next() {
                Err(error) => left_out.push(LeftOut::new(&change, &error)),
                Ok(then) => {
                    let is_load = change.is_load;
                    let ranked = Ranked::new(change, candidate.gpus, (&now, &then), scale);
                    if is_load { less_load = Some(ranked) } else { changes.push(ranked) }
                }
            }
        }
        changes.sort_by(Ranked::order);
        let (seeds, confidence) = (scale.seeds, scale.confidence);
        Ok(Self { seeds, confidence, changes, less_load, left_out })
    }
}

impl LeftOut {
    fn new(change: &Change, error: &impl std::fmt::Display) -> Self {
        Self { name: change.name.clone(), why: error.to_string().replace('\n', "; ") }
    }
}

impl Ranked {
    fn new(change: Change, gpus: u64, (now, then): (&[Outcome], &[Outcome]), scale: Scale) -> Self {
        let values = |of: &[Outcome]| of.iter().map(|one| one.latency_ms).collect::<Vec<f64>>();
        let basis = Basis {
            pairing: Pairing::Paired,
            confidence: scale.confidence,
            first: scale.seeds as usize,
        };
        let found = Difference::new(&values(now), &values(then), basis);
        let stands = found.p_value < 1.0 - scale.confidence;
        let answered =
            |of: &[Outcome]| mean(&of.iter().map(|one| one.answered).collect::<Vec<f64>>());
        Self {
            change,
            now_ms: found.mean_a,
            then_ms: found.mean_b,
            difference_ms: found.difference(),
            half_width_ms: found.half_width,
            verdict: Verdict::new(&found, Sense::LowerIsBetter, stands).name(),
            gpus,
            answered_change: answered(then) - answered(now),
        }
    }

    /// Whether a difference was found.
    pub fn differs(&self) -> bool {
        self.is_better() || self.verdict == Verdict::Worse.name()
    }

    /// Whether it is better.
    pub fn is_better(&self) -> bool {
        self.verdict == Verdict::Better.name()
    }

    fn order(&self, other: &Self) -> Ordering {
        let place = |one: &Self| (!one.is_better(), !one.differs());
        let size = |one: &Self| one.difference_ms.abs();
        place(self).cmp(&place(other)).then(size(other).total_cmp(&size(self)))
    }
}

/// What a run is judged by; nothing where no request has the latency.
fn outcome(cases: &Cases, loaded: Loaded, scale: Scale) -> Result<Option<Outcome>, LoadError> {
    let run = cases.of(loaded, Leaves::Records)?.run()?;
    let sorted = scale.metric.sorted_ms(&run.recorder.seen());
    let seen = run.recorder.seen().len() as f64;
    let latency_ms = percentile_sorted(&sorted, scale.percentile);
    let answered = run.counts.finished as f64 / seen;
    Ok((!sorted.is_empty()).then_some(Outcome { latency_ms, answered }))
}
