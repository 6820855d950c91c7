//! Batching by requests, as NVIDIA's `FasterTransformer` was served (the baseline of the Orca paper:
//! Yu et al., OSDI 2022, section 6): a batch is put together once.
//!
//! An idle engine takes the waiting requests in order of arrival, up to the batch size and to the
//! memory that their longest answers need; prompts are computed together, without padding. Who has
//! his last token leaves and is no longer computed, but nobody joins before the whole batch is
//! done.
//!
//! Left out: answers held back until the batch is done; tokens come out as they are computed.

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::scenario::{FasterTransformerConfig, Reservation};
use crate::units::SimTime;

/// Batches of requests without newcomers.
#[derive(Debug, Clone)]
pub struct FasterTransformer {
    queues: Queues,
    batch_max: u32,
    reservation: Reservation,
}

impl FasterTransformer {
    /// An engine without requests.
    ///
    /// # Panics
    /// When the configuration is not resolved: validation comes before.
    pub fn new(config: &FasterTransformerConfig) -> Self {
        let tokens = config.kv_tokens.expect("the tokens of KV memory are resolved");
        let model_len = config.max_model_len.expect("the longest sequence is resolved");
        let queues = Queues::new(1, tokens, model_len);
        assert!(queues.holds_longest(0), "the longest sequence fits");
        Self { queues, batch_max: config.max_batch_size, reservation: config.reservation }
    }
}

impl Schedule for FasterTransformer {
    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        if self.queues.running().is_empty() {
            self.queues.admit_up_to(self.batch_max, self.reservation);
        }
        self.queues.serve_all(now, plan);
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.queues.complete(now, plan, result);
    }

    fn token_budget(&self) -> u32 {
        u32::MAX
    }

    schedule_by_queues!();
}

#[cfg(test)]
mod tests {
    use super::super::baseline::tests::{Arrivals, shapes, steps};
    use super::*;
    use crate::cost::StepShape;

    fn engine() -> FasterTransformer {
        FasterTransformer::new(&FasterTransformerConfig {
            max_batch_size: 2,
            kv_tokens: Some(100),
            max_model_len: Some(50),
            reservation: Reservation::Request,
            ..FasterTransformerConfig::default()
        })
    }

    #[test]
    fn nobody_joins_before_the_batch_is_done() {
        // Requests 0 and 1 form a batch. After two steps request 1 has left and request 0 decodes
        // alone; request 2 waits until request 0 has its four tokens.
        let arrivals: Arrivals = &[(0, 5, 4), (0, 3, 2), (0, 4, 2)];
        let expected = ["0:5 1:3", "0:1 1:1", "0:1", "0:1", "2:4", "2:1"];
        assert_eq!(steps(&mut engine(), arrivals), expected);
    }

    #[test]
    fn who_has_left_is_not_computed() {
        let shapes = shapes(&mut engine(), &[(0, 5, 4), (0, 3, 2)]);
        let rows: Vec<u32> = shapes.iter().map(StepShape::tokens).collect();
        assert_eq!(rows, [8, 2, 1, 1]);
    }
}
