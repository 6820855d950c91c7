//! The runs of changes, in rounds of seeds: what the first rounds show to be no remedy is given up.
//!
//! To give up what shows little or harm never makes chance look like a difference: what is given up is taken to make none, and
//! what goes on is judged by all of its seeds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ExplainError;
use super::changes::Change;
use super::host::why_not_judged;
use super::ranking::{GivenUp, LeftOut, Outcome, Scale, Start, difference};
use crate::load::{Cases, Draft, Listener, LoadError, Note, Progress};
use crate::metrics::RequestRecord;
use crate::stats::{mean, percentile_sorted};
use crate::threads;

/// Seeds after which changes that seem to be chance are given up.
const SCREENED: u32 = 3;
/// Those are given up in which chance alone gives such a difference as often as this.
const CHANCE: f64 = 0.3;
/// The share of the latency that a change has to move in the first seed to be worth others.
const SLIGHT: f64 = 0.005;
/// What lowers the latency by more than this, as a share, gets all seeds: three cannot tell it from chance where seeds differ
/// much.
const GAIN: f64 = 0.1;
/// The share of the latency by which a change that raises it in the first seed is no remedy.
const HARM: f64 = 0.1;

/// A change that is tried.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) change: Change,
    pub(super) gpus: u64,
    /// What came of each seed.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) given_up: Option<GivenUp>,
    draft: Draft,
}

/// A scenario and its changes.
#[derive(Debug)]
pub(super) struct Trials {
    draft: Draft,
    scale: Scale,
    /// What came of each seed of the scenario itself.
    pub(super) own: Vec<Outcome>,
    /// The changes that can be made.
    pub(super) candidates: Vec<Candidate>,
    /// Those that cannot.
    pub(super) left_out: Vec<LeftOut>,
    /// Those of which the model says nothing.
    pub(super) not_judged: Vec<LeftOut>,
    /// Requests or conversations of each run, where they are fewer than those of the scenario.
    pub(super) num_requests: Option<u32>,
}

impl Trials {
    /// Of a scenario, before any run.
    pub(super) fn new(from: Start<'_>, scale: Scale) -> Self {
        let Start { draft, scenario, whole } = from;
        let fewer = if scale.full { None } else { whole.with_fewer(draft, scenario, scale) };
        let num_requests =
            fewer.as_ref().and_then(|draft| draft.get(&["workload", "num_requests"]));
        let num_requests = num_requests.and_then(toml::Value::as_integer).map(|count| count as u32);
        let draft = fewer.as_ref().unwrap_or(draft);
        let (mut candidates, mut left_out, mut not_judged) = (Vec::new(), Vec::new(), Vec::new());
        let untold = why_not_judged(scenario);
        for change in Change::all(draft, scenario) {
            if let Some(why) = untold.as_ref().filter(|_| change.is_of_host) {
                not_judged.push(LeftOut::new(&change, why));
                continue;
            }
            let resolved = change.of(draft).and_then(|draft| Ok((draft.resolve()?, draft)));
            match resolved {
                Ok((loaded, draft)) => {
                    let gpus = loaded.scenario.gpus();
                    let outcomes = Vec::new();
                    let given_up = None;
                    candidates.push(Candidate { change, gpus, outcomes, given_up, draft });
                }
                Err(error) => left_out.push(LeftOut::new(&change, &error)),
            }
        }
        let (draft, own) = (draft.clone(), Vec::new());
        Self { draft, scale, own, candidates, left_out, not_judged, num_requests }
    }

    /// Simulates all with as many seeds as it takes, at most those of the scale.
    pub(super) fn run(&mut self, listener: &Listener) -> Result<(), ExplainError> {
        // What the scenario itself is warned of has been told.
        let cases = Cases::default();
        let mut ended = 0;
        for seeds in [1, SCREENED, self.scale.seeds] {
            ended += self.round(seeds, ended, (&cases, listener))?;
            let is_over = seeds >= SCREENED && self.is_without_chance();
            if is_over || seeds >= self.scale.seeds {
                break;
            }
            self.give_up();
        }
        Ok(())
    }

