//! Prefill and decode on different instances (SGLang 0.5.23, `sglang/srt/disaggregation/prefill.py` and
//! `decode.py`).
//!
//! The destination comes first. An instance that decodes sets memory aside for a prompt, in the order
//! of arrival and only while every request that it has keeps room for [`RESERVED_DECODE_TOKENS`]
//! more; then another instance prefills the prompt, whose KV it writes there, and the first token
//! with it. A request that has landed is seated in the decode batch without a step of its own; the
//! client sees its first token then. One that loses its memory to others keeps its KV in the memory
//! of the host and comes back before any newcomer.

use super::Sglang;
use super::budget::MAX_NEW_TOKENS_CLIP;
use super::memory::Keep;
use super::sequence::Status;
use crate::engine::scheduler::Handoff;
use crate::engine::{Finish, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::units::SimTime;

use std::collections::VecDeque;

/// `--num-reserved-decode-tokens` unless told otherwise (SGLang 0.5.23, `sglang/srt/server_args.py`).
const RESERVED_DECODE_TOKENS: i64 = 512;
/// Running requests up to which a decode instance has rows for as many as twice that beside them
/// (SGLang 0.5.23, `model_runner_kv_cache_mixin.py`).
const FEW_RUNNING: u32 = 32;

/// What it does for other instances and they for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Handoffs {
    /// Whether it computes prompts for others.
    pub(super) hands_over: bool,
    /// Whether it decodes what others computed.
    pub(super) receives: bool,
    /// Those that wait for memory.
    unplaced: VecDeque<u32>,
    /// How many have memory and wait for their KV.
    loading: u32,
    /// Those that wait for a seat in the decode batch.
    landed: VecDeque<u32>,
    /// Those that lost their memory, which the host keeps.
    displaced: VecDeque<u32>,
}

impl Handoffs {
    /// Requests outside the decode batch.
    pub(super) fn waiting(&self) -> u32 {
        (self.unplaced.len() + self.landed.len() + self.displaced.len()) as u32 + self.loading
    }

    /// Whether one waits for a seat.
    pub(super) fn has_landed(&self) -> bool {
        !self.landed.is_empty()
    }

    /// The one that gets memory next.
    pub(super) fn head(&self) -> Option<u32> {
        self.displaced.front().or(self.unplaced.front()).copied()
    }
}

impl Sglang {
    /// Whether the engine can take a request of which another instance does a part.
    #[inline]
    pub(super) fn accept(&mut self, slot: u32) {
        assert!(
            self.settings.hybrid.is_none()
                || self.sequences[slot as usize].handoff == Handoff::None,
            "requests of hybrid models are prefilled and decoded in one place"
        );
        match self.sequences[slot as usize].handoff {
            Handoff::None => self.push_waiting(slot),
            Handoff::DecodedElsewhere => {
                self.handoffs.hands_over = true;
                self.push_waiting(slot);
            }
            Handoff::PrefilledElsewhere => {
                if !self.handoffs.receives {
                    self.handoffs.receives = true;
                    if self.settings.max_running_requests <= FEW_RUNNING {
                        self.rows += 2 * self.settings.max_running_requests;
                        self.rows_free += 2 * self.settings.max_running_requests;
                    }
                }
                self.sequences[slot as usize].status = Status::Unplaced;
                self.handoffs.unplaced.push_back(slot);
            }
        }
    }

    /// Gives memory to those that wait for it, those first that lost theirs.
    pub(super) fn place_receiving(&mut self, plan: &mut StepPlan) {
        while let Some(&slot) = self.handoffs.displaced.front() {
            let need = self.kv_to_restore(slot) + RESERVED_DECODE_TOKENS;
            if self.rows_free == 0 || need > self.allocatable(false) {
                return;
            }
            self.handoffs.displaced.pop_front();
            self.place(slot, self.kv_to_restore(slot) as u32);
            self.sequences[slot as usize].status = Status::Landed;
            self.handoffs.landed.push_back(slot);
        }
        while let Some(&slot) = self.handoffs.unplaced.front() {
            let life = &self.sequences[slot as usize].life;
            let (id, prompt) = (life.id, life.prompt_tokens);
            let answer = i64::from(life.max_tokens.min(MAX_NEW_TOKENS_CLIP));
            let paged = i64::from(self.ceil(prompt));
            let alone = i64::from(prompt) + answer - self.retractable();
            let need = (paged + RESERVED_DECODE_TOKENS).max(alone);
            if self.rows_free == 0 || need > self.allocatable(true) {
                return;
            }
            self.handoffs.unplaced.pop_front();
            self.place(slot, prompt);
            let s = &mut self.sequences[slot as usize];
            s.status = Status::Loading;
            self.handoffs.loading += 1;
            plan.loads.push((id, prompt));
        }
    }

