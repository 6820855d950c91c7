//! The batches between two steps: the prefill batch joins the running one, and who has finished leaves.

use super::Sglang;
use super::sequence::Status;
use crate::engine::scheduler::Handoff;

impl Sglang {
    /// The request in chunked prefill shows what it has computed, so that its next chunk and
    /// others find it.
    pub(super) fn checkpoint_chunked(&mut self) {
        if std::mem::take(&mut self.has_chunk)
            && let Some(slot) = self.chunked
        {
            let end = self.sequences[slot as usize].extend_end;
            self.checkpoint(slot, end);
            self.sequences[slot as usize].prefix = end;
        }
    }

    /// The prefill batch of the step before joins the running batch, without those that finished
    /// and the one whose prefill goes on.
    pub(super) fn merge_last_prefill(&mut self) {
        let mut last = std::mem::take(&mut self.last_prefill);
        let before = last.len();
        last.retain(|&slot| self.chunked != Some(slot) && self.goes_on_here(slot));
        if last.len() < before {
            self.is_full = false;
        }
        let joined_from = self.running.len();
        if self.running.is_empty() {
            if !last.is_empty() {
                self.is_full = false;
                std::mem::swap(&mut self.running, &mut last);
            }
        } else {
            self.running.append(&mut last);
        }
        last.clear();
        self.last_prefill = last;
        if self.is_grouped() {
            self.join_running(joined_from);
        }
    }

    pub(super) fn drop_finished(&mut self) {
        if self.finished.is_empty() {
            return;
        }
        if self.is_grouped() {
            self.is_full = false;
            while let Some(slot) = self.finished.pop() {
                self.remove_running(slot);
                self.vacate(slot);
            }
            return;
        }
        let mut running = std::mem::take(&mut self.running);
        let before = running.len();
        running.retain(|&slot| self.is_unfinished(slot));
        if running.len() < before {
            self.is_full = false;
        }
        self.running = running;
    }

    /// Whether a prefilled request decodes here.
    #[inline]
    fn goes_on_here(&mut self, slot: u32) -> bool {
        let is_unfinished = self.is_unfinished(slot);
        let s = &mut self.sequences[slot as usize];
        if is_unfinished && s.handoff == Handoff::DecodedElsewhere {
            s.status = Status::LastInFlight;
            self.last_in_flight += 1;
            return false;
        }
        is_unfinished
    }

    /// Whether a listed request goes on; the place of one that finished becomes vacant.
    #[inline]
    fn is_unfinished(&mut self, slot: u32) -> bool {
        let is_finished = self.sequences[slot as usize].status == Status::Finished;
        if is_finished {
            self.finished.retain(|&other| other != slot);
            self.vacate(slot);
        }
        !is_finished
    }
}
