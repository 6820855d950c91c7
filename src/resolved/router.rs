//! The rules of routers.

mod makers;

use super::Rules;
use super::groups::{Asked, asked};
use crate::scenario::{AdapterKnowledge, ClusterConfig, ReplicaRole, RouterConfig};

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

pub(super) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
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
        RouterConfig::Makers(router) => makers::rules(router, cluster, rules),
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
