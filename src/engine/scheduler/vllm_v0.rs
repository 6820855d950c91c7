//! The scheduler of vLLM V0 (vLLM 0.6.x of autumn 2024, `vllm/core/scheduler.py` and
//! `block_manager.py`), for requests with one sequence each.
//!
//! By default a step either prefills or decodes. It prefills whenever the first waiting request can
//! be admitted: whole prompts in order of arrival, as long as the token budget, the number of
//! sequences and memory allow. Otherwise all running requests decode. So decoding stalls while
//! prompts keep coming.
//!
//! With chunked prefill one budget serves both: running requests in order of admission, so decodes
//! and then the prompt underway, then newcomers, whose last is cut to fit.
//!
//! Memory is paged. A prompt gets all its blocks when it is admitted, if these leave a hundredth of
//! all free (the watermark). A running request goes on while a block is free, even if its last one
//! has room; else the request admitted last loses its memory, waits before all others, and computes
//! it anew, what it has generated included.
//!
//! Left out: prefix caching (off by default), swapping and beams, `scheduler_delay_factor`,
//! multi-step scheduling, adapters, priorities, and asynchronous output processing, under which a
//! request that has ended is computed once more. Chunked prefill, which 0.6.x turns on by itself
//! for contexts beyond 32768 tokens, is on only where the configuration says so.

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::scenario::VllmV0Config;
use crate::units::SimTime;

/// vLLM's scheduler before V1.
#[derive(Debug, Clone)]
pub struct VllmV0 {
    queues: Queues,
    token_budget: u32,
    seqs_max: u32,
    is_chunked: bool,
    watermark: u32,
}

impl VllmV0 {
    /// An engine without requests.
    ///
    /// # Panics
    /// When the configuration is not resolved: validation comes before.
    pub fn new(config: &VllmV0Config) -> Self {
        let blocks = config.num_gpu_blocks.expect("the blocks of KV memory are resolved");
        let model_len = config.max_model_len.expect("the longest sequence is resolved");
        let token_budget = config.max_num_batched_tokens.expect("the token budget is resolved");
        let queues = Queues::new(config.block_size, blocks, model_len);
        let watermark = VllmV0Config::watermark_blocks(blocks);
        assert!(queues.holds_longest(watermark), "the longest sequence fits");
        assert!(
            config.enable_chunked_prefill || token_budget >= model_len,
            "without chunked prefill a step has room for the longest prompt"
        );
        Self {
            queues,
            token_budget,
            seqs_max: config.max_num_seqs,
            is_chunked: config.enable_chunked_prefill,
            watermark,
        }
    }

    /// Admits waiting requests beside `seqs` others; returns nothing, the plan tells.
    fn admit(&mut self, mut budget: u32, seqs: usize, now: SimTime, plan: &mut StepPlan) {
        let mut room = self.seqs_max.saturating_sub(seqs as u32);
        while let Some(head) = self.queues.head() {
            let known = self.queues.get(head).known();
            let tokens = if self.is_chunked { known.min(budget) } else { known };
            if tokens == 0 || tokens > budget || room == 0 {
                break;
            }
            let Some(slot) = self.queues.admit(known, self.watermark) else { break };
            self.queues.serve(slot, tokens, now, plan);
            budget -= tokens;
            room -= 1;
        }
    }

    /// Serves running requests in order of admission; returns what is left of the budget.
    fn run(&mut self, mut budget: u32, now: SimTime, plan: &mut StepPlan) -> u32 {
        let mut index = 0;
        while let Some(&slot) = self.queues.running().get(index) {
            let tokens = self.queues.get(slot).uncomputed().min(budget);
            if tokens == 0 || !self.queues.make_room(index, plan) {
                break;
            }
            let computed = self.queues.get(slot).computed;
            self.queues.extend(slot, computed + tokens);
            self.queues.serve(slot, tokens, now, plan);
            budget -= tokens;
            index += 1;
        }
        budget
    }

    fn decide(&mut self, now: SimTime, plan: &mut StepPlan) {
        if self.is_chunked {
            let budget = self.run(self.token_budget, now, plan);
            self.admit(budget, plan.entries.len(), now, plan);
        } else {
            self.admit(self.token_budget, self.queues.running().len(), now, plan);
            if plan.is_empty() {
                self.run(u32::MAX, now, plan);
            }
        }
        self.queues.put_back();
    }
}

