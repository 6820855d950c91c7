//! Rules of autoscalers.

use super::Rules;
use crate::scenario::{AutoscalerConfig, ReplicaRole, ScenarioFile, SignalConfig};

/// The replicas are as many as there may be.
pub(super) fn count_replicas(file: &mut ScenarioFile) {
    if let Some(autoscaler) = &file.cluster.autoscaler
        && file.cluster.replicas == 1
    {
        file.cluster.replicas = autoscaler.max_replicas.max(1);
    }
}

/// Writes out what is taken where nothing is said.
pub(super) fn settle(file: &mut ScenarioFile) {
    if let Some(autoscaler) = &mut file.cluster.autoscaler {
        autoscaler.initial_replicas = Some(autoscaler.initial());
    }
}

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let Some(autoscaler) = &cluster.autoscaler else { return };
    let has_roles = cluster.groups.iter().any(|group| group.role != ReplicaRole::Mixed);
    if cluster.disaggregation.is_some() || has_roles {
        let message = "is not modelled where replicas prefill or decode only";
        rules.broken("cluster.autoscaler", message);
    } else if !cluster.groups.is_empty() {
        rules.broken("cluster.autoscaler", "is not modelled where cluster.groups lists replicas");
    }
    let others = [
        ("gateway, whose waiting requests it does not see", cluster.gateway.is_some()),
        ("kv_tiers, which replicas that come and go would lose", cluster.kv_tiers.is_some()),
    ];
    for (what, _) in others.iter().filter(|(_, is_given)| *is_given) {
        rules
            .broken("cluster.autoscaler", &format!("is not modelled together with cluster.{what}"));
    }
    counts(autoscaler, cluster.replicas, rules);
    times(autoscaler, rules);
    signal(&autoscaler.signal, rules);
    let path = |key: &str| format!("cluster.autoscaler.{key}");
    let rates = [
        ("weights_gib_per_s", autoscaler.weights_gib_per_s),
        ("weights_source_gib_per_s", autoscaler.weights_source_gib_per_s),
    ];
    for (key, rate) in rates {
        // What a link of the network carries.
        let holds = rate.is_none_or(|rate| (1e-6..=2e5).contains(&rate));
        rules.check(holds, &path(key), "from 0.000001 to 200000 GiB/s", rate.unwrap_or_default());
    }
}

fn counts(autoscaler: &AutoscalerConfig, replicas: u32, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.autoscaler.{key}");
    let AutoscalerConfig { min_replicas, max_replicas, .. } = *autoscaler;
    rules.count(&path("min_replicas"), min_replicas);
    let rule = format!("at least min_replicas, {min_replicas}");
    rules.check(max_replicas >= min_replicas, &path("max_replicas"), &rule, max_replicas);
    if let Some(initial) = autoscaler.initial_replicas {
        let rule = format!("from {min_replicas} to {max_replicas}, min_replicas to max_replicas");
        let holds = (min_replicas..=max_replicas).contains(&initial);
        rules.check(holds, &path("initial_replicas"), &rule, initial);
    }
    let rule = "absent, or max_replicas of cluster.autoscaler";
    rules.check(replicas == max_replicas.max(1), "cluster.replicas", rule, replicas);
    let limits = [("max_added", autoscaler.max_added), ("max_removed", autoscaler.max_removed)];
    for (key, limit) in limits {
        rules.count(&path(key), limit.unwrap_or(1));
    }
}

fn times(autoscaler: &AutoscalerConfig, rules: &mut Rules) {
    /// Below, a run would look more often than it computes.
    const INTERVAL_MIN_S: f64 = 0.001;
    let path = |key: &str| format!("cluster.autoscaler.{key}");
    let interval = autoscaler.interval_s;
    let holds = (INTERVAL_MIN_S..=1e9).contains(&interval);
    rules.check(holds, &path("interval_s"), "from 0.001 to 10⁹ seconds", interval);
    let windows = [
        ("stabilisation_up_s", autoscaler.stabilisation_up_s),
        ("stabilisation_down_s", autoscaler.stabilisation_down_s),
    ];
    for (key, window) in windows {
        rules.time(&path(key), window, 1.0);
        if window > 0.0 && window < interval {
            let rule = format!("0, or at least interval_s, {interval}");
            rules.check(false, &path(key), &rule, window);
        }
    }
    rules.time(&path("provisioning_s"), autoscaler.provisioning_s, 1.0);
    let holds = (0.0..1.0).contains(&autoscaler.tolerance);
    rules.check(holds, &path("tolerance"), "at least 0 and below 1", autoscaler.tolerance);
}

fn signal(signal: &SignalConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.autoscaler.signal.{key}");
    match *signal {
        SignalConfig::OutstandingPerReplica { target }
        | SignalConfig::WaitingPerReplica { target } => rules.positive(&path("target"), target),
        SignalConfig::KvUsage { target } | SignalConfig::Utilisation { target } => {
            rules.share(&path("target"), target);
        }
        SignalConfig::SloHeadroom { ttft_ms, tpot_ms, target, spare } => {
            rules.share(&path("target"), target);
            let holds = spare > 0.0 && spare < 1.0;
            rules.check(holds, &path("spare"), "above 0 and below 1", spare);
            for (key, limit) in [("ttft_ms", ttft_ms), ("tpot_ms", tpot_ms)] {
                rules.positive(&path(key), limit.unwrap_or(1.0));
            }
            if ttft_ms.is_none() && tpot_ms.is_none() {
                let message = "ttft_ms or tpot_ms, or both, must be given";
                rules.broken("cluster.autoscaler.signal", message);
            }
        }
    }
}
