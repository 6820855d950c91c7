//! Rules and derived values of vLLM's V1 engine.

use super::{
    KvSource, Rules, ScenarioError, acceptance, derive_kv, drafting, fail, graphs, kv, lora, states,
};
use crate::hardware::GpuSpec;
use std::borrow::Cow;

use crate::model::layout::Machine;
use crate::model::{
    Drafter, EngineVersion, KvGroups, ModelSpec, SamplerKernels, VllmStart, WindowMemory,
};
use crate::scenario::{ClusterConfig, Speculation, VllmConfig};

/// Rules that need no look-up.
pub(super) fn rules(vllm: &VllmConfig, speculation: Option<Speculation<'_>>, rules: &mut Rules) {
    let at_least_one = [
        ("block_size", Some(vllm.block_size)),
        ("max_num_batched_tokens", vllm.max_num_batched_tokens),
        ("max_num_seqs", vllm.max_num_seqs),
        ("max_num_active_seqs", vllm.max_num_active_seqs),
        ("max_loras", vllm.max_loras),
        ("prefill_schedule_interval", Some(vllm.prefill_schedule_interval)),
    ];
    for (key, value) in at_least_one {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    if vllm.num_gpu_blocks.is_some_and(|blocks| blocks < 2) {
        rules.broken("cluster.engine.num_gpu_blocks", "must be at least 2, one being reserved");
    }
    if vllm.max_model_len.is_some_and(|tokens| tokens < 2) {
        rules.broken("cluster.engine.max_model_len", "must be at least 2: a prompt and an answer");
    }
    if !(0.0..1.0).contains(&vllm.watermark) {
        let message =
            format!("must be at least 0 and below 1, got {}", crate::plain::shown(vllm.watermark));
        rules.broken("cluster.engine.watermark", &message);
    }
    if let Some(version) = &vllm.start_up.version {
        let known = EngineVersion::parse(version).is_some_and(|version| !version.is_v0());
        let rule = "a version of vLLM from 0.8 on, as in `0.21.0`";
        rules.check(known, "cluster.engine.start_up.version", rule, version);
    }
    graphs::vllm_rules(vllm, rules);
    if let Some(speculation) = &vllm.speculation {
        drafting::rules(speculation, rules);
    }
    if let Some(speculation) = speculation {
        acceptance::rules(speculation, rules);
    }
}

/// Fills in what depends on model and GPU, and makes sure that both fit.
pub(super) fn resolve(
    vllm: &mut VllmConfig,
    cluster: &ClusterConfig,
    (model, drafter): (&ModelSpec, Option<&Drafter>),
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    let machine = kv::machine(cluster, gpu);
    let cached = match drafter {
        Some(drafter) => Cow::Owned(beside(vllm, model, drafter, machine)?),
        None => Cow::Borrowed(model),
    };
    let groups = vllm.kv_groups(&cached, machine);
    let groups = states::keep(vllm, cluster, (&cached, gpu), groups)?;
    lay_blocks(vllm, cluster, model, groups.as_ref())?;
    let (_, seqs) = VllmConfig::default_batch_limits(gpu);
    let model_len = *vllm.max_model_len.get_or_insert(model.max_position);
    let default = VllmConfig::default_batched_tokens(gpu, model_len, vllm.enable_chunked_prefill);
    let is_default = vllm.max_num_batched_tokens.is_none();
    let budget = *vllm.max_num_batched_tokens.get_or_insert(default);
    // As vLLM does: `SchedulerConfig` refuses more sequences than tokens, a default gives way (0.33.0, `config/scheduler.py`,
    // `engine/arg_utils.py`).
    let seqs = *vllm.max_num_seqs.get_or_insert(seqs.min(budget));
    check_budget(budget, seqs, is_default)?;
    graphs::resolve_vllm(vllm, gpu)?;
    if !vllm.enable_chunked_prefill && budget < model_len {
        return Err(fail(
            "cluster.engine.max_num_batched_tokens",
            &format!(
                "without chunked prefill it must be at least max_model_len ({model_len}), got {budget}"
            ),
        ));
    }
    let source = if vllm.num_gpu_blocks.is_some() {
        KvSource::Given
    } else {
        let adapters = lora::slot_bytes(cluster, model, vllm.max_loras)?;
        let window = match &groups {
            None => WindowMemory::Whole,
            Some(groups) if groups.block_size.is_some() => {
                WindowMemory::Laid(gpu.card().generation)
            }
            Some(_) => WindowMemory::Grouped,
        };
        let others = (adapters, window);
        let start = start(vllm, cluster, gpu).parts(model);
        let capacity =
            derive_kv(cluster, (model, drafter), gpu, vllm.block_size, budget, others, start)?;
        vllm.num_gpu_blocks = Some(capacity.blocks);
        KvSource::Derived(capacity)
    };
    let windows =
        groups.map_or(0, |groups| groups.most(model_len, budget.min(model_len), vllm.block_size));
    let blocks = vllm.num_gpu_blocks.unwrap_or_default().saturating_sub(windows);
    let kv_tokens = u64::from(blocks) * u64::from(vllm.block_size);
    if kv_tokens < u64::from(model_len) {
        return Err(fail(
            "cluster.engine.max_model_len",
            &format!(
                "a sequence of {model_len} tokens needs more than the {kv_tokens} tokens of the \
                 KV cache; the engine refuses to start: set max_model_len to at most {kv_tokens}"
            ),
        ));
    }
    let usable_tokens = kv_tokens.saturating_sub(u64::from(vllm.block_size));
    let admits_in_part = !vllm.scheduler_reserve_full_isl || vllm.speculation.is_some();
    if admits_in_part && usable_tokens < u64::from(model_len) {
        return Err(fail(
            "cluster.engine.max_model_len",
            &format!(
                "with speculation, or without scheduler_reserve_full_isl, a sequence of \
                 {model_len} tokens that outgrows the {usable_tokens} tokens of the KV cache \
                 outside the null block is preempted and starts over forever: set max_model_len \
                 to at most {usable_tokens}"
            ),
        ));
    }
    Ok(source)
}

/// vLLM refuses steps of fewer tokens than sequences.
pub(super) fn check_budget(budget: u32, seqs: u32, is_default: bool) -> Result<(), ScenarioError> {
    if budget >= seqs {
        return Ok(());
    }
    Err(if is_default {
        let text = format!(
            "must be at most max_num_batched_tokens, which is {budget} unless set, got {seqs}"
        );
        fail("cluster.engine.max_num_seqs", &text)
    } else {
        let text = format!("must be at least max_num_seqs ({seqs}), got {budget}");
        fail("cluster.engine.max_num_batched_tokens", &text)
    })
}

/// The model with the caches of what drafts.
fn beside(
    vllm: &VllmConfig,
    model: &ModelSpec,
    drafter: &Drafter,
    machine: Machine,
) -> Result<ModelSpec, ScenarioError> {
    let all = drafter.beside(model);
    if vllm.kv_groups(model, machine).is_some() && vllm.kv_groups(&all, machine).is_none() {
        let problem = "its KV is not of the shape of the model's, some of whose layers keep less than whole contexts: \
                       how they share blocks is not modelled; set disable_hybrid_kv_cache_manager";
        return Err(fail("cluster.engine.speculation.method", problem));
    }
    Ok(all)
}

/// Sets the tokens of a block to those that follow from layers which keep different amounts of a token, where they do.
fn lay_blocks(
    vllm: &mut VllmConfig,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    groups: Option<&KvGroups>,
) -> Result<(), ScenarioError> {
    let Some(tokens) = groups.and_then(|groups| groups.block_size) else { return Ok(()) };
    if ![VllmConfig::default().block_size, tokens].contains(&vllm.block_size) {
        let problem = format!(
            "must be left out or {tokens}, as the engine has it for {} with tensor_parallel_size = {}: its layers keep \
             different amounts of a token, and blocks of other sizes are not modelled, got {}",
            model.name, cluster.tensor_parallel_size, vllm.block_size
        );
        return Err(fail("cluster.engine.block_size", &problem));
    }
    vllm.block_size = tokens;
    Ok(())
}

/// The start-up of these settings, filled in as they are.
fn start(vllm: &VllmConfig, cluster: &ClusterConfig, gpu: &GpuSpec) -> VllmStart {
    let sizes = vllm.cudagraph_capture_sizes.as_deref().unwrap_or_default();
    let sequences = vllm.max_num_seqs.unwrap_or(1);
    // Steps in which everybody decodes are captured whole, and all sizes piece by piece.
    let whole = sizes.iter().filter(|size| **size <= sequences).count();
    VllmStart {
        version: vllm.start_up.version(),
        card: gpu.card(),
        tp: cluster.tensor_parallel_size,
        step_tokens: vllm.max_num_batched_tokens.unwrap_or(1),
        sequences,
        sampler: vllm.start_up.sampler.unwrap_or(SamplerKernels::Native),
        is_compiled: !vllm.enforce_eager,
        graphs: (sizes.len() + whole) as u32,
    }
}

impl VllmConfig {
    /// `max_num_batched_tokens` unless it is given: by GPU, and at least the longest sequence where prompts
    /// are not chunked.
    pub fn default_batched_tokens(gpu: &GpuSpec, model_len: u32, chunks: bool) -> u32 {
        let (tokens, _) = Self::default_batch_limits(gpu);
        if chunks { tokens } else { tokens.max(model_len) }
    }

    /// `max_num_batched_tokens` and `max_num_seqs` of vLLM's API server by GPU
    /// (vLLM 0.33.0, `vllm/engine/arg_utils.py`).
    pub fn default_batch_limits(gpu: &GpuSpec) -> (u32, u32) {
        let gib = gpu.memory().as_gib();
        if gib >= 160.0 {
            (16_384, 1024)
        } else if gib >= 70.0 && !gpu.name.starts_with("A100") {
            (8192, 1024)
        } else {
            (2048, 256)
        }
    }
}
