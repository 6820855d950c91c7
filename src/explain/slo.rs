//! Which SLO of a run most requests miss.

use serde::Serialize;

use super::pick::Metric;
use crate::metrics::{RequestRecord, Status};
use crate::resolved::Scenario;
use crate::stats::percentile_sorted;
use crate::units::SimDuration;

/// The SLO that most requests miss; of those that as many miss, the one whose limit the percentile comes nearest to, or
/// exceeds most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Missed {
    /// The latency.
    pub metric: Metric,
    /// Its limit; nothing where classes of requests have limits of their own.
    pub limit_ms: Option<f64>,
    /// Requests that were answered later than that.
    pub missed: usize,
    /// Requests that were answered and have a limit.
    pub of: usize,
    /// How many latencies have limits.
    pub slos: usize,
}

/// Latencies relative to their limits, ascending.
struct Ratios {
    metric: Metric,
    ratios: Vec<f64>,
}

impl Ratios {
    fn new(metric: Metric, scenario: &Scenario, requests: &[RequestRecord]) -> Self {
        let answered = requests.iter().filter(|record| record.status == Status::Finished);
        let ratios = answered.filter_map(|record| {
            let limit_ms = limit_of(metric, scenario, record)?;
            // An answer of a single token keeps every time per token.
            let latency_ms = metric.of(record).map_or(0.0, SimDuration::as_millis_f64);
            let is_kept = latency_ms <= limit_ms;
            Some(if is_kept && limit_ms == 0.0 { 1.0 } else { latency_ms / limit_ms })
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        Self { metric, ratios }
    }

    fn missed(&self) -> usize {
        self.ratios.len() - self.ratios.partition_point(|ratio| *ratio <= 1.0)
    }
}

impl Missed {
    /// Of requests as their clients saw them; nothing where no latency has a limit.
    pub(super) fn most(
        scenario: &Scenario,
        requests: &[RequestRecord],
        percentile: f64,
    ) -> Option<Self> {
        let all = Metric::ALL.map(|metric| Ratios::new(metric, scenario, requests));
        let limited: Vec<&Ratios> = all.iter().filter(|one| !one.ratios.is_empty()).collect();
        let at = |one: &Ratios| percentile_sorted(&one.ratios, percentile);
        let most = limited.iter().max_by(|a, b| {
            let more = a.missed().cmp(&b.missed());
            more.then_with(|| at(a).total_cmp(&at(b)))
        })?;
        Some(Self {
            metric: most.metric,
            limit_ms: limit_of_all(most.metric, scenario),
            missed: most.missed(),
            of: most.ratios.len(),
            slos: limited.len(),
        })
    }
}

/// The limit of a request: that of its class, else that of the report.
fn limit_of(metric: Metric, scenario: &Scenario, record: &RequestRecord) -> Option<f64> {
    let class = scenario.workload.classes.get(usize::from(record.class.0));
    let own = class.and_then(|class| metric.limit_among(class.limits_ms()));
    own.or_else(|| limit_of_report(metric, scenario))
}

/// The limit of all requests, if they have the same.
fn limit_of_all(metric: Metric, scenario: &Scenario) -> Option<f64> {
    let classes = &scenario.workload.classes;
    let has_own = classes.iter().any(|class| metric.limit_among(class.limits_ms()).is_some());
    if has_own { None } else { limit_of_report(metric, scenario) }
}

fn limit_of_report(metric: Metric, scenario: &Scenario) -> Option<f64> {
    let limits = scenario.report.goodput.iter();
    metric.limit_among(limits.map(|(name, limit_ms)| (name.as_str(), Some(*limit_ms))))
}
