//! How much a step may compute.

use super::VllmV1;

/// What is left of a step while it is filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimits {
    /// Tokens.
    pub(super) budget: u32,
    /// Embeddings of images.
    pub(super) encoder: u32,
    /// The longest chunk of one request; 0 for no limit.
    pub(super) chunk: u32,
    /// Whether prefill waits in this step.
    pub(super) holds_prefill: bool,
    /// Whether a prompt was worked on, be it for a request that lost its memory later in the step.
    pub(super) prefills: bool,
}

impl StepLimits {
    /// A chunk of at most `tokens` tokens.
    #[inline]
    pub(super) fn clip(&self, tokens: u32) -> u32 {
        if self.chunk > 0 { tokens.min(self.chunk) } else { tokens }
    }
}

impl VllmV1 {
    /// The limits of the next step.
    pub(super) fn step_limits(&self) -> StepLimits {
        let inside = self.running.len() as u32 + self.waiting.len() + self.holding.len();
        StepLimits {
            budget: self.settings.max_num_batched_tokens,
            encoder: self.encoder_budget(),
            chunk: self.chunk_limit(inside),
            holds_prefill: self.holds_prefill(),
            prefills: false,
        }
    }

    /// The longest chunk of one request while `inside` requests are in the engine; 0 for no limit.
    fn chunk_limit(&self, inside: u32) -> u32 {
        let threshold = self.settings.long_prefill_token_threshold;
        if inside <= 1 || threshold == 0 {
            return 0;
        }
        if self.settings.adaptive_long_prefill_threshold {
            threshold.max(self.settings.max_num_batched_tokens / inside)
        } else {
            threshold
        }
    }

    /// Whether prefill waits in this step so that decodes run alone.
    fn holds_prefill(&self) -> bool {
        let interval = u64::from(self.settings.prefill_schedule_interval);
        interval > 1
            && !self.capacity_bound
            && self.last_prefill_step.is_some_and(|step| self.executed_steps + 1 - step < interval)
            && self.running.iter().any(|&slot| !self.sequences[slot as usize].is_prefill_chunk)
    }
}
