//! How the plain schedulers are configured: baselines for studies, and vLLM before V1.

use serde::{Deserialize, Serialize};

use super::HostConfig;

/// The flags of vLLM V0 that decide schedules, under vLLM's own names
/// (vLLM 0.6.3, `vllm/config.py`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct VllmV0Config {
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks in GPU memory; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_gpu_blocks: Option<u32>,
    /// Token budget of a step; if absent, 512 with chunked prefill, else `max_model_len` and at
    /// least 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_batched_tokens: Option<u32>,
    /// Sequences that run at most.
    pub max_num_seqs: u32,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// Whether a prompt may be split over several steps and share them with decodes.
    pub enable_chunked_prefill: bool,
    /// Whether no CUDA graphs are captured.
    pub enforce_eager: bool,
    /// The longest sequence, in tokens, for which a graph is replayed.
    pub max_seq_len_to_capture: u32,
    /// Host time of each step.
    pub host: HostConfig,
}

impl VllmV0Config {
    /// Of so many blocks, those that newcomers leave free: a hundredth (`watermark` of
    /// `vllm/core/block_manager.py`, which no flag sets).
    pub fn watermark_blocks(num_gpu_blocks: u32) -> u32 {
        num_gpu_blocks / 100
    }

    /// The default of `max_num_batched_tokens` (vLLM 0.6.3; later versions: 2048 with chunks).
    pub fn batched_tokens_for(enable_chunked_prefill: bool, max_model_len: u32) -> u32 {
        if enable_chunked_prefill { 512 } else { max_model_len.max(2048) }
    }
}

impl Default for VllmV0Config {
    fn default() -> Self {
        Self {
            block_size: 16,
            num_gpu_blocks: None,
            max_num_batched_tokens: None,
            max_num_seqs: 256,
            max_model_len: None,
            enable_chunked_prefill: false,
            enforce_eager: false,
            max_seq_len_to_capture: 8192,
            host: HostConfig::default(),
        }
    }
}

/// Sarathi-Serve's scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SarathiConfig {
    /// Token budget of a step.
    pub chunk_size: u32,
    /// Requests that run at most.
    pub max_num_seqs: u32,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks in GPU memory; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_gpu_blocks: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// Host time of each step.
    pub host: HostConfig,
}

impl Default for SarathiConfig {
    /// 512 tokens, the paper's budget for strict latency targets.
    fn default() -> Self {
        Self {
            chunk_size: 512,
            max_num_seqs: 128,
            block_size: 16,
            num_gpu_blocks: None,
            max_model_len: None,
            host: HostConfig::default(),
        }
    }
}

/// For how many tokens a request reserves memory when it is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// Its prompt and its own limit (`max_tokens`).
    #[default]
    Request,
    /// The longest sequence of the engine.
    Model,
}

/// Orca's scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct OrcaConfig {
    /// Requests in a step at most.
    pub max_batch_size: u32,
    /// Adapters on the GPU, and in a step, at most; all of the workload if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_loras: Option<u32>,
    /// Tokens of KV memory; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// For how many tokens a request reserves memory.
    pub reservation: Reservation,
    /// Host time of each step.
    pub host: HostConfig,
}

impl Default for OrcaConfig {
    /// Batches of 32, one of the sizes of the paper.
    fn default() -> Self {
        Self {
            max_batch_size: 32,
            max_loras: None,
            kv_tokens: None,
            max_model_len: None,
            reservation: Reservation::Request,
            host: HostConfig::default(),
        }
    }
}

/// Batches of requests without newcomers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FasterTransformerConfig {
    /// Requests in a batch at most.
    pub max_batch_size: u32,
    /// Tokens of KV memory; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// For how many tokens a request reserves memory.
    pub reservation: Reservation,
    /// Host time of each step.
    pub host: HostConfig,
}

impl Default for FasterTransformerConfig {
    fn default() -> Self {
        Self {
            max_batch_size: 32,
            kv_tokens: None,
            max_model_len: None,
            reservation: Reservation::Request,
            host: HostConfig::default(),
        }
    }
}

/// Padded batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StaticBatchingConfig {
    /// Requests in a full batch.
    pub batch_size: u32,
    /// How long an idle engine waits for a batch to fill once a request is there, in ms.
    pub batch_timeout_ms: f64,
    /// Tokens of KV memory; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// Host time of each step.
    pub host: HostConfig,
}

impl Default for StaticBatchingConfig {
    /// Batches of 8, started at once.
    fn default() -> Self {
        Self {
            batch_size: 8,
            batch_timeout_ms: 0.0,
            kv_tokens: None,
            max_model_len: None,
            host: HostConfig::default(),
        }
    }
}
