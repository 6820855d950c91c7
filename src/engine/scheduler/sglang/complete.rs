//! What the outcome of a step changes (SGLang 0.5.23,
//! `sglang/srt/managers/scheduler_components/batch_result_processor.py`).

use super::Sglang;
use super::memory::Keep;
use super::sequence::{Client, Status};
use crate::engine::{Finish, StepPlan, StepResult};
use crate::units::SimTime;

/// Which part of a batch a share belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Prefill,
    Decode,
}

impl Sglang {
    /// Takes in the outcome of a step, in the order of its batch. That of requests which finished
    /// or lost their memory meanwhile is dropped.
    pub(super) fn complete_step(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        let prefills = plan.shape.prefill_seqs as usize;
        for (index, entry) in plan.entries.iter().enumerate() {
            let s = &mut self.sequences[entry.slot as usize];
            if s.life.id != entry.request || s.status == Status::Gone {
                continue;
            }
            s.in_flight -= 1;
            if !matches!(s.status, Status::Admitted | Status::LastInFlight) {
                continue;
            }
            if entry.samples {
                let gap = s.life.emit(now);
                result.count_token(s.life.id, gap);
            }
            let share = if index < prefills { Share::Prefill } else { Share::Decode };
            if s.client == Client::Left {
                let keep = if entry.samples { Keep::InTree } else { Keep::Nothing };
                self.finish(entry.slot, keep, Finish::Aborted, result);
            } else if entry.samples && s.life.is_done() {
                self.finish(entry.slot, Keep::InTree, Finish::Done, result);
            } else if entry.samples && share == Share::Prefill {
                self.checkpoint(entry.slot, entry.computed + entry.tokens);
            }
        }
    }

    /// A request leaves. Its place is vacant as soon as no batch lists it.
    fn finish(&mut self, slot: u32, keep: Keep, finish: Finish, result: &mut StepResult) {
        self.release(slot, keep);
        if self.chunked == Some(slot) {
            self.chunked = None;
        }
        let s = &mut self.sequences[slot as usize];
        result.finished.push((s.life, finish));
        if s.status == Status::LastInFlight {
            self.vacate(slot);
        } else {
            s.status = Status::Finished;
        }
    }
}
