//! Rules and derived values of SGLang.

mod pools;
mod prefill_graphs;
pub(super) mod speculation;

use super::graphs::{ignored_rules, largest_rule, size_rules};
use super::kv::not_derived;
use super::{KvSource, Rules, ScenarioError, fail, lora, too_large};
use crate::hardware::GpuSpec;
use crate::model::layout::SglangLayout;
use crate::model::{
    Drafter, EngineVersion, KvCapacity, Loading, MemoryBudget, ModelSpec, SglangStart, WindowMemory,
};
use crate::scenario::{ClusterConfig, SglangConfig};
use crate::units::Bytes;

pub(super) use pools::keep;
pub(crate) use prefill_graphs::PrefillGraphs;

/// Factor of `schedule_conservativeness` where ranks are several: each expects answers to be shorter (SGLang 0.5.23,
/// `sglang/srt/arg_groups/parallel_hook.py`).
pub(super) const CONSERVATIVENESS_OF_RANKS: f64 = 0.3;

/// Rules that need no look-up.
pub(super) fn rules(sglang: &SglangConfig, rules: &mut Rules) {
    let at_least_one = [
        ("page_size", sglang.page_size),
        ("max_prefill_tokens", Some(sglang.max_prefill_tokens)),
        ("max_running_requests", sglang.max_running_requests),
        ("prefill_max_requests", sglang.prefill_max_requests),
        ("scheduler_recv_interval", Some(sglang.scheduler_recv_interval)),
        ("max_loras_per_batch", sglang.max_loras_per_batch),
        ("cuda_graph_max_bs_decode", sglang.cuda_graph_max_bs_decode),
        ("cuda_graph_max_bs_prefill", sglang.cuda_graph_max_bs_prefill),
    ];
    for (key, value) in at_least_one {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    let most = SglangConfig::PAGE_SIZE_MAX;
    let page = sglang.page_tokens();
    let is_page = page <= most;
    rules.check(is_page, "cluster.engine.page_size", &format!("at most {most}"), page);
    let conservativeness = sglang.schedule_conservativeness;
    rules.not_negative("cluster.engine.schedule_conservativeness", conservativeness);
    if let Some(share) = sglang.mem_fraction_static {
        let is_share = share > 0.0 && share < 1.0;
        let rule = "above 0 and below 1";
        rules.check(is_share, "cluster.engine.mem_fraction_static", rule, share);
    }
    pools::rules(sglang, rules);
    if sglang.context_length.is_some_and(|tokens| tokens < 2) {
        rules.broken("cluster.engine.context_length", "must be at least 2: a prompt and an answer");
    }
    if let Some(tokens) = sglang.max_total_tokens {
        let rule = "at least one page";
        let is_page = tokens >= page;
        rules.check(is_page, "cluster.engine.max_total_tokens", rule, tokens);
    }
    if let Some(chunk) = sglang.chunked_prefill_size {
        let is_page = chunk <= 0 || i64::from(chunk) >= i64::from(page);
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
    } else if sglang.disable_prefill_cuda_graph == Some(true) {
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
    sglang.context_length.get_or_insert(model.max_position_sglang);
    let layout = pools::layout(sglang, cluster, (model, drafter), gpu);
    pools::choose_states(sglang, model, &layout)?;
    sglang.page_size = Some(layout.page_size);
    let by_gpu = SglangConfig::chunked_prefill_size_for(gpu.memory());
    // Ranks share a chunk (0.5.23, `sglang/srt/arg_groups/parallel_hook.py`).
    let ranks = cluster.data_parallel_size.cast_signed();
    let page = layout.page_size.cast_signed();
    sglang.chunked_prefill_size.get_or_insert((by_gpu / ranks).max(page));
    check_page(sglang, layout.page_size)?;
    let is_latent = model.is_latent();
    resolve_graphs(sglang, cluster, (model, drafter.is_some()), gpu);
    let graphs = graphs_mib(sglang, is_latent);
    resolve_memory(sglang, cluster, (model, drafter, layout), gpu, graphs)
}

/// What is given must hold a page, also where its size is SGLang's own choice.
fn check_page(sglang: &SglangConfig, page: u32) -> Result<(), ScenarioError> {
    let chunk = sglang.chunked_prefill_size.and_then(|size| u32::try_from(size).ok());
    let given = [
        ("chunked_prefill_size", chunk.filter(|size| *size > 0)),
        ("max_total_tokens", sglang.max_total_tokens),
    ];
    match given.into_iter().find(|(_, tokens)| tokens.is_some_and(|tokens| tokens < page)) {
        Some((key, tokens)) => {
            let got = tokens.unwrap_or_default();
            let why = format!("must be at least one page, of {page} tokens here, got {got}");
            Err(fail(&format!("cluster.engine.{key}"), &why))
        }
        None => Ok(()),
    }
}

/// The captured batches (SGLang 0.5.23, `sglang/srt/arg_groups/memory_hook.py`).
fn resolve_graphs(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    (model, drafts): (&ModelSpec, bool),
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
    let graphs = PrefillGraphs {
        version: EngineVersion::SGLANG,
        model,
        gpu,
        stages: cluster.pipeline_parallel_size,
        ranks: cluster.data_parallel_size,
        has_adapters: cluster.lora.is_some(),
        drafts,
        is_disaggregated: cluster.disaggregation.is_some(),
    };
    let is_told =
        sglang.cuda_graph_bs_prefill.is_some() || sglang.cuda_graph_max_bs_prefill.is_some();
    let is_off =
        *sglang.disable_prefill_cuda_graph.get_or_insert(!graphs.are_captured() && !is_told);
    if is_off {
        return;
    }
    let limits = [
        Some(graphs.limit()),
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
        None => sglang.disable_prefill_cuda_graph = Some(true),
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

/// The KV memory: what weights leave of `mem_fraction_static` of the GPU memory that is free before they are
/// loaded, at most what is asked for.
fn resolve_memory(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    (model, drafter, layout): (&ModelSpec, Option<&Drafter>, SglangLayout),
    gpu: &GpuSpec,
    graphs_mib: f64,
) -> Result<KvSource, ScenarioError> {
    if let Some(given) = sglang.max_total_tokens
        && sglang.mem_fraction_static.is_none()
    {
        pools::fill(sglang, layout.pools_of(given.into()))?;
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
        block_size: layout.page_size,
        kv_dtype: cluster.kv_cache_dtype,
        loading: Loading::Served(card.generation),
        reserve: Bytes(0),
        adapters: lora::slot_bytes(cluster, model, sglang.max_loras_per_batch)?,
        window: WindowMemory::Pools(layout),
        drafts: drafter.map(speculation::weights).unwrap_or_default(),
    };
    let mut kv = KvCapacity::derive(model, &budget).map_err(|error| not_derived(&error, gpu))?;
    let found = layout.pools(kv.left);
    let fits = u32::try_from(found.max_total_num_tokens).unwrap_or(u32::MAX);
    if fits == 0 {
        let message = format!(
            "the weights of {} leave {} of the memory of {}, which is no page beside its states",
            model.name, kv.left, gpu.name
        );
        return Err(too_large("cluster.model", message));
    }
    kv.blocks = fits / layout.page_size;
    kv.reserve = Bytes(memory.0 - (free.0 as f64 * share) as u64);
    match sglang.max_total_tokens {
        Some(given) if given <= fits => {
            pools::fill(sglang, layout.holding(given.into(), found.max_mamba_cache_size))?;
            Ok(KvSource::Given)
        }
        _ => {
            sglang.max_total_tokens = Some(fits);
            pools::fill(sglang, found)?;
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
        // 512 for each context that fits.
        let contexts = f64::from(tokens) / f64::from(scenario.first().model.max_position);
        let running = (512.0 * contexts) as u32;
        assert_eq!(engine.max_running_requests, Some(running.clamp(2048, 4096)));
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
