//! What running requests get from a step, and who loses its memory for it.

use super::VllmV1;
use super::limits::StepLimits;
use super::memory::Need;
use super::sequence::{Sequence, Status};
use crate::engine::{Entry, EntryKind, StepPlan};
use crate::kv::Hits;
use crate::units::SimTime;

impl VllmV1 {
    /// Serves the running requests in order of admission.
    pub(super) fn schedule_running(&mut self, limits: &mut StepLimits, plan: &mut StepPlan) {
        let mut index = 0;
        while index < self.running.len() && limits.budget > 0 {
            let slot = self.running[index];
            let tokens = self.running_share(slot, limits);
            let computed = self.sequences[slot as usize].computed;
            let encoded = self.encode(slot, (computed, tokens), limits);
            let tokens = self.aligned(slot, (computed, encoded.tokens), limits);
            if tokens == 0 {
                index += 1;
                continue;
            }
            self.precede(slot);
            let owned = self.owned(slot);
            let need = Need { tokens, lookahead: self.lookahead, ..Need::default() };
            let mut is_served = true;
            while !self.allocate(slot, &Hits::default(), need) {
                let victim_index = self.victim();
                if !self.can_be_freed(self.running[victim_index]) {
                    return;
                }
                self.note_displacement(victim_index, limits.budget, plan);
                let victim = self.running.remove(victim_index);
                self.leave_adapter(victim);
                if victim_index < index {
                    index -= 1;
                }
                Self::take_back(&self.sequences[victim as usize], victim, limits, plan);
                self.preempt(victim, plan);
                if victim == slot {
                    is_served = false;
                    break;
                }
            }
            if !is_served {
                if self.is_by_priority() {
                    continue;
                }
                break;
            }
            self.add_running(slot, tokens, &owned, limits, plan);
            self.keep_encoded(slot, encoded, limits, plan);
            index += 1;
        }
    }

    /// The tokens a running request could compute now; 0 to pass it over.
    pub(super) fn running_share(&self, slot: u32, limits: &StepLimits) -> u32 {
        let s = &self.sequences[slot as usize];
        // Its last token is on its way already: another step would be wasted.
        let is_last_in_flight = s.placeholders > 0
            && s.computed + 2 - s.placeholders
                >= s.life.prompt_tokens.saturating_add(s.life.max_tokens);
        let is_held = limits.holds_prefill && s.is_prefill_chunk;
        if is_last_in_flight || is_held || self.stagger.decisions < s.eligible {
            return 0;
        }
        let known = s.tokens + s.drafts + s.placeholders - s.computed;
        let room = (self.settings.max_model_len - 1).saturating_sub(s.computed);
        limits.clip(known).min(limits.budget).min(room)
    }

    /// How long the lists of a request's blocks are, if what comes to them is to be told.
    pub(super) fn owned(&self, slot: u32) -> Vec<usize> {
        if self.record.blocks {
            self.sequences[slot as usize].blocks.list_lengths()
        } else {
            Vec::new()
        }
    }

    pub(super) fn add_running(
        &mut self,
        slot: u32,
        tokens: u32,
        owned: &[usize],
        limits: &mut StepLimits,
        plan: &mut StepPlan,
    ) {
        limits.budget -= tokens;
        let s = &mut self.sequences[slot as usize];
        limits.prefills |= s.is_prefill_chunk;
        let beyond = (tokens + s.computed).saturating_sub(s.tokens + s.placeholders);
        let drafts = s.drafts.min(beyond);
        s.drafts = 0;
        plan.entries.push(Entry {
            request: s.life.id,
            slot,
            tokens,
            computed: s.computed,
            drafts,
            kind: EntryKind::Running,
            samples: false,
        });
        if self.record.blocks {
            let lists = s.blocks.lists_from(owned);
            if lists.iter().any(|list| !list.is_empty()) {
                plan.blocks.push((s.life.id, lists));
            }
        }
    }

    /// Where the request stands that loses its memory: the one admitted last, or the first of
    /// those least urgent.
    fn victim(&self) -> usize {
        if !self.is_by_priority() {
            return self.running.len() - 1;
        }
        // `max_by_key` returns the last of equals; the first is wanted.
        let indices = (0..self.running.len()).rev();
        indices.max_by_key(|&index| self.urgency(index)).unwrap_or_default()
    }

    /// What the priority policy compares of a running request: larger is less urgent.
    pub(super) fn urgency(&self, index: usize) -> (i32, SimTime) {
        let (priority, arrival, _) = self.sequences[self.running[index] as usize].order();
        (priority, arrival)
    }

    /// Takes back what a victim was given in this step already.
    fn take_back(s: &Sequence, slot: u32, limits: &mut StepLimits, plan: &mut StepPlan) {
        Self::take_back_encoded(s, limits, plan);
        if let Some(at) = plan.entries.iter().position(|entry| entry.slot == slot) {
            let entry = plan.entries.remove(at);
            limits.budget += entry.tokens;
            plan.blocks.retain(|(id, _)| *id != entry.request);
        }
    }

    /// A request loses its memory and waits again, before all others.
    fn preempt(&mut self, slot: u32, plan: &mut StepPlan) {
        self.reveal(slot);
        self.release_blocks(slot);
        self.pass_images(slot, u32::MAX);
        let s = &mut self.sequences[slot as usize];
        s.status = Status::Preempted;
        s.computed = 0;
        s.drafts = 0;
        s.placeholders = 0;
        s.drops_stale = self.connector.requires_delivery() || s.drops_stale && s.stale > 0;
        s.stale = s.in_flight;
        s.holds_promise = false;
        if let Some(chunks) = s.chunks.as_mut().filter(|_| self.offload.is_some()) {
            chunks.set_offered(0);
        }
        s.life.preemptions += 1;
        plan.preempted.push(s.life.id);
        let key = s.key();
        self.waiting.push_front(slot, key);
    }
}
