//! Layers with states: what is not modelled of them, and what vLLM keeps.

use super::{ScenarioError, fail, kv};
use crate::hardware::GpuSpec;
use crate::model::layout::VllmLayout;
use crate::model::{EngineVersion, KvGroups, ModelSpec};
use crate::scenario::{
    ClusterConfig, EngineConfig, MambaCacheMode, ReplicaRole, VllmConfig, WorkloadConfig,
};

/// The first vLLM that finds prefixes of hybrid models again unless told otherwise (`vllm/config/model.py`,
/// `is_prefix_caching_supported`; in 0.23 it did not yet).
const PREFIXES_BY_DEFAULT: EngineVersion = EngineVersion::new(0, 28);
/// Blocks with states that a request has in each group: two of its prefix, and one of the share that is computed
/// (vLLM 0.33.0, `vllm/v1/kv_cache_interface.py`, `MambaSpec`).
const STATE_BLOCKS: u32 = 3;
const KEY: &str = "cluster.engine.mamba_cache_mode";

/// Refuses what is not modelled of layers with states.
pub(super) fn check(cluster: &ClusterConfig, role: ReplicaRole) -> Result<(), ScenarioError> {
    let is_known = matches!(cluster.engine, EngineConfig::VllmV1(_) | EngineConfig::Sglang(_));
    let refused = if !is_known {
        "its layers with states are modelled of vllm_v1 and sglang only"
    } else if role != ReplicaRole::Mixed {
        "states of its layers are not handed over in this model"
    } else if cluster.kv_tiers.is_some() {
        "states of its layers are not kept in tiers in this model"
    } else if cluster.pipeline_parallel_size > 1 {
        "states of its layers on several stages are not modelled"
    } else {
        return Ok(());
    };
    Err(fail("cluster.model", refused))
}

/// Chooses what is kept where the scenario does not: as the engine does, but where prompts share nothing the latest
/// state alone, which serves them as well and takes fast paths.
pub(super) fn choose(cluster: &mut ClusterConfig, model: &ModelSpec, workload: &WorkloadConfig) {
    let EngineConfig::VllmV1(vllm) = &mut cluster.engine else { return };
    if model.state_layers() == 0 || vllm.mamba_cache_mode.is_some() {
        return;
    }
    let aligns = vllm.enable_prefix_caching
        && vllm.enable_chunked_prefill
        && vllm.start_up.version() >= PREFIXES_BY_DEFAULT
        && workload.may_share_prefixes();
    vllm.mamba_cache_mode = Some(if aligns { MambaCacheMode::Align } else { MambaCacheMode::None });
}

/// Makes blocks large enough for states, and counts those of a request. Where only the latest state is kept no prefix is
/// found again.
pub(super) fn keep(
    vllm: &mut VllmConfig,
    cluster: &ClusterConfig,
    (model, gpu): (&ModelSpec, &GpuSpec),
    groups: Option<KvGroups>,
) -> Result<Option<KvGroups>, ScenarioError> {
    let aligns = vllm.mamba_cache_mode == Some(MambaCacheMode::Align);
    let (tp, dtype) = (cluster.tensor_parallel_size, cluster.kv_cache_dtype);
    let Some(needed) = KvGroups::block_size_with_states(model, tp, dtype) else {
        if aligns {
            let problem =
                format!("must be left out or `none`, got `align`: {} has no states", model.name);
            return Err(fail(KEY, &problem));
        }
        return Ok(groups);
    };
    let Some(mut groups) = groups else {
        let problem = "its layers with linear attention are served by the hybrid KV cache manager \
                       alone, and only where they are most";
        return Err(fail("cluster.model", problem));
    };
    if !aligns {
        if groups.block_size.is_none() {
            vllm.block_size = vllm.block_size.max(needed);
        }
        vllm.enable_prefix_caching = false;
        return Ok(Some(groups));
    }
    let switches = [
        ("enable_chunked_prefill", vllm.enable_chunked_prefill),
        ("enable_prefix_caching", vllm.enable_prefix_caching),
    ];
    if let Some((key, _)) = switches.into_iter().find(|(_, is_on)| !is_on) {
        return Err(fail(
            KEY,
            &format!("must be left out or `none` with {key} = false, got `align`"),
        ));
    }
    let tokens = VllmLayout::of(model, kv::machine(cluster, gpu)).block_size;
    vllm.block_size = vllm.block_size.max(tokens);
    groups.block_size = Some(tokens);
    groups.states = groups.states.saturating_mul(STATE_BLOCKS);
    Ok(Some(groups))
}
