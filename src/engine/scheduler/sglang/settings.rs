//! What decides its schedules.

use super::hybrid::SglangHybrid;
use crate::kv::TreeKeys;
use crate::scenario::{SglangConfig, SglangPolicy, SpeculativeAlgorithm};

/// The flags of an engine that runs, under SGLang's own names: nothing is left to a default.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
pub struct SglangSettings {
    /// Tokens of KV memory.
    pub max_total_tokens: u32,
    /// Requests with KV memory at most.
    pub max_running_requests: u32,
    /// Longest sequence, prompt and answer together.
    pub context_length: u32,
    /// Whether a request is refused whose prompt and `max_tokens` together reach the longest sequence.
    pub refuse_beyond_context: bool,
    /// Tokens of a prefill batch at most, longer prompts are cut; no cutting if absent.
    pub chunked_prefill_size: Option<u32>,
    /// Tokens of a prefill batch after which no more requests are added.
    pub max_prefill_tokens: u32,
    /// Requests added to a prefill batch at most, if there is a limit.
    pub prefill_max_requests: Option<u32>,
    /// Tokens per KV page.
    pub page_size: u32,
    /// Order of admission.
    pub schedule_policy: SglangPolicy,
    /// How much memory is kept for answers still to come.
    pub schedule_conservativeness: f64,
    /// Whether prefixes are computed anew for every request.
    pub disable_radix_cache: bool,
    /// Whether decoding requests ride along in prefill batches.
    pub enable_mixed_chunk: bool,
    /// Whether a batch is scheduled only after the one before has ended.
    pub disable_overlap_schedule: bool,
    /// Steps that only decode between two looks at what has come.
    pub scheduler_recv_interval: u32,
    /// Whether requests are ordered by priority, larger first, and may displace running ones.
    pub enable_priority_scheduling: bool,
    /// A waiting request displaces running ones whose priority is lower by more than this.
    pub priority_scheduling_preemption_threshold: i32,
    /// Distinct adapters in a batch at most, "no adapter" being one, if there is a limit.
    pub max_loras_per_batch: Option<u32>,
    /// Drafts that a decode step verifies for each request, with one candidate per position
    /// (`--speculative-num-steps`); 0 without speculation.
    pub speculative_num_steps: u32,
    /// Where they come from.
    pub speculative_algorithm: SpeculativeAlgorithm,
    /// What its model keeps beside the KV of layers with full attention, if it is a hybrid.
    pub hybrid: Option<SglangHybrid>,
}

/// Tokens of the longest request that its prompt may not use.
const ANSWER_MIN: u32 = 5;

impl SglangSettings {
    /// Tokens of memory, in whole pages.
    pub(in crate::engine::scheduler) const fn pool(&self) -> u32 {
        self.max_total_tokens - self.max_total_tokens % self.page_size
    }

    /// Tokens of the longest sequence: less than what context and memory hold.
    pub(super) const fn longest(&self) -> u32 {
        let pool = self.pool();
        let most = if pool < self.context_length { pool } else { self.context_length };
        most.saturating_sub(1)
    }

    /// Tokens of the longest prompt that is not refused.
    pub const fn prompt_max(&self) -> u32 {
        self.longest().saturating_sub(ANSWER_MIN + 1)
    }

    /// The settings of a configuration that leaves none of them out.
    pub fn of(config: &SglangConfig) -> Option<Self> {
        Some(Self {
            max_total_tokens: config.max_total_tokens?,
            max_running_requests: config.max_running_requests?,
            context_length: config.context_length?,
            refuse_beyond_context: config.refuse_beyond_context,
            chunked_prefill_size: Self::chunk_size(config.chunked_prefill_size?),
            max_prefill_tokens: config.max_prefill_tokens,
            prefill_max_requests: config.prefill_max_requests,
            page_size: config.page_tokens(),
            schedule_policy: config.schedule_policy,
            schedule_conservativeness: config.schedule_conservativeness,
            disable_radix_cache: config.disable_radix_cache,
            enable_mixed_chunk: config.enable_mixed_chunk,
            disable_overlap_schedule: config.disable_overlap_schedule,
            scheduler_recv_interval: config.scheduler_recv_interval,
            enable_priority_scheduling: config.enable_priority_scheduling,
            priority_scheduling_preemption_threshold: config
                .priority_scheduling_preemption_threshold,
            max_loras_per_batch: config.max_loras_per_batch,
            speculative_num_steps: config.drafts(),
            speculative_algorithm: config
                .speculation
                .as_ref()
                .map_or_else(SpeculativeAlgorithm::default, |it| it.speculative_algorithm),
            hybrid: None,
        })
    }

    /// What prefixes go by.
    pub(super) fn tree_keys(&self) -> TreeKeys {
        let reads_states =
            self.speculative_num_steps > 0 && self.speculative_algorithm.reads_states();
        if reads_states { TreeKeys::Bigrams } else { TreeKeys::Tokens }
    }

    /// What SGLang makes of its `chunked_prefill_size`: 0 and less cut nothing.
    pub fn chunk_size(flag: i32) -> Option<u32> {
        u32::try_from(flag).ok().filter(|size| *size > 0)
    }
}
