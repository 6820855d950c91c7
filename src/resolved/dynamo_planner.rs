//! Rules of Dynamo's planner as an autoscaler.

use super::Rules;
use crate::scenario::{
    AutoscalerConfig, ClusterConfig, DynamoPlannerConfig, EngineConfig, LoadPredictor,
    OptimizationTarget, ReplicaRole, ScenarioFile,
};

/// Of an autoscaler at this path, of replicas as this cluster has them.
pub(super) fn rules(
    path: &str,
    autoscaler: &AutoscalerConfig,
    cluster: &ClusterConfig,
    rules: &mut Rules,
) {
    let Some(planner) = autoscaler.signal.dynamo_planner() else { return };
    // With what they are where nothing is said.
    let of_signals = [
        ("interval_s", autoscaler.interval_s, 15.0),
        ("tolerance", autoscaler.tolerance, 0.1),
        ("stabilisation_up_s", autoscaler.stabilisation_up_s, 0.0),
        ("stabilisation_down_s", autoscaler.stabilisation_down_s, 300.0),
    ];
    for (key, value, default) in of_signals {
        if (value - default).abs() > 0.0 {
            let message = "the planner has times and margins of its own; leave it out";
            rules.broken(&format!("{path}.{key}"), message);
        }
    }
    for (key, limit) in
        [("max_added", autoscaler.max_added), ("max_removed", autoscaler.max_removed)]
    {
        if limit.is_some() {
            let message =
                "the planner moves by one replica, or by up to max_throughput_scaling_replicas";
            rules.broken(&format!("{path}.{key}"), message);
        }
    }
    let least = planner.min_endpoint;
    let rule = format!("min_endpoint of the planner, {least}");
    let is_least = autoscaler.min_replicas == least;
    rules.check(is_least, &format!("{path}.min_replicas"), &rule, autoscaler.min_replicas);
    let path = format!("{path}.signal");
    engine(&path, cluster, rules);
    decisions(&path, planner, rules);
    idle(&path, planner, rules);
    values(&path, planner, rules);
}

fn engine(path: &str, cluster: &ClusterConfig, rules: &mut Rules) {
    if !matches!(cluster.engine, EngineConfig::VllmV1(_) | EngineConfig::Sglang(_)) {
        rules.broken(
            path,
            "only the engines vllm_v1 and sglang tell the planner what they have to do",
        );
    }
    let sizes = [
        ("data_parallel_size", cluster.data_parallel_size),
        ("pipeline_parallel_size", cluster.pipeline_parallel_size),
    ];
    for (key, _) in sizes.iter().filter(|(_, size)| *size > 1) {
        let message =
            format!("not with {key} above 1: how long their forward passes take is not told");
        rules.broken(path, &message);
    }
}

/// What it decides by.
fn decisions(path: &str, planner: &DynamoPlannerConfig, rules: &mut Rules) {
    if !planner.scales_by_load() && !planner.scales_by_throughput() {
        let message = "enable_load_scaling or enable_throughput_scaling, or both, must be true";
        rules.broken(path, message);
    }
    if planner.scales_by_throughput() && planner.load_predictor == LoadPredictor::Prophet {
        let message = "`prophet` is not modelled; name arima, constant or kalman";
        rules.broken(&format!("{path}.load_predictor"), message);
    }
    let prefill = [planner.prefill_scale_down_queue_tokens, planner.prefill_scale_up_queue_tokens];
    let decode = [planner.decode_scale_down_kv_rate, planner.decode_scale_up_kv_rate];
    let pairs = [
        ("prefill_scale_up_queue_tokens", prefill.map(|tokens| tokens.map(f64::from))),
        ("decode_scale_up_kv_rate", decode),
    ];
    for (key, pair) in pairs {
        let path = format!("{path}.{key}");
        match pair {
            [Some(down), Some(up)] => {
                let rule = format!("a finite number above that of scaling down, {down}");
                rules.check(up > down && down >= 0.0 && up.is_finite(), &path, &rule, up);
            }
            _ if planner.optimization_target == OptimizationTarget::Load => {
                rules.broken(&path, "target `load` needs it, and the same for scaling down");
            }
            _ => {}
        }
    }
}

