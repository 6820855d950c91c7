//! KV capacity: that of an engine's settings, or what GPU memory leaves.

use super::{KvSource, ScenarioError, baselines, fail, sglang, too_large, vllm};
use crate::hardware::GpuSpec;
use crate::model::layout::Machine;
use crate::model::{
    DraftMemory, Drafter, EngineVersion, KvCapacity, Loading, MemoryBudget, ModelError, ModelSpec,
    Reserve, StartUp, WindowMemory,
};
use crate::scenario::{ClusterConfig, EngineConfig};
use crate::units::Bytes;

/// Fills in what depends on model and GPU, and makes sure that both fit.
pub(crate) fn resolve_engine(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
    drafter: Option<&Drafter>,
) -> Result<KvSource, ScenarioError> {
    model
        .check_tensor_parallel(cluster.tensor_parallel_size)
        .map_err(|error| fail("cluster.tensor_parallel_size", &error.to_string()))?;
    let mut engine = std::mem::take(&mut cluster.engine);
    if !matches!(engine, EngineConfig::Sglang(_)) {
        let version = match &engine {
            EngineConfig::VllmV1(vllm) => vllm.start_up.version(),
            _ => EngineVersion::LAST_V0,
        };
        cluster.gpu_memory_utilization.get_or_insert(version.gpu_memory_utilization());
        cluster.memory_reserve.get_or_insert_default();
    }
    // What was derived before follows the settings that it was derived from.
    let derived = cluster.derived_kv_capacity.take();
    engine.kv_capacity_mut().take_if(|told| derived == Some(*told));
    // A limit of SGLang's tokens above what fits is lowered to that, and stays a limit.
    let is_told = engine.kv_capacity_mut().is_some();
    let source = match &mut engine {
        EngineConfig::VllmV1(config) => vllm::resolve(config, cluster, (model, drafter), gpu),
        EngineConfig::Sglang(config) => sglang::resolve(config, cluster, (model, drafter), gpu),
        baseline => baselines::resolve(baseline, cluster, model, gpu),
    }?;
    count_all_ranks(&mut engine, cluster.data_parallel_size)?;
    cluster.derived_kv_capacity = match source {
        KvSource::Derived(_) if !is_told => *engine.kv_capacity_mut(),
        KvSource::Derived(_) | KvSource::Given => None,
    };
    cluster.engine = engine;
    Ok(source)
}

/// What all ranks of a replica hold is counted together.
fn count_all_ranks(engine: &mut EngineConfig, ranks: u32) -> Result<(), ScenarioError> {
    let key = engine.kv_capacity_key();
    let (each, most) = (engine.kv_capacity_mut().unwrap_or(0), u32::MAX / ranks.max(1));
    if each <= most {
        return Ok(());
    }
    let message = format!("must be at most {most} with {ranks} data-parallel ranks, got {each}");
    Err(fail(&format!("cluster.engine.{key}"), &message))
}

/// The GPUs of a replica, for the layout of its caches.
pub(super) fn machine(cluster: &ClusterConfig, gpu: &GpuSpec) -> Machine {
    let (tp, dtype) = (cluster.tensor_parallel_size, cluster.kv_cache_dtype);
    Machine::new(gpu.card().generation, tp, dtype)
}

/// Why a KV cache cannot be derived.
pub(super) fn not_derived(error: &ModelError, gpu: &GpuSpec) -> ScenarioError {
    let problem = format!("{error} ({})", gpu.name);
    match error {
        ModelError::DoesNotFit { .. } => too_large("cluster.model", problem),
        _ => fail("cluster.model", &problem),
    }
}

/// The blocks that fit beside the weights.
pub(super) fn derive_kv(
    cluster: &ClusterConfig,
    (model, drafter): (&ModelSpec, Option<&Drafter>),
    gpu: &GpuSpec,
    block_size: u32,
    step_tokens: u32,
    (adapters, window): (Bytes, WindowMemory),
    start: StartUp,
) -> Result<KvCapacity, ScenarioError> {
    let reserve = cluster.memory_reserve.unwrap_or_default();
    let budget = MemoryBudget {
        gpu_memory: gpu.memory(),
        utilization: cluster
            .gpu_memory_utilization
            .unwrap_or_else(|| EngineVersion::LAST_V0.gpu_memory_utilization()),
        tp: cluster.tensor_parallel_size,
        pp: cluster.pipeline_parallel_size,
        ranks: cluster.data_parallel_size,
        block_size,
        kv_dtype: cluster.kv_cache_dtype,
        loading: Loading::Served(gpu.card().generation),
        reserve: reserve.bytes(model, step_tokens, start),
        adapters,
        window,
        drafts: DraftMemory::default(),
    };
    let budget = match drafter {
        Some(drafter) => {
            MemoryBudget { drafts: DraftMemory::of(drafter, model, &budget), ..budget }
        }
        None => budget,
    };
    let kv = KvCapacity::derive(model, &budget).map_err(|error| not_derived(&error, gpu))?;
    Ok(KvCapacity { start: (reserve == Reserve::Profiled).then_some(start), ..kv })
}
