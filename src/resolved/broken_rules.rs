//! Rules that a scenario breaks, as far as they need no look-up: every part has its own, this room asks them all.

use super::rules::Rules;
use super::{
    autoscaler, baselines, bill, data_parallel, disaggregation, experts, faults, gateway, groups,
    host, kv_tiers, lora, pipeline, placement, router, sglang, step_time, vllm, warm_up,
};
use crate::problem::Problem;
use crate::scenario::{ClusterConfig, EngineConfig, NAME_MAX, ReportConfig, ScenarioFile};

/// Characters of what is told of measured figures, which is a line of the report.
const SOURCE_MAX: usize = 1000;

/// Of a whole scenario.
pub(super) fn of(file: &ScenarioFile) -> Vec<Problem> {
    let workload = file.workload.validate().into_iter().map(|p| p.below("workload"));
    let mut rules = Rules { problems: workload.collect() };
    match (&file.trace, file.workload.reads_trace()) {
        (None, true) => rules.broken("trace", "the workload reads a trace, but none is given"),
        (Some(_), false) => rules.broken(
            "trace",
            "is given, but neither workload.arrivals nor workload.lengths is of type `trace`",
        ),
        _ => {}
    }
    rules.letters("name", &file.name, NAME_MAX);
    if let Some(measured) = &file.measured {
        rules.letters("measured.source", &measured.source, SOURCE_MAX);
        for (metric, value) in &measured.metrics {
            rules.not_negative(&format!("measured.metrics.{metric}"), *value);
        }
    }
    let cluster = &file.cluster;
    let rule = "from 1 to 100000";
    rules.check(
        (1..=100_000).contains(&cluster.replicas),
        "cluster.replicas",
        rule,
        cluster.replicas,
    );
    rules.time("cluster.api_delay_ms", cluster.api_delay_ms, 1e3);
    rules.brief("cluster.api_per_request_ms", cluster.api_per_request_ms, 1e3);
    router::rules(cluster, file.workload.adapters.is_some(), &mut rules);
    if cluster.groups.is_empty() {
        engine_rules(cluster, file.workload.adapters.is_some(), &mut rules);
    }
    groups::rules(file, &mut rules);
    if let Some(mix) = &file.workload.adapters {
        lora::mix_rules(mix, cluster, &mut rules);
    }
    lora::given_rules(file, &mut rules);
    placement::rules(file, &mut rules);
    disaggregation::rules(file, &mut rules);
    kv_tiers::rules(file, &mut rules);
    autoscaler::rules(file, &mut rules);
    faults::rules(file, &mut rules);
    gateway::rules(file, &mut rules);
    warm_up::rules(file, &mut rules);
    report_rules(&file.report, &mut rules);
    bill::rules(&file.report, &mut rules);
    rules.problems
}

/// Those of one kind of replicas.
pub(super) fn engine_rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    rules.count("cluster.tensor_parallel_size", cluster.tensor_parallel_size);
    let utilization = cluster.gpu_memory_utilization.unwrap_or(1.0);
    rules.share("cluster.gpu_memory_utilization", utilization);
    for (key, value) in cluster.engine.host().values() {
        rules.brief(&format!("cluster.engine.host.{key}"), value, 1e6);
    }
    if let Some(share) = cluster.engine.host().warm_share {
        rules.share("cluster.engine.host.warm_share", share);
    }
    host::rules(cluster, rules);
    step_time::rules(&cluster.step_time, rules);
    experts::rules(cluster, rules);
    data_parallel::rules(cluster, has_adapters, rules);
    pipeline::rules(cluster, has_adapters, rules);
    step_time::all_reduce_rules(cluster, rules);
    match &cluster.engine {
        EngineConfig::VllmV1(config) => vllm::rules(config, cluster.engine.speculation(), rules),
        EngineConfig::Sglang(config) => {
            sglang::rules(config, rules);
            sglang::speculation::rules(cluster, has_adapters, rules);
        }
        baseline => baselines::rules(baseline, rules),
    }
    lora::rules(cluster, has_adapters, rules);
}

fn report_rules(report: &ReportConfig, rules: &mut Rules) {
    for name in &report.percentile_metrics {
        if !["ttft", "tpot", "itl", "e2el"].contains(&name.as_str()) {
            let message = format!("unknown latency `{name}`, known are ttft, tpot, itl and e2el");
            rules.broken("report.percentile_metrics", &message);
        }
    }
    for percentile in &report.metric_percentiles {
        let holds = (0.0..=100.0).contains(percentile);
        rules.check(holds, "report.metric_percentiles", "from 0 to 100", percentile);
    }
    for (name, limit_ms) in &report.goodput {
        if !["ttft", "tpot", "e2el"].contains(&name.as_str()) {
            let message = format!("unknown limit `{name}`, known are ttft, tpot and e2el");
            rules.broken(&format!("report.goodput.{name}"), &message);
        }
        rules.positive(&format!("report.goodput.{name}"), *limit_ms);
    }
}
