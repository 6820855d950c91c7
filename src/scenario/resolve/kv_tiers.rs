//! Rules of KV memory below that of the GPUs.

use super::{Rules, ScenarioError, fail};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::scenario::{ClusterConfig, EngineConfig, KvTiersConfig, ScenarioFile, TierFetch};

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let Some(tiers) = &cluster.kv_tiers else { return };
    if cluster.disaggregation.is_some() {
        let message = "replicas that prefill or decode only have no tiers in this model";
        rules.broken("cluster.kv_tiers", message);
    }
    if !cluster.groups.is_empty() {
        rules.broken("cluster.kv_tiers", "tiers of cluster.groups are not modelled");
    }
    match &cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            if !vllm.enable_prefix_caching {
                let message = "cluster.kv_tiers needs prefix caching";
                rules.broken("cluster.engine.enable_prefix_caching", message);
            }
            if vllm.speculation.is_some() {
                let message = "speculation with cluster.kv_tiers is not modelled";
                rules.broken("cluster.engine.speculation", message);
            }
            if vllm.block_size > 0 {
                let chunk = tiers.chunk_tokens;
                let holds = chunk > 0 && chunk.is_multiple_of(vllm.block_size);
                let rule = format!("a multiple of cluster.engine.block_size ({})", vllm.block_size);
                rules.check(holds, "cluster.kv_tiers.chunk_tokens", &rule, chunk);
            }
        }
        EngineConfig::Sglang(_) => {
            let message = "HiCache, the tiers of `sglang`, is not modelled; `vllm_v1` has tiers";
            rules.broken("cluster.kv_tiers", message);
        }
        _ => rules.broken("cluster.kv_tiers", "only `vllm_v1` has tiers"),
    }
    tier_rules(tiers, rules);
}

fn tier_rules(tiers: &KvTiersConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.kv_tiers.{key}");
    if let Some(rate) = tiers.pcie_gb_per_s {
        rules.nic(&path("pcie_gb_per_s"), rate);
    }
    rules.brief(&path("latency_us"), tiers.latency_us, 1e6);
    if tiers.fetch == TierFetch::MinTokens(0) {
        rules.broken(&path("fetch.min_tokens"), "must be at least 1, got 0");
    }
    if tiers.host.is_none() && tiers.disk.is_none() && tiers.pool.is_none() {
        rules.broken("cluster.kv_tiers", "needs a `host`, a `disk` or a `pool`");
    }
    if let Some(host) = &tiers.host {
        rules.not_negative(&path("host.memory_gib"), host.memory_gib);
    }
    if let Some(disk) = &tiers.disk {
        rules.not_negative(&path("disk.capacity_gib"), disk.capacity_gib);
        rules.nic(&path("disk.read_gb_per_s"), disk.read_gb_per_s);
        rules.nic(&path("disk.write_gb_per_s"), disk.write_gb_per_s);
    }
    if let Some(pool) = &tiers.pool {
        rules.not_negative(&path("pool.memory_gib"), pool.memory_gib);
        rules.nic(&path("pool.nic_gb_per_s"), pool.nic_gb_per_s);
        if let Some(rate) = pool.servers_gb_per_s {
            rules.nic(&path("pool.servers_gb_per_s"), rate);
        }
    }
}

/// Fills in what depends on the GPU.
pub(super) fn resolve(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<(), ScenarioError> {
    if cluster.kv_tiers.is_some()
        && let EngineConfig::VllmV1(vllm) = &cluster.engine
        && vllm.kv_groups(model).is_some()
    {
        let problem = "blocks of windows are not kept in tiers in this model; \
                       engine.disable_hybrid_kv_cache_manager = true keeps whole contexts";
        return Err(fail("cluster.kv_tiers", problem));
    }
    let gpus = f64::from(cluster.tensor_parallel_size);
    if let Some(tiers) = &mut cluster.kv_tiers {
        tiers.pcie_gb_per_s.get_or_insert(gpus * gpu.pcie_gb_s);
    }
    Ok(())
}
