//! What a model cannot tell of a change: whether the host of an engine is hidden behind its device.
//!
//! Asynchronous scheduling and overlap schedules change which of the host's times a step waits for. Where these times are zero, and
//! step times hold whatever the host takes, a simulation with the setting and one without it take the same, whatever a server does.

use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::{Calibration, HostConfig, StepTimeConfig};

/// Why a simulation says nothing of hiding the host behind the device; nothing where it does.
pub(super) fn why_not_judged(scenario: &Scenario) -> Option<String> {
    let is_untimed = |group: &ReplicaGroup| {
        let host = group.cluster.engine.host();
        // What a host takes once is no time of its steps.
        let of_steps = HostConfig {
            warm_share: None,
            cools_us: 0.0,
            warm_up_us: 0.0,
            warm_up_after_prefill_steps: 0,
            ..*host
        };
        of_steps == HostConfig::default()
    };
    let first = scenario.groups.first()?;
    scenario.groups.iter().all(is_untimed).then(|| where_it_is(first))
}

/// Where the time of the host is instead.
fn where_it_is(group: &ReplicaGroup) -> String {
    let calibration = match &group.cluster.step_time {
        StepTimeConfig::Auto { calibration, .. } => calibration.unwrap_or_default(),
        StepTimeConfig::OperatorTable { calibration, .. }
        | StepTimeConfig::Roofline { calibration, .. } => *calibration,
        StepTimeConfig::LayerTable(config) => config.calibration,
        StepTimeConfig::StepTable { .. } => {
            return "the step times of `step_table` hold the host's time, hidden or not".to_owned();
        }
        StepTimeConfig::Linear { .. } => {
            return "the step times of `linear` hold the host's time, hidden or not".to_owned();
        }
    };
    let constants = constants(&calibration);
    if !constants.is_empty() {
        let constants = constants.join(", ");
        return format!("the calibration takes the host as a constant: {constants}");
    }
    if group.is_calibrated || !calibration.is_neutral() {
        return "the calibration holds the host's time, hidden or not".to_owned();
    }
    "the host of a step takes no time here: give cluster.host or cluster.engine.host".to_owned()
}

/// The constants of a calibration that are not zero, with their values.
fn constants(calibration: &Calibration) -> Vec<String> {
    let of_host = [
        ("per_step_us", calibration.per_step_us),
        ("per_prefill_step_us", calibration.per_prefill_step_us),
        ("per_sequence_us", calibration.per_sequence_us),
    ];
    let some = of_host.into_iter().filter(|(_, us)| *us != 0.0);
    some.map(|(key, us)| format!("{key} = {}", (us * 10.0).round() / 10.0)).collect()
}
