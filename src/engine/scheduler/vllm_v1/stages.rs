//! What pipeline parallelism changes (vLLM 0.33.0, `vllm/config/vllm.py`, `max_concurrent_batches`;
//! `vllm/v1/core/sched/async_scheduler.py`).
//!
//! As many batches are in flight as there are stages, one more with asynchronous scheduling. Chunks of a
//! prompt follow each other from batch to batch. The next token of a request waits until its last one is
//! known; asynchronously, until as many decisions later as there are stages, so that requests spread over
//! the batches and each token is known to the first stage when it is needed.

use super::VllmV1;

/// The cadence of a request's tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stagger {
    stages: u32,
    /// Decisions so far, those to compute nothing included.
    pub(super) decisions: u64,
}

impl Default for Stagger {
    fn default() -> Self {
        Self { stages: 1, decisions: 0 }
    }
}

impl Stagger {
    /// Batches that may be in flight.
    pub(super) fn batches_max(self, is_async: bool) -> usize {
        self.stages as usize + usize::from(is_async)
    }

    /// The first decision that may serve a request again whose token is sampled by this one.
    pub(super) fn next(self, is_async: bool) -> u64 {
        if is_async { self.decisions + u64::from(self.stages) } else { 0 }
    }
}

impl VllmV1 {
    /// The same engine over so many stages, each request decided on its own.
    #[must_use]
    pub fn in_stages(mut self, stages: u32) -> Self {
        self.stagger.stages = stages.max(1);
        self.groups &= stages <= 1;
        self
    }

    /// Stages that a step goes through (`pipeline_parallel_size`).
    pub fn stages(&self) -> u32 {
        self.stagger.stages
    }

    /// Decisions so far, those to compute nothing included: calls of `schedule()`.
    pub fn decisions(&self) -> u64 {
        self.stagger.decisions
    }
}