impl Schedule for VllmV0 {
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

    schedule_by_queues!();
}

#[cfg(test)]
mod tests {
    use super::super::baseline::tests::{Arrivals, steps};
    use super::*;

    fn config(num_gpu_blocks: u32) -> VllmV0Config {
        VllmV0Config {
            block_size: 4,
            num_gpu_blocks: Some(num_gpu_blocks),
            max_num_batched_tokens: Some(16),
            max_num_seqs: 3,
            max_model_len: Some(16),
            enable_chunked_prefill: false,
            ..VllmV0Config::default()
        }
    }

    #[test]
    fn decoding_stalls_while_prompts_come() {
        // Budget 16. Step 0: prompts of 6 and 9 tokens. Before step 1 another comes: it is
        // prefilled alone (three sequences are the limit). Step 2: all three decode, which is the
        // last token of request 2. Step 3: the place is free, prompt 3 is prefilled. Steps 4 and
        // 5: those that are left decode.
        let arrivals: Arrivals = &[(0, 6, 4), (0, 9, 3), (1, 8, 2), (1, 5, 2)];
        let expected = ["0:6 1:9", "2:8", "0:1 1:1 2:1", "3:5", "0:1 1:1 3:1", "0:1"];
        assert_eq!(steps(&mut VllmV0::new(&config(100)), arrivals), expected);
    }

    #[test]
    fn a_prompt_that_exceeds_the_budget_of_the_step_waits_for_the_next() {
        // 10 + 10 tokens are more than 16.
        let arrivals: Arrivals = &[(0, 10, 1), (0, 10, 1), (0, 2, 1)];
        assert_eq!(steps(&mut VllmV0::new(&config(100)), arrivals), ["0:10", "1:10 2:2"]);
    }

    #[test]
    fn with_chunks_prompts_share_the_budget_with_decodes() {
        // Budget 8. Step 0: prompt 0 (6), 2 tokens of prompt 1 (9). Step 1: request 0 decodes,
        // prompt 1 gets the other 7. Step 2: both decode, prompt 2 is prefilled beside them.
        let config = VllmV0Config {
            enable_chunked_prefill: true,
            max_num_batched_tokens: Some(8),
            ..config(100)
        };
        let arrivals: Arrivals = &[(0, 6, 4), (0, 9, 3), (1, 3, 2)];
        let expected = ["0:6 1:2", "0:1 1:7", "0:1 1:1 2:3", "0:1 1:1 2:1"];
        assert_eq!(steps(&mut VllmV0::new(&config), arrivals), expected);
    }

    #[test]
    fn the_last_admitted_loses_its_memory_and_starts_over_first() {
        // 4 blocks of 4 tokens. Prompts of 7 and 6 tokens hold 2 blocks each, none is free: in
        // step 1 request 0 takes those of request 1, though its own last block has room. Step 2:
        // the two are free, request 1 is prefilled again (6 + 1 tokens); the one block of request
        // 2 is not there. Step 3: request 0 fills a third block and takes them once more. Step 4:
        // one block is free, request 1 needs two, and request 2 does not overtake. Request 0 has
        // its four tokens; step 5: both are prefilled.
        let arrivals: Arrivals = &[(0, 7, 4), (0, 6, 3), (1, 3, 1)];
        let served = steps(&mut VllmV0::new(&config(4)), arrivals);
        assert_eq!(served, ["0:7 1:6", "0:1 !1", "1:7", "0:1 !1", "0:1", "1:8 2:3"]);
    }

    #[test]
    fn the_watermark_is_kept_free_of_newcomers() {
        // 100 blocks, one of which is kept free: 33 prompts of 12 tokens take 99.
        let config =
            VllmV0Config { max_num_seqs: 200, max_num_batched_tokens: Some(4000), ..config(100) };
        let arrivals = [(0, 12, 1); 34];
        let served = steps(&mut VllmV0::new(&config), &arrivals);
        assert_eq!(served[0].split(' ').count(), 33);
    }
}
