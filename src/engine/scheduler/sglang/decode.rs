//! Decode steps, and who loses its memory when it runs out (SGLang 0.5.23,
//! `sglang/srt/managers/scheduler.py`, `update_running_batch`, and `schedule_batch.py`,
//! `retract_decode`).

use std::cmp::Reverse;

use super::Sglang;
use super::memory::Keep;
use super::ratio::RETRACT_DECODE_STEPS;
use super::sequence::Status;
use crate::engine::{Entry, EntryKind, StepPlan};

impl Sglang {
    /// Plans a token for each running request.
    pub(super) fn plan_decode(&mut self, plan: &mut StepPlan) {
        self.form_group();
        let before = self.running.len();
        self.set_aside_finishing();
        let is_shorter = self.running.len() < before;
        if self.running.is_empty() {
            self.is_full = false;
            return;
        }
        let fits = self.make_room_for_running();
        if !fits && is_shorter {
            // The memory of those on their last token is about to come back.
            self.is_full = false;
            return;
        }
        if fits {
            self.ratio.decay();
        } else {
            self.dissolve_group();
            self.retract_some(plan);
            if self.running.is_empty() {
                self.is_full = false;
                return;
            }
        }
        if self.running.len() < before {
            self.is_full = false;
        }
        self.decode_running(plan);
        self.loras.add_decodes(&mut plan.shape);
    }

    /// Decoding requests take part in the prefill batch that was just put together, if their next
    /// tokens fit.
    pub(super) fn mix_in_decodes(&mut self, plan: &mut StepPlan) {
        if !self.mixes_chunks() || self.running.is_empty() {
            return;
        }
        self.dissolve_group();
        let before = self.running.len();
        self.set_aside_finishing();
        if self.running.len() < before {
            self.is_full = false;
        }
        if !self.running.is_empty() && self.make_room_for_running() {
            self.decode_running(plan);
            for &slot in &self.running {
                let s = &mut self.sequences[slot as usize];
                s.considered = s.known();
            }
            self.last_prefill.append(&mut self.running);
        }
    }

    /// Takes requests out of the running batch whose last token is on its way.
    #[inline]
    fn set_aside_finishing(&mut self) {
        if self.is_grouped() {
            self.set_aside_members();
            return;
        }
        let (sequences, last_in_flight) = (&mut self.sequences, &mut self.last_in_flight);
        self.running.retain(|&slot| {
            let s = &mut sequences[slot as usize];
            let is_last = s.in_flight > 0 && s.life.generated + 1 >= s.life.max_tokens;
            if is_last {
                s.status = Status::LastInFlight;
                *last_in_flight += 1;
            }
            !is_last
        });
    }

    /// Evicts until each of the requests has a slot for its next token; whether that succeeds.
    fn make_room_to_decode(&mut self, slots: &[u32]) -> bool {
        let pages = |slot: &u32| {
            let held = self.sequences[*slot as usize].slots();
            self.ceil(self.slots_to_decode(*slot)) - self.ceil(held)
        };
        let need = slots.iter().map(pages).sum();
        self.make_room(need)
    }

    fn make_room(&mut self, need: u32) -> bool {
        self.evict_until(need);
        self.available >= need && self.cache.has_free(need)
    }

    #[inline]
    fn make_room_for_running(&mut self) -> bool {
        if self.is_grouped() {
            return self.make_room(self.group_need());
        }
        let running = std::mem::take(&mut self.running);
        let fits = self.make_room_to_decode(&running);
        self.running = running;
        fits
    }

    fn decode_running(&mut self, plan: &mut StepPlan) {
        if self.is_grouped() {
            self.decode_group(plan);
            return;
        }
        let drafts = self.settings.speculative_num_steps;
        self.slide_decodes();
        self.evict_until(self.room_to_decode());
        for index in 0..self.running.len() {
            let slot = self.running[index];
            let computed = self.sequences[slot as usize].kv;
            self.extend_to_decode(slot);
            let s = &mut self.sequences[slot as usize];
            s.in_flight += 1;
            plan.shape.add_decode(computed, drafts);
            plan.entries.push(Entry {
                request: s.life.id,
                slot,
                tokens: 1 + drafts,
                computed,
                drafts,
                kind: EntryKind::Running,
                samples: true,
            });
        }
    }

    /// Takes the memory of those who have generated least, of these the longest prompts, until
    /// the others can decode. At least one loses it and one keeps it.
    fn retract_some(&mut self, plan: &mut StepPlan) {
        let mut kept = std::mem::take(&mut self.running);
        kept.sort_by_key(|&slot| {
            let life = &self.sequences[slot as usize].life;
            (Reverse(life.generated), life.prompt_tokens)
        });
        let mut is_first = true;
        while is_first || !self.make_room_to_decode(&kept) {
            if kept.len() == 1 {
                break;
            }
            is_first = false;
            if let Some(slot) = kept.pop() {
                self.retract(slot, kept.len() as u32, plan);
                self.preempted.push(slot);
            }
        }
        // What is set aside for others that do not decode can leave too little even for one.
        if !self.make_room_to_decode(&kept)
            && let Some(slot) = kept.pop()
        {
            self.give_up(slot, plan);
        }
        let lives = kept.iter().map(|&slot| &self.sequences[slot as usize].life);
        let (generated, limit) = lives.fold((0, 0), |(generated, limit), life| {
            (generated + u64::from(life.generated), limit + u64::from(life.max_tokens))
        });
        self.ratio.estimate(kept.len() as u32, generated, limit);
        self.running = kept;
        self.requeue_preempted();
    }

    /// A request loses its memory; what it has generated is kept. Some room is made at once for
    /// the `left` requests that go on.
    pub(super) fn retract(&mut self, slot: u32, left: u32, plan: &mut StepPlan) {
        self.reveal(slot);
        self.release(slot, Keep::Nothing);
        self.evict_until(left * RETRACT_DECODE_STEPS);
        let s = &mut self.sequences[slot as usize];
        s.prefix = 0;
        s.status = Status::Waiting;
        s.life.preemptions += 1;
        if let Some(adapter) = s.adapter {
            self.loras.leave(adapter);
        }
        plan.preempted.push(s.life.id);
    }
}
