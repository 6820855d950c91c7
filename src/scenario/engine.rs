//! How an engine is configured, in the engine's own names.

use serde::{Deserialize, Serialize};

use super::baselines::{
    FasterTransformerConfig, OrcaConfig, SarathiConfig, StaticBatchingConfig, VllmV0Config,
};
use super::{
    AcceptanceConfig, HostConfig, SglangConfig, SglangSpeculationConfig, Speculation,
    SpeculationConfig,
};
use crate::model::layout::Machine;
use crate::model::{EngineVersion, KvGroups, ModelSpec, SamplerKernels};

/// An engine and its flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EngineConfig {
    /// vLLM's V1 scheduler.
    VllmV1(VllmConfig),
    /// SGLang's scheduler.
    Sglang(SglangConfig),
    /// vLLM's scheduler before V1.
    VllmV0(VllmV0Config),
    /// Sarathi-Serve's scheduler.
    Sarathi(SarathiConfig),
    /// Orca's scheduler.
    Orca(OrcaConfig),
    /// Batches of requests without newcomers.
    FasterTransformer(FasterTransformerConfig),
    /// Padded batches.
    StaticBatching(StaticBatchingConfig),
}

impl EngineConfig {
    /// Whether it keeps a prefix cache.
    pub fn keeps_prefixes(&self) -> bool {
        match self {
            Self::VllmV1(vllm) => vllm.enable_prefix_caching,
            Self::Sglang(sglang) => !sglang.disable_radix_cache,
            _ => false,
        }
    }

    /// The KV capacity that is given, in what the engine counts it in: blocks or tokens.
    pub(crate) const fn kv_capacity_mut(&mut self) -> &mut Option<u32> {
        match self {
            Self::VllmV1(config) => &mut config.num_gpu_blocks,
            Self::Sglang(config) => &mut config.max_total_tokens,
            Self::VllmV0(config) => &mut config.num_gpu_blocks,
            Self::Sarathi(config) => &mut config.num_gpu_blocks,
            Self::Orca(config) => &mut config.kv_tokens,
            Self::FasterTransformer(config) => &mut config.kv_tokens,
            Self::StaticBatching(config) => &mut config.kv_tokens,
        }
    }

    /// The setting that bounds prompt and answer together.
    pub(crate) const fn context_key(&self) -> &'static str {
        match self {
            Self::Sglang(_) => "context_length",
            _ => "max_model_len",
        }
    }

    /// The setting that gives the KV capacity.
    pub(crate) const fn kv_capacity_key(&self) -> &'static str {
        match self {
            Self::VllmV1(_) | Self::VllmV0(_) | Self::Sarathi(_) => "num_gpu_blocks",
            Self::Sglang(_) => "max_total_tokens",
            Self::Orca(_) | Self::FasterTransformer(_) | Self::StaticBatching(_) => "kv_tokens",
        }
    }

    /// Whether it knows LoRA adapters.
    pub const fn serves_adapters(&self) -> bool {
        matches!(self, Self::VllmV1(_) | Self::Sglang(_) | Self::Orca(_))
    }

    /// How many adapters running requests may use; of engines that choose them anew for each step, none.
    pub fn adapter_slots(&self) -> Option<u32> {
        match self {
            Self::VllmV1(vllm) => vllm.max_loras,
            Self::Sglang(sglang) => sglang.max_loras_per_batch,
            _ => None,
        }
    }

    /// How it speculates, if it does.
    pub fn speculation(&self) -> Option<Speculation<'_>> {
        match self {
            Self::VllmV1(vllm) => vllm.speculation.as_ref().map(SpeculationConfig::in_common),
            Self::Sglang(sglang) => {
                sglang.speculation.as_ref().map(SglangSpeculationConfig::in_common)
            }
            _ => None,
        }
    }

    /// What it says of accepted drafts, if it speculates.
    pub fn acceptance_mut(&mut self) -> Option<&mut AcceptanceConfig> {
        match self {
            Self::VllmV1(vllm) => vllm.speculation.as_mut().map(|it| &mut it.acceptance),
            Self::Sglang(sglang) => sglang.speculation.as_mut().map(|it| &mut it.acceptance),
            _ => None,
        }
    }

    /// The name of the model that drafts, or whose layers the head has, if it has one.
    pub fn drafting_model_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::VllmV1(vllm) => vllm.speculation.as_mut()?.model.as_mut(),
            Self::Sglang(sglang) => {
                sglang.speculation.as_mut()?.speculative_draft_model_path.as_mut()
            }
            _ => None,
        }
    }

    /// Its name in scenarios.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::VllmV1(_) => "vllm_v1",
            Self::Sglang(_) => "sglang",
            Self::VllmV0(_) => "vllm_v0",
            Self::Sarathi(_) => "sarathi",
            Self::Orca(_) => "orca",
            Self::FasterTransformer(_) => "faster_transformer",
            Self::StaticBatching(_) => "static_batching",
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self::VllmV1(VllmConfig::default())
    }
}

/// The order in which waiting requests are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// By priority value, then by arrival.
    Priority,
}

/// What is kept of the states of layers with linear attention (vLLM 0.33.0, `vllm/config/cache.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MambaCacheMode {
    /// The latest of each request: no prefix is found again.
    None,
    /// Those at ends of blocks, at which shares of prompts end where they can.
    Align,
}

