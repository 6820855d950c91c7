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
//! Where prompts are prefilled elsewhere (`protocol = blocking`; vLLM 0.6.2 as kvcache-ai changed it), a
//! step that admits prompts fetches the KV caches of all of them, one after the other, before
//! anything else happens. Only those that are not to be had are computed. The side that prefills gives its
//! blocks back at once, because it keeps copies in a buffer of their own; without room in that it
//! stands still with the step that it has computed. vLLM looks for room once for each prompt, and hangs
//! where those of one step exceed the buffer; here it is looked for once for each step.
//!
//! Left out: prefix caching (off by default), swapping and beams, `scheduler_delay_factor`,
//! multi-step scheduling, adapters, priorities, and asynchronous output processing, under which a
//! request that has ended is computed once more. Chunked prefill, which 0.6.x turns on by itself
//! for contexts beyond 32768 tokens, is on only where the configuration says so.

mod handover;

use handover::{Inserted, Reception, SendBuffer};

use super::baseline::Queues;
use super::{
    Backlog, CachesPrefixes, Handoff, HoldsAdapters, Load, Migrates, RunsQuiet, Schedule,
    TransfersKv, VllmV0Settings,
};
use crate::engine::{Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::RequestId;
use crate::request::Request;
use crate::scenario::VllmV0Config;
use crate::units::SimTime;

/// vLLM's scheduler before V1.
#[derive(Debug, Clone)]
pub struct VllmV0 {
    queues: Queues,
    settings: VllmV0Settings,
    watermark: u32,
    sent: SendBuffer,
    reception: Reception,
}

impl VllmV0 {
    /// An engine without requests.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence, or a step without chunks the longest prompt.
    pub fn new(settings: VllmV0Settings) -> Self {
        let VllmV0Settings { memory, max_num_batched_tokens: token_budget, .. } = settings;
        let queues = Queues::new(memory);
        let watermark = VllmV0Config::watermark_blocks(memory.blocks);
        assert!(queues.holds_longest(watermark), "the longest sequence fits");
        assert!(
            settings.enable_chunked_prefill || token_budget >= memory.max_model_len,
            "without chunked prefill a step has room for the longest prompt"
        );
        Self {
            queues,
            settings,
            watermark,
            sent: SendBuffer::new(u64::MAX),
            reception: Reception::default(),
        }
    }

    /// The same engine, which adds no KV cache to those it keeps for others while these are of more than
    /// so many tokens.
    #[must_use]
    pub fn with_send_buffer(mut self, tokens: u64) -> Self {
        self.sent = SendBuffer::new(tokens);
        self
    }

    /// Admits waiting requests beside `seqs` others; returns nothing, the plan tells.
    fn admit(&mut self, mut budget: u32, seqs: usize, now: SimTime, plan: &mut StepPlan) {
        let mut room = self.settings.max_num_seqs.saturating_sub(seqs as u32);
        while let Some(head) = self.queues.head() {
            let known = self.queues.get(head).known();
            let tokens =
                if self.settings.enable_chunked_prefill { known.min(budget) } else { known };
            if tokens == 0 || tokens > budget || room == 0 {
                break;
            }
            let Some(slot) = self.queues.admit(known, self.watermark) else { break };
            if self.queues.get(slot).handoff == Handoff::PrefilledElsewhere {
                self.reception.admit(slot, now);
            } else {
                self.queues.serve(slot, tokens, now, plan);
            }
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
        if self.settings.enable_chunked_prefill {
            let budget = self.run(self.settings.max_num_batched_tokens, now, plan);
            self.admit(budget, plan.entries.len(), now, plan);
        } else {
            self.admit(
                self.settings.max_num_batched_tokens,
                self.queues.running().len(),
                now,
                plan,
            );
            if plan.is_empty() && self.reception.is_empty() {
                self.run(u32::MAX, now, plan);
            }
        }
        self.queues.put_back();
    }
}

/// Prompts that were prefilled elsewhere.
impl VllmV0 {
    /// Asks for the next KV cache, or decides the step once all have been asked for.
    fn fetch(&mut self, now: SimTime, plan: &mut StepPlan) {
        if self.reception.underway().is_some() {
            return;
        }
        while let Some(slot) = self.reception.next() {
            let sequence = self.queues.get(slot);
            if sequence.has_copy() {
                plan.loads.push((sequence.life.id, sequence.life.prompt_tokens));
                self.reception.begin();
                return;
            }
            self.reception.miss();
        }
        self.serve_fetched(now, plan);
    }

    /// The step is computed for requests whose KV was not to be had, with the last token of the
    /// others; if there are none, only tokens are drawn.
    fn serve_fetched(&mut self, now: SimTime, plan: &mut StepPlan) {
        let is_computed = self.reception.has_misses();
        let (slots, since) = self.reception.finish();
        plan.fetching_since = Some(since);
        for slot in slots {
            let sequence = self.queues.get(slot);
            let known = sequence.known();
            if !sequence.has_copy() {
                self.queues.serve(slot, known, now, plan);
                continue;
            }
            if is_computed {
                plan.shape.add_prefill(1, known - 1, true);
            } else {
                plan.shape.logit_rows += 1;
            }
            self.queues.receive(slot, now, plan);
        }
    }
}

impl Schedule for VllmV0 {
    fn now(&mut self, _: SimTime) {}

    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        self.queues.enqueue(id, request, handoff)
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        if let Some(slot) = self.queues.slot_of(id) {
            self.reception.drop(slot);
        }
        result.finished.extend(self.sent.abort(id).map(|life| (life, Finish::Aborted)));
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        if !self.sent.held().is_empty() {
            return;
        }
        if self.reception.is_empty() {
            self.decide(now, plan);
            if plan.is_empty() && !plan.preempted.is_empty() {
                // The only one there took its own memory; the next step follows at once.
                self.decide(now, plan);
            }
        }
        if !self.reception.is_empty() {
            self.fetch(now, plan);
        }
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.queues.complete(now, plan, result);
        let sends = |slot| self.queues.get(slot).handoff == Handoff::DecodedElsewhere;
        if plan.entries.first().is_some_and(|entry| sends(entry.slot)) {
            let prefilled = result.finished.iter().map(|(life, _)| *life);
            if self.sent.insert(prefilled) == Inserted::Held {
                result.finished.clear();
            }
        }
    }

    fn token_budget(&self) -> u32 {
        self.settings.max_num_batched_tokens
    }

    fn load(&self) -> Load {
        let mut load = self.queues.load();
        load.running += self.sent.held().len() as u32;
        load
    }

    fn backlog(&self) -> Option<Backlog> {
        None
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        let held = self.sent.held().iter().find(|life| life.id == id).copied();
        held.or_else(|| self.queues.life(id))
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        // Nobody sees the tokens of those that are held for others.
        self.queues.answers(tell);
    }

    fn head(&self) -> Option<RequestId> {
        self.queues.head().map(|slot| self.queues.get(slot).life.id)
    }

    fn steps_in_flight_max(&self) -> usize {
        1
    }

    fn is_balanced(&self) -> bool {
        self.queues.is_balanced()
    }

    fn reads_outcomes_first(&self) -> bool {
        false
    }

    fn waits_until(&self) -> Option<SimTime> {
        None
    }

    fn rewind_clock(&mut self) {}

    fn displaces_in_vain(&self) -> bool {
        false
    }

    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv> {
        Some(self)
    }

    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet> {
        None
    }

    fn adapters(&self) -> Option<&dyn HoldsAdapters> {
        None
    }

    fn migration(&mut self) -> Option<&mut dyn Migrates> {
        None
    }

    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes> {
        None
    }

    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes> {
        None
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        None
    }
}

impl TransfersKv for VllmV0 {
    fn transferred(&mut self, id: RequestId, result: &mut StepResult) {
        let underway = self.reception.underway();
        if underway.is_some_and(|slot| self.queues.get(slot).life.id == id) {
            self.reception.arrived();
        } else {
            let released = self.sent.remove(id);
            result.finished.extend(released.into_iter().map(|life| (life, Finish::Done)));
        }
    }

    fn lost_transfer(&mut self, id: RequestId) {
        let Some(slot) = self.queues.slot_of(id) else { return };
        self.queues.lose_copy(slot);
        if self.reception.underway() == Some(slot) {
            self.reception.lose();
        }
    }

    fn is_fetching(&self) -> bool {
        !self.reception.is_empty()
    }

    fn fetches(&self, id: RequestId) -> bool {
        self.queues.slot_of(id).is_some_and(|slot| self.reception.has(slot))
    }

    fn sends(&self, _: RequestId) -> bool {
        false
    }

    fn reads_transfers_last(&self) -> bool {
        false
    }

    // Who has been fetched is in the step that waited for it.
    fn has_landed(&self) -> bool {
        false
    }

    fn land(&mut self, _: SimTime, _: &mut StepResult) {}
}

#[cfg(test)]
mod tests;
