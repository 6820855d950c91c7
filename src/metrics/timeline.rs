//! Queues, memory and throughput of all instances together over time.

use super::series::{Quantity, Series};

/// Queues, memory and throughput over time.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Requests admitted.
    pub running: Series,
    /// Requests waiting.
    pub waiting: Series,
    /// KV blocks that requests hold.
    pub kv_blocks: Series,
    /// KV blocks of the instances that had requests.
    pub kv_capacity: u64,
    /// Prompt tokens computed, per second.
    pub prefill_tokens: Series,
    /// Answer tokens that came out, per second.
    pub output_tokens: Series,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            running: Series::new(Quantity::Level),
            waiting: Series::new(Quantity::Level),
            kv_blocks: Series::new(Quantity::Level),
            kv_capacity: 0,
            prefill_tokens: Series::new(Quantity::Flow),
            output_tokens: Series::new(Quantity::Flow),
        }
    }
}

impl Timeline {
    /// Adds what others did.
    pub(super) fn join(&mut self, other: Self) {
        self.running.join(other.running);
        self.waiting.join(other.waiting);
        self.kv_blocks.join(other.kv_blocks);
        self.kv_capacity += other.kv_capacity;
        self.prefill_tokens.join(other.prefill_tokens);
        self.output_tokens.join(other.output_tokens);
    }
}
