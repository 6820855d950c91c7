//! The rules of routers under the names of their makers. What is not simulated is refused by name.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::resolved::Rules;
use crate::resolved::groups::asked;
use crate::scenario::{
    ClusterConfig, GroupConfig, HandoverProtocol, MakersRouter, ReplicaRole, SglangRouterConfig,
    SglangRouterPolicy, VllmRouterConfig,
};

/// How settings begin by which a router finds out which replicas are dead, and tries again.
const FINDS_OUT: [&str; 3] = ["retry_", "cb_", "health_"];

pub(super) fn rules(router: &MakersRouter, cluster: &ClusterConfig, rules: &mut Rules) {
    match router {
        MakersRouter::Sglang(config) => sglang(config, cluster, rules),
        MakersRouter::VllmRouter(config) => vllm(config, cluster, rules),
    }
}

fn sglang(config: &SglangRouterConfig, cluster: &ClusterConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.router.sglang.{key}");
    thresholds("sglang", config.cache_threshold, config.balance_rel_threshold, rules);
    for (key, value) in [
        ("eviction_interval_secs", config.eviction_interval_secs),
        ("max_tree_size", config.max_tree_size),
        ("bucket_adjust_interval_secs", config.bucket_adjust_interval_secs),
        ("worker_startup_check_interval", config.worker_startup_check_interval),
    ] {
        rules.check(value >= 1, &path(key), "at least 1", value);
    }
    finds_out("sglang", config, rules);
    let most = config.max_concurrent_requests;
    let holds = most == -1 || most >= 1;
    rules.check(holds, &path("max_concurrent_requests"), "-1 for no limit, or at least 1", most);
    if most < 1 && config.rate_limit_tokens_per_second.is_some() {
        let message = "is the rate of the limit: needs max_concurrent_requests";
        rules.broken(&path("rate_limit_tokens_per_second"), message);
    }
    let rates = (config.rate_limit_tokens_per_second, config.queue_timeout_secs);
    limit("sglang", rates, most >= 1 && cluster.gateway.is_some(), rules);
    let policies = [
        ("policy", Some(config.policy)),
        ("prefill_policy", config.prefill_policy),
        ("decode_policy", config.decode_policy),
    ];
    for (key, policy) in policies {
        if policy == Some(SglangRouterPolicy::PrefixHash) {
            let message =
                "`prefix_hash` has no tokens in HTTP mode: the router refuses every request";
            rules.broken(&path(key), message);
        }
        let is_prefill = key == "prefill_policy" && cluster.disaggregation.is_some();
        if policy == Some(SglangRouterPolicy::Bucket) && !is_prefill {
            let message =
                "`bucket` is a policy of replicas that prefill: `prefill_policy` may name it";
            rules.broken(&path(key), message);
        }
    }
    if cluster.disaggregation.is_none() {
        for (key, policy) in &policies[1..] {
            if policy.is_some() {
                rules.broken(&path(key), "needs cluster.disaggregation");
            }
        }
    }
    pairs(cluster, rules);
}

/// What pairs of replicas need.
fn pairs(cluster: &ClusterConfig, rules: &mut Rules) {
    let Some(parts) = &cluster.disaggregation else { return };
    let asked = asked(cluster);
    let is_pulled = asked.iter().any(|group| {
        let protocol = parts.protocol_of(&group.cluster.engine);
        group.role == ReplicaRole::Decode && protocol != HandoverProtocol::Reserve
    });
    if is_pulled {
        let message = "`sglang` sends a request to both of its replicas at once, which needs the \
                       protocol `reserve` in cluster.disaggregation";
        rules.broken("cluster.router", message);
    }
    if asked.iter().any(|group| group.role == ReplicaRole::Mixed) {
        let message = "`sglang` knows no mixed replicas beside those that prefill and decode";
        rules.broken("cluster.router", message);
    }
    let scales = |group: &GroupConfig| group.autoscaler.is_some();
    if cluster.autoscaler.is_some() || cluster.groups.iter().any(scales) {
        let message = "`sglang` with cluster.disaggregation and an autoscaler is not modelled";
        rules.broken("cluster.router", message);
    }
}

fn vllm(config: &VllmRouterConfig, cluster: &ClusterConfig, rules: &mut Rules) {
    thresholds("vllm_router", config.cache_threshold, config.balance_rel_threshold, rules);
    finds_out("vllm_router", config, rules);
    let most = config.max_concurrent_requests;
    let path = "cluster.router.vllm_router.max_concurrent_requests";
    rules.check(most >= 1, path, "at least 1", most);
    let rates = (config.rate_limit_tokens_per_second, config.queue_timeout_secs);
    let is_doubled = config.limits_requests() && cluster.gateway.is_some();
    limit("vllm_router", rates, is_doubled, rules);
    if cluster.disaggregation.is_some() {
        let message = "`vllm_router` with cluster.disaggregation is not modelled";
        rules.broken("cluster.router", message);
    }
}

fn thresholds(name: &str, cache: f64, factor: f64, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.router.{name}.{key}");
    let holds = (0.0..=1.0).contains(&cache);
    rules.check(holds, &path("cache_threshold"), "from 0 to 1", cache);
    let holds = factor >= 1.0 && factor.is_finite();
    rules.check(holds, &path("balance_rel_threshold"), "a finite number of at least 1", factor);
}

/// The rules of retries, breakers and checks.
fn finds_out(name: &str, config: &impl Serialize, rules: &mut Rules) {
    for (key, value) in table(config) {
        let (holds, rule) = match (key.as_str(), value.as_f64()) {
            ("retry_backoff_multiplier", Some(factor)) => {
                (factor >= 1.0 && (factor as f32).is_finite(), "a finite number of at least 1")
            }
            ("retry_jitter_factor", Some(share)) => ((0.0..=1.0).contains(&share), "from 0 to 1"),
            (key, count) if FINDS_OUT.iter().any(|start| key.starts_with(start)) => {
                (count.is_some_and(|count| count >= 1.0), "at least 1")
            }
            _ => continue,
        };
        rules.check(holds, &format!("cluster.router.{name}.{key}"), rule, &value);
    }
}

/// The limit to requests: the tokens that come each second, and the seconds that a request may wait for one.
fn limit(name: &str, (rate, timeout): (Option<u64>, u64), is_doubled: bool, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.router.{name}.{key}");
    if let Some(rate) = rate {
        rules.check(rate >= 1, &path("rate_limit_tokens_per_second"), "at least 1", rate);
    }
    rules.check(timeout >= 1, &path("queue_timeout_secs"), "at least 1", timeout);
    if is_doubled {
        let message =
            "limits requests beside cluster.gateway, which is not modelled: take one of them";
        rules.broken(&path("max_concurrent_requests"), message);
    }
}

fn table(config: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(table)) => table,
        _ => Map::new(),
    }
}
