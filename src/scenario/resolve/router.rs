//! The rules of routers.

use super::Rules;
use super::groups::{Asked, asked};
use crate::scenario::{ClusterConfig, ReplicaRole, RouterConfig};

/// Tokens that a tree of the router may hold.
const TREE_TOKENS: std::ops::RangeInclusive<u32> = 1..=1 << 30;

pub(super) fn rules(cluster: &ClusterConfig, rules: &mut Rules) {
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
            tree(config.max_tree_tokens, rules);
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
        RouterConfig::RoundRobin {}
        | RouterConfig::Random {}
        | RouterConfig::LeastOutstandingRequests {}
        | RouterConfig::LeastOutstandingTokens {}
        | RouterConfig::PowerOfTwoChoices {}
        | RouterConfig::SessionSticky {} => {}
    }
}

fn tree(tokens: u32, rules: &mut Rules) {
    let holds = TREE_TOKENS.contains(&tokens);
    rules.check(holds, "cluster.router.max_tree_tokens", "from 1 to 1073741824", tokens);
}
