//! What is asked of a run, and what is answered.

use serde::Serialize;

use super::ExplainError;
use super::account::Account;
use super::fewer::Whole;
use super::pick::{Metric, Picked, Requests};
use super::ranking::{Ranking, Scale, Start};
use super::sight::{Sight, Witness};
use super::slo::Missed;
use super::text::{self, Shown};
use crate::load::memory::Leaves;
use crate::load::{Cases, Draft, Listener, LoadError, Origin};
use crate::metrics::Recorder;
use crate::plain::shown;
use crate::problem::Problem;
use crate::resolved::Scenario;
use crate::stats::percentile_sorted;
use crate::study::Case;
use crate::units::SimDuration;

/// With fewer seeds Student's t is so wide that nothing is ever found.
const SEEDS_MIN: u32 = 3;
const SEEDS_MAX: u32 = 1_000;

/// A question: why was this request slow?
///
/// ```
/// use servecast::Explain;
///
/// let mut explain = Explain::new(servecast::load::built_in().with("workload.num_requests", 50)?);
/// explain.seeds = 0;
/// let found = explain.run()?;
/// assert_eq!(found.request.account.total().as_millis_f64(), found.request.e2e_ms);
/// println!("{found}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Explain {
    /// The scenario.
    pub draft: Draft,
    /// The number of the request, as tables of requests give it; the one at the percentile if absent.
    pub request: Option<u32>,
    /// Which latency: it picks the request, and changes are judged by it. If absent, the one whose SLO most requests
    /// miss, or E2E where the scenario has no SLOs.
    pub metric: Option<Metric>,
    /// Which percentile of it, 1 to 100.
    pub percentile: f64,
    /// Under how many seeds changes are simulated; none are where it is 0.
    pub seeds: u32,
    /// How often an interval holds the truth, 0.5 to 0.9999.
    pub confidence: f64,
    /// Whether every seed plays a trace as it was recorded, instead of a stretch resampled from it. Differences then have
    /// no intervals where nothing else is drawn.
    pub point: bool,
    /// Whether changes are tried on all requests also where the first of them have the same percentile, and those that
    /// seem to be worse, or to change next to nothing, with as many seeds as others.
    pub full: bool,
    /// Who hears of notes.
    pub listener: Listener,
}

/// A request and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// Its number.
    pub request: u32,
    /// How often it was sent.
    pub attempts: u32,
    /// When it was sent first, in s since the start of the run.
    pub sent_s: f64,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: u32,
    /// Length of its answer in tokens.
    pub output_tokens: u32,
    /// The adapter that it asked for.
    pub adapter: Option<u32>,
    /// Times it lost its memory and started over.
    pub preemptions: u32,
    /// Time to first token, in ms.
    pub ttft_ms: f64,
    /// Mean time per output token after the first, in ms.
    pub tpot_ms: Option<f64>,
    /// From sending to the last token, in ms.
    pub e2e_ms: f64,
    /// Where that time went.
    #[serde(flatten)]
    pub account: Account,
    /// What was going on around it.
    pub around: Sight,
}

/// What was found. [`Display`](std::fmt::Display) gives it in words; serialised it is the JSON of the command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The version of servecast.
    pub servecast: &'static str,
    /// The name of the scenario.
    pub scenario: String,
    /// Its router.
    pub router: String,
    /// Its GPUs.
    pub gpus: u64,
    /// The latency.
    pub metric: Metric,
    /// The SLO that it was chosen by, where none was asked for.
    pub slo: Option<Missed>,
    /// The percentile of it.
    pub percentile: f64,
    /// Whether the request is the one at that percentile.
    pub is_at_percentile: bool,
    /// Requests that were answered.
    pub answered: usize,
    /// Those of them with a lower latency than the request.
    pub faster: usize,
    /// TTFT, TPOT and E2E that half of the requests kept, in ms.
    pub medians_ms: [f64; 3],
    /// The request.
    pub request: Subject,
    /// The request at the median of the latency, if it is another one.
    pub median: Option<Subject>,
    /// Which setting would change the percentile most; nothing where no seeds were asked for.
    pub ranking: Option<Ranking>,
}

impl Explain {
    /// Why is the request at the P99 of the latency slow whose SLO most requests miss?
    pub fn new(draft: Draft) -> Self {
        Self {
            draft,
            request: None,
            metric: None,
            percentile: 99.0,
            seeds: 8,
            confidence: 0.95,
            point: false,
            full: false,
            listener: Listener::default(),
        }
    }

    /// Simulates the scenario, finds the request, and then changes one setting at a time.
    ///
    /// # Errors
    /// When a rule is broken by the scenario or the question, or the request was not answered.
    pub fn run(&self) -> Result<Explained, ExplainError> {
        self.run_telling(|_| Ok(()))
    }

    /// The same, and tells the account of the request before changes are tried, which takes most of the time.
    ///
    /// # Errors
    /// When a rule is broken by the scenario or the question, the request was not answered, or whoever is told fails.
    pub fn run_telling<E: From<ExplainError>>(
        &self,
        tell: impl FnOnce(&Explained) -> Result<(), E>,
    ) -> Result<Explained, E> {
        let (mut found, scenario, whole) = self.begin()?;
        tell(&found)?;
        if self.seeds > 0 {
            let scale = Scale {
                metric: found.metric,
                percentile: self.percentile,
                seeds: self.seeds,
                confidence: self.confidence,
                point: self.point,
                full: self.full,
            };
            let from = Start { draft: &self.draft, scenario: &scenario, whole };
            found.ranking = Some(Ranking::new(from, scale, &self.listener)?);
        }
        Ok(found)
    }

