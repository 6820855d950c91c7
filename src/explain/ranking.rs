//! Changes, ranked by how far they move a percentile of a latency.

use std::cmp::Ordering;

use serde::Serialize;

use super::ExplainError;
use super::changes::Change;
use super::pick::Metric;
use super::trials::{Candidate, Trials};
use crate::compare::{Basis, Difference, Draws, Pairing, Relative, Verdict, holm};
use crate::load::{Draft, Listener};
use crate::resolved::Scenario;
use crate::stats::mean;
use crate::study::Sense;

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
    /// Seeds it was simulated with: less than of others where the first showed no difference.
    pub seeds: u32,
    /// The percentile of the latency without it, in ms: the mean over the seeds.
    pub now_ms: f64,
    /// The same with it.
    pub then_ms: f64,
    /// The second minus the first.
    pub difference_ms: f64,
    /// Half the width of the interval of the difference.
    pub half_width_ms: f64,
    /// How often chance alone gives a difference as large as this.
    pub p_value: f64,
    /// By itself: `better`, `worse`, `no difference` or `identical`.
    pub verdict: &'static str,
    /// The same together with all other changes (Holm); of less load, by itself.
    pub verdict_of_all_together: &'static str,
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
    /// Seeds of each that was not given up.
    pub seeds: u32,
    /// How often an interval holds the truth; how often no difference that stands among all changes is chance.
    pub confidence: f64,
    /// Those of the cluster: first what is better among all, the most first; then what is worse; then what makes no
    /// difference that was found.
    pub changes: Vec<Ranked>,
    /// Less load, to compare with.
    pub less_load: Option<Ranked>,
    /// Those that break a rule of the scenario.
    pub left_out: Vec<LeftOut>,
}

/// What a run is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) latency_ms: f64,
    pub(super) answered: f64,
}

impl Ranking {
    /// Simulates a scenario and its changes.
    pub(super) fn new(
        draft: &Draft,
        scenario: &Scenario,
        scale: Scale,
        listener: &Listener,
    ) -> Result<Self, ExplainError> {
        let mut trials = Trials::new(draft, scenario, scale);
        trials.run(listener)?;
        let Trials { own, candidates, left_out, .. } = trials;
        let (mut changes, mut less_load) = (Vec::new(), None);
        for one in candidates {
            let ranked = Ranked::new(one, &own, scale);
            if ranked.change.is_load { less_load = Some(ranked) } else { changes.push(ranked) }
        }
        let (seeds, confidence) = (own.len() as u32, scale.confidence);
        judge_together(&mut changes, seeds, confidence);
        changes.sort_by(Ranked::order);
        Ok(Self { seeds, confidence, changes, less_load, left_out })
    }
}

/// Takes back what does not stand when all changes are looked at together. Those that were given up count among them,
/// as differences that chance explains.
fn judge_together(changes: &mut [Ranked], seeds: u32, confidence: f64) {
    let p_value = |one: &Ranked| if one.seeds < seeds { 1.0 } else { one.p_value };
    let p_values: Vec<f64> = changes.iter().map(p_value).collect();
    for (change, stands) in changes.iter_mut().zip(holm(&p_values, confidence)) {
        if !stands && change.differs() {
            change.verdict_of_all_together = Verdict::NoDifference.name();
        }
    }
}

impl LeftOut {
    pub(super) fn new(change: &Change, error: &impl std::fmt::Display) -> Self {
        Self { name: change.name.clone(), why: error.to_string().replace('\n', "; ") }
    }
}

/// The difference of the latency between runs of the same seeds.
pub(super) fn difference(now: &[Outcome], then: &[Outcome], scale: Scale) -> Difference {
    let seeds = then.len();
    let values =
        |of: &[Outcome]| of.iter().take(seeds).map(|one| one.latency_ms).collect::<Vec<f64>>();
    let (now, then) = (values(now), values(then));
    if seeds == 1 {
        // Of one seed only those are judged that are the same.
        let relative =
            (now[0] != 0.0).then(|| Relative { change: then[0] / now[0] - 1.0, half_width: 0.0 });
        let (mean_a, mean_b) = (now[0], then[0]);
        return Difference { mean_a, mean_b, half_width: 0.0, relative, p_value: 1.0, count: 1 };
    }
    let (pairing, confidence) = (Pairing::Paired, scale.confidence);
    Difference::new(
        &now,
        &then,
        Basis { pairing, draws: Draws::Requests, confidence, first: seeds },
    )
}

impl Ranked {
    fn new(one: Candidate, own: &[Outcome], scale: Scale) -> Self {
        let found = difference(own, &one.outcomes, scale);
        let stands = found.p_value < 1.0 - scale.confidence;
        let verdict = Verdict::new(&found, Sense::LowerIsBetter, stands).name();
        let seeds = one.outcomes.len();
        let answered =
            |of: &[Outcome]| mean(&of.iter().map(|one| one.answered).collect::<Vec<f64>>());
        Self {
            change: one.change,
            seeds: seeds as u32,
            now_ms: found.mean_a,
            then_ms: found.mean_b,
            difference_ms: found.difference(),
            half_width_ms: found.half_width,
            p_value: found.p_value,
            verdict,
            verdict_of_all_together: verdict,
            gpus: one.gpus,
            answered_change: answered(&one.outcomes) - answered(&own[..seeds]),
        }
    }

    /// Whether a difference was found that stands among all changes.
    pub fn differs(&self) -> bool {
        self.is_better() || self.verdict_of_all_together == Verdict::Worse.name()
    }

    /// Whether it is better, among all changes.
    pub fn is_better(&self) -> bool {
        self.verdict_of_all_together == Verdict::Better.name()
    }

    /// Whether a difference was found that may be chance among so many changes.
    pub fn is_unsure(&self) -> bool {
        self.verdict != self.verdict_of_all_together
    }

    fn order(&self, other: &Self) -> Ordering {
        let place = |one: &Self| (!one.is_better(), !one.differs(), !one.is_unsure());
        let size = |one: &Self| one.difference_ms.abs();
        place(self).cmp(&place(other)).then(size(other).total_cmp(&size(self)))
    }
}
