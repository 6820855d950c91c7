//! Rules of autoscalers.

use super::{Rules, dynamo_planner};
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
    let listed = file.cluster.groups.iter_mut().map(|group| &mut group.autoscaler);
    for autoscaler in listed.chain([&mut file.cluster.autoscaler]).flatten() {
        autoscaler.initial_replicas = Some(autoscaler.initial());
    }
}

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    if let Some(autoscaler) = &cluster.autoscaler {
        if !cluster.groups.is_empty() || cluster.disaggregation.is_some() {
            let message = "replicas of several kinds are scaled apart: give each kind its own, \
                           cluster.groups[].autoscaler";
            return rules.broken("cluster.autoscaler", message);
        }
        let place = Place { path: "cluster.autoscaler".to_owned(), role: ReplicaRole::Mixed, file };
        place.check(autoscaler, ("cluster.replicas", cluster.replicas), rules);
        dynamo_planner::rules("cluster.autoscaler", autoscaler, cluster, rules);
    }
    for (index, group) in cluster.groups.iter().enumerate() {
        let Some(autoscaler) = &group.autoscaler else { continue };
        let group_path = format!("cluster.groups[{index}]");
        let place = Place { path: format!("{group_path}.autoscaler"), role: group.role, file };
        place.check(autoscaler, (&format!("{group_path}.replicas"), group.replicas), rules);
        dynamo_planner::rules(&place.path, autoscaler, &group.in_cluster(cluster), rules);
    }
    dynamo_planner::joint_rules(file, rules);
}

/// An autoscaler in its file.
struct Place<'a> {
    path: String,
    role: ReplicaRole,
    file: &'a ScenarioFile,
}

impl Place<'_> {
    fn check(&self, autoscaler: &AutoscalerConfig, replicas: (&str, u32), rules: &mut Rules) {
        self.gateway(autoscaler, rules);
        counts(&self.path, autoscaler, replicas, rules);
        times(&self.path, autoscaler, rules);
        signal(&self.path, autoscaler, rules);
        rates(&self.path, autoscaler, rules);
    }

    /// What only requests that wait at the gateway make possible.
    fn gateway(&self, autoscaler: &AutoscalerConfig, rules: &mut Rules) {
        let gateway = self.file.cluster.gateway.as_ref();
        let holds = gateway.is_some_and(|gateway| {
            gateway.holds_requests() && gateway.max_waiting.is_none_or(|most| most > 0)
        });
        let decodes = self.role == ReplicaRole::Decode;
        let asks = [
            ("min_replicas", "0", autoscaler.min_replicas == 0),
            ("signal", autoscaler.signal.name(), autoscaler.signal.counts_gateway()),
        ];
        for (key, value, _) in asks.iter().filter(|(.., is_asked)| *is_asked) {
            let path = format!("{}.{key}", self.path);
            if decodes {
                let message = format!(
                    "`{value}` is for replicas that requests wait for at the gateway; they are not \
                     sent from there to replicas that decode"
                );
                rules.broken(&path, &message);
            } else if !holds {
                let message = format!(
                    "`{value}` needs a cluster.gateway where requests wait: \
                     max_outstanding_per_replica, or a rate_limit with over = \"wait\""
                );
                rules.broken(&path, &message);
            }
        }
    }
}

fn rates(path: &str, autoscaler: &AutoscalerConfig, rules: &mut Rules) {
    let path = |key: &str| format!("{path}.{key}");
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

fn counts(
    path: &str,
    autoscaler: &AutoscalerConfig,
    (replicas_path, replicas): (&str, u32),
    rules: &mut Rules,
) {
    let absent = if replicas_path == "cluster.replicas" { "absent, or " } else { "" };
    let rule = format!("{absent}max_replicas of {path}");
    let path = |key: &str| format!("{path}.{key}");
    let AutoscalerConfig { min_replicas, max_replicas, .. } = *autoscaler;
    rules.count(&path("max_replicas"), max_replicas);
    rules.check(replicas == max_replicas.max(1), replicas_path, &rule, replicas);
    let rule = format!("at least min_replicas, {min_replicas}");
    rules.check(max_replicas >= min_replicas, &path("max_replicas"), &rule, max_replicas);
    if let Some(initial) = autoscaler.initial_replicas {
        let rule = format!("from {min_replicas} to {max_replicas}, min_replicas to max_replicas");
        let holds = (min_replicas..=max_replicas).contains(&initial);
        rules.check(holds, &path("initial_replicas"), &rule, initial);
    }
    let limits = [("max_added", autoscaler.max_added), ("max_removed", autoscaler.max_removed)];
    for (key, limit) in limits {
        rules.count(&path(key), limit.unwrap_or(1));
    }
}

fn times(path: &str, autoscaler: &AutoscalerConfig, rules: &mut Rules) {
    /// Below, a run would look more often than it computes.
    const INTERVAL_MIN_S: f64 = 0.001;
    let path = |key: &str| format!("{path}.{key}");
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

fn signal(at: &str, autoscaler: &AutoscalerConfig, rules: &mut Rules) {
    let (signal, whole) = (&autoscaler.signal, format!("{at}.signal"));
    let path = |key: &str| format!("{whole}.{key}");
    match *signal {
        SignalConfig::OutstandingPerReplica { target }
        | SignalConfig::GatewayQueuePerReplica { target }
        | SignalConfig::ConcurrencyPerReplica { target }
        | SignalConfig::WaitingPerReplica { target } => rules.positive(&path("target"), target),
        SignalConfig::KvUsage { target } | SignalConfig::Utilisation { target } => {
            rules.share(&path("target"), target);
        }
        SignalConfig::SloHeadroom { ttft_ms, tpot_ms, target, spare } => {
            rules.share(&path("target"), target);
            let holds = spare > 0.0 && spare < 1.0;
            rules.check(holds, &path("spare"), "above 0 and below 1", spare);
            if autoscaler.tolerance.to_bits() != AutoscalerConfig::TOLERANCE.to_bits() {
                let message =
                    "has no effect with `slo_headroom`, whose margin is `spare`; leave it out";
                rules.broken(&format!("{at}.tolerance"), message);
            }
            for (key, limit) in [("ttft_ms", ttft_ms), ("tpot_ms", tpot_ms)] {
                rules.positive(&path(key), limit.unwrap_or(1.0));
            }
            if ttft_ms.is_none() && tpot_ms.is_none() {
                let message = "ttft_ms or tpot_ms, or both, must be given";
                rules.broken(&whole, message);
            }
        }
        // Its rules are in a file of their own.
        SignalConfig::DynamoPlanner(_) => {}
    }
}
