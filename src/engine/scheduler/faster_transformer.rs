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
use super::{FasterTransformerSettings, Handoff, Load, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::units::SimTime;

/// Batches of requests without newcomers.
#[derive(Debug, Clone)]
pub struct FasterTransformer {
    queues: Queues,
    settings: FasterTransformerSettings,
}

impl FasterTransformer {
    /// An engine without requests.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence.
    pub fn new(settings: FasterTransformerSettings) -> Self {
        let queues = Queues::new(settings.memory);
        assert!(queues.holds_longest(0), "the longest sequence fits");
        Self { queues, settings }
    }
}

impl Schedule for FasterTransformer {
    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        if self.queues.running().is_empty() {
            self.queues.admit_up_to(self.settings.max_batch_size, self.settings.reservation);
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
    use crate::engine::scheduler::Memory;
    use crate::scenario::Reservation;

    fn engine() -> FasterTransformer {
        FasterTransformer::new(FasterTransformerSettings {
            memory: Memory::unpaged(100, 50),
            max_batch_size: 2,
            reservation: Reservation::Request,
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
