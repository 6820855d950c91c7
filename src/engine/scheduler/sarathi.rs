//! Sarathi-Serve (Agrawal et al., OSDI 2024, algorithm 3): chunked prefills beside decodes that
//! never stall.
//!
//! A step has a token budget. First every decoding request gets its token; then the prompt that is
//! underway gets a chunk of what is left; then newcomers, in order of arrival, up to the number of
//! running requests. Memory is paged: a prompt gets its blocks when it is admitted, if these leave
//! a hundredth of all free, as in vLLM, from which the authors' engine derives. A decoding
//! request goes on while a block is free; else the one admitted last loses its memory and computes
//! it anew, what it has generated included. No one is admitted in a step in which one lost it.
//!
//! Left out: pipeline parallelism, chunks that shrink with the context.

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, SarathiSettings, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::scenario::VllmV0Config;
use crate::units::SimTime;

/// Sarathi-Serve's scheduler.
#[derive(Debug, Clone)]
pub struct Sarathi {
    queues: Queues,
    settings: SarathiSettings,
    watermark: u32,
}

impl Sarathi {
    /// An engine without requests.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence.
    pub fn new(settings: SarathiSettings) -> Self {
        let queues = Queues::new(settings.memory);
        let watermark = VllmV0Config::watermark_blocks(settings.memory.blocks);
        assert!(queues.holds_longest(watermark), "the longest sequence fits");
        Self { queues, settings, watermark }
    }

    fn decode(&mut self, now: SimTime, plan: &mut StepPlan) {
        let mut index = 0;
        while let Some(&slot) = self.queues.running().get(index) {
            if self.queues.get(slot).is_decoding() {
                if !self.queues.make_room(index, plan) {
                    return;
                }
                let computed = self.queues.get(slot).computed;
                self.queues.extend(slot, computed + 1);
                self.queues.serve(slot, 1, now, plan);
            }
            index += 1;
        }
    }

    fn prefill(&mut self, mut budget: u32, now: SimTime, plan: &mut StepPlan) {
        for index in 0..self.queues.running().len() {
            let slot = self.queues.running()[index];
            // Those that decode have got their token: nothing of theirs is uncomputed.
            let tokens = self.queues.get(slot).uncomputed().min(budget);
            if tokens > 0 {
                self.queues.serve(slot, tokens, now, plan);
                budget -= tokens;
            }
        }
        while budget > 0 && (self.queues.running().len() as u32) < self.settings.max_num_seqs {
            let Some(head) = self.queues.head() else { break };
            let known = self.queues.get(head).known();
            let Some(slot) = self.queues.admit(known, self.watermark) else { break };
            let tokens = known.min(budget);
            self.queues.serve(slot, tokens, now, plan);
            budget -= tokens;
        }
    }

    fn decide(&mut self, now: SimTime, plan: &mut StepPlan) {
        let preempted_before = plan.preempted.len();
        self.decode(now, plan);
        let budget = self.settings.chunk_size.saturating_sub(plan.shape.decode_seqs);
        if plan.preempted.len() == preempted_before {
            self.prefill(budget, now, plan);
        }
        self.queues.put_back();
    }
}

impl Schedule for Sarathi {
    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        self.decide(now, plan);
        if plan.is_empty() && !plan.preempted.is_empty() {
            // The only one there took its own memory; the next step follows at once.
            self.decide(now, plan);
        }
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.queues.complete(now, plan, result);
    }

    fn token_budget(&self) -> u32 {
        self.settings.chunk_size
    }

    schedule_by_queues!();
}

#[cfg(test)]
mod tests {
    use super::super::baseline::tests::{Arrivals, steps};
    use super::*;
    use crate::engine::scheduler::Memory;

    fn engine(chunk_size: u32, blocks: u32) -> Sarathi {
        let memory = Memory { block_size: 4, blocks, max_model_len: 16 };
        Sarathi::new(SarathiSettings { memory, chunk_size, max_num_seqs: 3 })
    }

    #[test]
    fn decodes_come_first_then_the_prompt_underway_then_newcomers() {
        // Budget 8. Step 0: prompt 0 (6), 2 tokens of prompt 1 (9). Step 1: request 0 decodes (1),
        // prompt 1 gets the other 7: the budget is spent. Step 2: both decode, prompt 2 gets its
        // 3, which fit into 6. Step 3: all decode their last token.
        let arrivals: Arrivals = &[(0, 6, 4), (0, 9, 3), (1, 3, 2)];
        let expected = ["0:6 1:2", "0:1 1:7", "0:1 1:1 2:3", "0:1 1:1 2:1"];
        assert_eq!(steps(&mut engine(8, 100), arrivals), expected);
    }

    #[test]
    fn the_last_admitted_makes_way_for_decodes() {
        // 4 blocks of 4 tokens. Prompts of 7 and 6 tokens hold 2 blocks each, none is free: in
        // step 1 request 0 takes those of request 1, though its own last block has room. Step 2:
        // its ninth token fills a third block before newcomers are looked at, so the 6 + 1 tokens
        // of request 1 wait until request 0 has left.
        let arrivals: Arrivals = &[(0, 7, 4), (0, 6, 3)];
        let expected = ["0:7 1:6", "0:1 !1", "0:1", "0:1", "1:7", "1:1"];
        assert_eq!(steps(&mut engine(32, 4), arrivals), expected);
    }
}
