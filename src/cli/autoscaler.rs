//! What a report says of autoscalers.

use super::outcome::Outcome;
use crate::metrics::{ScaledPool, ScalingReport};

fn reports(outcome: &Outcome) -> impl Iterator<Item = ScalingReport> {
    let pools = ScaledPool::of(&outcome.scenario);
    pools.into_iter().map(|pool| ScalingReport::new(&outcome.recorder, &pool))
}

/// What they did, in words; nothing where there are none.
pub(super) fn text(outcome: &Outcome) -> String {
    reports(outcome).map(|report| report.text()).collect()
}

/// The replicas over time, as a table in CSV.
pub(super) fn csv(outcome: &Outcome) -> Option<String> {
    let pools = ScaledPool::of(&outcome.scenario);
    (!pools.is_empty()).then(|| outcome.recorder.scaling_csv(&pools))
}
