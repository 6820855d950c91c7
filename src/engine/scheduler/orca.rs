//! Orca (Yu et al., OSDI 2022, algorithm 1): batches change at every step.
//!
//! Each step takes the admitted requests and, in order of arrival, newcomers up to the batch size:
//! their whole prompts are computed in the same step in which others decode (selective batching).
//! Memory for the longest that a request may become is reserved when it is admitted, so that
//! nobody ever loses it. Nobody overtakes: if the first does not fit, those behind it wait.
//!
//! Left out: pipeline parallelism with several batches in flight.

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, OrcaSettings, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::units::SimTime;

/// Orca's scheduler.
#[derive(Debug, Clone)]
pub struct Orca {
    queues: Queues,
    settings: OrcaSettings,
}

impl Orca {
    /// An engine without requests.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence.
    pub fn new(settings: OrcaSettings) -> Self {
        let queues = Queues::new(settings.memory);
        assert!(queues.holds_longest(0), "the longest sequence fits");
        Self { queues, settings }
    }
}

impl Schedule for Orca {
    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        self.queues.admit_up_to(self.settings.max_batch_size, self.settings.reservation);
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
    use super::super::baseline::tests::{Arrivals, steps};
    use super::*;
    use crate::engine::scheduler::Memory;
    use crate::scenario::Reservation;

    fn orca(max_batch_size: u32, kv_tokens: u32, reservation: Reservation) -> Orca {
        let memory = Memory::unpaged(kv_tokens, 20);
        Orca::new(OrcaSettings { memory, max_batch_size, max_loras: None, reservation })
    }

    #[test]
    fn a_newcomer_is_prefilled_while_others_decode() {
        // Two places. Step 0: prompts of 5 and 3 tokens. Step 1: both decode; request 1 has its
        // two tokens. Step 2: request 0 decodes its last token, request 2 takes the place and is
        // prefilled beside it. Step 3: request 2 decodes.
        let mut orca = orca(2, 100, Reservation::Request);
        let arrivals: Arrivals = &[(0, 5, 3), (0, 3, 2), (0, 4, 2)];
        let expected = ["0:5 1:3", "0:1 1:1", "0:1 2:4", "2:1"];
        assert_eq!(steps(&mut orca, arrivals), expected);
    }

    #[test]
    fn memory_is_reserved_for_the_longest_answer() {
        // 20 tokens of memory; requests of 6 + 6 tokens reserve 12 each: one at a time, although
        // the prompts of both would fit.
        let arrivals: Arrivals = &[(0, 6, 6), (0, 6, 6)];
        let served = steps(&mut orca(8, 20, Reservation::Request), arrivals);
        assert_eq!((served.len(), served[0].as_str()), (12, "0:6"));
        // With 24 tokens both fit; reserving the model's 20 tokens, they do not.
        assert_eq!(steps(&mut orca(8, 24, Reservation::Request), arrivals).len(), 6);
        assert_eq!(steps(&mut orca(8, 24, Reservation::Model), arrivals).len(), 12);
    }
}
