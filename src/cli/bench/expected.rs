//! What is expected of the server of a benchmark, of which nothing was measured.

use crate::calibration::Class;
use crate::cli::terminal::say;
use crate::load::Override;
use crate::metrics::bench::{BenchSummary, Figure, Latency, MetricKey, Statistic, Tool};
use crate::model::ModelSpec;
use crate::profiles;
use crate::scenario::{Calibration, ClusterConfig};

/// Figures whose intervals are told.
const TOLD: [MetricKey; 3] = [
    MetricKey::Figure(Figure::OutputThroughput),
    MetricKey::Latency(Latency::Ttft, Statistic::Mean),
    MetricKey::Latency(Latency::Tpot, Statistic::Mean),
];

/// Has kernels take as long as in servers of its class, unless `--set` says how long steps take.
pub(super) fn expect(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    overrides: &[Override],
) -> Option<Class> {
    let says_itself = |given: &Override| given.path.starts_with("cluster.step_time");
    if overrides.iter().any(says_itself) {
        return None;
    }
    Class::expect(cluster, model, &profiles::gpu(&cluster.gpu)?)
}

/// Says what of it was assumed, and where nine of ten such servers are.
pub(super) fn state(class: Class, figures: &BenchSummary) {
    let factors = class.prior().factors;
    let neutral = Calibration::default().entries();
    let changed: Vec<String> = factors
        .entries()
        .into_iter()
        .zip(neutral)
        .filter(|((_, value), (_, one))| value.to_bits() != one.to_bits())
        .map(|((key, value), _)| format!("{key} {value}"))
        .collect();
    if !changed.is_empty() {
        say(&format!(
            "assumed: kernels take longer in a server than alone, as published runs say of others like it ({}); \
             `--set cluster.step_time.calibration={{}}` leaves that out",
            changed.join(", ")
        ));
    }
    let intervals: Vec<String> = TOLD
        .iter()
        .filter_map(|key| {
            let value = figures.metric(*key)?;
            let [low, high] = class.prior().interval(*key, value)?;
            let decimals = usize::from(high < 100.0);
            let title = key.title(Tool::Vllm);
            Some(format!("{title} {low:.decimals$} to {high:.decimals$}"))
        })
        .collect();
    if !intervals.is_empty() {
        say(&format!("nine of ten servers like it have: {}", intervals.join(", ")));
    }
}
