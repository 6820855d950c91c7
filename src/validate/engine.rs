//! The serving side of a record.

use super::adapters;
use super::drafts;
use super::flags::Settings;
use super::host;
use super::parallel::Layout;
use super::record::{EngineFields, Record};
use super::roles;
use super::skip::{self, Skip};
use super::version;
use super::workload::is_inferencex;
use crate::hardware::GpuSpec;
use crate::model::layout::{Machine, MambaStrategy};
use crate::model::{EngineVersion, KvGroups, ModelSpec, SamplerKernels};
use crate::resolved::{PrefillGraphs, Scenario};
use crate::scenario::{
    ClusterConfig, EngineConfig, ScenarioFile, SglangConfig, VllmConfig, VllmStartUp, VllmV0Config,
};

/// The first vLLM that schedules the next batch while the last one runs unless told otherwise
/// (vLLM pull request 27614).
const ASYNC_BY_DEFAULT: EngineVersion = EngineVersion::new(0, 14);
/// The first that does so over several stages; before, it refused to start when told to (pull request
/// 32618).
const ASYNC_STAGES: EngineVersion = EngineVersion::new(0, 16);
/// The first vLLM that admits a request only if its whole prompt fits (pull request 37307).
const RESERVES_PROMPT: EngineVersion = EngineVersion::new(0, 19);
/// The first vLLM V0 with a chunk budget of 2048 tokens.
const LARGER_CHUNKS: EngineVersion = EngineVersion::patched(0, 6, 4);
/// The first `SGLang` that seeds its client with 42 (`sglang/bench_serving.py`).
const SEED_42: EngineVersion = EngineVersion::patched(0, 5, 14);
/// The first `SGLang` that finds states again on a grid of tokens unless told otherwise (`sglang/srt/server_args.py`,
/// `mamba_scheduler_strategy`, from 0.5.14 on `mamba_radix_cache_strategy`). Before, steps of such models do not overlap.
const TRACKS_STATES: EngineVersion = EngineVersion::patched(0, 5, 14);
/// Above so many positions vLLM V0 chunks prompts unless told otherwise.
pub(super) const CHUNKED_FROM_POSITIONS: u32 = 32_768;

/// The cluster of a record.
pub(super) fn cluster(
    record: &Record,
    settings: &Settings,
    model: &ModelSpec,
    gpu: &GpuSpec,
    assumed: &mut Vec<&'static str>,
) -> Result<ClusterConfig, Skip> {
    let layout = match &settings.roles[..] {
        [] => settings.parallel.layout(record, model)?,
        [one, _] if one.is_told_by(&settings.parallel) => one.layout(record, model)?,
        _ => return Err(skip::DISAGGREGATION),
    };
    assumed.extend(layout.assumed());
    let Layout { replicas, tensor, stages, ranks, .. } = layout;
    if tensor > 1 && settings.disable_custom_all_reduce == Some(true) {
        let flag = "disable-custom-all-reduce".to_owned();
        return Err(Skip::Flag { flag, value: "true".to_owned() });
    }
    let mut cluster = ClusterConfig {
        replicas,
        tensor_parallel_size: tensor,
        pipeline_parallel_size: stages,
        data_parallel_size: ranks,
        expert_parallel: layout.expert_parallel,
        gpu_memory_utilization: settings.gpu_memory_utilization,
        kv_cache_dtype: settings.kv_cache_dtype,
        router: layout.router,
        ..ClusterConfig::new(model.name.clone(), gpu.name.clone())
    };
    cluster.engine = if is_sglang(&record.engine) {
        cluster.gpu_memory_utilization = None;
        sglang(record, settings, (model, gpu), (tensor, stages, ranks), assumed)?
    } else {
        vllm(record, settings, (model, gpu), (tensor, stages), assumed)?
    };
    assumed.extend(version::assumed(record));
    match &settings.drafts {
        Some(drafts) => assumed.extend(drafts.assumed(record)),
        None if drafts::told(record).is_some_and(|tokens| tokens > 1.0) => {
            return Err(Skip::Contradiction(skip::DRAFTS_OF_NOBODY.to_owned()));
        }
        None => {}
    }
    if !settings.roles.is_empty() {
        roles::serve(&settings.roles, record, model, &mut cluster)?;
        assumed.push("KV caches: handed over at 400 Gbit/s for each GPU");
    }
    adapters::serve(settings, version::of(record), &mut cluster)?;
    if settings.chooses_kernels {
        assumed.push("kernels: the engine's defaults, though flags choose others");
    }
    cluster.host = host::of(record, settings, &cluster);
    Ok(cluster)
}

