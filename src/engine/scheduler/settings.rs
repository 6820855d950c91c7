//! Settings of the schedulers, as an engine that runs has them.

use super::{SglangSettings, VllmV1Settings};
use crate::scenario::{
    EngineConfig, FasterTransformerConfig, OrcaConfig, Reservation, SarathiConfig,
    StaticBatchingConfig, VllmV0Config,
};

/// The settings of one of the project's schedulers.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineSettings {
    /// vLLM's V1 scheduler.
    VllmV1(VllmV1Settings),
    /// SGLang's scheduler.
    Sglang(SglangSettings),
    /// vLLM's scheduler before V1.
    VllmV0(VllmV0Settings),
    /// Sarathi-Serve's scheduler.
    Sarathi(SarathiSettings),
    /// Orca's scheduler.
    Orca(OrcaSettings),
    /// Batches of requests without newcomers.
    FasterTransformer(FasterTransformerSettings),
    /// Padded batches.
    StaticBatching(StaticBatchingSettings),
}

impl EngineSettings {
    /// The settings of a configuration that leaves none of them out.
    pub fn of(engine: &EngineConfig) -> Option<Self> {
        Some(match engine {
            EngineConfig::VllmV1(config) => Self::VllmV1(VllmV1Settings::of(config)?),
            EngineConfig::Sglang(config) => Self::Sglang(SglangSettings::of(config)?),
            EngineConfig::VllmV0(config) => Self::VllmV0(VllmV0Settings::of(config)?),
            EngineConfig::Sarathi(config) => Self::Sarathi(SarathiSettings::of(config)?),
            EngineConfig::Orca(config) => Self::Orca(OrcaSettings::of(config)?),
            EngineConfig::FasterTransformer(config) => {
                Self::FasterTransformer(FasterTransformerSettings::of(config)?)
            }
            EngineConfig::StaticBatching(config) => {
                Self::StaticBatching(StaticBatchingSettings::of(config)?)
            }
        })
    }

    /// Tokens of the longest sequence, prompt and answer together.
    pub const fn max_model_len(&self) -> u32 {
        match self {
            Self::VllmV1(settings) => settings.max_model_len,
            Self::Sglang(settings) => settings.context_length,
            Self::VllmV0(VllmV0Settings { memory, .. })
            | Self::Sarathi(SarathiSettings { memory, .. })
            | Self::Orca(OrcaSettings { memory, .. })
            | Self::FasterTransformer(FasterTransformerSettings { memory, .. })
            | Self::StaticBatching(StaticBatchingSettings { memory, .. }) => memory.max_model_len,
        }
    }

    /// Tokens of KV memory, in whole pages, that no sequence may outgrow, where that is not checked beforehand.
    pub const fn max_total_tokens(&self) -> Option<u32> {
        match self {
            Self::Sglang(settings) => Some(settings.pool()),
            _ => None,
        }
    }

    /// Tokens of the longest prompt that is not refused.
    pub const fn prompt_max(&self) -> u32 {
        match self {
            Self::Sglang(settings) => settings.prompt_max(),
            _ => self.max_model_len().saturating_sub(1),
        }
    }

    /// From how many tokens of prompt and `max_tokens` together on requests are refused, where they are.
    pub const fn refused_from(&self) -> Option<u32> {
        match self {
            Self::Sglang(settings) if settings.refuse_beyond_context => {
                Some(settings.context_length)
            }
            _ => None,
        }
    }

    /// Tokens of a block of KV memory; 1 where it is not paged.
    pub const fn block_size(&self) -> u32 {
        match self {
            Self::VllmV1(settings) => settings.block_size,
            Self::Sglang(settings) => settings.page_size,
            Self::VllmV0(VllmV0Settings { memory, .. })
            | Self::Sarathi(SarathiSettings { memory, .. })
            | Self::Orca(OrcaSettings { memory, .. })
            | Self::FasterTransformer(FasterTransformerSettings { memory, .. })
            | Self::StaticBatching(StaticBatchingSettings { memory, .. }) => memory.block_size,
        }
    }
}

