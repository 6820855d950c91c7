//! The rules of routers.

mod conditional;
mod makers;

use super::groups::{Asked, ReplicaGroup, asked};
use super::{Rules, ScenarioError};
use crate::scenario::{
    AdapterKnowledge, ClusterConfig, DynamoConfig, ReplicaRole, RouterConfig, RouterTimeConfig,
};

/// Tokens that a tree of the router may hold.
const TREE_TOKENS: std::ops::RangeInclusive<u32> = 1..=1 << 30;

/// Fills in the measured law of kernels.
pub(super) fn settle(router: &mut RouterConfig) {
    if let RouterConfig::RankAware(config) = router {
        config.alpha_ms = Some(config.alpha_ms());
        config.beta_ms = Some(config.beta_ms());
    }
}

/// What chooses by adapters needs some.
fn by_adapter(name: &str, cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    if !has_adapters {
        let message = format!("`{name}` chooses by adapters, and there are no workload.adapters");
        rules.broken("cluster.router", &message);
    }
    if cluster.disaggregation.is_some() {
        let message = format!("`{name}` with cluster.disaggregation is not modelled");
        rules.broken("cluster.router", &message);
    }
}

/// The rules of what the router's process takes.
fn time(cluster: &ClusterConfig, rules: &mut Rules) {
    let Some(time) = cluster.router_time else { return };
    rules.brief("cluster.router_time.per_request_us", time.per_request_us, 1e6);
    let holds = (1..=RouterTimeConfig::THREADS_MAX).contains(&time.threads);
    rules.check(holds, "cluster.router_time.threads", "from 1 to 1024", time.threads);
    if cluster.gateway.is_some() {
        let message = "is not modelled beside cluster.gateway, which takes no time: take one of them, \
                       or api_delay_ms";
        rules.broken("cluster.router_time", message);
    }
}

pub(super) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    time(cluster, rules);
    match &cluster.router {
        RouterConfig::PrefixAware(config) => {
            let holds = (0.0..=1.0).contains(&config.cache_threshold);
            let path = "cluster.router.cache_threshold";
            rules.check(holds, path, "from 0 to 1", config.cache_threshold);
            let factor = config.balance_rel_threshold;
            let holds = factor >= 1.0 && factor.is_finite();
            let path = "cluster.router.balance_rel_threshold";
            rules.check(holds, path, "a finite number of at least 1", factor);
            tree(config.max_tree_tokens, rules);
        }
        RouterConfig::Weighted(config) => {
            let weights = [
                ("queue_weight", config.queue_weight),
                ("kv_utilization_weight", config.kv_utilization_weight),
                ("prefix_weight", config.prefix_weight),
                ("running_requests_weight", config.running_requests_weight),
                ("load_aware_weight", config.load_aware_weight),
                ("active_request_weight", config.active_request_weight),
                ("token_load_weight", config.token_load_weight),
                ("no_hit_lru_weight", config.no_hit_lru_weight),
            ];
            for (key, weight) in weights {
                rules.not_negative(&format!("cluster.router.{key}"), weight);
            }
            let has_weight = weights.iter().any(|&(_, weight)| weight != 0.0);
            if !has_weight {
                rules.broken("cluster.router", "one weight must be above 0, all are 0");
            }
            let interval = config.signal_interval_ms;
            rules.time("cluster.router.signal_interval_ms", interval, 1e3);
            let blocks = config.lru_capacity_per_server;
            let holds = (1..=1 << 26).contains(&blocks);
            let path = "cluster.router.lru_capacity_per_server";
            rules.check(holds, path, "from 1 to 67108864", blocks);
        }
        RouterConfig::PrefixExact(config) => {
            let weight = config.overlap_score_weight;
            rules.not_negative("cluster.router.overlap_score_weight", weight);
            let lacks_cache = |group: &Asked| {
                group.role == ReplicaRole::Decode || !group.cluster.engine.keeps_prefixes()
            };
            if asked(cluster).iter().all(lacks_cache) {
                let message = "`prefix_exact` reads prefix caches, and no replica that requests are sent \
                               to first keeps one";
                rules.broken("cluster.router", message);
            }
            rules.time("cluster.router.event_interval_ms", config.event_interval_ms, 1e3);
        }
        RouterConfig::LatencyPredicting(config) => {
            let path = |key: &str| format!("cluster.router.{key}");
            if cluster.disaggregation.is_some() {
                let message = "`latency_predicting` with cluster.disaggregation is not modelled: it predicts \
                               prefill and decode on one replica";
                rules.broken("cluster.router", message);
            }
            rules.not_negative(&path("ttft_weight"), config.ttft_weight);
            rules.not_negative(&path("tpot_weight"), config.tpot_weight);
            if config.ttft_weight == 0.0 && config.tpot_weight == 0.0 {
                rules.broken("cluster.router", "one weight must be above 0, both are 0");
            }
            rules.positive(&path("slo_ttft_ms"), config.slo_ttft_ms.unwrap_or(1.0));
            rules.positive(&path("slo_tpot_ms"), config.slo_tpot_ms.unwrap_or(1.0));
            rules.time(&path("signal_interval_ms"), config.signal_interval_ms, 1e3);
        }
        RouterConfig::AdapterAffinity(config) => {
            by_adapter("adapter_affinity", cluster, has_adapters, rules);
            match config.knowledge {
                AdapterKnowledge::Reported { interval_ms } => {
                    rules.time("cluster.router.knowledge.interval_ms", interval_ms, 1e3);
                }
                AdapterKnowledge::Sent { adapters } => {
                    rules.count("cluster.router.knowledge.adapters", adapters);
                }
            }
        }
        RouterConfig::RankAware(config) => {
            by_adapter("rank_aware", cluster, has_adapters, rules);
            let path = |key: &str| format!("cluster.router.{key}");
            rules.not_negative(&path("alpha_ms"), config.alpha_ms());
            rules.not_negative(&path("beta_ms"), config.beta_ms());
            rules.positive(&path("slo_ms"), config.slo_ms);
            rules.positive(&path("mean_output_tokens"), config.mean_output_tokens);
            rules.time(&path("signal_interval_ms"), config.signal_interval_ms, 1e3);
        }
        RouterConfig::DloraDispatch(config) => {
            by_adapter("dlora_dispatch", cluster, has_adapters, rules);
            rules.count("cluster.router.batch_size", config.batch_size);
            rules.not_negative("cluster.router.merged_cost", config.merged_cost);
        }
        RouterConfig::Dynamo(config) => dynamo(config, cluster, rules),
        RouterConfig::Makers(router) => makers::rules(router, cluster, rules),
        RouterConfig::RoundRobin {}
        | RouterConfig::Random {}
        | RouterConfig::LeastOutstandingRequests {}
        | RouterConfig::LeastOutstandingTokens {}
        | RouterConfig::PowerOfTwoChoices {}
        | RouterConfig::SessionSticky {} => {}
    }
}