/// Takes `FlashInfer`'s sampler where a vLLM that sorts logits would refuse to start, as its longest sequence does not
/// fit beside them: the server did start. Which of the two it has hangs on whether `FlashInfer` was installed. Step times
/// stay as they are.
pub(super) fn take_sampler_that_fits(scenario: &mut ScenarioFile) -> bool {
    let starts = |file: &ScenarioFile| Scenario::resolve(file.clone(), None).is_ok();
    let EngineConfig::VllmV1(vllm) = &scenario.cluster.engine else { return false };
    let told = &vllm.start_up;
    let version = told.version.as_deref().and_then(EngineVersion::parse);
    let sorts = told.sampler.is_none()
        && version.is_some_and(|version| SamplerKernels::Native.sorts(version));
    if !sorts || starts(scenario) {
        return false;
    }
    let mut other = scenario.clone();
    if let EngineConfig::VllmV1(vllm) = &mut other.cluster.engine {
        vllm.start_up.sampler = Some(SamplerKernels::FlashInfer);
    }
    let fits = starts(&other);
    if fits {
        *scenario = other;
    }
    fits
}

/// Whether an engine is modelled, on so many machines.
pub(super) fn check(record: &Record) -> Result<(), Skip> {
    let engine = &record.engine;
    if record.hardware.nodes.is_some_and(|nodes| nodes > 1) {
        return Err(Skip::NotModelled("several machines"));
    }
    let is_known = is_sglang(engine) || engine.name.eq_ignore_ascii_case("vllm");
    match &engine.fork {
        Some(fork) => Err(Skip::Engine(fork.clone())),
        None if is_known => Ok(()),
        None => Err(Skip::Engine(engine.name.clone())),
    }
}

/// Whether this is `SGLang`.
pub(super) fn is_sglang(engine: &EngineFields) -> bool {
    engine.name.eq_ignore_ascii_case("sglang")
}

fn vllm(
    record: &Record,
    settings: &Settings,
    (model, gpu): (&ModelSpec, &GpuSpec),
    (tensor, stages): (u32, u32),
    assumed: &mut Vec<&'static str>,
) -> Result<EngineConfig, Skip> {
    let version = version::of(record).unwrap_or_else(|| {
        if !says_v0(record) {
            assumed.push("engine version not stated: defaults of vLLM 0.33");
        }
        EngineVersion::VLLM
    });
    if is_v0(record) {
        if settings.drafts.is_some() {
            return Err(skip::DRAFTS_OF_V0);
        }
        for (flag, given) in [
            ("enable-prefix-caching", settings.enable_prefix_caching),
            ("async-scheduling", settings.async_scheduling),
            ("enforce-eager", settings.enforce_eager),
        ] {
            if given == Some(true) {
                return Err(Skip::Flag { flag: flag.to_owned(), value: "true (V0)".to_owned() });
            }
        }
        if let Some(size) = settings.max_graph {
            let flag = "max-cudagraph-capture-size".to_owned();
            return Err(Skip::Flag { flag, value: format!("{size} (V0)") });
        }
        return Ok(EngineConfig::VllmV0(vllm_v0(settings, model, version)));
    }
    let default = VllmConfig::default();
    let is_too_old = version < if stages > 1 { ASYNC_STAGES } else { ASYNC_BY_DEFAULT };
    if settings.async_scheduling == Some(true) && stages > 1 && is_too_old {
        let what = format!("asynchronous scheduling over {stages} stages before vLLM 0.16");
        return Err(Skip::Contradiction(what));
    }
    let drafts = settings.drafts.as_ref();
    let speculation = drafts.map(|drafts| drafts.speculation(record, model, tensor)).transpose()?;
    let told = (version != EngineVersion::VLLM).then(|| version.to_string());
    let start_up = VllmStartUp { version: told, sampler: None };
    Ok(EngineConfig::VllmV1(VllmConfig {
        start_up,
        block_size: settings.block_size.unwrap_or(default.block_size),
        num_gpu_blocks: grouped_blocks(settings, model, gpu, tensor),
        disable_hybrid_kv_cache_manager: settings.disable_hybrid_kv_cache_manager.unwrap_or(false),
        max_num_batched_tokens: settings.max_num_batched_tokens,
        max_num_seqs: settings.max_num_seqs,
        max_model_len: settings.max_model_len,
        enable_chunked_prefill: settings.enable_chunked_prefill.unwrap_or(true),
        enable_prefix_caching: settings.enable_prefix_caching.unwrap_or(true),
        async_scheduling: settings.async_scheduling.unwrap_or(!is_too_old),
        enforce_eager: settings.enforce_eager.unwrap_or(false),
        max_cudagraph_capture_size: settings.max_graph,
        scheduler_reserve_full_isl: version >= RESERVES_PROMPT,
        speculation,
        ..default
    }))
}

