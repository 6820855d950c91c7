//! Rules and derived values of the plain schedulers.

use super::vllm::check_budget;
use super::{KvSource, Rules, ScenarioError, derive_kv, fail, lora};
use crate::hardware::GpuSpec;
use crate::model::{EngineVersion, ModelSpec, SamplerKernels, VllmStart, WindowMemory};
use crate::scenario::{
    ClusterConfig, EngineConfig, SarathiConfig, StaticBatchingConfig, VllmV0Config,
};
use crate::units::Bytes;

/// Rules that need no look-up.
pub(super) fn rules(engine: &EngineConfig, rules: &mut Rules) {
    let (counts, model_len) = match engine {
        EngineConfig::VllmV0(vllm) => (
            vec![
                ("block_size", Some(vllm.block_size)),
                ("num_gpu_blocks", vllm.num_gpu_blocks),
                ("max_num_batched_tokens", vllm.max_num_batched_tokens),
                ("max_num_seqs", Some(vllm.max_num_seqs)),
            ],
            vllm.max_model_len,
        ),
        EngineConfig::Sarathi(sarathi) => (
            vec![
                ("block_size", Some(sarathi.block_size)),
                ("num_gpu_blocks", sarathi.num_gpu_blocks),
                ("chunk_size", Some(sarathi.chunk_size)),
                ("max_num_seqs", Some(sarathi.max_num_seqs)),
            ],
            sarathi.max_model_len,
        ),
        EngineConfig::Orca(orca) => (
            vec![
                ("max_batch_size", Some(orca.max_batch_size)),
                ("max_loras", orca.max_loras),
                ("kv_tokens", orca.kv_tokens),
            ],
            orca.max_model_len,
        ),
        EngineConfig::FasterTransformer(config) => (
            vec![("max_batch_size", Some(config.max_batch_size)), ("kv_tokens", config.kv_tokens)],
            config.max_model_len,
        ),
        EngineConfig::StaticBatching(config) => {
            rules.brief("cluster.engine.batch_timeout_ms", config.batch_timeout_ms, 1e3);
            (
                vec![("batch_size", Some(config.batch_size)), ("kv_tokens", config.kv_tokens)],
                config.max_model_len,
            )
        }
        EngineConfig::VllmV1(_) | EngineConfig::Sglang(_) => return,
    };
    for (key, value) in counts {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    if let Some(tokens) = model_len {
        let rule = "at least 2: a prompt and an answer";
        rules.check(tokens >= 2, "cluster.engine.max_model_len", rule, tokens);
    }
}

/// Where an engine keeps what depends on model and GPU.
struct Memory<'a> {
    model_len: &'a mut Option<u32>,
    block_size: u32,
    blocks: &'a mut Option<u32>,
    /// Blocks that newcomers leave free, of so many.
    watermark: fn(u32) -> u32,
}