    /// Simulates what is not given up with the seeds up to this many that are missing.
    fn round(
        &mut self,
        seeds: u32,
        before: usize,
        (cases, listener): (&Cases, &Listener),
    ) -> Result<usize, ExplainError> {
        let missing = self.own.len() as u32 + 1..=seeds;
        let going = self.candidates.iter().filter(|one| one.given_up.is_none());
        let drafts: Vec<&Draft> =
            std::iter::once(&self.draft).chain(going.map(|one| &one.draft)).collect();
        let runs: Vec<(&Draft, u32)> =
            drafts.iter().flat_map(|draft| missing.clone().map(|seed| (*draft, seed))).collect();
        let now = format!("{} changes", drafts.len() - 1);
        let tell = |ended| {
            let (ended, of) = (before + ended, Some(before + runs.len()));
            listener.tell(&Note::Progress(Progress { ended, of, now: now.clone() }));
        };
        tell(0);
        let ended = AtomicUsize::new(0);
        let scale = self.scale;
        let outcomes = threads::map(&runs, |(draft, seed)| {
            let found = outcome(cases, draft, *seed, scale);
            tell(1 + ended.fetch_add(1, Ordering::Relaxed));
            found
        });
        let count = runs.len();
        let mut outcomes = outcomes.into_iter();
        let mut of_next = || -> Result<Vec<Outcome>, ExplainError> {
            let each: Vec<_> = outcomes.by_ref().take(missing.clone().count()).collect();
            let none = || ExplainError::NoAnswer(scale.metric.title());
            each.into_iter().map(|one| one?.ok_or_else(none)).collect()
        };
        self.own.extend(of_next()?);
        let left_out = &mut self.left_out;
        self.candidates.retain_mut(|one| {
            if one.given_up.is_some() {
                return true;
            }
            match of_next() {
                Ok(found) => one.outcomes.extend(found),
                Err(error) => {
                    left_out.push(LeftOut::new(&one.change, &error));
                    return false;
                }
            }
            true
        });
        Ok(count)
    }

    /// Gives up what is no remedy as far as its seeds tell; less load is there to compare with.
    fn give_up(&mut self) {
        let going = self.candidates.iter_mut().filter(|one| one.given_up.is_none());
        for one in going.filter(|one| !one.change.is_load) {
            one.given_up = given_up(&self.own, &one.outcomes, self.scale);
        }
    }

    /// Whether every seed gives the same.
    fn is_without_chance(&self) -> bool {
        let is_same = |of: &[Outcome]| of.iter().all(|one| one.is_as(&of[0]));
        is_same(&self.own) && self.candidates.iter().all(|one| is_same(&one.outcomes))
    }
}

/// Why a change gets no more seeds than it has, if it does not.
fn given_up(own: &[Outcome], outcomes: &[Outcome], scale: Scale) -> Option<GivenUp> {
    let own = &own[..outcomes.len()];
    if own.iter().zip(outcomes).all(|(now, then)| now.is_as(then)) {
        return Some(GivenUp::NoDifference);
    }
    let found = difference(own, outcomes, scale);
    let is_screened = outcomes.len() >= SCREENED as usize;
    let change = found.relative.map(|relative| relative.change);
    let may_help = change.is_some_and(|change| change < -GAIN);
    if is_screened && found.p_value >= CHANCE && !may_help {
        return Some(GivenUp::NoDifference);
    }
    if scale.full {
        return None;
    }
    let change = change?;
    if change > if is_screened { 0.0 } else { HARM } {
        return Some(GivenUp::SeemsWorse);
    }
    let answers = |of: &[Outcome]| mean(&of.iter().map(|one| one.answered).collect::<Vec<f64>>());
    let answers_alike = (answers(outcomes) - answers(own)).abs() < 1e-9;
    let is_slight = !is_screened && answers_alike && change.abs() < SLIGHT;
    is_slight.then_some(GivenUp::NoDifference)
}

/// What a run with the seed of this number is judged by; nothing where no request has the latency.
fn outcome(
    cases: &Cases,
    draft: &Draft,
    number: u32,
    scale: Scale,
) -> Result<Option<Outcome>, LoadError> {
    let seeded = draft.reseeded(number)?;
    let (case, is_resampled) = if scale.point {
        (cases.of_draft(&seeded)?, false)
    } else {
        // Of one number the same blocks with every change.
        let mut stream = draft.seed().stream("stretch", u64::from(number));
        cases.of_stretch(&seeded, &mut stream)?
    };
    let run = case.run()?;
    let seen = run.recorder.seen();
    let sorted = scale.metric.sorted_ms(&seen);
    let latency_ms = percentile_sorted(&sorted, scale.percentile);
    let answered = run.counts.finished as f64 / seen.len() as f64;
    let requests = digest(&seen);
    Ok((!sorted.is_empty()).then_some(Outcome { latency_ms, answered, is_resampled, requests }))
}

/// A number that tells requests from others, by when they came and how long they are.
fn digest(requests: &[RequestRecord]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for one in requests {
        (one.arrival, one.prompt_tokens, one.output_tokens).hash(&mut hasher);
    }
    hasher.finish()
}
