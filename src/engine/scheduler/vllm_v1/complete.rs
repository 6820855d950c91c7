//! What the outcome of a step changes.

use super::VllmV1;
use super::sequence::Status;
use crate::engine::scheduler::Handoff;
use crate::engine::{Entry, EntryKind, Finish, StepPlan, StepResult};
use crate::units::SimTime;

impl VllmV1 {
    /// Takes in the tokens of a step, in the order of its batch.
    pub(super) fn complete_step(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.processed_steps += 1;
        self.drain();
        if plan.decodes > 0 {
            self.complete_decodes(now, plan.decodes, result);
        }
        for entry in &plan.entries {
            self.complete_share(now, entry, result);
        }
        self.last_completion = now;
    }

    /// Takes in one request's share, unless it has left.
    pub(super) fn complete_share(&mut self, now: SimTime, entry: &Entry, result: &mut StepResult) {
        let s = &self.sequences[entry.slot as usize];
        if s.life.id != entry.request || !s.status.is_here() {
            return;
        }
        self.write_prefilled(entry);
        if self.complete_entry(now, entry, result) {
            self.settle_blocks(entry.slot);
            if let Some(member) = self.sequences[entry.slot as usize].member.take() {
                self.sequences[entry.slot as usize].in_flight += self.group.in_flight(&member);
                self.group.leave_early(entry.slot, &member);
            }
            self.leave(entry.slot, result);
        }
    }

    /// Takes in one request's share; whether that was its last.
    fn complete_entry(&mut self, now: SimTime, entry: &Entry, result: &mut StepResult) -> bool {
        let is_async = self.settings.async_scheduling;
        let s = &mut self.sequences[entry.slot as usize];
        s.in_flight -= entry.tokens;
        let is_stale = s.stale > 0;
        s.stale = s.stale.saturating_sub(entry.tokens);
        let accepted = if entry.drafts > 0 && entry.kind == EntryKind::Running {
            s.verifications += 1;
            self.acceptance.accepted(s.life.id, s.verifications - 1, entry.drafts)
        } else {
            0
        };
        if is_stale && s.drops_stale {
            return false;
        }
        if entry.drafts > 0 {
            result.drafts.count(entry.drafts, accepted);
            s.life.draft_tokens += entry.drafts;
            s.life.accepted_tokens += accepted;
        }
        let refused = entry.drafts - accepted;
        if !is_stale {
            s.computed -= refused;
            if is_async {
                s.placeholders -= refused;
            }
        }
        let passed = s.computed.saturating_sub(s.placeholders);
        self.pass_images(entry.slot, passed);
        let s = &mut self.sequences[entry.slot as usize];
        if !entry.samples {
            return false;
        }
        let mut is_finished = false;
        for left in (0..=accepted).rev() {
            s.tokens += 1;
            if is_async && !is_stale {
                s.placeholders -= 1;
            }
            let gap = s.life.emit(now);
            result.count_token(s.life.id, gap);
            is_finished = s.life.is_done() || s.tokens >= self.settings.max_model_len;
            if is_finished {
                if !is_stale {
                    s.computed -= left;
                }
                break;
            }
        }
        let publishes = is_async || self.drafts > 0;
        if publishes && !is_stale && s.status == Status::Running {
            let known = s.computed - s.in_flight;
            if !is_async {
                s.drafts = self.drafts;
            }
            self.publish(entry.slot, known);
        }
        is_finished
    }

    /// A finished request gives up its place and, unless another machine fetches its KV, its
    /// memory.
    pub(super) fn leave(&mut self, slot: u32, result: &mut StepResult) {
        self.write_answer(slot);
        self.store_answer(slot);
        let s = &mut self.sequences[slot as usize];
        result.finished.push((s.life, Finish::Done));
        let (status, key) = (s.status, s.key());
        if status == Status::Running {
            // Through the list alone: to look at the requests in it would cost a cache miss each.
            let at = self.running.iter().position(|&other| other == slot);
            self.running.remove(at.expect("it is running"));
            self.leave_adapter(slot);
        } else {
            self.waiting.remove(slot, key);
        }
        self.part(slot);
        if self.sequences[slot as usize].handoff == Handoff::DecodedElsewhere {
            self.linger(slot, Status::Sending);
        } else {
            self.give_back(slot);
        }
    }
}
