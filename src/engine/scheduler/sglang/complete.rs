//! What the outcome of a step changes (SGLang 0.5.23,
//! `sglang/srt/managers/scheduler_components/batch_result_processor.py`).

use super::Sglang;
use super::memory::Keep;
use super::sequence::{Client, Status};
use crate::engine::scheduler::Handoff;
use crate::engine::{Entry, Finish, Life, StepPlan, StepResult};
use crate::units::SimTime;

impl Sglang {
    /// Takes in the outcome of a step, in the order of its batch. That of requests which finished
    /// or lost their memory meanwhile is dropped.
    pub(super) fn complete_step(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        if plan.decodes > 0 {
            self.complete_decodes(now, plan.decodes, result);
        }
        self.last_outcome_was_tick = plan.entries.is_empty();
        let prefills = plan.shape.prefill_seqs as usize;
        for (index, entry) in plan.entries.iter().enumerate() {
            if index >= prefills {
                self.complete_share(now, entry, result);
            } else if self.complete_share(now, entry, result) {
                self.checkpoint(entry.slot, entry.computed + entry.tokens);
            }
        }
    }

    /// Takes in the outcome of one request's share; whether it got a token and goes on.
    pub(super) fn complete_share(
        &mut self,
        now: SimTime,
        entry: &Entry,
        result: &mut StepResult,
    ) -> bool {
        let s = &mut self.sequences[entry.slot as usize];
        if s.life.id != entry.request || s.status == Status::Gone {
            return false;
        }
        s.in_flight -= 1;
        if !matches!(s.status, Status::Admitted | Status::LastInFlight) {
            return false;
        }
        if entry.drafts > 0 {
            self.verify(now, entry, result);
        } else if entry.samples {
            let gap = s.life.emit(now);
            result.count_token(s.life.id, gap);
            if entry.computed >= s.extend_end {
                self.track_decode(entry.slot, entry.computed, entry.computed + 1);
            }
        }
        let s = &self.sequences[entry.slot as usize];
        let finish = match s.client {
            _ if !entry.samples => return false,
            Client::Left => Finish::Aborted,
            Client::Waits if s.life.is_done() => Finish::Done,
            Client::Waits => return true,
        };
        self.leave_group(entry.slot);
        self.finish(entry.slot, Keep::InTree, finish, &mut result.finished);
        false
    }

    /// The request in chunked prefill ends without a token.
    pub(super) fn end_chunked(&mut self, finish: Finish, plan: &mut StepPlan) {
        if let Some(slot) = self.chunked.take() {
            self.finish(slot, Keep::Nothing, finish, &mut plan.ended);
        }
    }

    /// A request that no batch lists ends for lack of memory, as the engine would or, where that
    /// breaks down, in its stead.
    pub(super) fn give_up(&mut self, slot: u32, plan: &mut StepPlan) {
        self.reveal(slot);
        self.release(slot, Keep::Nothing);
        let s = &self.sequences[slot as usize];
        if let Some(adapter) = s.adapter {
            self.loras.leave(adapter);
        }
        plan.ended.push((s.life, Finish::Failed));
        self.vacate(slot);
    }

    /// A request leaves. Its place is vacant as soon as no batch lists it.
    pub(super) fn finish(
        &mut self,
        slot: u32,
        keep: Keep,
        finish: Finish,
        left: &mut Vec<(Life, Finish)>,
    ) {
        let is_handed_over = self.sequences[slot as usize].handoff == Handoff::DecodedElsewhere
            && finish == Finish::Done;
        if is_handed_over {
            self.keep_for_others(slot);
        } else {
            self.release(slot, keep);
        }
        let s = &mut self.sequences[slot as usize];
        if let Some(adapter) = s.adapter {
            self.loras.leave(adapter);
        }
        left.push((s.life, finish));
        if s.status == Status::LastInFlight {
            self.last_in_flight -= 1;
            self.vacate(slot);
        } else {
            s.status = Status::Finished;
            self.finished.push(slot);
        }
    }
}
