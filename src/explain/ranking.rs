//! Changes, ranked by how far they move a percentile of a latency.

use std::cmp::Ordering;

use serde::Serialize;

use super::ExplainError;
use super::changes::Change;
use super::fewer::Whole;
use super::pick::Metric;
use super::trials::Trials;
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
    /// Whether a trace is played as it was recorded.
    pub(super) point: bool,
    /// Whether nothing is saved on requests and seeds.
    pub(super) full: bool,
}

/// What changes start from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) draft: &'a Draft,
    pub(super) scenario: &'a Scenario,
    /// What a run of it was like.
    pub(super) whole: Whole,
}

/// A change and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// What is changed.
    #[serde(flatten)]
    pub change: Change,
    /// Seeds it was simulated with: less than of others where it was given up.
    pub seeds: u32,
    /// Why it got no more of them, if it did not.
    pub given_up: Option<GivenUp>,
    /// The percentile of the latency without it, in ms: the mean over the seeds that it was simulated with.
    pub now_ms: f64,
    /// The same with it.
    pub then_ms: f64,
    /// The second minus the first.
    pub difference_ms: f64,
    /// Half the width of the interval of the difference; nothing of one seed, which has none.
    pub half_width_ms: Option<f64>,
    /// How often chance alone gives a difference as large as this; nothing of one seed.
    pub p_value: Option<f64>,
    /// By itself: `better`, `worse`, `no difference` or `identical`; `seems worse` where it was given up as such.
    pub verdict: &'static str,
    /// The same together with all other changes (Holm); of less load, by itself.
    pub verdict_of_all_together: &'static str,
    /// Of a change that is better: whether the first one is shown to be better still (Holm, all pairs of them together).
    /// Nothing of the first one and of all others.
    pub is_behind_first: Option<bool>,
    /// GPUs that it takes.
    pub gpus: u64,
    /// The share of requests that are answered with it, less the share without it.
    pub answered_change: f64,
}

/// Why a change was given up before all seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenUp {
    /// It changed next to nothing in the first seed, or what it changed in the first three may be chance.
    NoDifference,
    /// It raised the latency: by much in the first seed, or in the mean of the first three.
    SeemsWorse,
}

/// A change that is not tried.
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
    /// Whether seeds change the requests, or what comes of them without a change: if not, nothing is said of other requests.
    pub seeds_differ: bool,
    /// Whether each seed sends a stretch that was resampled from the trace.
    pub is_resampled: bool,
    /// How many requests of each run tell the percentile, where changes were tried on no more; with conversations, how many
    /// of those. Nothing where they were tried on all.
    pub num_requests: Option<u32>,
    /// How often an interval holds the truth; how often no difference that stands among all changes is chance.
    pub confidence: f64,
    /// Those of the cluster: first what is better among all; then what is worse; then what is so by itself and not among
    /// all; then what seems worse in its first seeds; then what makes no difference that was found. Of each kind the
    /// largest difference comes first.
    pub changes: Vec<Ranked>,
    /// Less load, to compare with.
    pub less_load: Option<Ranked>,
    /// Those that break a rule of the scenario.
    pub left_out: Vec<LeftOut>,
    /// Those of which the model in use cannot tell what they do.
    pub not_judged: Vec<LeftOut>,
}

/// What a run is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) latency_ms: f64,
    pub(super) answered: f64,
    /// Whether its requests are a stretch that was resampled from a trace.
    pub(super) is_resampled: bool,
    /// A digest of when its requests came, and how long they are.
    pub(super) requests: u64,
}

impl Outcome {
    /// Whether it is judged as the other one is, whatever the requests.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let judged = |one: &Self| (one.latency_ms, one.answered);
        judged(self) == judged(other)
    }
}

impl Ranking {
    /// Simulates a scenario and its changes.
    pub(super) fn new(
        from: Start<'_>,
        scale: Scale,
        listener: &Listener,
    ) -> Result<Self, ExplainError> {
        let mut trials = Trials::new(from, scale);
        trials.run(listener)?;
        let Trials { own, candidates, left_out, not_judged, num_requests, .. } = trials;
        let (mut changes, mut less_load) = (Vec::new(), None);
        let mut outcomes: Vec<(Change, Vec<Outcome>)> = Vec::new();
        for one in candidates {
            let change = one.change.clone();
            let ranked = Ranked::new(one.change, one.gpus, &one.outcomes, &own, scale);
            let ranked = ranked.given_up(one.given_up);
            if ranked.change.is_load {
                less_load = Some(ranked);
            } else {
                changes.push(ranked);
            }
            outcomes.push((change, one.outcomes));
        }
        let (seeds, confidence) = (own.len() as u32, scale.confidence);
        judge_together(&mut changes, seeds, confidence);
        changes.sort_by(Ranked::order);
        judge_order(&mut changes, &outcomes, scale);
        let is_resampled = own.iter().any(|one| one.is_resampled);
        let differs = |one: &Outcome| one.requests != own[0].requests || !one.is_as(&own[0]);
        Ok(Self {
            seeds,
            seeds_differ: own.iter().any(differs),
            is_resampled,
            num_requests,
            confidence,
            changes,
            less_load,
            left_out,
            not_judged,
        })
    }
}