/// The rules of Dynamo's KV router, and what of it is not modelled here.
fn dynamo(config: &DynamoConfig, cluster: &ClusterConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.router.dynamo.{key}");
    if let Err((key, rule)) = config.check() {
        rules.broken(&path(key), &rule);
    }
    if config.conditional_disagg.is_some() {
        conditional::rules(config, cluster, rules);
    }
    let mut refuse = |path: &str, what: &str| {
        rules.broken(path, &format!("{what} is not modelled"));
    };
    if config.router_track_output_blocks {
        refuse(&path("router_track_output_blocks"), "what answers take while they are generated");
    }
    if config.use_kv_events && cluster.kv_tiers.is_some() {
        let what = "with `false` the router goes by what it sent; that cluster.kv_tiers tell what they hold";
        refuse(&path("use_kv_events"), what);
    }
    if cluster.lora.as_ref().is_some_and(|lora| lora.migration.is_some()) {
        refuse("cluster.router", "`dynamo` with cluster.lora.migration");
    }
    let all = asked(cluster);
    let is_mixed = |group: &Asked| group.role == ReplicaRole::Mixed;
    if cluster.disaggregation.is_some() && all.iter().any(is_mixed) {
        refuse("cluster.router", "`dynamo` with replicas that do all of a request beside others");
    }
    if config.holds_requests() {
        let key = if config.policy.is_some() { "policy" } else { "router_queue_threshold" };
        if cluster.gateway.is_some() {
            refuse(&path(key), "a queue at the router behind that of cluster.gateway");
        }
        let models = || all.iter().map(|group| &group.cluster.model);
        if models().any(|model| models().next() != Some(model)) {
            refuse(&path(key), "a queue at the router of several models");
        }
    }
}

/// Fills in the block size of a router that counts in blocks, which is that of the engines.
pub(super) fn settle_blocks(
    router: &mut RouterConfig,
    groups: &[ReplicaGroup],
) -> Result<(), ScenarioError> {
    let RouterConfig::Dynamo(config) = router else { return Ok(()) };
    let path = "cluster.router.dynamo.kv_cache_block_size";
    let mut sizes = groups.iter().map(|group| group.settings.block_size());
    let size = sizes.next().unwrap_or(1);
    let asked = config.kv_cache_block_size.unwrap_or(size);
    if let Some(other) = sizes.chain([asked]).find(|other| *other != size) {
        let problem = format!("must be that of all engines: there are {size} and {other}");
        return Err(ScenarioError::at(path, problem));
    }
    config.kv_cache_block_size = Some(size);
    Ok(())
}

fn tree(tokens: u32, rules: &mut Rules) {
    let holds = TREE_TOKENS.contains(&tokens);
    rules.check(holds, "cluster.router.max_tree_tokens", "from 1 to 1073741824", tokens);
}
