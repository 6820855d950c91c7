//! What can be seen of the engine from outside, as recordings tell it.

use super::Sglang;
use super::cache::Cache;
use super::states::Stored;
use crate::engine::StepPlan;
use crate::ids::RequestId;

impl Sglang {
    /// Tokens of memory that hold nothing.
    pub fn available_tokens(&self) -> u32 {
        self.available
    }

    /// Cached tokens that no request uses.
    pub fn evictable_tokens(&self) -> u32 {
        self.cache.evictable()
    }

    /// Tokens of the window pool that hold nothing, and cached ones that no request uses, if there is such a pool.
    pub fn window_tokens(&self) -> Option<(u32, u32)> {
        match &self.cache {
            Cache::Window(cache) => Some((cache.free, cache.evictable())),
            Cache::Full(_) | Cache::State(_) => None,
        }
    }

    /// States that hold nothing, and cached ones that no request uses, if there are any.
    pub fn states(&self) -> Option<(u32, u32)> {
        match &self.cache {
            Cache::State(cache) => Some((cache.free, cache.evictable())),
            Cache::Full(_) | Cache::Window(_) => None,
        }
    }

    /// Tokens that joined the tree with a state since the step before the last was decided, where states are
    /// tracked and entries recorded.
    pub fn stored_states(&self) -> &[Stored] {
        match &self.cache {
            Cache::State(cache) => cache.told(),
            Cache::Full(_) | Cache::Window(_) => &[],
        }
    }

    /// The share of its limit that an answer is expected to use.
    pub fn new_token_ratio(&self) -> f64 {
        self.ratio.current
    }

    /// Whether nobody is admitted until some request leaves a batch.
    pub fn is_batch_full(&self) -> bool {
        self.is_full
    }

    /// Requests in the decode batch; those of the last prefill batch join it in the next step.
    pub fn running_requests(&self) -> u32 {
        self.running.len() as u32
    }

    /// Whether the waiting queue is ordered by priority.
    pub fn is_by_priority(&self) -> bool {
        self.settings.enable_priority_scheduling
    }

    /// The request whose prefill goes on in the next batch.
    pub fn chunked_request(&self) -> Option<RequestId> {
        self.chunked.map(|slot| self.sequences[slot as usize].life.id)
    }

    /// The waiting queue, in its order.
    pub fn waiting_requests(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter().map(|&slot| self.sequences[slot as usize].life.id)
    }

    /// The requests of the latest plan that lost their memory: to a higher priority, and to the
    /// decoding of others.
    pub fn split_preempted<'a>(&self, plan: &'a StepPlan) -> (&'a [RequestId], &'a [RequestId]) {
        plan.preempted.split_at(self.retractions_from)
    }
}