/// The flags of vLLM's V1 engine that decide schedules, under vLLM's own names
/// (vLLM 0.33.0, `vllm/config/scheduler.py` and `cache.py`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
pub struct VllmConfig {
    /// Whose start-up the memory is taken from.
    #[serde(skip_serializing_if = "VllmStartUp::is_default")]
    pub start_up: VllmStartUp,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks in GPU memory, the reserved null block included; derived from memory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_gpu_blocks: Option<u32>,
    /// Token budget of a step; by the memory of the GPU if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_batched_tokens: Option<u32>,
    /// Sequences in a step at most; by the memory of the GPU if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<u32>,
    /// Running requests at most; `max_num_seqs` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_active_seqs: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
    /// Whether a prompt may be split over several steps.
    pub enable_chunked_prefill: bool,
    /// Whether full blocks are kept and found again by content.
    pub enable_prefix_caching: bool,
    /// Whether the next batch is scheduled while the last one runs.
    pub async_scheduling: bool,
    /// Whether layers with a sliding window keep whole contexts in KV memory, as all others do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_hybrid_kv_cache_manager: bool,
    /// What is kept of the states of layers with linear attention; by what prompts share if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_cache_mode: Option<MambaCacheMode>,
    /// Order of admission.
    pub policy: Policy,
    /// Longest prefill chunk of one request while others are in the engine; 0 for no limit.
    pub long_prefill_token_threshold: u32,
    /// Raises that threshold to an even share of the token budget.
    pub adaptive_long_prefill_threshold: bool,
    /// Prefill in at most one of this many steps.
    pub prefill_schedule_interval: u32,
    /// Share of the blocks kept free when a waiting request is admitted.
    pub watermark: f64,
    /// Whether a waiting request is admitted only if its whole sequence fits.
    pub scheduler_reserve_full_isl: bool,
    /// Distinct adapters in a step at most; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_loras: Option<u32>,
    /// Whether no CUDA graphs are captured.
    pub enforce_eager: bool,
    /// The largest step, in tokens, for which a graph is captured; by [`Self::capture_sizes_for`]
    /// if absent. 0 without graphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cudagraph_capture_size: Option<u32>,
    /// Tokens of the steps for which graphs are captured, ascending; by
    /// [`Self::capture_sizes_up_to`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cudagraph_capture_sizes: Option<Vec<u32>>,
    /// Speculative decoding, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationConfig>,
    /// Host time of each step.
    pub host: HostConfig,
}

/// What the start-up of vLLM depends on beside its other flags. It decides what is left for KV where
/// `num_gpu_blocks` is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct VllmStartUp {
    /// The version, as in `0.21.0`; that of the scheduler (0.33) if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How it chooses tokens; by its own operators if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKernels>,
}

impl VllmStartUp {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The version; that of the scheduler too where what is written is none.
    pub fn version(&self) -> EngineVersion {
        let told = self.version.as_deref().and_then(EngineVersion::parse);
        told.unwrap_or(EngineVersion::VLLM)
    }
}

impl Default for VllmConfig {
    /// The defaults of the API server.
    fn default() -> Self {
        Self {
            start_up: VllmStartUp::default(),
            block_size: 16,
            num_gpu_blocks: None,
            max_num_batched_tokens: None,
            max_num_seqs: None,
            max_num_active_seqs: None,
            max_model_len: None,
            enable_chunked_prefill: true,
            enable_prefix_caching: true,
            async_scheduling: true,
            disable_hybrid_kv_cache_manager: false,
            mamba_cache_mode: None,
            policy: Policy::Fcfs,
            long_prefill_token_threshold: 0,
            adaptive_long_prefill_threshold: false,
            prefill_schedule_interval: 1,
            watermark: 0.0,
            scheduler_reserve_full_isl: true,
            max_loras: None,
            enforce_eager: false,
            max_cudagraph_capture_size: None,
            cudagraph_capture_sizes: None,
            speculation: None,
            host: HostConfig::default(),
        }
    }
}

impl VllmConfig {
    /// How layers of a model that have a window or a state share blocks with the others on a machine; nothing where
    /// all keep whole contexts.
    pub fn kv_groups(&self, model: &ModelSpec, machine: Machine) -> Option<KvGroups> {
        let groups = KvGroups::on(model, machine);
        let mut groups = groups.filter(|_| !self.disable_hybrid_kv_cache_manager)?;
        // A request has a state for each draft that may be refused (vLLM 0.33.0, `vllm/v1/kv_cache_interface.py`).
        let drafts = self.speculation.as_ref().map_or(0, |some| some.num_speculative_tokens);
        groups.states = groups.states.saturating_mul(drafts.saturating_add(1));
        Some(groups)
    }
}

impl EngineConfig {
    /// Host time of each step.
    pub fn host(&self) -> &HostConfig {
        match self {
            Self::VllmV1(config) => &config.host,
            Self::Sglang(config) => &config.host,
            Self::VllmV0(config) => &config.host,
            Self::Sarathi(config) => &config.host,
            Self::Orca(config) => &config.host,
            Self::FasterTransformer(config) => &config.host,
            Self::StaticBatching(config) => &config.host,
        }
    }
    /// The same, to change.
    pub(crate) fn host_mut(&mut self) -> &mut HostConfig {
        match self {
            Self::VllmV1(config) => &mut config.host,
            Self::Sglang(config) => &mut config.host,
            Self::VllmV0(config) => &mut config.host,
            Self::Sarathi(config) => &mut config.host,
            Self::Orca(config) => &mut config.host,
            Self::FasterTransformer(config) => &mut config.host,
            Self::StaticBatching(config) => &mut config.host,
        }
    }
}
