//! One layout at one rate, simulated.

use super::slo::{Objective, Slo};
use super::traffic::Traffic;
use super::warm_up::{WarmUp, mser5};
use super::watch::Watch;
use crate::cost::StepTime;
use crate::metrics::bench::{Latency, Statistic};
use crate::metrics::{BenchReport, Caution, CutAnswers, Recorder, RequestRecord, Status, Warnings};
use crate::resolved::Scenario;
use crate::sim;
use crate::study::{self, Policies, StudyError};
use crate::units::{SimDuration, SimTime};

/// What is tried.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The cluster.
    pub scenario: &'a Scenario,
    /// Its step times.
    pub costs: &'a [StepTime],
    /// Policies in place of its own.
    pub policies: Option<&'a Policies<'static>>,
    /// What is sent.
    pub traffic: &'a Traffic,
    /// How many times as fast.
    pub factor: f64,
    /// The figure and its bound.
    pub slos: &'a [Slo],
    /// What of the start does not count.
    pub warm_up: WarmUp,
    /// Whether it ends before all requests came, where an SLO is missed.
    pub end: End,
    /// Whether its requests are all that come.
    pub goes_on: GoesOn,
}

/// For how long requests come as they do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GoesOn {
    /// A recorded stretch, which passes.
    AsRecorded,
    /// What is drawn is a part of what never ends.
    ForEver {
        /// The factor at which the engines have just the throughput ([`Capacity`](super::Capacity)), infinite
        /// where it is not known. It decides whether requests pile up where their time is too short to show it.
        throughput_factor: f64,
    },
}

/// When a trial ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When an SLO is missed for certain.
    Early,
    /// When all requests have left.
    AllLeft,
}

/// The value of an SLO, and how much of what is allowed that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In ms; of a share from 0 to 1.
    pub value: f64,
    /// Above 1 the SLO is missed.
    pub used: f64,
    /// Whether each request that counts keeps the limit; of gaps between tokens that is not looked at.
    pub is_kept_by_all: bool,
}

/// What a trial showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Whether all SLOs are met.
    pub is_kept: bool,
    /// The values of the SLOs; nothing where the run was broken off.
    pub values: Option<Vec<Value>>,
    /// The SLO that it was broken off for, by its place.
    pub broken_off: Option<usize>,
    /// Requests that never end pile up: a longer run would miss every SLO. Not looked at in a run that was
    /// broken off.
    pub is_overloaded: bool,
    /// Generated tokens per second of all replicas, over the run.
    pub output_tokens_per_s: f64,
    /// Tokens per second of the median user, while an answer comes.
    pub tokens_per_s_per_user: f64,
    /// 99th percentile of the time to first token, in ms.
    pub p99_ttft_ms: f64,
    /// Answers that an engine ended before they were over.
    pub cut: CutAnswers,
    /// What its figures hang on; nothing is said of a run that was broken off.
    pub warnings: Warnings,
}

