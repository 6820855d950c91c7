//! Rules and derived values of SGLang.

use super::graphs::{ignored_rules, largest_rule, size_rules};
use super::{KvSource, Rules, ScenarioError, fail, lora, sglang_speculation};
use crate::hardware::GpuSpec;
use crate::model::layout::SglangLayout;
use crate::model::{
    DraftMemory, Drafter, KvCapacity, Loading, MemoryBudget, ModelSpec, SglangStart, WindowMemory,
};
use crate::scenario::{ClusterConfig, SglangConfig};
use crate::units::Bytes;

/// Factor of `schedule_conservativeness` where ranks are several: each expects answers to be shorter (SGLang 0.5.23,
/// `sglang/srt/arg_groups/parallel_hook.py`).
pub(super) const CONSERVATIVENESS_OF_RANKS: f64 = 0.3;

/// Rules that need no look-up.
pub(super) fn rules(sglang: &SglangConfig, rules: &mut Rules) {
    let at_least_one = [
        ("page_size", Some(sglang.page_size)),
        ("max_prefill_tokens", Some(sglang.max_prefill_tokens)),
        ("max_running_requests", sglang.max_running_requests),
        ("prefill_max_requests", sglang.prefill_max_requests),
        ("max_loras_per_batch", sglang.max_loras_per_batch),
        ("cuda_graph_max_bs_decode", sglang.cuda_graph_max_bs_decode),
        ("cuda_graph_max_bs_prefill", sglang.cuda_graph_max_bs_prefill),
    ];
    for (key, value) in at_least_one {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    let most = SglangConfig::PAGE_SIZE_MAX;
    let is_page = sglang.page_size <= most;
    rules.check(is_page, "cluster.engine.page_size", &format!("at most {most}"), sglang.page_size);
    let conservativeness = sglang.schedule_conservativeness;
    rules.not_negative("cluster.engine.schedule_conservativeness", conservativeness);
    if let Some(share) = sglang.mem_fraction_static {
        let is_share = share > 0.0 && share < 1.0;
        let rule = "above 0 and below 1";
        rules.check(is_share, "cluster.engine.mem_fraction_static", rule, share);
    }
    let share = sglang.swa_full_tokens_ratio;
    let is_share = share > 0.0 && share <= 1.0;
    let rule = "above 0 and at most 1";
    rules.check(is_share, "cluster.engine.swa_full_tokens_ratio", rule, share);
    if sglang.context_length.is_some_and(|tokens| tokens < 2) {
        rules.broken("cluster.engine.context_length", "must be at least 2: a prompt and an answer");
    }
    if let Some(tokens) = sglang.max_total_tokens {
        let rule = "at least one page";
        let is_page = tokens >= sglang.page_size;
        rules.check(is_page, "cluster.engine.max_total_tokens", rule, tokens);
    }
    if let Some(chunk) = sglang.chunked_prefill_size {
        let page = i64::from(sglang.page_size);
        let is_page = chunk <= 0 || i64::from(chunk) >= page;
        let rule = "at least one page, or 0 or less for no cutting";
        rules.check(is_page, "cluster.engine.chunked_prefill_size", rule, chunk);
    }
    if sglang.enable_priority_scheduling && !sglang.schedule_policy.knows_priorities() {
        let message = "must be `fcfs` or `lof` with enable_priority_scheduling";
        rules.broken("cluster.engine.schedule_policy", message);
    }
    graph_rules(sglang, rules);
}

fn graph_rules(sglang: &SglangConfig, rules: &mut Rules) {
    let decode = ("cuda_graph_bs_decode", sglang.cuda_graph_bs_decode.as_ref());
    let decode_most = ("cuda_graph_max_bs_decode", sglang.cuda_graph_max_bs_decode);
    let prefill = ("cuda_graph_bs_prefill", sglang.cuda_graph_bs_prefill.as_ref());
    let prefill_most = ("cuda_graph_max_bs_prefill", sglang.cuda_graph_max_bs_prefill);
    for ((key, sizes), most) in [(decode, decode_most), (prefill, prefill_most)] {
        size_rules(key, sizes, rules);
        largest_rule(most, (key, sizes), rules);
    }
    let given = |sizes: Option<&Vec<u32>>, most: Option<u32>| sizes.is_some() || most.is_some();
    let (has_decode, has_prefill) =
        (given(decode.1, decode_most.1), given(prefill.1, prefill_most.1));
    if sglang.disable_cuda_graph {
        let given = [
            (decode_most.0, has_decode),
            (prefill_most.0, has_prefill),
            ("disable_cuda_graph_padding", sglang.disable_cuda_graph_padding),
        ];
        ignored_rules("disable_cuda_graph", &given, rules);
    } else if sglang.disable_prefill_cuda_graph {
        ignored_rules("disable_prefill_cuda_graph", &[(prefill_most.0, has_prefill)], rules);
    }
}

/// Fills in what depends on model and GPU, and makes sure that both fit.
pub(super) fn resolve(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    (model, drafter): (&ModelSpec, Option<&Drafter>),
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    let vllms = [
        ("gpu_memory_utilization", cluster.gpu_memory_utilization.is_some()),
        ("memory_reserve", cluster.memory_reserve.is_some()),
    ];
    if let Some((key, _)) = vllms.into_iter().find(|(_, is_given)| *is_given) {
        let message = "is not a setting of SGLang; set cluster.engine.mem_fraction_static";
        return Err(fail(&format!("cluster.{key}"), message));
    }
    let context = *sglang.context_length.get_or_insert(model.max_position_sglang);
    let by_gpu = SglangConfig::chunked_prefill_size_for(gpu.memory());
    // Ranks share a chunk (0.5.23, `sglang/srt/arg_groups/parallel_hook.py`).
    let ranks = cluster.data_parallel_size.cast_signed();
    let page = sglang.page_size.cast_signed();
    sglang.chunked_prefill_size.get_or_insert((by_gpu / ranks).max(page));
    let is_latent = model.is_latent();
    resolve_graphs(sglang, cluster, model, gpu);
    if sglang.speculation.is_some() {
        // Graphs are chosen before.
        sglang.max_running_requests.get_or_insert(SglangLayout::running_with_drafts(model));
    }
    let graphs = graphs_mib(sglang, is_latent);
    let source = resolve_memory(sglang, cluster, (model, drafter), gpu, graphs)?;
    let tokens = sglang.max_total_tokens.unwrap_or(1);
    sglang
        .max_running_requests
        .get_or_insert(SglangConfig::running_requests_for(tokens, context).max(1));
    Ok(source)
}

/// The captured batches (SGLang 0.5.23, `sglang/srt/arg_groups/memory_hook.py`). Prefill batches
/// are captured on GPUs of NVIDIA only.
fn resolve_graphs(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) {
    if sglang.disable_cuda_graph {
        return;
    }
    let by_gpu = SglangConfig::cuda_graph_max_bs_for(gpu.memory(), cluster.gpus_per_replica());
    let decode_max = sglang
        .cuda_graph_max_bs_decode
        .unwrap_or_else(|| by_gpu.min(sglang.max_running_requests.unwrap_or(by_gpu)));
    let decode = match sglang.cuda_graph_bs_decode.take() {
        Some(sizes) => sizes,
        None => sglang.decode_capture_sizes(decode_max),
    };
    sglang.cuda_graph_max_bs_decode = decode.last().copied();
    sglang.cuda_graph_bs_decode = Some(decode);
    let chunk = u32::try_from(sglang.chunked_prefill_size.unwrap_or(0)).unwrap_or(0);
    if gpu.vendor != "NVIDIA" {
        sglang.disable_prefill_cuda_graph |=
            sglang.cuda_graph_bs_prefill.is_none() && sglang.cuda_graph_max_bs_prefill.is_none();
    }
    if sglang.disable_prefill_cuda_graph {
        return;
    }
    let is_latent = model.is_latent();
    let limits = [
        is_latent.then_some(8192),
        sglang.max_total_tokens,
        model.name.to_lowercase().contains("llama-2").then_some(4096),
    ];
    let prefill_max = sglang
        .cuda_graph_max_bs_prefill
        .unwrap_or_else(|| limits.into_iter().flatten().fold(chunk, u32::min));
    let prefill = match sglang.cuda_graph_bs_prefill.take() {
        Some(sizes) => sizes,
        None => SglangConfig::prefill_capture_sizes(prefill_max),
    };
    match prefill.last() {
        // Without chunks, or with tiny ones, there is no size to capture.
        None => sglang.disable_prefill_cuda_graph = true,
        Some(&last) => {
            sglang.cuda_graph_max_bs_prefill = Some(last);
            sglang.cuda_graph_bs_prefill = Some(prefill);
        }
    }
}

/// What SGLang keeps free for captured graphs, in MiB.
fn graphs_mib(sglang: &SglangConfig, is_latent: bool) -> f64 {
    let decode = 2.0 * f64::from(sglang.cuda_graph_max_bs_decode.unwrap_or(0));
    let prefill = match &sglang.cuda_graph_bs_prefill {
        None => 0.0,
        Some(_) if is_latent => 1536.0,
        Some(sizes) => 8.0 * sizes.len() as f64,
    };
    decode + prefill
}

/// Slots of states for each request where prefixes are kept (`extra_buffer`, 0.5.23).
const SLOTS_PER_REQUEST: u64 = 5;

/// States of linear attention as a share of KV memory, `mamba_full_memory_ratio`.
const STATES_PER_KV: f64 = 0.9;

/// Leaves room for the states of layers with linear attention, so many bytes for each sequence, and runs no more
/// requests than there are slots for. Prefixes are not found again: what the engine keeps of states is not modelled.
fn keep_states(sglang: &mut SglangConfig, kv: &mut KvCapacity, state_bytes: u64) {
    if state_bytes == 0 {
        return;
    }
    let all = f64::from(kv.blocks) * kv.block_bytes.0 as f64;
    let states = all * STATES_PER_KV / (1.0 + STATES_PER_KV);
    kv.blocks = (f64::from(kv.blocks) / (1.0 + STATES_PER_KV)) as u32;
    let slots = (states / state_bytes as f64) as u64;
    let each = if sglang.disable_radix_cache { 1 } else { SLOTS_PER_REQUEST };
    let most = u32::try_from(slots / each).unwrap_or(u32::MAX).max(1);
    sglang.max_running_requests =
        Some(sglang.max_running_requests.map_or(most, |asked| asked.min(most)));
    sglang.disable_radix_cache = true;
}

/// The KV memory: what weights leave of `mem_fraction_static` of the GPU memory that is free before they are
/// loaded, at most what is asked for.
fn resolve_memory(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    (model, drafter): (&ModelSpec, Option<&Drafter>),
    gpu: &GpuSpec,
    graphs_mib: f64,
) -> Result<KvSource, ScenarioError> {
    if sglang.max_total_tokens.is_some() && sglang.mem_fraction_static.is_none() {
        return Ok(KvSource::Given);
    }
    let chunk = u32::try_from(sglang.chunked_prefill_size.unwrap_or(0)).unwrap_or(0);
    let tokens = if chunk > 0 { chunk } else { sglang.max_prefill_tokens };
    let (tp, gpus) = (cluster.tensor_parallel_size, cluster.gpus_per_replica());
    let memory = gpu.memory();
    let by_gpu = SglangConfig::mem_fraction_static_for(memory, gpus, tokens, graphs_mib);
    let share = *sglang.mem_fraction_static.get_or_insert(by_gpu);
    if share <= 0.0 {
        let message = format!(
            "the default of SGLang leaves nothing of {memory} ({share}); set it, or a smaller \
             chunked_prefill_size"
        );
        return Err(fail("cluster.engine.mem_fraction_static", &message));
    }
    let card = gpu.card();
    let free = SglangStart { card, tp: gpus }.free_before_load(memory);
    let budget = MemoryBudget {
        gpu_memory: free,
        utilization: share,
        tp,
        pp: 1,
        ranks: cluster.data_parallel_size,
        block_size: sglang.page_size,
        kv_dtype: cluster.kv_cache_dtype,
        loading: Loading::Served(card.generation),
        reserve: Bytes(0),
        adapters: lora::slot_bytes(cluster, model, sglang.max_loras_per_batch)?,
        window: if sglang.disable_hybrid_swa_memory {
            WindowMemory::Whole
        } else {
            WindowMemory::Share(sglang.swa_full_tokens_ratio)
        },
        drafts: DraftMemory::default(),
    };
    let speculation = sglang.speculation.as_ref();
    let budget = match (speculation, drafter) {
        (Some(speculation), Some(drafter)) => {
            let machine = sglang_speculation::machine(speculation, cluster, gpu);
            let drafts = sglang_speculation::memory(drafter, (model, machine), &budget);
            MemoryBudget { drafts, ..budget }
        }
        _ => budget,
    };
    let mut kv = KvCapacity::derive(model, &budget)
        .map_err(|error| fail("cluster.model", &format!("{error} ({})", gpu.name)))?;
    match speculation {
        None => keep_states(sglang, &mut kv, model.wide_state_bytes(tp)),
        Some(_) if model.state_layers() == 0 => {}
        Some(speculation) => {
            let machine = sglang_speculation::machine(speculation, cluster, gpu);
            sglang_speculation::keep_states(sglang, &mut kv, (model, machine));
        }
    }
    kv.reserve = Bytes(memory.0 - (free.0 as f64 * share) as u64);
    let fits = kv.blocks.saturating_mul(sglang.page_size);
    match sglang.max_total_tokens {
        Some(given) if given <= fits => Ok(KvSource::Given),
        _ => {
            sglang.max_total_tokens = Some(fits);
            Ok(KvSource::Derived(kv))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolved::Scenario;
    use crate::scenario::{EngineConfig, ScenarioFile};

    fn resolve(engine: &str) -> Result<Scenario, ScenarioError> {
        let text = format!(
            "name = 'sglang'
             [workload]
             num_requests = 2
             tool_seed = 0
             arrivals = {{ type = 'vllm_2024', rate_per_s = 2.0 }}
             lengths = {{ type = 'sonnet', input_tokens = 1024, output_tokens = 6, \
             prefix_tokens = 50 }}
             [cluster]
             model = 'Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4'
             gpu = 'A10'
             [cluster.engine]
             type = 'sglang'
             {engine}"
        );
        let file: ScenarioFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        Scenario::resolve(file, None)
    }

    #[test]
    fn what_is_not_set_follows_from_model_and_gpu() {
        let scenario = resolve("page_size = 16").unwrap();
        let EngineConfig::Sglang(engine) = &scenario.first().cluster.engine else { panic!() };
        assert_eq!(engine.chunked_prefill_size, Some(4096));
        assert_eq!(engine.context_length, Some(scenario.first().model.max_position));
        let tokens = engine.max_total_tokens.unwrap();
        let running =
            SglangConfig::running_requests_for(tokens, scenario.first().model.max_position);
        assert_eq!(engine.max_running_requests, Some(running));
        assert!(tokens > 10_000 && tokens.is_multiple_of(16), "{tokens} tokens");
    }

    #[test]
    fn settings_that_cannot_be_are_named() {
        let broken = "page_size = 0\nschedule_policy = 'lpm'\nenable_priority_scheduling = true";
        let problems = resolve(broken).unwrap_err().to_string();
        assert!(problems.contains("cluster.engine.page_size: must be at least 1"), "{problems}");
        assert!(problems.contains("must be `fcfs` or `lof`"), "{problems}");
        let problems = resolve("page_size = 4294967295").unwrap_err().to_string();
        assert!(problems.contains("cluster.engine.page_size: must be at most 65536"), "{problems}");
    }
}
