//! What cannot be planned, and why.

use super::args::PlanArguments;
use super::layouts::Layout;
use crate::cli::{Failure, say};
use crate::load::Drafts;
use crate::metrics::bench::{Latency, Statistic};
use crate::plain::{rounded, shown};
use crate::plan::{Objective, Slo, Traffic};
use crate::resolved::{Caveat, Scenario};
use crate::scenario::ScenarioFile;

pub(super) fn check_numbers(arguments: &PlanArguments) -> Result<(), Failure> {
    let positive = [("--window", arguments.window), ("--nic-gb-per-s", arguments.nic_gb_per_s)];
    for (flag, value) in positive {
        if !(value > 0.0 && value <= 1e9) {
            return Err(Failure::input(format!("{flag} {value}: must be above 0 and at most 10⁹")));
        }
    }
    Ok(())
}

/// What a plan decides itself must not be in the scenario.
pub(super) fn check_base(drafts: &Drafts) -> Result<(), Failure> {
    let base = &drafts.each[0];
    let refused = |what: &str, why: &str| {
        Err(Failure::input(format!("{}: {what}: a plan {why}", base.name())))
    };
    if drafts.each.len() > 1 {
        return refused(
            "variants",
            "is of one scenario; take them out, or give what varies with --vary",
        );
    }
    let decided: [(&[&str], &str); 3] = [
        (&["cluster", "groups"], "chooses groups of replicas itself; take them out"),
        (&["cluster", "autoscaler"], "is of a fixed number of replicas; take it out"),
        (
            &["faults"],
            "is of replicas that do not fail; take them out, and run its answer with them",
        ),
    ];
    for (keys, why) in decided {
        if base.get(keys).is_some() {
            return refused(&keys.join("."), why);
        }
    }
    let placement = base.get(&["cluster", "lora", "placement", "type"]);
    if placement.and_then(toml::Value::as_str) == Some("static") {
        return refused(
            "cluster.lora.placement",
            "has any number of replicas, static is for one: give greedy or load_balanced",
        );
    }
    Ok(())
}

/// What costs nothing here cannot be weighed against what it saves.
pub(super) fn check_scenario(scenario: &Scenario) -> Result<(), Failure> {
    let caveats = scenario.caveats();
    match caveats.iter().find(|caveat| matches!(caveat, Caveat::FreeDrafts { .. })) {
        Some(caveat) => Err(Failure::input(format!(
            "cluster.engine.speculation: {caveat}; a plan would buy too few GPUs. Take it out"
        ))),
        None => Ok(()),
    }
}

pub(super) fn check_workload(file: &ScenarioFile, seeks_rate: bool) -> Result<(), Failure> {
    let drifts = file.workload.adapters.as_ref().is_some_and(|mix| mix.drift.is_some());
    if seeks_rate && drifts {
        return Err(Failure::input(
            "workload.adapters.drift: other rates would drift at another pace; take it out, or leave out --rate",
        ));
    }
    if file.workload.client.max_concurrency.is_some() {
        return Err(Failure::input(
            "workload.client.max_concurrency: a plan needs requests that come by themselves; take it out",
        ));
    }
    if file.workload.warm_up.is_some() {
        return Err(Failure::input(
            "workload.warm_up: a plan sends other requests than the workload's own; take it out",
        ));
    }
    if file.workload.client.ports.is_some() {
        return Err(Failure::input(
            "workload.client.ports: a plan waits for all answers; take it out",
        ));
    }
    if file.workload.client.stop_after_s.is_some() {
        return Err(Failure::input(
            "workload.client.stop_after_s: a plan waits for all answers; take it out",
        ));
    }
    Ok(())
}

/// What nobody asks for is not met by everybody.
pub(super) fn check_slos(slos: &[Slo], traffic: &Traffic) -> Result<(), Failure> {
    for slo in slos {
        let concerned = || {
            let class = slo.class.as_ref().map(|(class, _)| *class);
            traffic
                .requests()
                .iter()
                .filter(move |request| class.is_none_or(|one| one == request.class))
        };
        let needs_gaps =
            matches!(slo.objective, Objective::Latency(Latency::Tpot | Latency::Itl, _));
        let count = concerned().filter(|request| !needs_gaps || request.output_tokens > 1).count();
        if count == 0 {
            let what =
                if needs_gaps { "with answers of two tokens or more" } else { "of this class" };
            return Err(Failure::input(format!("--slo: {slo}: there are no requests {what}")));
        }
        if let Objective::Latency(_, Statistic::Percentile(p)) = slo.objective
            && (count as f64) * (1.0 - p / 100.0) < 1.0
        {
            say(&format!("notice: {slo}: of {count} requests that is next to the slowest one"));
        }
    }
    Ok(())
}

pub(super) fn check_window(window_s: f64, traffic: &Traffic) -> Result<(), Failure> {
    const WINDOWS_MAX: f64 = 1e5;
    let span_s = traffic.span().as_secs_f64();
    if span_s / window_s > WINDOWS_MAX {
        return Err(Failure::input(format!(
            "--window {}: must be at least {} for requests that come over {} s",
            shown(window_s),
            rounded(span_s / WINDOWS_MAX),
            rounded(span_s)
        )));
    }
    Ok(())
}

/// Step times that are of one GPU say nothing of others.
pub(super) fn check_step_times(layouts: &[Layout], drafts: &Drafts) -> Result<(), Failure> {
    let base = &drafts.each[0];
    if layouts.windows(2).all(|two| two[0].kind == two[1].kind) {
        return Ok(());
    }
    let step_time = base.get(&["cluster", "step_time"]);
    let of_step_time = |key: &str| step_time.and_then(|table| table.get(key));
    if of_step_time("type").and_then(toml::Value::as_str) == Some("linear") {
        return Err(Failure::input(format!(
            "{}: cluster.step_time: a `linear` law is that of one machine; plan with one GPU and \
             tensor-parallel size, or take it out",
            base.name()
        )));
    }
    if drafts.calibration.is_some() || of_step_time("calibration").is_some() {
        say("warning: the calibration was found on one machine; it is taken for all layouts");
    }
    Ok(())
}