/// Fills in what depends on model and GPU, and makes sure that both fit.
pub(super) fn resolve(
    engine: &mut EngineConfig,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    let step_tokens = step_tokens(engine, model)?;
    let slots = match engine {
        EngineConfig::Orca(orca) => lora::slot_bytes(cluster, model, orca.max_loras)?,
        _ => Bytes(0),
    };
    let start = start(engine, (cluster, gpu), step_tokens).parts(model);
    let memory = match engine {
        EngineConfig::VllmV0(VllmV0Config {
            max_model_len: model_len,
            block_size,
            num_gpu_blocks: blocks,
            ..
        })
        | EngineConfig::Sarathi(SarathiConfig {
            max_model_len: model_len,
            block_size,
            num_gpu_blocks: blocks,
            ..
        }) => Memory {
            model_len,
            block_size: *block_size,
            blocks,
            watermark: VllmV0Config::watermark_blocks,
        },
        EngineConfig::Orca(orca) => unpaged(&mut orca.max_model_len, &mut orca.kv_tokens),
        EngineConfig::FasterTransformer(config) => {
            unpaged(&mut config.max_model_len, &mut config.kv_tokens)
        }
        EngineConfig::StaticBatching(StaticBatchingConfig { max_model_len, kv_tokens, .. }) => {
            unpaged(max_model_len, kv_tokens)
        }
        EngineConfig::VllmV1(_) | EngineConfig::Sglang(_) => {
            unreachable!("these engines have rules of their own")
        }
    };
    let model_len = *memory.model_len.get_or_insert(model.max_position);
    let source = if memory.blocks.is_some() {
        KvSource::Given
    } else {
        let others = (slots, WindowMemory::Whole);
        let size = memory.block_size;
        KvSource::Derived(derive_kv(cluster, (model, None), gpu, size, step_tokens, others, start)?)
    };
    let blocks = *memory.blocks.get_or_insert(match source {
        KvSource::Derived(capacity) => capacity.blocks,
        KvSource::Given => 0,
    });
    let usable = blocks - (memory.watermark)(blocks);
    let tokens = u64::from(usable) * u64::from(memory.block_size);
    if u64::from(model_len) > tokens {
        return Err(fail(
            "cluster.engine.max_model_len",
            &format!(
                "a sequence of {model_len} tokens needs more than the {tokens} tokens of KV memory \
                 that a request can be admitted to; set max_model_len to at most {tokens}"
            ),
        ));
    }
    Ok(source)
}

/// The start-up of the last vLLM of V0, which stands in for that of the others too.
fn start(
    engine: &EngineConfig,
    (cluster, gpu): (&ClusterConfig, &GpuSpec),
    step_tokens: u32,
) -> VllmStart {
    let sequences = match engine {
        EngineConfig::VllmV0(vllm) => vllm.max_num_seqs,
        EngineConfig::Sarathi(sarathi) => sarathi.max_num_seqs,
        EngineConfig::Orca(orca) => orca.max_batch_size,
        EngineConfig::FasterTransformer(config) => config.max_batch_size,
        EngineConfig::StaticBatching(config) => config.batch_size,
        EngineConfig::VllmV1(_) | EngineConfig::Sglang(_) => 1,
    };
    VllmStart {
        version: EngineVersion::LAST_V0,
        card: gpu.card(),
        tp: cluster.tensor_parallel_size,
        step_tokens,
        sequences,
        sampler: SamplerKernels::Native,
        is_compiled: false,
        graphs: 0,
    }
}

fn unpaged<'a>(model_len: &'a mut Option<u32>, tokens: &'a mut Option<u32>) -> Memory<'a> {
    Memory { model_len, block_size: 1, blocks: tokens, watermark: |_| 0 }
}

/// Prompt tokens that a step computes, for the memory of their activations.
fn step_tokens(engine: &mut EngineConfig, model: &ModelSpec) -> Result<u32, ScenarioError> {
    Ok(match engine {
        EngineConfig::VllmV0(vllm) => {
            let model_len = vllm.max_model_len.unwrap_or(model.max_position);
            let is_chunked = vllm.enable_chunked_prefill;
            let default = VllmV0Config::batched_tokens_for(is_chunked, model_len);
            let is_default = vllm.max_num_batched_tokens.is_none();
            let budget = *vllm.max_num_batched_tokens.get_or_insert(default);
            if !is_chunked && budget < model_len {
                let message = format!(
                    "without chunked prefill it must be at least max_model_len ({model_len}), got \
                     {budget}"
                );
                return Err(fail("cluster.engine.max_num_batched_tokens", &message));
            }
            check_budget(budget, vllm.max_num_seqs, is_default)?;
            budget
        }
        EngineConfig::Sarathi(sarathi) => sarathi.chunk_size,
        EngineConfig::Orca(orca) => orca.max_model_len.unwrap_or(model.max_position),
        EngineConfig::FasterTransformer(config) => {
            config.max_model_len.unwrap_or(model.max_position)
        }
        EngineConfig::StaticBatching(config) => config.max_model_len.unwrap_or(model.max_position),
        EngineConfig::VllmV1(_) | EngineConfig::Sglang(_) => 0,
    })
}
