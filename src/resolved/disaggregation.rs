//! Rules of replicas that prefill or decode only.

use super::Rules;
use super::groups::{Asked, asked};
use crate::scenario::{
    ClusterConfig, DisaggregationConfig, EngineConfig, HandoverProtocol, LocalPrefillConfig,
    Policy, ReplicaRole, ScenarioFile, SglangConfig, TransferConfig, TransferGranularity,
    VllmConfig,
};

/// Pairs of replicas that a network is built for.
const MOST_WAYS: u64 = 1_000_000;

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let Some(parts) = &cluster.disaggregation else {
        let lonely = |role| cluster.groups.iter().position(|group| group.role == role);
        for role in [ReplicaRole::Prefill, ReplicaRole::Decode] {
            if let Some(index) = lonely(role) {
                let message = format!("`{}` needs cluster.disaggregation.transfer", role.name());
                rules.broken(&format!("cluster.groups[{index}].role"), &message);
            }
        }
        return;
    };
    if cluster.groups.is_empty() {
        count_rules(cluster, parts, rules);
    } else {
        role_rules(cluster, parts, rules);
    }
    transfer_rules(&parts.transfer, rules);
    local_rules(cluster, parts, rules);
    let asked = asked(cluster);
    let replicas = |role| {
        let of_role = asked.iter().filter(|group| group.role == role);
        of_role.map(|group| u64::from(group.cluster.replicas)).sum::<u64>()
    };
    let ways = replicas(ReplicaRole::Prefill) * replicas(ReplicaRole::Decode);
    rules.check(
        ways <= MOST_WAYS,
        "cluster.disaggregation",
        "at most 1000000 ways from a prefill replica to a decode replica",
        ways,
    );
    let mut of_engines = Rules { problems: Vec::new() };
    engine_rules(parts, &asked, &mut of_engines);
    // Groups of one engine break its rules together.
    of_engines.problems.dedup();
    rules.problems.append(&mut of_engines.problems);
    if file.workload.adapters.is_some() {
        let message = "adapters on replicas that prefill or decode only are not modelled";
        rules.broken("workload.adapters", message);
    }
}

fn count_rules(cluster: &ClusterConfig, parts: &DisaggregationConfig, rules: &mut Rules) {
    let counts =
        [("prefill_replicas", parts.prefill_replicas), ("decode_replicas", parts.decode_replicas)];
    for (key, count) in counts {
        rules.count(&format!("cluster.disaggregation.{key}"), count.unwrap_or_default());
    }
    let sum = counts.iter().try_fold(0, |sum: u32, (_, n)| sum.checked_add(n.unwrap_or_default()));
    let replicas = cluster.replicas;
    rules.check(
        sum.is_some_and(|sum| replicas == 1 || replicas == sum),
        "cluster.replicas",
        "absent, or the sum of prefill_replicas and decode_replicas",
        replicas,
    );
}

fn role_rules(cluster: &ClusterConfig, parts: &DisaggregationConfig, rules: &mut Rules) {
    let counts =
        [("prefill_replicas", parts.prefill_replicas), ("decode_replicas", parts.decode_replicas)];
    for (key, count) in counts {
        if count.is_some() {
            let message = "must be absent where cluster.groups gives roles";
            rules.broken(&format!("cluster.disaggregation.{key}"), message);
        }
    }
    for role in [ReplicaRole::Prefill, ReplicaRole::Decode] {
        if cluster.groups.iter().all(|group| group.role != role) {
            let message =
                format!("with cluster.disaggregation one must have role `{}`", role.name());
            rules.broken("cluster.groups", &message);
        }
    }
}

fn transfer_rules(transfer: &TransferConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.disaggregation.transfer.{key}");
    rules.nic(&path("nic_gb_per_s"), transfer.nic_gb_per_s);
    rules.share(&path("efficiency"), transfer.efficiency);
    rules.positive(&path("flow_gb_per_s"), transfer.flow_gb_per_s.unwrap_or(1.0));
    rules.time(&path("latency_us"), transfer.latency_us, 1e6);
    rules.brief(&path("message_us"), transfer.message_us, 1e6);
}

