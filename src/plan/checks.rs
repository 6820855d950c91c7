//! What cannot be planned, and why.

use super::error::{asked, stated};
use super::layouts::Layout;
use super::question::{Plan, Seeks};
use super::{Objective, PlanError, Slo, Traffic};
use crate::load::{Draft, Listener, LoadError, Note};
use crate::metrics::bench::{Latency, Statistic};
use crate::plain::{rounded, shown};
use crate::resolved::{Caveat, Scenario};
use crate::scenario::WorkloadConfig;

pub(super) fn check_numbers(question: &Plan) -> Result<(), PlanError> {
    let positive =
        [("--window", Some(question.window_s)), ("--nic-gb-per-s", question.nic_gb_per_s)];
    for (flag, value) in positive.into_iter().filter_map(|(flag, value)| Some((flag, value?))) {
        if !(value > 0.0 && value <= 1e9) {
            let problem = format!("must be above 0 and at most 10⁹, got {}", shown(value));
            return Err(asked(flag, problem));
        }
    }
    let tensor_parallel = question.tensor_parallel.iter();
    if let Some(size) = tensor_parallel.copied().find(|size| !(1..=64).contains(size)) {
        return Err(asked("--tensor-parallel-size", format!("must be from 1 to 64, got {size}")));
    }
    if question.slos.is_empty() {
        return Err(asked("--slo", "a plan needs an SLO, as in p99_ttft_ms<=500"));
    }
    Ok(())
}

/// What a plan decides itself must not be in the scenario.
pub(super) fn check_base(base: &Draft) -> Result<(), LoadError> {
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
            return Err(stated(base, &keys.join("."), format_args!("a plan {why}")));
        }
    }
    let placement = base.get(&["cluster", "lora", "placement", "type"]);
    if placement.and_then(toml::Value::as_str) == Some("static") {
        let why =
            "a plan has any number of replicas, static is for one: give greedy or load_balanced";
        return Err(stated(base, "cluster.lora.placement", why));
    }
    Ok(())
}

/// What costs nothing here cannot be weighed against what it saves.
pub(super) fn check_scenario(base: &Draft, scenario: &Scenario) -> Result<(), LoadError> {
    let caveats = scenario.caveats();
    match caveats.iter().find(|caveat| matches!(caveat, Caveat::FreeDrafts { .. })) {
        Some(caveat) => Err(stated(
            base,
            "cluster.engine.speculation",
            format_args!("{caveat}; a plan would buy too few GPUs. Take it out"),
        )),
        None => Ok(()),
    }
}

pub(super) fn check_workload(
    base: &Draft,
    workload: &WorkloadConfig,
    seeks: Seeks,
) -> Result<(), LoadError> {
    let drifts = workload.adapters.as_ref().is_some_and(|mix| mix.drift.is_some());
    let refused = [
        (
            seeks == Seeks::HighestRate && drifts,
            "adapters.drift",
            "other rates would drift at another pace; take it out, or leave out --rate",
        ),
        (
            workload.client.max_concurrency.is_some(),
            "client.max_concurrency",
            "a plan needs requests that come by themselves; take it out",
        ),
        (
            workload.warm_up.is_some(),
            "warm_up",
            "a plan sends other requests than the workload's own; take it out",
        ),
        (
            workload.client.ports.is_some(),
            "client.ports",
            "a plan waits for all answers; take it out",
        ),
        (
            workload.client.stop_after_s.is_some(),
            "client.stop_after_s",
            "a plan waits for all answers; take it out",
        ),
    ];
    match refused.iter().find(|(is_stated, ..)| *is_stated) {
        Some((_, key, why)) => Err(stated(base, &format!("workload.{key}"), why)),
        None => Ok(()),
    }
}

/// What nobody asks for is not met by everybody.
pub(super) fn check_slos(
    slos: &[Slo],
    traffic: &Traffic,
    listener: &Listener,
) -> Result<(), PlanError> {
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
            return Err(asked("--slo", format_args!("{slo}: there are no requests {what}")));
        }
        if let Objective::Latency(_, Statistic::Percentile(p)) = slo.objective
            && (count as f64) * (1.0 - p / 100.0) < 1.0
        {
            let told = format!("{slo}: of {count} requests that is next to the slowest one");
            listener.tell(&Note::Notice(told));
        }
    }
    Ok(())
}

pub(super) fn check_window(window_s: f64, traffic: &Traffic) -> Result<(), PlanError> {
    const WINDOWS_MAX: f64 = 1e5;
    let span_s = traffic.span().as_secs_f64();
    if span_s / window_s > WINDOWS_MAX {
        let problem = format!(
            "must be at least {} for requests that come over {} s, got {}",
            rounded(span_s / WINDOWS_MAX),
            rounded(span_s),
            shown(window_s)
        );
        return Err(asked("--window", problem));
    }
    Ok(())
}

/// Step times that are of one GPU say nothing of others.
pub(super) fn check_step_times(layouts: &[Layout], question: &Plan) -> Result<(), PlanError> {
    let base = &question.draft;
    if layouts.windows(2).all(|two| two[0].kind == two[1].kind) {
        return Ok(());
    }
    let step_time = base.get(&["cluster", "step_time"]);
    let of_step_time = |key: &str| step_time.and_then(|table| table.get(key));
    if of_step_time("type").and_then(toml::Value::as_str) == Some("linear") {
        let problem = "a `linear` law is that of one machine; plan with one GPU and \
             tensor-parallel size, or take it out";
        return Err(stated(base, "cluster.step_time", problem).into());
    }
    if base.is_calibrated() || of_step_time("calibration").is_some() {
        let told = "the calibration was found on one machine; it is taken for all layouts";
        question.listener.tell(&Note::Warning(told.to_owned()));
    }
    Ok(())
}
