//! What decides its schedules.

use crate::scenario::{Policy, SpeculationConfig, SpeculationMethod, VllmConfig};

/// The flags of an engine that runs, under vLLM's own names: nothing is left to a default.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
pub struct VllmV1Settings {
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks in GPU memory, the reserved null block included.
    pub num_gpu_blocks: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Running requests at most.
    pub max_num_active_seqs: u32,
    /// Longest sequence, prompt and answer together.
    pub max_model_len: u32,
    /// Whether a prompt may be split over several steps.
    pub enable_chunked_prefill: bool,
    /// Whether full blocks are kept and found again by content.
    pub enable_prefix_caching: bool,
    /// Whether the next batch is scheduled while the last one runs.
    pub async_scheduling: bool,
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
    /// Distinct adapters in a step at most, if there is a limit.
    pub max_loras: Option<u32>,
    /// Where drafts come from, and how many there are in a step; none without speculation.
    pub drafts: Option<(SpeculationMethod, u32)>,
}

impl VllmV1Settings {
    /// The settings of a configuration that leaves none of them out.
    pub fn of(config: &VllmConfig) -> Option<Self> {
        let drafts = |s: &SpeculationConfig| (s.scheduled_as(), s.num_speculative_tokens);
        Some(Self {
            block_size: config.block_size,
            num_gpu_blocks: config.num_gpu_blocks?,
            max_num_batched_tokens: config.max_num_batched_tokens?,
            max_num_active_seqs: config.max_num_active_seqs.or(config.max_num_seqs)?,
            max_model_len: config.max_model_len?,
            enable_chunked_prefill: config.enable_chunked_prefill,
            enable_prefix_caching: config.enable_prefix_caching,
            async_scheduling: config.async_scheduling,
            policy: config.policy,
            long_prefill_token_threshold: config.long_prefill_token_threshold,
            adaptive_long_prefill_threshold: config.adaptive_long_prefill_threshold,
            prefill_schedule_interval: config.prefill_schedule_interval,
            watermark: config.watermark,
            scheduler_reserve_full_isl: config.scheduler_reserve_full_isl,
            max_loras: config.max_loras,
            drafts: config.speculation.as_ref().map(drafts),
        })
    }
}
