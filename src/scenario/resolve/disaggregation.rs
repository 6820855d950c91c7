//! Rules of replicas that prefill or decode only.

use super::Rules;
use crate::scenario::{
    ClusterConfig, EngineConfig, HandoverProtocol, Policy, ScenarioFile, VllmConfig,
};

/// Pairs of replicas that a network is built for.
const MOST_WAYS: u64 = 1_000_000;

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let Some(parts) = &file.cluster.disaggregation else { return };
    let path = |key: &str| format!("cluster.disaggregation.{key}");
    rules.count(&path("prefill_replicas"), parts.prefill_replicas);
    rules.count(&path("decode_replicas"), parts.decode_replicas);
    let replicas = file.cluster.replicas;
    let holds = parts.replicas().is_some_and(|sum| replicas == 1 || replicas == sum);
    rules.check(
        holds,
        "cluster.replicas",
        "absent, or the sum of prefill_replicas and decode_replicas",
        replicas,
    );
    let ways = u64::from(parts.prefill_replicas) * u64::from(parts.decode_replicas);
    rules.check(
        ways <= MOST_WAYS,
        "cluster.disaggregation",
        "at most 1000000 ways from a prefill replica to a decode replica",
        ways,
    );
    let transfer = &parts.transfer;
    rules.positive(&path("transfer.nic_gb_per_s"), transfer.nic_gb_per_s);
    rules.share(&path("transfer.efficiency"), transfer.efficiency);
    rules.positive(&path("transfer.flow_gb_per_s"), transfer.flow_gb_per_s.unwrap_or(1.0));
    rules.time(&path("transfer.latency_us"), transfer.latency_us / 1e6);
    match (&parts.protocol, &file.cluster.engine) {
        (HandoverProtocol::Pull, EngineConfig::VllmV1(vllm)) => pulling(vllm, rules),
        (HandoverProtocol::Pull, _) => {
            let message = "only vllm_v1 hands KV caches over by `pull`, the default";
            rules.broken(&path("protocol"), message);
        }
        (HandoverProtocol::Blocking { kv_buffer_size }, EngineConfig::VllmV0(vllm)) => {
            rules.positive(&path("protocol.kv_buffer_size"), *kv_buffer_size);
            if vllm.enable_chunked_prefill {
                let message = "chunks of prompts are not handed over";
                rules.broken("cluster.engine.enable_chunked_prefill", message);
            }
        }
        (HandoverProtocol::Blocking { .. }, _) => {
            let message = "only vllm_v0 hands KV caches over by `blocking`";
            rules.broken(&path("protocol"), message);
        }
    }
    if file.workload.adapters.is_some() {
        let message = "adapters on replicas that prefill or decode only are not modelled";
        rules.broken("workload.adapters", message);
    }
}

fn pulling(vllm: &VllmConfig, rules: &mut Rules) {
    if vllm.policy == Policy::Priority {
        let message = "`priority` where other replicas decode is not modelled";
        rules.broken("cluster.engine.policy", message);
    }
    if vllm.speculation.is_some() {
        let message = "speculation where other replicas decode is not modelled";
        rules.broken("cluster.engine.speculation", message);
    }
}

/// Counts the replicas.
pub(super) fn resolve(cluster: &mut ClusterConfig) {
    if let Some(replicas) = cluster.disaggregation.and_then(|parts| parts.replicas()) {
        cluster.replicas = replicas;
    }
}