/// Settings that would decide nothing: those that differ from what holds where nothing is said.
fn idle(path: &str, planner: &DynamoPlannerConfig, rules: &mut Rules) {
    let usual = DynamoPlannerConfig::default();
    let (target, predictor) = (planner.optimization_target, planner.load_predictor);
    let with = |key: &str, now: &str, wanted: &str| {
        format!("has no effect with {key} `{now}`; leave it out, or set that to `{wanted}`")
    };
    let without =
        |key: &str| format!("has no effect without {key}; leave it out, or set that to true");
    let of_target = |wanted: OptimizationTarget| {
        (target != wanted).then(|| with("optimization_target", target.name(), wanted.name()))
    };
    let of_latencies = of_target(OptimizationTarget::Sla);
    let of_load = of_latencies
        .clone()
        .or_else(|| (!planner.scales_by_load()).then(|| without("enable_load_scaling")));
    let of_throughput = of_latencies.clone().or_else(|| {
        (!planner.scales_by_throughput()).then(|| without("enable_throughput_scaling"))
    });
    // Other targets look at what replicas have to do without being told.
    let of_looks = of_load.clone().filter(|_| target == OptimizationTarget::Sla);
    let of_logs = of_throughput.clone().or_else(|| {
        (predictor == LoadPredictor::Constant)
            .then(|| with("load_predictor", predictor.name(), LoadPredictor::Arima.name()))
    });
    let of_filter = of_throughput.clone().or_else(|| {
        (predictor != LoadPredictor::Kalman)
            .then(|| with("load_predictor", predictor.name(), LoadPredictor::Kalman.name()))
    });
    let of_thresholds = of_target(OptimizationTarget::Load);
    let is_other = |value: f64, usual: f64| (value - usual).abs() > 0.0;
    macro_rules! number {
        ($key:ident, $idle:expr) => {
            (stringify!($key), is_other(planner.$key.into(), usual.$key.into()), $idle)
        };
    }
    macro_rules! other {
        ($key:ident, $idle:expr) => {
            (stringify!($key), planner.$key != usual.$key, $idle)
        };
    }
    let settings = [
        number!(ttft_ms, &of_latencies),
        number!(itl_ms, &of_latencies),
        number!(load_adjustment_interval_seconds, &of_looks),
        number!(load_scaling_down_sensitivity, &of_load),
        number!(throughput_adjustment_interval_seconds, &of_throughput),
        number!(max_throughput_scaling_replicas, &of_throughput),
        other!(load_predictor, &of_throughput),
        other!(load_predictor_log1p, &of_logs),
        number!(kalman_q_level, &of_filter),
        number!(kalman_q_trend, &of_filter),
        number!(kalman_r, &of_filter),
        number!(kalman_min_points, &of_filter),
        other!(prefill_scale_up_queue_tokens, &of_thresholds),
        other!(prefill_scale_down_queue_tokens, &of_thresholds),
        other!(decode_scale_up_kv_rate, &of_thresholds),
        other!(decode_scale_down_kv_rate, &of_thresholds),
    ];
    for (key, _, idle) in settings.iter().filter(|(_, is_set, _)| *is_set) {
        if let Some(message) = idle {
            rules.broken(&format!("{path}.{key}"), message);
        }
    }
}

fn values(path: &str, planner: &DynamoPlannerConfig, rules: &mut Rules) {
    let path = |key: &str| format!("{path}.{key}");
    rules.positive(&path("ttft_ms"), planner.ttft_ms);
    rules.positive(&path("itl_ms"), planner.itl_ms);
    rules.count(&path("min_endpoint"), planner.min_endpoint);
    let step = planner.max_throughput_scaling_replicas;
    rules.count(&path("max_throughput_scaling_replicas"), step);
    let percent = planner.load_scaling_down_sensitivity;
    rules.check(percent <= 100, &path("load_scaling_down_sensitivity"), "at most 100", percent);
    for (key, value) in [
        ("kalman_q_level", planner.kalman_q_level),
        ("kalman_q_trend", planner.kalman_q_trend),
        ("kalman_r", planner.kalman_r),
    ] {
        rules.not_negative(&path(key), value);
    }
    let (load, throughput) =
        (planner.load_adjustment_interval_seconds, planner.throughput_adjustment_interval_seconds);
    rules.count(&path("load_adjustment_interval_seconds"), load);
    let both = planner.scales_by_load() && planner.scales_by_throughput();
    let rule = format!("at least 1, and with both ways of scaling a multiple above {load}");
    let holds =
        throughput > 0 && (!both || throughput > load && throughput.is_multiple_of(load.max(1)));
    rules.check(holds, &path("throughput_adjustment_interval_seconds"), &rule, throughput);
    let (least, most) = (planner.min_gpu_budget, planner.max_gpu_budget);
    let holds = least < 0 || most < 0 || least <= most;
    let rule = format!("at most max_gpu_budget, {most}");
    rules.check(holds, &path("min_gpu_budget"), &rule, least);
}

/// That one planner has all replicas, and a budget for the least of them.
pub(super) fn joint_rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let planner = |of: &Option<AutoscalerConfig>| {
        of.as_ref().and_then(|of| of.signal.dynamo_planner().copied())
    };
    if let Some(config) = planner(&cluster.autoscaler) {
        budget("cluster.autoscaler.signal", &config, cluster.gpus_per_replica(), rules);
        return;
    }
    let mut planned = cluster
        .groups
        .iter()
        .enumerate()
        .filter_map(|(index, group)| Some((index, group, planner(&group.autoscaler)?)));
    let Some((first, _, config)) = planned.next() else { return };
    let path = format!("cluster.groups[{first}].autoscaler.signal");
    if planned.any(|(.., other)| other != config) {
        rules.broken(&path, "one planner has all groups: its settings must be the same in each");
        return;
    }
    let roles: Vec<ReplicaRole> = cluster.groups.iter().map(|group| group.role).collect();
    let parts = [ReplicaRole::Prefill, ReplicaRole::Decode];
    let are_parts = roles.len() == 2 && parts.iter().all(|part| roles.contains(part));
    let all_planned = cluster.groups.iter().all(|group| planner(&group.autoscaler).is_some());
    if !all_planned || !(are_parts || roles == [ReplicaRole::Mixed]) {
        let message = "the planner scales one kind of replicas, or one that prefills and one that decodes, \
                       each with it as its autoscaler";
        rules.broken(&path, message);
        return;
    }
    let gpus = cluster.groups.iter().map(|group| group.in_cluster(cluster).gpus_per_replica());
    budget(&path, &config, gpus.fold(0, u32::saturating_add), rules);
}

fn budget(path: &str, planner: &DynamoPlannerConfig, gpus: u32, rules: &mut Rules) {
    let least = i64::from(gpus) * i64::from(planner.min_endpoint);
    let most = i64::from(planner.max_gpu_budget);
    let rule = format!("negative, or at least {least}, the GPUs of min_endpoint replicas");
    rules.check(most < 0 || most >= least, &format!("{path}.max_gpu_budget"), &rule, most);
}
