//! What a report says of autoscalers.

use serde_json::{Value, json};

use super::run::Outcome;
use crate::metrics::{ScaledPool, ScalingReport};

fn reports(outcome: &Outcome) -> impl Iterator<Item = ScalingReport> {
    let pools = ScaledPool::of(&outcome.scenario);
    pools.into_iter().map(|pool| ScalingReport::new(&outcome.recorder, &pool))
}

/// What they did, in words; nothing where there are none.
pub(super) fn text(outcome: &Outcome) -> String {
    reports(outcome).map(|report| report.text()).collect()
}

/// The same in JSON: an object for the autoscaler of all replicas, a list for those of groups.
pub(super) fn json(outcome: &Outcome) -> Option<Value> {
    let reports: Vec<_> = reports(outcome).collect();
    match reports.as_slice() {
        [] => None,
        [report] if report.group.is_none() => Some(json!(report)),
        reports => Some(json!(reports)),
    }
}

/// The replicas over time, as a table in CSV.
pub(super) fn csv(outcome: &Outcome) -> Option<String> {
    let pools = ScaledPool::of(&outcome.scenario);
    (!pools.is_empty()).then(|| outcome.recorder.scaling_csv(&pools))
}