/// Takes back what does not stand when all changes are looked at together. Those that were given up count among them,
/// as differences that chance explains.
fn judge_together(changes: &mut [Ranked], seeds: u32, confidence: f64) {
    let p_value = |one: &Ranked| one.p_value.filter(|_| one.seeds == seeds).unwrap_or(1.0);
    let p_values: Vec<f64> = changes.iter().map(p_value).collect();
    for (change, stands) in changes.iter_mut().zip(holm(&p_values, confidence)) {
        if !stands && change.differs() {
            change.verdict_of_all_together = Verdict::NoDifference.name();
        }
    }
}

/// Whether the first of the changes that are better is better than each of the others, by the same seeds. Which is first
/// was seen in these seeds, so that all pairs of them are judged together.
fn judge_order(changes: &mut [Ranked], outcomes: &[(Change, Vec<Outcome>)], scale: Scale) {
    let better = changes.iter().take_while(|one| one.is_better()).count();
    let of = |one: &Ranked| {
        let found = outcomes.iter().find(|(known, _)| *known == one.change);
        &found.expect("what is ranked was simulated").1
    };
    let pairs = (0..better).flat_map(|one| (one + 1..better).map(move |other| (one, other)));
    let found = pairs.map(|(one, other)| difference(of(&changes[one]), of(&changes[other]), scale));
    let found: Vec<Difference> = found.collect();
    let p_values: Vec<f64> = found.iter().map(|found| found.p_value).collect();
    let stands = holm(&p_values, scale.confidence);
    // Those with the first come before all others.
    for (place, one) in changes[..better].iter_mut().skip(1).enumerate() {
        one.is_behind_first = Some(stands[place] && found[place].difference() > 0.0);
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
    let is_resampled = now.iter().chain(then).any(|one| one.is_resampled);
    let draws = if is_resampled { Draws::Stretches } else { Draws::Requests };
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
    Difference::new(&now, &then, Basis { pairing, draws, confidence, first: seeds })
}

impl Ranked {
    fn new(change: Change, gpus: u64, outcomes: &[Outcome], own: &[Outcome], scale: Scale) -> Self {
        let found = difference(own, outcomes, scale);
        let stands = found.p_value < 1.0 - scale.confidence;
        let verdict = Verdict::new(&found, Sense::LowerIsBetter, stands).name();
        let seeds = outcomes.len();
        let of_several = |value: f64| (seeds > 1).then_some(value);
        let answered =
            |of: &[Outcome]| mean(&of.iter().map(|one| one.answered).collect::<Vec<f64>>());
        Self {
            change,
            seeds: seeds as u32,
            given_up: None,
            now_ms: found.mean_a,
            then_ms: found.mean_b,
            difference_ms: found.difference(),
            half_width_ms: of_several(found.half_width),
            p_value: of_several(found.p_value),
            verdict,
            verdict_of_all_together: verdict,
            is_behind_first: None,
            gpus,
            answered_change: answered(outcomes) - answered(&own[..seeds]),
        }
    }

    fn given_up(mut self, given_up: Option<GivenUp>) -> Self {
        self.given_up = given_up;
        if self.seems_worse() {
            // No test says so: it did not get the seeds for one.
            self.verdict = "seems worse";
            self.verdict_of_all_together = self.verdict;
        }
        self
    }

    /// Whether it was given up because it seems to be worse.
    pub fn seems_worse(&self) -> bool {
        self.given_up == Some(GivenUp::SeemsWorse)
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
        let place =
            |one: &Self| (!one.is_better(), !one.differs(), !one.is_unsure(), !one.seems_worse());
        let size = |one: &Self| one.difference_ms.abs();
        place(self).cmp(&place(other)).then(size(other).total_cmp(&size(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(latencies_ms: [f64; 5], is_resampled: bool) -> Vec<Outcome> {
        let one = |latency_ms| Outcome { latency_ms, answered: 1.0, is_resampled, requests: 0 };
        latencies_ms.map(one).to_vec()
    }

    fn change(name: &str) -> Change {
        Change::named(name)
    }

    const SCALE: Scale = Scale {
        metric: Metric::E2e,
        percentile: 99.0,
        seeds: 5,
        confidence: 0.95,
        point: false,
        full: false,
    };

    /// Changes with their outcomes, ranked beside the scenario itself.
    fn ranked(own: &[Outcome], each: &[(Change, Vec<Outcome>)]) -> Vec<Ranked> {
        let one = |(change, outcomes): &(Change, Vec<Outcome>)| {
            Ranked::new(change.clone(), 1, outcomes, own, SCALE)
        };
        let mut changes: Vec<Ranked> = each.iter().map(one).collect();
        judge_together(&mut changes, 5, SCALE.confidence);
        changes.sort_by(Ranked::order);
        judge_order(&mut changes, each, SCALE);
        changes
    }

    #[test]
    fn the_first_change_is_compared_with_each_other_one_that_is_better() {
        let own = outcomes([100.0, 104.0, 96.0, 102.0, 98.0], false);
        let each = [
            // 20 ms faster in every pair, within 1 ms.
            (change("a little"), outcomes([80.0, 85.0, 75.0, 82.0, 78.0], false)),
            // 50 ms faster, and 49 ms: pairs differ by 1 ms, with a deviation of 3 ms.
            (change("much"), outcomes([50.0, 54.0, 46.0, 52.0, 48.0], false)),
            (change("as much"), outcomes([48.0, 58.0, 50.0, 50.0, 49.0], false)),
            (change("nothing"), outcomes([101.0, 103.0, 97.0, 101.0, 98.0], false)),
            (change("harm"), outcomes([150.0, 155.0, 146.0, 152.0, 148.0], false)),
        ];
        let found = ranked(&own, &each);
        let told: Vec<(&str, Option<bool>)> =
            found.iter().map(|one| (one.change.name.as_str(), one.is_behind_first)).collect();
        assert_eq!(
            told,
            [
                ("much", None),
                ("as much", Some(false)),
                ("a little", Some(true)),
                ("harm", None),
                ("nothing", None)
            ]
        );
    }

    #[test]
    fn what_seems_worse_comes_before_what_makes_no_difference() {
        let own = outcomes([100.0, 104.0, 96.0, 102.0, 98.0], false);
        let five = [
            ("better", [80.0, 85.0, 75.0, 82.0, 78.0]),
            ("much worse", [150.0, 155.0, 146.0, 152.0, 148.0]),
            // 1 ms slower in the mean, and either way in a pair.
            ("chance", [99.0, 109.0, 95.0, 101.0, 101.0]),
        ];
        let five = five.map(|(name, then)| (name, outcomes(then, false), None));
        let first = |name, latency_ms, given_up| {
            let outcomes = outcomes([latency_ms; 5], false)[..1].to_vec();
            (name, outcomes, Some(given_up))
        };
        let one = [
            first("slight", 100.4, GivenUp::NoDifference),
            first("a little harm", 111.0, GivenUp::SeemsWorse),
            first("harm", 112.0, GivenUp::SeemsWorse),
        ];
        let of = |(name, outcomes, given_up): (&str, Vec<Outcome>, Option<GivenUp>)| {
            Ranked::new(change(name), 1, &outcomes, &own, SCALE).given_up(given_up)
        };
        let mut changes: Vec<Ranked> = five.into_iter().chain(one).map(of).collect();
        judge_together(&mut changes, 5, SCALE.confidence);
        changes.sort_by(Ranked::order);
        let names: Vec<&str> = changes.iter().map(|one| one.change.name.as_str()).collect();
        let expected = ["better", "much worse", "harm", "a little harm", "chance", "slight"];
        assert_eq!(names, expected);
        for one in &changes {
            let is_known = (one.half_width_ms.is_some(), one.p_value.is_some());
            assert_eq!(is_known, (one.seeds > 1, one.seeds > 1), "{one:?}");
        }
    }

    #[test]
    fn draws_of_one_trace_tell_less_than_as_many_other_requests() {
        let [own, then] = [[100.0, 104.0, 96.0, 102.0, 98.0], [80.0, 85.0, 75.0, 82.0, 78.0]];
        let of = |is_resampled| {
            let each = [(change("a little"), outcomes(then, is_resampled))];
            ranked(&outcomes(own, is_resampled), &each).remove(0)
        };
        let (drawn, resampled) = (of(false), of(true));
        assert_eq!(drawn.difference_ms.to_bits(), resampled.difference_ms.to_bits());
        // √(1 + 1/5) for √(1/5).
        let half_width = |one: &Ranked| one.half_width_ms.expect("there are five seeds");
        let wider = half_width(&resampled) / half_width(&drawn);
        assert!((wider - 6.0_f64.sqrt()).abs() < 1e-12, "{wider}");
    }
}