fn local_rules(cluster: &ClusterConfig, parts: &DisaggregationConfig, rules: &mut Rules) {
    let Some(local) = parts.local_prefill else { return };
    let path = "cluster.disaggregation.local_prefill";
    if local == LocalPrefillConfig::default() {
        let message =
            "one of max_prompt_tokens, max_new_tokens and max_prefill_queue must be given";
        rules.broken(path, message);
    }
    let asked = asked(cluster);
    if asked.iter().any(|group| group.role == ReplicaRole::Mixed) {
        let message = "is not modelled beside mixed replicas, which compute all of a request";
        rules.broken(path, message);
    }
    let lacks_cache =
        |group: &Asked| group.role == ReplicaRole::Decode && !group.cluster.engine.keeps_prefixes();
    if local.max_new_tokens.is_some() && asked.iter().any(lacks_cache) {
        let message = "reads the prefix caches of replicas that decode, and they keep none; \
                       max_prompt_tokens counts whole prompts";
        rules.broken(&format!("{path}.max_new_tokens"), message);
    }
    let decodes = asked.iter().find(|group| group.role == ReplicaRole::Decode);
    let protocol = decodes.map(|group| parts.protocol_of(&group.cluster.engine));
    if let Some(protocol) = protocol.filter(|protocol| *protocol != HandoverProtocol::Pull) {
        let message = format!(
            "needs the protocol `pull`: with `{}` decode replicas compute no prompts",
            protocol.name()
        );
        rules.broken(path, &message);
    }
}

/// What engines hand over, and that both sides keep it alike.
fn engine_rules(parts: &DisaggregationConfig, asked: &[Asked], rules: &mut Rules) {
    let mut formats = Vec::new();
    for group in asked.iter().filter(|group| group.role != ReplicaRole::Mixed) {
        let engine = group.listed.map_or_else(
            || "cluster.engine".to_owned(),
            |index| format!("cluster.groups[{index}].engine"),
        );
        let protocol = parts.protocol_of(&group.cluster.engine);
        if parts.transfer.granularity != TransferGranularity::Whole
            && protocol != HandoverProtocol::Reserve
        {
            let message = format!(
                "`{}` needs the protocol `reserve`: with `{}` the decode side asks for a KV cache \
                 once its prompt is computed",
                parts.transfer.granularity.name(),
                protocol.name()
            );
            rules.broken("cluster.disaggregation.transfer.granularity", &message);
        }
        let unit = match (protocol, &group.cluster.engine) {
            (HandoverProtocol::Pull | HandoverProtocol::Reserve, EngineConfig::VllmV1(vllm)) => {
                pulling(vllm, &engine, rules);
                vllm.block_size
            }
            (HandoverProtocol::Reserve, EngineConfig::Sglang(sglang)) => {
                reserving(sglang, &engine, rules);
                sglang.page_tokens()
            }
            (HandoverProtocol::Blocking { kv_buffer_size }, EngineConfig::VllmV0(vllm)) => {
                let path = "cluster.disaggregation.protocol.kv_buffer_size";
                rules.positive(path, kv_buffer_size);
                let transfer = &parts.transfer;
                if transfer.message_us > 0.0 || transfer.message_overhead_bytes > 0 {
                    let message = "`blocking` sends keys and values whole, not block by block";
                    rules.broken("cluster.disaggregation.transfer.message_us", message);
                }
                if vllm.enable_chunked_prefill {
                    let message = "chunks of prompts are not handed over";
                    rules.broken(&format!("{engine}.enable_chunked_prefill"), message);
                }
                1
            }
            (protocol, _) => {
                let engine = match protocol {
                    HandoverProtocol::Pull => "vllm_v1",
                    HandoverProtocol::Blocking { .. } => "vllm_v0",
                    HandoverProtocol::Reserve => "sglang or vllm_v1",
                };
                let message =
                    format!("only {engine} hands KV caches over by `{}`", protocol.name());
                return rules.broken("cluster.disaggregation.protocol", &message);
            }
        };
        let name = group.cluster.engine.name();
        formats.push((name, unit, group.cluster.kv_cache_dtype));
    }
    formats.dedup();
    if formats.len() > 1 {
        let message = "groups that prefill and groups that decode must have the same engine, \
                       block_size or page_size, and kv_cache_dtype: blocks travel as they are";
        rules.broken("cluster.groups", message);
    }
}

fn reserving(sglang: &SglangConfig, engine: &str, rules: &mut Rules) {
    if sglang.speculation.is_some() {
        let message = "speculation where other replicas decode is not modelled";
        rules.broken(&format!("{engine}.speculation"), message);
    }
    if sglang.enable_priority_scheduling {
        let message = "priorities where other replicas decode are not modelled";
        rules.broken(&format!("{engine}.enable_priority_scheduling"), message);
    }
}

fn pulling(vllm: &VllmConfig, engine: &str, rules: &mut Rules) {
    if vllm.policy == Policy::Priority {
        let message = "`priority` where other replicas decode is not modelled";
        rules.broken(&format!("{engine}.policy"), message);
    }
    if vllm.speculation.is_some() {
        let message = "speculation where other replicas decode is not modelled";
        rules.broken(&format!("{engine}.speculation"), message);
    }
}
