//! Rules of replicas that prefill or decode only.

use super::Rules;
use crate::scenario::{ClusterConfig, EngineConfig, ScenarioFile};

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let Some(parts) = &file.cluster.disaggregation else { return };
    let path = |key: &str| format!("cluster.disaggregation.{key}");
    rules.count(&path("prefill_replicas"), parts.prefill_replicas);
    rules.count(&path("decode_replicas"), parts.decode_replicas);
    let replicas = file.cluster.replicas;
    let holds = replicas == 1 || Some(replicas) == parts.replicas();
    rules.check(
        holds,
        "cluster.replicas",
        "absent, or the sum of prefill_replicas and decode_replicas",
        replicas,
    );
    let transfer = &parts.transfer;
    rules.positive(&path("transfer.nic_gb_per_s"), transfer.nic_gb_per_s);
    rules.share(&path("transfer.efficiency"), transfer.efficiency);
    rules.positive(&path("transfer.flow_gb_per_s"), transfer.flow_gb_per_s.unwrap_or(1.0));
    rules.not_negative(&path("transfer.latency_us"), transfer.latency_us);
    if !matches!(file.cluster.engine, EngineConfig::VllmV1(_)) {
        let message = "only vllm_v1 hands KV caches over; other engines are not modelled so";
        rules.broken("cluster.disaggregation", message);
    }
    if file.workload.adapters.is_some() {
        let message = "adapters on replicas that prefill or decode only are not modelled";
        rules.broken("workload.adapters", message);
    }
}

/// Counts the replicas.
pub(super) fn resolve(cluster: &mut ClusterConfig) {
    if let Some(replicas) = cluster.disaggregation.and_then(|parts| parts.replicas()) {
        cluster.replicas = replicas;
    }
}