/// KV memory of the plain schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Tokens of a block; 1 where memory is not paged.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u32,
    /// Longest sequence in tokens, prompt and answer together.
    pub max_model_len: u32,
}

impl Memory {
    /// Memory that is not paged.
    pub const fn unpaged(tokens: u32, max_model_len: u32) -> Self {
        Self { block_size: 1, blocks: tokens, max_model_len }
    }
}

/// Settings of vLLM's scheduler before V1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VllmV0Settings {
    /// KV memory.
    pub memory: Memory,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Sequences that run at most.
    pub max_num_seqs: u32,
    /// Whether a prompt may be split over several steps and share them with decodes.
    pub enable_chunked_prefill: bool,
}

impl VllmV0Settings {
    fn of(config: &VllmV0Config) -> Option<Self> {
        Some(Self {
            memory: Memory {
                block_size: config.block_size,
                blocks: config.num_gpu_blocks?,
                max_model_len: config.max_model_len?,
            },
            max_num_batched_tokens: config.max_num_batched_tokens?,
            max_num_seqs: config.max_num_seqs,
            enable_chunked_prefill: config.enable_chunked_prefill,
        })
    }
}

/// Settings of Sarathi-Serve's scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SarathiSettings {
    /// KV memory.
    pub memory: Memory,
    /// Token budget of a step.
    pub chunk_size: u32,
    /// Requests that run at most.
    pub max_num_seqs: u32,
}

impl SarathiSettings {
    fn of(config: &SarathiConfig) -> Option<Self> {
        Some(Self {
            memory: Memory {
                block_size: config.block_size,
                blocks: config.num_gpu_blocks?,
                max_model_len: config.max_model_len?,
            },
            chunk_size: config.chunk_size,
            max_num_seqs: config.max_num_seqs,
        })
    }
}

/// Settings of Orca's scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrcaSettings {
    /// KV memory.
    pub memory: Memory,
    /// Requests in a step at most.
    pub max_batch_size: u32,
    /// Adapters on the GPU, and in a step, at most, if there is a limit.
    pub max_loras: Option<u32>,
    /// For how many tokens a request reserves memory.
    pub reservation: Reservation,
}

impl OrcaSettings {
    fn of(config: &OrcaConfig) -> Option<Self> {
        Some(Self {
            memory: Memory::unpaged(config.kv_tokens?, config.max_model_len?),
            max_batch_size: config.max_batch_size,
            max_loras: config.max_loras,
            reservation: config.reservation,
        })
    }
}

/// Settings of batches of requests without newcomers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FasterTransformerSettings {
    /// KV memory.
    pub memory: Memory,
    /// Requests in a batch at most.
    pub max_batch_size: u32,
    /// For how many tokens a request reserves memory.
    pub reservation: Reservation,
}

impl FasterTransformerSettings {
    fn of(config: &FasterTransformerConfig) -> Option<Self> {
        Some(Self {
            memory: Memory::unpaged(config.kv_tokens?, config.max_model_len?),
            max_batch_size: config.max_batch_size,
            reservation: config.reservation,
        })
    }
}

/// Settings of padded batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StaticBatchingSettings {
    /// KV memory.
    pub memory: Memory,
    /// Requests in a full batch.
    pub batch_size: u32,
    /// How long an idle engine waits for a batch to fill once a request is there, in ms.
    pub batch_timeout_ms: f64,
}

impl StaticBatchingSettings {
    fn of(config: &StaticBatchingConfig) -> Option<Self> {
        Some(Self {
            memory: Memory::unpaged(config.kv_tokens?, config.max_model_len?),
            batch_size: config.batch_size,
            batch_timeout_ms: config.batch_timeout_ms,
        })
    }
}
