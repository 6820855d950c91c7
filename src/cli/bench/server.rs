//! The server's flags as the cluster of a scenario.

use super::args::{Engine, KvCacheDtype, ServerArguments};
use crate::model::{KvDtype, Reserve};
use crate::scenario::{ClusterConfig, EngineConfig, RouterConfig, StepTimeConfig, VllmConfig};

/// The cluster of these flags.
pub(super) fn cluster(arguments: &ServerArguments) -> ClusterConfig {
    let engine = match arguments.engine {
        Engine::Vllm => EngineConfig::VllmV1(vllm(arguments)),
    };
    ClusterConfig {
        model: arguments.model.clone(),
        gpu: arguments.gpu.clone(),
        replicas: arguments.replicas.unwrap_or(1),
        tensor_parallel_size: arguments.tensor_parallel_size.unwrap_or(1),
        gpu_memory_utilization: arguments.gpu_memory_utilization.unwrap_or(0.9),
        memory_reserve: Reserve::default(),
        kv_cache_dtype: match arguments.kv_cache_dtype {
            None | Some(KvCacheDtype::Auto | KvCacheDtype::Bfloat16) => KvDtype::Auto,
            Some(KvCacheDtype::Fp8 | KvCacheDtype::Fp8E4m3 | KvCacheDtype::Fp8E5m2) => KvDtype::Fp8,
        },
        api_delay_ms: 0.0,
        engine,
        step_time: StepTimeConfig::default(),
        router: RouterConfig::default(),
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
        ..default
    }
}