/// Whether this is a vLLM whose engine is V0 unless told otherwise.
pub(super) fn is_v0(record: &Record) -> bool {
    says_v0(record) || version::of(record).is_some_and(EngineVersion::is_v0)
}

/// Whether the benchmark client of this `SGLang` seeds its draws with 42 and not with 1 (1 in
/// 0.5.13, 42 in 0.5.14).
pub(super) fn seeds_with_42(record: &Record) -> bool {
    is_sglang(&record.engine) && version::of(record).is_some_and(|version| version >= SEED_42)
}

fn says_v0(record: &Record) -> bool {
    version::text(record).to_lowercase().contains("v0 engine")
}

fn vllm_v0(settings: &Settings, model: &ModelSpec, version: EngineVersion) -> VllmV0Config {
    let default = VllmV0Config::default();
    let positions = settings.max_model_len.unwrap_or(model.max_position);
    let chunked = settings.enable_chunked_prefill.unwrap_or(positions > CHUNKED_FROM_POSITIONS);
    let larger = chunked && version >= LARGER_CHUNKS;
    VllmV0Config {
        block_size: settings.block_size.unwrap_or(default.block_size),
        num_gpu_blocks: blocks(settings),
        max_num_batched_tokens: settings.max_num_batched_tokens.or(larger.then_some(2048)),
        max_num_seqs: settings.max_num_seqs.unwrap_or(default.max_num_seqs),
        max_model_len: settings.max_model_len,
        enable_chunked_prefill: chunked,
        ..default
    }
}

/// Blocks that the server's log told, if any.
fn blocks(settings: &Settings) -> Option<u32> {
    let block_size = settings.block_size.unwrap_or(16).max(1);
    settings.num_gpu_blocks.or(settings.kv_cache_tokens.map(|tokens| tokens / block_size))
}

/// The same of an engine whose blocks are those of a group of layers: it logs how many tokens fit where
/// each sequence is as long as it may be (vLLM 0.33.0, `get_kv_cache_capacity`; before, a block of every
/// group for each `block_size`, the same where sequences are not much longer than the window).
fn grouped_blocks(
    settings: &Settings,
    model: &ModelSpec,
    gpu: &GpuSpec,
    tensor: u32,
) -> Option<u32> {
    let machine = Machine::new(gpu.card().generation, tensor, settings.kv_cache_dtype);
    let groups = KvGroups::on(model, machine)
        .filter(|_| !settings.disable_hybrid_kv_cache_manager.unwrap_or(false));
    let (Some(groups), None) = (groups, settings.num_gpu_blocks) else { return blocks(settings) };
    let block_size = groups.block_size.or(settings.block_size).unwrap_or(16).max(1);
    let longest = settings.max_model_len.unwrap_or(model.max_position);
    let chunks = settings.enable_chunked_prefill.unwrap_or(true);
    let default = || VllmConfig::default_batched_tokens(gpu, longest, chunks);
    let step = settings.max_num_batched_tokens.unwrap_or_else(default).min(longest);
    let each = longest.div_ceil(block_size) + groups.most(longest, step, block_size);
    let blocks = |tokens| (f64::from(tokens) / f64::from(longest) * f64::from(each)) as u32;
    settings.kv_cache_tokens.map(blocks)
}

