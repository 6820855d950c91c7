//! What a report says of an autoscaler.

use serde_json::{Value, json};

use super::run::Outcome;
use crate::metrics::ScalingReport;

fn report(outcome: &Outcome) -> Option<ScalingReport> {
    let cluster = &outcome.scenario.file.cluster;
    let autoscaler = cluster.autoscaler.as_ref()?;
    Some(ScalingReport::new(&outcome.recorder, autoscaler, cluster.gpus_per_replica()))
}

/// What it did, in words; nothing where there is none.
pub(super) fn text(outcome: &Outcome) -> String {
    report(outcome).map_or(String::new(), |report| report.text())
}

/// The same in JSON.
pub(super) fn json(outcome: &Outcome) -> Option<Value> {
    report(outcome).map(|report| json!(report))
}

/// The replicas over time, as a table in CSV.
pub(super) fn csv(outcome: &Outcome) -> Option<String> {
    let autoscaler = outcome.scenario.file.cluster.autoscaler.as_ref()?;
    Some(outcome.recorder.scaling_csv(autoscaler))
}