    fn place(&mut self, slot: u32, kv: u32) {
        self.extend(slot, kv);
        self.sequences[slot as usize].has_row = true;
        self.rows_free -= 1;
    }

    /// The KV that the host keeps of a request: all but that of its last token.
    fn kv_to_restore(&self, slot: u32) -> i64 {
        i64::from(self.sequences[slot as usize].known()) - 1
    }

    /// Tokens of memory that may be set aside, while each request keeps room to go on and the longest
    /// running one could be finished with the memory of the others.
    fn allocatable(&self, counts_displaced: bool) -> i64 {
        let active = (self.running.len() + self.handoffs.landed.len()) as u32;
        let active = i64::from(active + self.handoffs.loading);
        let retractable = self.retractable();
        let to_finish = |slot: &u32| {
            let life = &self.sequences[*slot as usize].life;
            let answer = life.max_tokens.min(MAX_NEW_TOKENS_CLIP);
            i64::from(life.prompt_tokens + answer) - retractable
        };
        let longest = self.running.iter().map(to_finish).max().unwrap_or(0);
        let reserved = (RESERVED_DECODE_TOKENS * active).max(longest);
        let displaced: i64 = if counts_displaced {
            let need = |&slot: &u32| self.kv_to_restore(slot) + RESERVED_DECODE_TOKENS;
            self.handoffs.displaced.iter().map(need).sum()
        } else {
            0
        };
        i64::from(self.available) - reserved - displaced
    }

    /// Tokens of the running requests.
    fn retractable(&self) -> i64 {
        let tokens = |slot: &u32| {
            let prompt = self.sequences[*slot as usize].life.prompt_tokens;
            i64::from(prompt + self.generated(*slot))
        };
        self.running.iter().map(tokens).sum()
    }

    /// Those that have landed join the decode batch as far as it has seats; their first tokens come
    /// out.
    pub(super) fn seat_landed(&mut self, now: SimTime, result: &mut StepResult) {
        let joined_from = self.running.len();
        while (self.running.len() as u32) < self.settings.max_running_requests {
            let Some(slot) = self.handoffs.landed.pop_front() else { break };
            let s = &mut self.sequences[slot as usize];
            s.status = Status::Admitted;
            s.life.first_scheduled.get_or_insert(now);
            result.landed.push(s.life.id);
            if s.life.first_token.is_none() {
                let gap = s.life.emit(now);
                result.count_token(s.life.id, gap);
                if s.life.is_done() {
                    let life = s.life;
                    self.release(slot, Keep::Nothing);
                    self.vacate(slot);
                    result.finished.push((life, Finish::Done));
                    continue;
                }
            }
            self.running.push(slot);
        }
        if self.is_grouped() {
            self.join_running(joined_from);
        }
    }

    /// A running request lost its memory; the host keeps its KV.
    pub(super) fn displace(&mut self, slot: u32) {
        self.sequences[slot as usize].status = Status::Displaced;
        self.handoffs.displaced.push_back(slot);
    }

    /// A request is computed and goes on elsewhere; its KV stays until it has been read.
    pub(super) fn keep_for_others(&mut self, slot: u32) {
        let tokens = {
            let s = &self.sequences[slot as usize];
            s.kv.min(s.known())
        };
        self.checkpoint(slot, tokens);
        self.sequences[slot as usize].is_sending = true;
    }

    /// A KV has been read, or has arrived.
    pub(super) fn end_transfer(&mut self, id: RequestId) {
        let travels = |slot: &u32| {
            let s = &self.sequences[*slot as usize];
            s.is_sending || s.is_loading()
        };
        let Some(slot) = self.handed.get(id).filter(travels) else { return };
        let s = &mut self.sequences[slot as usize];
        if s.is_loading() {
            s.status = Status::Landed;
            self.handoffs.loading -= 1;
            self.handoffs.landed.push_back(slot);
            return;
        }
        s.is_sending = false;
        let is_unlisted = s.status == Status::Sending;
        self.release(slot, Keep::Nothing);
        if is_unlisted {
            self.vacate(slot);
        }
    }

    /// A request that waits for memory, its KV or a seat goes away.
    pub(super) fn abort_receiving(&mut self, slot: u32, result: &mut StepResult) {
        let handoffs = &mut self.handoffs;
        match self.sequences[slot as usize].status {
            Status::Unplaced => handoffs.unplaced.retain(|&other| other != slot),
            Status::Displaced => handoffs.displaced.retain(|&other| other != slot),
            Status::Landed => handoffs.landed.retain(|&other| other != slot),
            _ => handoffs.loading -= 1,
        }
        self.release(slot, Keep::Nothing);
        result.finished.push((self.sequences[slot as usize].life, Finish::Aborted));
        self.vacate(slot);
    }
}
