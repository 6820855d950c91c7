//! The server's flags as the cluster of a scenario.

use super::args::{Engine, KvCacheDtype, ServerArguments};
use crate::cli::failure::Failure;
use crate::model::KvDtype;
use crate::scenario::{
    ClusterConfig, EngineConfig, ExpertParallelConfig, SglangConfig, VllmConfig,
};

/// The cluster of these flags.
///
/// # Errors
/// When a flag belongs to the other engine.
pub(super) fn cluster(
    arguments: &ServerArguments,
    simulated: Engine,
) -> Result<ClusterConfig, Failure> {
    check_engine(arguments, simulated)?;
    let engine = match simulated {
        Engine::Vllm => EngineConfig::VllmV1(vllm(arguments)),
        Engine::Sglang => EngineConfig::Sglang(sglang(arguments)),
    };
    Ok(ClusterConfig {
        replicas: arguments.replicas.unwrap_or(1),
        tensor_parallel_size: arguments.tensor_parallel_size.unwrap_or(1),
        pipeline_parallel_size: arguments.pipeline_parallel_size.unwrap_or(1),
        expert_parallel: expert_parallel(arguments),
        gpu_memory_utilization: match simulated {
            Engine::Vllm => arguments.gpu_memory_utilization,
            Engine::Sglang => None,
        },
        kv_cache_dtype: match arguments.kv_cache_dtype {
            None | Some(KvCacheDtype::Auto | KvCacheDtype::Bfloat16) => KvDtype::Auto,
            Some(KvCacheDtype::Fp8 | KvCacheDtype::Fp8E4m3 | KvCacheDtype::Fp8E5m2) => KvDtype::Fp8,
        },
        engine,
        ..ClusterConfig::new(arguments.model.clone(), arguments.gpu.clone())
    })
}

fn expert_parallel(arguments: &ServerArguments) -> Option<ExpertParallelConfig> {
    let spreads =
        arguments.enable_expert_parallel || arguments.ep_size.is_some_and(|size| size > 1);
    spreads.then(|| ExpertParallelConfig { size: arguments.ep_size, ..Default::default() })
}

/// Refuses flags of the engine that is not in use.
fn check_engine(arguments: &ServerArguments, simulated: Engine) -> Result<(), Failure> {
    let vllm = [
        ("--enable-expert-parallel", arguments.enable_expert_parallel),
        ("--pipeline-parallel-size", arguments.pipeline_parallel_size.is_some()),
        ("--max-num-seqs", arguments.max_num_seqs.is_some()),
        ("--max-num-batched-tokens", arguments.max_num_batched_tokens.is_some()),
        ("--block-size", arguments.block_size.is_some()),
        ("--num-gpu-blocks-override", arguments.num_gpu_blocks_override.is_some()),
        ("--enable-prefix-caching", arguments.enable_prefix_caching),
        ("--no-enable-prefix-caching", arguments.no_enable_prefix_caching),
        ("--enable-chunked-prefill", arguments.enable_chunked_prefill),
        ("--no-enable-chunked-prefill", arguments.no_enable_chunked_prefill),
        ("--async-scheduling", arguments.async_scheduling),
        ("--no-async-scheduling", arguments.no_async_scheduling),
        ("--scheduling-policy", arguments.scheduling_policy.is_some()),
        ("--long-prefill-token-threshold", arguments.long_prefill_token_threshold.is_some()),
        ("--enforce-eager", arguments.enforce_eager),
        ("--max-cudagraph-capture-size", arguments.max_cudagraph_capture_size.is_some()),
    ];
    let sglang = [
        ("--ep-size", arguments.ep_size.is_some()),
        ("--max-total-tokens", arguments.max_total_tokens.is_some()),
        ("--max-running-requests", arguments.max_running_requests.is_some()),
        ("--chunked-prefill-size", arguments.chunked_prefill_size.is_some()),
        ("--max-prefill-tokens", arguments.max_prefill_tokens.is_some()),
        ("--prefill-max-requests", arguments.prefill_max_requests.is_some()),
        ("--page-size", arguments.page_size.is_some()),
        ("--schedule-policy", arguments.schedule_policy.is_some()),
        ("--schedule-conservativeness", arguments.schedule_conservativeness.is_some()),
        ("--disable-radix-cache", arguments.disable_radix_cache),
        ("--enable-mixed-chunk", arguments.enable_mixed_chunk),
        ("--disable-overlap-schedule", arguments.disable_overlap_schedule),
        ("--scheduler-recv-interval", arguments.scheduler_recv_interval.is_some()),
        ("--disable-cuda-graph", arguments.disable_cuda_graph),
        ("--disable-cuda-graph-padding", arguments.disable_cuda_graph_padding),
        ("--cuda-graph-max-bs", arguments.cuda_graph_max_bs.is_some()),
    ];
    let (foreign, owner, used): (&[(&str, bool)], _, _) = match simulated {
        Engine::Vllm => (&sglang, "sglang", "vllm"),
        Engine::Sglang => (&vllm, "vllm", "sglang"),
    };
    match foreign.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::input(format!(
            "{flag}: is a flag of `--engine {owner}`, and the engine here is {used}"
        ))),
    }
}

fn sglang(arguments: &ServerArguments) -> SglangConfig {
    let default = SglangConfig::default();
    SglangConfig {
        mem_fraction_static: arguments.gpu_memory_utilization,
        max_total_tokens: arguments.max_total_tokens,
        max_running_requests: arguments.max_running_requests,
        context_length: arguments.max_model_len,
        chunked_prefill_size: arguments.chunked_prefill_size,
        max_prefill_tokens: arguments.max_prefill_tokens.unwrap_or(default.max_prefill_tokens),
        prefill_max_requests: arguments.prefill_max_requests,
        page_size: arguments.page_size,
        schedule_policy: arguments.schedule_policy.map_or(default.schedule_policy, Into::into),
        schedule_conservativeness: arguments
            .schedule_conservativeness
            .unwrap_or(default.schedule_conservativeness),
        disable_radix_cache: arguments.disable_radix_cache,
        enable_mixed_chunk: arguments.enable_mixed_chunk,
        disable_overlap_schedule: arguments.disable_overlap_schedule,
        scheduler_recv_interval: arguments
            .scheduler_recv_interval
            .unwrap_or(default.scheduler_recv_interval),
        disable_cuda_graph: arguments.disable_cuda_graph,
        disable_cuda_graph_padding: arguments.disable_cuda_graph_padding,
        cuda_graph_max_bs_decode: arguments.cuda_graph_max_bs,
        ..default
    }
}

fn vllm(arguments: &ServerArguments) -> VllmConfig {
    let default = VllmConfig::default();
    VllmConfig {
        block_size: arguments.block_size.unwrap_or(default.block_size),
        num_gpu_blocks: arguments.num_gpu_blocks_override,
        max_num_batched_tokens: arguments.max_num_batched_tokens,
        max_num_seqs: arguments.max_num_seqs,
        max_model_len: arguments.max_model_len,
        enable_chunked_prefill: !arguments.no_enable_chunked_prefill,
        enable_prefix_caching: !arguments.no_enable_prefix_caching,
        async_scheduling: !arguments.no_async_scheduling,
        policy: arguments.scheduling_policy.map_or(default.policy, Into::into),
        long_prefill_token_threshold: arguments
            .long_prefill_token_threshold
            .unwrap_or(default.long_prefill_token_threshold),
        enforce_eager: arguments.enforce_eager,
        max_cudagraph_capture_size: arguments.max_cudagraph_capture_size,
        ..default
    }
}
