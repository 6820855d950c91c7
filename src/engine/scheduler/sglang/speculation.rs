//! Decode steps that verify drafts, one candidate per position (SGLang 0.5.23,
//! `sglang/srt/managers/schedule_batch.py`, `sglang/srt/speculative/eagle_info.py`).
//!
//! A request has slots of memory beyond what is computed of it: for the step that is launched and
//! for the one after, as if every draft of both were accepted. What it has of them stays its own when
//! drafts are refused, until it leaves.

use super::Sglang;
use crate::engine::{Entry, StepResult};
use crate::units::SimTime;

impl Sglang {
    /// Tokens up to which a request needs slots for its next decode step.
    pub(super) fn slots_to_decode(&self, slot: u32) -> u32 {
        let s = &self.sequences[slot as usize];
        match self.settings.speculative_num_steps {
            0 => s.kv + 1,
            drafts => self.ceil(s.kv + 2 * (drafts + 1)).max(s.slots()),
        }
    }

    /// Tokens that have to be free before the running batch takes its slots: more than it takes.
    pub(super) fn room_to_decode(&self) -> u32 {
        let page = self.settings.page_size;
        let rows = self.running.len() as u32;
        if self.settings.speculative_num_steps == 0 {
            return rows * page;
        }
        let growth =
            |&slot: &u32| self.slots_to_decode(slot) - self.sequences[slot as usize].slots();
        let spare = if page > 1 { rows * page } else { 0 };
        self.running.iter().map(growth).sum::<u32>() + spare
    }

    /// Takes the slots of a request for its next decode step. Which drafts are accepted, and so how
    /// much is computed, the outcome tells.
    pub(super) fn extend_to_decode(&mut self, slot: u32) {
        let slots = self.slots_to_decode(slot);
        let computed = self.sequences[slot as usize].kv;
        self.extend(slot, slots);
        if self.settings.speculative_num_steps > 0 {
            let s = &mut self.sequences[slot as usize];
            s.allocated = slots;
            s.kv = computed;
        }
    }

    /// Takes in the verified drafts of a request: those accepted and the token behind them come out,
    /// up to the one that ends the answer.
    pub(super) fn verify(&mut self, now: SimTime, entry: &Entry, result: &mut StepResult) {
        let s = &mut self.sequences[entry.slot as usize];
        let accepted = self.acceptance.accepted(s.life.id, s.verifications, entry.drafts);
        s.verifications += 1;
        result.drafts.count(entry.drafts, accepted);
        s.life.draft_tokens += entry.drafts;
        s.life.accepted_tokens += accepted;
        let computed = s.kv;
        s.kv += accepted + 1;
        for _ in 0..=accepted {
            let gap = s.life.emit(now);
            result.count_token(s.life.id, gap);
            if s.life.is_done() {
                break;
            }
        }
        self.track_decode(entry.slot, computed, computed + accepted + 1);
    }
}