impl Setup<'_> {
    /// Simulates it.
    ///
    /// # Errors
    /// When the cluster cannot be built.
    pub fn run(&self) -> Result<Trial, StudyError> {
        let count = self.traffic.len();
        let from = match self.warm_up {
            WarmUp::Counts => 0,
            // What is cut is known only at the end.
            WarmUp::Mser5 => count / 2,
        };
        // Retries have numbers that are in nobody's count.
        let fails =
            !self.scenario.faults.is_empty() || self.scenario.workload.client.retries.is_some();
        let judged = if fails || self.end == End::AllLeft { &[] } else { self.slos };
        let recorder = Recorder::of(self.scenario);
        let requests = self.traffic.at(self.factor);
        let (mut watch, source) = Watch::new(recorder, judged, requests, count, from);
        let cluster = study::cluster(self.scenario, self.costs, self.policies)?;
        let run = sim::simulation_on(self.scenario, cluster, source)?;
        let mut caution = Caution::new(self.scenario, self.costs.to_vec());
        let counts = run.run(&mut (&mut watch, &mut caution))?;
        let warnings = match watch.broken() {
            None => caution.warnings(self.scenario, &counts),
            Some(_) => Warnings::default(),
        };
        Ok(self.judge(&watch, warnings))
    }

    fn judge(&self, watch: &Watch<'_>, warnings: Warnings) -> Trial {
        let report = BenchReport::new(&watch.recorder, self.scenario);
        let summary = &report.summary;
        let records = watch.recorder.seen();
        let counted = &records[self.cut(&records)..];
        let values = watch.broken().is_none().then(|| {
            let values = self.slos.iter().map(|slo| {
                let value = slo.value(counted, summary);
                let is_kept_by_all = slo.is_kept_by_all(counted);
                Value { value, used: slo.use_of(value), is_kept_by_all }
            });
            values.collect::<Vec<_>>()
        });
        let is_overloaded = values.is_some() && self.piles_up(&records);
        let keeps = values.as_ref().is_some_and(|values| {
            self.slos.iter().zip(values).all(|(slo, value)| slo.is_kept(value.value))
        });
        let median_tpot_ms = summary.latency(Latency::Tpot).statistic_ms(Statistic::Median);
        Trial {
            is_kept: keeps && !is_overloaded,
            values,
            broken_off: watch.broken(),
            is_overloaded,
            output_tokens_per_s: summary.output_throughput(),
            tokens_per_s_per_user: 1000.0 / median_tpot_ms,
            p99_ttft_ms: P99_TTFT.value(counted, summary),
            cut: watch.recorder.cut,
            warnings,
        }
    }

    /// Whether requests pile up: those that wait grow in number; those inside do, once the first are answered; or
    /// more come than the engines have the throughput for, where it is too early to see that.
    fn piles_up(&self, records: &[RequestRecord]) -> bool {
        let GoesOn::ForEver { throughput_factor } = self.goes_on else { return false };
        let Some(growth) = Growth::of(records) else { return false };
        growth.is_seen(scheduled)
            || if growth.is_long_enough() {
                growth.is_seen(left)
            } else {
                self.factor > throughput_factor
            }
    }

    fn cut(&self, records: &[RequestRecord]) -> usize {
        match self.warm_up {
            WarmUp::Counts => 0,
            WarmUp::Mser5 => {
                // One that was not answered has the time it was there for.
                let ttfts_ms: Vec<f64> = records.iter().map(|r| r.ttft().as_millis_f64()).collect();
                mser5(&ttfts_ms).min(records.len() / 2)
            }
        }
    }
}

const P99_TTFT: Slo = Slo {
    objective: Objective::Latency(Latency::Ttft, Statistic::Percentile(99.0)),
    limit: f64::INFINITY,
    class: None,
};

/// Requests as they come and go: how many more there are at the end of the time in which they come than at
/// its middle.
struct Growth<'a> {
    records: &'a [RequestRecord],
    middle: SimTime,
    end: SimTime,
}

impl<'a> Growth<'a> {
    fn of(records: &'a [RequestRecord]) -> Option<Self> {
        let (first, last) = (records.first()?.arrival, records.last()?.arrival);
        let middle = first + SimDuration::from_nanos((last - first).as_nanos() / 2);
        Some(Self { records, middle, end: last })
    }

    /// Whether those that have come, and not got so far, grow by more than 3 % of those that come, and more
    /// than chance: three deviations of a Poisson count.
    fn is_seen(&self, so_far: impl Fn(&RequestRecord) -> SimTime) -> bool {
        let inside = |at| {
            let is_inside = |record: &&RequestRecord| record.arrival <= at && so_far(record) > at;
            self.records.iter().filter(is_inside).count() as f64
        };
        let came = self.records.iter().filter(|record| record.arrival > self.middle).count() as f64;
        let more = inside(self.end) - inside(self.middle);
        more > 0.03 * came && more > 3.0 * came.sqrt()
    }

    /// Whether the first answers, which find the cluster empty, take less than a quarter of the time in which
    /// requests come: then as many leave in its second half as come, if they ever do.
    fn is_long_enough(&self) -> bool {
        let first = &self.records[..self.records.len().div_ceil(10)];
        let mut took: Vec<_> = first.iter().map(|record| left(record) - record.arrival).collect();
        took.sort_unstable();
        let half = (self.end - self.middle).as_nanos();
        took[took.len() / 2].as_nanos() <= half / 2
    }
}

/// When a request was first in a step; those that never are come after all others.
fn scheduled(record: &RequestRecord) -> SimTime {
    let never = record.status == Status::Unfinished && record.first_scheduled == record.sent;
    if never { SimTime::MAX } else { record.first_scheduled }
}

/// When a request left; those that never do leave after all others.
fn left(record: &RequestRecord) -> SimTime {
    if record.status == Status::Unfinished { SimTime::MAX } else { record.finish }
}

impl Trial {
    /// The SLO that takes most of what is allowed, by its place: that which the run was broken off for,
    /// if it was.
    pub fn binding(&self) -> Option<usize> {
        let Some(values) = &self.values else { return self.broken_off };
        let used = values.iter().map(|value| value.used).enumerate();
        used.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
    }
}