    /// All but the changes, with the scenario that they start from and what its run was like.
    fn begin(&self) -> Result<(Explained, Scenario, Whole), ExplainError> {
        self.check()?;
        let loaded = self.draft.resolve()?;
        let scenario = loaded.scenario.clone();
        let case = Cases::told(&self.listener).of(loaded, Leaves::Records)?;
        let (found, whole) = self.explain(&case)?;
        Ok((found, scenario, whole))
    }

    fn explain(&self, case: &Case) -> Result<(Explained, Whole), ExplainError> {
        let run = case.run().map_err(LoadError::from)?;
        let recorder = &run.recorder;
        let seen = recorder.seen();
        let requests = Requests::new(recorder);
        let numbered = self.request.map(|number| requests.numbered(number)).transpose()?;
        let slo = match self.metric {
            Some(_) => None,
            None => Missed::most(&run.scenario, &seen, self.percentile),
        };
        // A request of one token has no time per output token.
        let has = |metric: Metric| numbered.is_none_or(|one| metric.of(&one.record).is_some());
        let slo = slo.filter(|slo| has(slo.metric));
        let metric = self.metric.or(slo.map(|slo| slo.metric)).unwrap_or(Metric::E2e);
        let at = |percentile| requests.at(metric, percentile);
        let picked = numbered.map_or_else(|| at(self.percentile), Ok)?;
        let value =
            metric.of(&picked.record).ok_or(ExplainError::OneToken { request: picked.id.0 })?;
        let median = at(50.0)?;
        let sorted = metric.sorted_ms(&seen);
        let [subject, median_subject] = subjects(case, recorder, [&picked, &median])?;
        let half = |metric: Metric| percentile_sorted(&metric.sorted_ms(&seen), 50.0);
        let whole = Whole::new(case, &sorted, self.percentile)?;
        let found = Explained {
            servecast: env!("CARGO_PKG_VERSION"),
            scenario: run.scenario.name.clone(),
            router: run.scenario.written().cluster.router.title(),
            gpus: run.scenario.gpus(),
            metric,
            slo,
            percentile: self.percentile,
            is_at_percentile: picked.id == at(self.percentile)?.id,
            answered: sorted.len(),
            faster: sorted.partition_point(|ms| *ms < value.as_millis_f64()),
            medians_ms: Metric::ALL.map(half),
            request: subject,
            median: (median.id != picked.id).then_some(median_subject),
            ranking: None,
        };
        Ok((found, whole))
    }

    fn check(&self) -> Result<(), LoadError> {
        let refused = |flag, rule: String| Err(Origin::Argument(flag).fail(Problem::new("", rule)));
        if !(1.0..=100.0).contains(&self.percentile) {
            let problem = Problem::must_be("", "within 1 and 100", self.percentile);
            let hundredfold = shown((self.percentile * 1e4).round() / 1e2);
            let hint = format!("{hundredfold} means P{hundredfold}");
            let is_share = (0.01..1.0).contains(&self.percentile);
            let problem = if is_share { problem.with_hint(&hint) } else { problem };
            return Err(Origin::Argument("--percentile").fail(problem));
        }
        if self.seeds != 0 && !(SEEDS_MIN..=SEEDS_MAX).contains(&self.seeds) {
            return refused(
                "--seeds",
                format!("must be 0 or from {SEEDS_MIN} to {SEEDS_MAX}, got {}", self.seeds),
            );
        }
        if !(0.5..=0.9999).contains(&self.confidence) {
            let rule = format!("must be within 0.5 and 0.9999, got {}", shown(self.confidence));
            return refused("--confidence", rule);
        }
        Ok(())
    }
}

/// Two requests with what was going on around them, from the same run once more.
fn subjects(
    case: &Case,
    recorder: &Recorder,
    picked: [&Picked; 2],
) -> Result<[Subject; 2], ExplainError> {
    let followed = picked.map(|one| (one.id, one.record.sent));
    let mut witness = Witness::of(&case.scenario, &followed);
    case.follow(&mut witness).map_err(LoadError::from)?;
    let sights = witness.into_sights();
    Ok([0, 1].map(|place| Subject::new(recorder, picked[place], sights[place].clone())))
}

impl Subject {
    fn new(recorder: &Recorder, picked: &Picked, sight: Sight) -> Self {
        let record = &picked.record;
        Self {
            request: picked.id.0,
            attempts: picked.attempts,
            sent_s: record.sent.as_secs_f64(),
            prompt_tokens: record.prompt_tokens,
            cached_tokens: record.cached_tokens,
            output_tokens: record.output_tokens,
            adapter: recorder.adapters.wait_of(picked.id.index()).adapter.map(|id| id.0),
            preemptions: record.preemptions,
            ttft_ms: record.ttft().as_millis_f64(),
            tpot_ms: record.tpot().map(SimDuration::as_millis_f64),
            e2e_ms: record.e2e().as_millis_f64(),
            account: Account::new(recorder, picked, &sight),
            around: sight,
        }
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.account_text())?;
        f.write_str(&self.ranking_text(Shown::Notable))
    }
}

impl Explained {
    /// The same with all changes, those that make no difference and those that were left out among them.
    pub fn full_text(&self) -> String {
        self.account_text() + &self.ranking_text(Shown::All)
    }

    /// Where the time of the request went, in words and in a table.
    pub fn account_text(&self) -> String {
        text::account(self)
    }

    /// What changes do, in words and in a table; nothing where none were tried.
    pub fn ranking_text(&self, shown: Shown) -> String {
        self.ranking.as_ref().map(|ranking| text::changes(self, ranking, shown)).unwrap_or_default()
    }
}
