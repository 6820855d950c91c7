//! Rules of KV memory below that of the GPUs.

use super::groups::{ReplicaGroup, asked};
use super::{Rules, ScenarioError, fail, kv};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::plain::shown;
use crate::scenario::{
    ClusterConfig, EngineConfig, KvTiersConfig, ReplicaRole, ScenarioFile, TierFetch,
};

const GIB: f64 = (1_u64 << 30) as f64;

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let Some(tiers) = &cluster.kv_tiers else { return };
    let mut of_engines = Rules { problems: Vec::new() };
    for group in asked(cluster).iter().filter(|group| group.role != ReplicaRole::Decode) {
        let engine = group.listed.filter(|index| cluster.groups[*index].engine.is_some());
        let path = engine.map_or_else(
            || "cluster.engine".to_owned(),
            |index| format!("cluster.groups[{index}].engine"),
        );
        engine_rules(&path, &group.cluster.engine, tiers, &mut of_engines);
    }
    // Groups of one engine break its rules together.
    of_engines.problems.dedup();
    rules.problems.append(&mut of_engines.problems);
    tier_rules(tiers, rules);
    nic_rules(cluster, tiers, rules);
}

fn engine_rules(path: &str, engine: &EngineConfig, tiers: &KvTiersConfig, rules: &mut Rules) {
    match engine {
        EngineConfig::VllmV1(vllm) => {
            if !vllm.enable_prefix_caching {
                let message = "cluster.kv_tiers needs prefix caching";
                rules.broken(&format!("{path}.enable_prefix_caching"), message);
            }
            if vllm.speculation.is_some() {
                let message = "speculation with cluster.kv_tiers is not modelled";
                rules.broken(&format!("{path}.speculation"), message);
            }
            if vllm.block_size > 0 {
                let chunk = tiers.chunk_tokens;
                let holds = chunk > 0 && chunk.is_multiple_of(vllm.block_size);
                let rule = format!("a multiple of {path}.block_size ({})", vllm.block_size);
                rules.check(holds, "cluster.kv_tiers.chunk_tokens", &rule, chunk);
            }
        }
        EngineConfig::Sglang(_) => {
            let message = "HiCache, the tiers of `sglang`, is not modelled; `vllm_v1` has tiers";
            rules.broken("cluster.kv_tiers", message);
        }
        _ => rules.broken("cluster.kv_tiers", "only `vllm_v1` has tiers"),
    }
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
        if let Some(rate) = pool.servers_gb_per_s {
            rules.nic(&path("pool.servers_gb_per_s"), rate);
        }
    }
}

/// What a replica hands over and what it has in the pool take the same NICs.
fn nic_rules(cluster: &ClusterConfig, tiers: &KvTiersConfig, rules: &mut Rules) {
    let path = "cluster.kv_tiers.pool.nic_gb_per_s";
    let Some(pool) = &tiers.pool else { return };
    let Some(rate) = pool.nic_gb_per_s else {
        if cluster.disaggregation.is_none() {
            rules.broken(path, "must be given where replicas hand no KV caches over");
        }
        return;
    };
    rules.nic(path, rate);
    let asked = asked(cluster);
    let prefills = asked.iter().filter(|group| group.role == ReplicaRole::Prefill);
    let nics = prefills.filter_map(|group| group.nic_gb_per_s(cluster));
    if let Some(nic) = nics.into_iter().find(|nic| nic.to_bits() != rate.to_bits()) {
        let rule = format!(
            "absent, or {} as that of replicas that prefill: what they hand over and the pool share \
             their NICs",
            shown(nic)
        );
        rules.check(false, path, &rule, rate);
    }
}

/// Fills in what depends on the GPU, and the NICs of each where replicas hand KV caches over.
pub(super) fn resolve(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    (gpu, nic_gb_per_s): (&GpuSpec, Option<f64>),
) -> Result<(), ScenarioError> {
    if cluster.kv_tiers.is_some()
        && let EngineConfig::VllmV1(vllm) = &cluster.engine
        && vllm.kv_groups(model, kv::machine(cluster, gpu)).is_some()
    {
        let problem = "blocks of windows are not kept in tiers in this model; \
                       engine.disable_hybrid_kv_cache_manager = true keeps whole contexts";
        return Err(fail("cluster.kv_tiers", problem));
    }
    let tp = cluster.tensor_parallel_size;
    if let Some(tiers) = &mut cluster.kv_tiers {
        tiers.pcie_gb_per_s.get_or_insert(f64::from(tp) * gpu.pcie_gb_s);
        if let Some(pool) = &mut tiers.pool {
            pool.nic_gb_per_s = pool.nic_gb_per_s.or(nic_gb_per_s);
        }
        let token = u64::from(tp) * model.kv_bytes_per_token(tp, cluster.kv_cache_dtype);
        return room(tiers, u64::from(tiers.chunk_tokens) * token);
    }
    Ok(())
}

/// Every tier has room for a chunk of so many bytes.
fn room(tiers: &KvTiersConfig, chunk: u64) -> Result<(), ScenarioError> {
    let rooms = [
        ("host.memory_gib", tiers.host.map(|host| host.memory_gib)),
        ("disk.capacity_gib", tiers.disk.map(|disk| disk.capacity_gib)),
        ("pool.memory_gib", tiers.pool.map(|pool| pool.memory_gib)),
    ];
    for (key, gib) in rooms {
        if let Some(gib) = gib.filter(|gib| gib * GIB < chunk as f64) {
            let problem = format!(
                "must have room for a chunk of {} tokens, {:.6} GiB, got {}",
                tiers.chunk_tokens,
                chunk as f64 / GIB,
                shown(gib)
            );
            return Err(fail(&format!("cluster.kv_tiers.{key}"), &problem));
        }
    }
    Ok(())
}

/// Replicas that share a pool keep KV alike: chunks are of one size there, and every GPU finds its part.
pub(super) fn formats(groups: &[ReplicaGroup]) -> Result<(), ScenarioError> {
    let with_pool = groups.iter().map(|group| &group.cluster);
    let with_pool =
        with_pool.filter(|cluster| cluster.kv_tiers.is_some_and(|it| it.pool.is_some()));
    let mut formats: Vec<_> =
        with_pool.map(|cluster| (cluster.tensor_parallel_size, cluster.kv_cache_dtype)).collect();
    formats.dedup();
    if formats.len() > 1 {
        let problem = "groups that share a pool must have the same tensor_parallel_size and \
                       kv_cache_dtype: chunks are kept as the GPUs of one replica write them";
        return Err(fail("cluster.kv_tiers.pool", problem));
    }
    Ok(())
}