/// Ranks share what a launch line says of chunks and running requests (0.5.3,
/// `sglang/srt/server_args.py`, `sglang/srt/managers/tp_worker.py`).
fn sglang(
    record: &Record,
    settings: &Settings,
    (model, gpu): (&ModelSpec, &GpuSpec),
    (tensor, stages, ranks): (u32, u32, u32),
    assumed: &mut Vec<&'static str>,
) -> Result<EngineConfig, Skip> {
    let default = SglangConfig::default();
    let version = version::of(record);
    let drafts = settings.drafts.as_ref();
    let speculation = drafts.map(|drafts| drafts.sglang(record, model, tensor)).transpose()?;
    let has_no_tree = settings.disable_radix_cache.unwrap_or_else(|| {
        let is_off = is_inferencex(record);
        assumed.extend(is_off.then_some("radix cache not stated: off, as InferenceX serves"));
        is_off
    });
    // Drafts of models with states needed the grid already.
    let is_plain = version.is_some_and(|version| version < TRACKS_STATES)
        && model.state_layers() > 0
        && speculation.is_none()
        && settings.mamba_radix_cache_strategy.is_none()
        && !has_no_tree;
    let strategy =
        settings.mamba_radix_cache_strategy.or(is_plain.then_some(MambaStrategy::NoBuffer));
    let no_overlap = is_plain || strategy == Some(MambaStrategy::NoBuffer);
    let chunk = |size: i32| if size > 0 { (size / ranks.cast_signed()).max(1) } else { size };
    let graphs = PrefillGraphs {
        version: version.unwrap_or(EngineVersion::SGLANG),
        model,
        gpu,
        stages,
        ranks,
        has_adapters: settings.enable_lora,
        drafts: drafts.is_some(),
        is_disaggregated: !settings.roles.is_empty(),
    };
    let captured = graphs.most_tokens();
    let captures = settings.prefill_graphs.unwrap_or(captured.is_some());
    // The others are SGLang's own choice, which is at most a chunk.
    let most_captured = settings.max_prefill_graph.or(captured.filter(|most| *most < 8192));
    Ok(EngineConfig::Sglang(SglangConfig {
        mem_fraction_static: settings.mem_fraction_static,
        swa_full_tokens_ratio: settings.swa_full_tokens_ratio,
        disable_hybrid_swa_memory: settings.disable_hybrid_swa_memory.unwrap_or(false),
        max_total_tokens: settings.kv_cache_tokens,
        max_running_requests: settings.max_running_requests.map(|most| (most / ranks).max(1)),
        context_length: settings.max_model_len,
        chunked_prefill_size: settings.chunked_prefill_size.map(chunk),
        max_prefill_tokens: settings.max_prefill_tokens.unwrap_or(default.max_prefill_tokens),
        // The attention that they chose for such models, on Blackwell too, had pages of one token.
        page_size: settings.page_size.or(is_plain.then_some(1)),
        schedule_conservativeness: settings
            .schedule_conservativeness
            .unwrap_or(default.schedule_conservativeness),
        disable_radix_cache: has_no_tree,
        disable_overlap_schedule: no_overlap || settings.disable_overlap_schedule == Some(true),
        scheduler_recv_interval: settings
            .scheduler_recv_interval
            .unwrap_or(default.scheduler_recv_interval),
        mamba_full_memory_ratio: settings.mamba_full_memory_ratio,
        max_mamba_cache_size: settings.max_mamba_cache_size,
        mamba_radix_cache_strategy: strategy,
        mamba_track_interval: settings.mamba_track_interval,
        disable_cuda_graph: settings.enforce_eager.unwrap_or(false),
        cuda_graph_max_bs_decode: settings.max_graph,
        disable_prefill_cuda_graph: Some(!captures),
        cuda_graph_max_bs_prefill: most_captured.filter(|_| captures),
        speculation,
        ..default
    }))
}
