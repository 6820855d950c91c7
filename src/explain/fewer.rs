//! How many requests of a run tell its percentile: changes are tried on no more of them, where they have it too.
//!
//! A percentile of a million requests is known far better than settings differ. As many requests are enough as leave
//! [`BEYOND`] beyond the percentile. Whether the first of a run stand for all of them is not taken for granted, as a load that
//! grows or a cache that fills tells otherwise: they are simulated by themselves, and have to have the same percentile.

use super::ranking::Scale;
use crate::load::{Cases, Draft, LoadError};
use crate::resolved::Scenario;
use crate::scenario::{ArrivalConfig, LengthConfig};
use crate::stats::percentile_sorted;
use crate::study::Case;

/// Requests beyond a percentile that tell it: it is then off by a seventh of them, 1/√50.
const BEYOND: f64 = 50.0;
/// Requests that are simulated at least.
const LEAST: f64 = 2_000.0;
/// How far the percentile of fewer requests may be from that of all, as a share of it.
const NEAR: f64 = 0.1;

/// A run of all requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Whole {
    /// Requests that have the latency.
    pub(super) requests: usize,
    /// Their percentile, in ms.
    pub(super) latency_ms: f64,
    /// What the workload counts: requests, or conversations.
    pub(super) units: usize,
}

impl Whole {
    /// Of a case that was simulated, with its latencies, ascending.
    ///
    /// # Errors
    /// When its requests cannot be drawn.
    pub(super) fn new(case: &Case, sorted_ms: &[f64], percentile: f64) -> Result<Self, LoadError> {
        let latency_ms = percentile_sorted(sorted_ms, percentile);
        Ok(Self { requests: sorted_ms.len(), latency_ms, units: case.workload()?.count() })
    }

    /// The scenario with as few of its requests as tell the percentile; nothing where that takes half of them or
    /// more, or the first do not stand for all.
    pub(super) fn with_fewer(
        self,
        draft: &Draft,
        scenario: &Scenario,
        scale: Scale,
    ) -> Option<Draft> {
        let needed = (BEYOND / (1.0 - scale.percentile / 100.0)).max(LEAST);
        if 2.0 * needed > self.requests as f64 || !is_steady(scenario) {
            return None;
        }
        let units = (self.units as f64 * needed / self.requests as f64).ceil();
        let fewer = draft.clone().with("workload.num_requests", units as i64).ok()?;
        // Whatever is wrong with it, all requests can be simulated.
        let run = Cases::default().of_draft(&fewer).ok()?.run().ok()?;
        let sorted = scale.metric.sorted_ms(&run.recorder.seen());
        let latency_ms = percentile_sorted(&sorted, scale.percentile);
        let is_near = (latency_ms - self.latency_ms).abs() <= NEAR * self.latency_ms;
        (is_near && !sorted.is_empty()).then_some(fewer)
    }
}

/// Whether requests come alike from the first to the last, however many there are, to replicas that are always there.
fn is_steady(scenario: &Scenario) -> bool {
    let workload = &scenario.workload;
    let varies = matches!(
        workload.arrivals,
        ArrivalConfig::Sine { .. }
            | ArrivalConfig::AdapterCounts(_)
            | ArrivalConfig::Trace(_)
            | ArrivalConfig::Vllm { ramp_up: Some(_), .. }
    );
    let drifts = workload.adapters.as_ref().is_some_and(|mix| mix.drift.is_some());
    // Each prefix is sent as often as the number of requests says.
    let repeats = matches!(
        workload.lengths,
        LengthConfig::PrefixRepetition(_) | LengthConfig::GeneratedSharedPrefix(_)
    );
    let is_recorded = scenario.trace.is_some();
    let is_there = scenario.faults.is_empty() && !scenario.has_autoscaler();
    !varies && !drifts && !repeats && !is_recorded && is_there
}
