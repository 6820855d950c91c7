//! The scheduler of SGLang (SGLang 0.5.23, `sglang/srt/managers/scheduler.py`,
//! `schedule_policy.py`, `schedule_batch.py`), for models with full attention.
//!
//! A step either prefills or decodes, and prefills whenever a batch can be put together; only with
//! mixed chunks do decoding requests ride along. Memory is counted in tokens. A request is admitted
//! if its prompt fits beside the answers that are expected of all requests: the share of their
//! limits that they will use is estimated, and the estimate learns. If decoding finds no memory
//! after all, requests that have generated least lose theirs and wait again, behind all others.
//! Prefixes are found in a radix tree, which a prompt joins when its prefill has ended. With the
//! overlap schedule the next step is decided while one runs, before its outcome is known.
//!
//! * `build.rs`: an engine before its first request
//! * `admission.rs` `budget.rs` `exact_fit.rs`: who is prefilled
//! * `order.rs`: in which order
//! * `preempt.rs`: who makes way for a higher priority
//! * `batches.rs`: how batches go on between two steps
//! * `decode.rs` `ratio.rs`: decode steps, retraction, the estimate
//! * `group.rs` `lockstep.rs`: requests that decode in lock step
//! * `complete.rs`: what a step's outcome changes
//! * `speculation.rs`: drafts that a step verifies
//! * `inbox.rs`: when requests that have come are read
//! * `abort.rs`: requests whose clients have gone away
//! * `handoff.rs`: prefill here and decode elsewhere, or the other way round
//! * `memory.rs` `cache.rs`: memory of requests and of the tree
//! * `hybrid.rs` `windows.rs` `states.rs`: models with sliding windows, and with states
//! * `told.rs`: what can be seen from outside
//!
//! Left out: models with both windows and states, host tiers, trees of drafts, structured output,
//! policies beside first come, longest prefix and longest output.

mod abilities;
mod abort;
mod admission;
mod backlog;
mod batches;
mod budget;
mod build;
mod cache;
mod complete;
mod decode;
mod exact_fit;
mod group;
mod handoff;
mod hybrid;
mod inbox;
mod lockstep;
mod memory;
mod order;
mod preempt;
mod ratio;
mod sequence;
mod settings;
mod speculation;
mod states;
mod told;
mod windows;

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::handed::Handed;
use super::{
    Acceptance, Backlog, CachesPrefixes, Handoff, HoldsAdapters, Load, Migrates, RunsQuiet,
    Schedule, TransfersKv,
};
use crate::engine::{Adapters, Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::{AdapterId, RequestId};
use crate::request::Request;
use crate::units::SimTime;

use cache::Cache;
use group::{Group, Place};
use handoff::Handoffs;
pub use hybrid::{SglangHybrid, SglangStatePool, SglangWindowPool, StateStrategy};
use inbox::Inbox;
use lockstep::{Rows, Serving};
use ratio::NewTokenRatio;
use sequence::{Sequence, Status};
pub use settings::SglangSettings;
pub use states::Stored;

/// SGLang's scheduler with its queues and its KV memory.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the latches that SGLang's loop keeps")]
pub struct Sglang {
    settings: SglangSettings,
    /// Tokens of the longest sequence.
    longest: u32,
    /// Tokens of memory, in whole pages.
    pool: u32,
    ratio: NewTokenRatio,
    acceptance: Acceptance,

    cache: Cache,
    /// Tokens of memory that hold nothing.
    available: u32,
    /// Rows for requests that have memory.
    rows: u32,
    rows_free: u32,
    sequences: Vec<Sequence>,
    /// Of those whose KV travels.
    handed: Handed,
    vacant: Vec<u32>,
    inbox: Inbox,
    waiting: VecDeque<u32>,
    /// The decode batch.
    running: Vec<u32>,
    /// The prefill batch of the step before; it joins the running batch.
    last_prefill: Vec<u32>,
    /// The request whose prefill goes on in the next batch.
    chunked: Option<u32>,
    /// Whether the client of that one left: it ends before the next chunk.
    chunked_is_left: bool,
    /// Whether nobody is admitted until some request leaves a batch.
    is_full: bool,
    /// Whether the request in chunked prefill got a share of the last batch.
    has_chunk: bool,
    in_flight: u32,
    /// Entries into the waiting queue so far.
    queued: u64,
    refresh_turn: u64,
    /// Of the requests preempted in the last plan, where those begin that decoding displaced.
    retractions_from: usize,
    /// Requests of [`Status::Finished`].
    finished: Vec<u32>,
    /// How many are [`Status::LastInFlight`].
    last_in_flight: u32,
    handoffs: Handoffs,

    /// The running requests as a group, where that is possible.
    group: Group,
    serving: Serving,
    /// Rows of ticks in flight when the group was dissolved.
    dissolved: VecDeque<Rows>,
    /// Whether the last outcome was that of a step that only decoded.
    last_outcome_was_tick: bool,
    records_entries: bool,

    chosen: Vec<u32>,
    preempted: Vec<u32>,
    scratch: Vec<u32>,
    /// Adapters of running and chosen requests while a batch is chosen.
    adapters: Vec<Option<AdapterId>>,
    /// Adapters of the requests that hold memory.
    loras: Adapters,
    beginnings: FxHashSet<u64>,
    set_aside: Vec<u32>,
    fresh: Vec<u32>,
    done: Vec<Place>,
}

impl Sglang {
    /// Whether decoding requests ride along in prefill batches.
    fn mixes_chunks(&self) -> bool {
        self.settings.enable_mixed_chunk && self.settings.chunked_prefill_size.is_some()
    }

    fn has_tree(&self) -> bool {
        !self.settings.disable_radix_cache
    }

    /// The tokens that a request of `prompt_tokens` may generate, none if it is refused. A limit of 0
    /// is no refusal: the token that its prefill ends with comes out all the same.
    fn answer_limit(&self, prompt_tokens: u32, max_tokens: u32) -> Option<u32> {
        if prompt_tokens > self.settings.prompt_max() {
            return None;
        }
        let whole = prompt_tokens.saturating_add(max_tokens);
        if self.settings.refuse_beyond_context && whole >= self.settings.context_length {
            return None;
        }
        let by_length = self.longest - prompt_tokens - 1;
        let page = self.settings.page_size;
        let by_memory = self.pool.saturating_sub(self.ceil(prompt_tokens) + page + 1);
        Some(max_tokens.min(by_length).min(by_memory))
    }

    /// Puts a prefill batch together, or a decode batch.
    fn fill(&mut self, now: SimTime, plan: &mut StepPlan) {
        if self.handoffs.hands_over {
            // Nobody decodes here, which is what else would end it.
            self.is_full = false;
        }
        if self.handoffs.receives {
            self.place_receiving(plan);
        }
        if !self.plan_prefill(now, plan) && !self.running.is_empty() {
            self.plan_decode(plan);
        }
    }

    fn push_waiting(&mut self, slot: u32) {
        self.sequences[slot as usize].queued = self.queued;
        self.queued += 1;
        self.waiting.push_back(slot);
    }

    /// A request is listed nowhere. Its place is vacant, unless others have yet to read its KV.
    fn vacate(&mut self, slot: u32) {
        let s = &mut self.sequences[slot as usize];
        if s.is_sending {
            s.status = Status::Sending;
            return;
        }
        s.status = Status::Gone;
        self.handed.remove(s.life.id);
        self.vacant.push(slot);
    }

    fn slot_of(&self, id: RequestId) -> Option<u32> {
        let is_here = |s: &Sequence| s.life.id == id && s.status.is_inside();
        match self.handed.get(id) {
            Some(slot) => Some(slot).filter(|slot| is_here(&self.sequences[*slot as usize])),
            None => self.sequences.iter().position(is_here).map(|slot| slot as u32),
        }
    }
}

impl Schedule for Sglang {
    fn now(&mut self, _: SimTime) {}

    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        let max_tokens =
            self.answer_limit(request.prompt_tokens, request.max_tokens).ok_or(Finish::Rejected)?;
        let keys = self.cache.keys();
        let mut sequence = Sequence::new(id, request, max_tokens, handoff, keys);
        if sequence.is_private() && self.serving == Serving::Never {
            sequence.reveal();
        }
        let slot = if let Some(slot) = self.vacant.pop() {
            self.sequences[slot as usize] = sequence;
            slot
        } else {
            self.sequences.push(sequence);
            self.sequences.len() as u32 - 1
        };
        self.cache.enter(slot);
        if handoff != Handoff::None {
            self.handed.insert(id, slot);
        }
        if self.inbox.is_always_open() {
            self.accept(slot);
        } else {
            self.inbox.put(slot);
        }
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.abort_request(id, result);
    }

    #[inline]
    fn reads_outcomes_first(&self) -> bool {
        true
    }

    fn rewind_clock(&mut self) {
        self.group.rewind_clock();
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        self.read_in_time();
        self.retractions_from = 0;
        if std::mem::take(&mut self.chunked_is_left) {
            self.end_chunked(Finish::Aborted, plan);
        }
        self.checkpoint_chunked();
        self.merge_last_prefill();
        self.drop_finished();
        self.fill(now, plan);
        if plan.is_empty() && self.in_flight == 0 && self.read_all() {
            self.fill(now, plan);
        }
        if !self.inbox.is_always_open() {
            self.inbox.remember(plan);
        }
        if !plan.is_empty() {
            self.in_flight += 1;
            if let Cache::State(cache) = &mut self.cache {
                cache.tell();
            }
        } else if self.in_flight == 0 && self.waiting.is_empty() && self.running.is_empty() {
            self.ratio.reset();
        }
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.in_flight -= 1;
        self.complete_step(now, plan, result);
    }

    #[inline]
    fn load(&self) -> Load {
        // No batch lists a request in chunked prefill that waits for window slots.
        let is_parked = |slot: &u32| !self.last_prefill.contains(slot);
        let parked = usize::from(self.chunked.as_ref().is_some_and(is_parked));
        let listed = self.running.len() + self.last_prefill.len() + parked;
        Load {
            waiting: self.waiting.len() as u32 + self.handoffs.waiting() + self.inbox.unread(),
            running: (listed - self.finished.len()) as u32 + self.last_in_flight,
            kv_blocks: self.pool / self.settings.page_size,
            kv_blocks_free: self.reclaimable() / self.settings.page_size,
            ..Load::default()
        }
    }

    fn backlog(&self) -> Option<Backlog> {
        Some(self.backlog_of_all())
    }

    fn token_budget(&self) -> u32 {
        self.settings.chunked_prefill_size.unwrap_or(self.settings.max_prefill_tokens)
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        self.slot_of(id).map(|slot| {
            let generated = self.generated(slot);
            Life { generated, ..self.sequences[slot as usize].life }
        })
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        for (slot, sequence) in (0..).zip(&self.sequences) {
            if sequence.status.is_inside() {
                let generated = self.generated(slot);
                if generated > 0 {
                    tell(sequence.life.id, generated);
                }
            }
        }
    }

    fn head(&self) -> Option<RequestId> {
        let head = self.waiting.front().copied();
        let head = head.or_else(|| self.handoffs.head()).or_else(|| self.inbox.head());
        head.map(|slot| self.sequences[slot as usize].life.id)
    }

    fn steps_in_flight_max(&self) -> usize {
        if self.settings.disable_overlap_schedule { 1 } else { 2 }
    }

    fn is_balanced(&self) -> bool {
        self.memory_is_balanced()
    }

    fn waits_until(&self) -> Option<SimTime> {
        None
    }

    #[inline]
    fn displaces_in_vain(&self) -> bool {
        false
    }

    #[inline]
    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv> {
        Some(self)
    }

    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet> {
        // Every step counts towards the next look at what has come.
        if self.inbox.is_always_open() { Some(self) } else { None }
    }

    fn adapters(&self) -> Option<&dyn HoldsAdapters> {
        Some(self)
    }

    fn migration(&mut self) -> Option<&mut dyn Migrates> {
        None
    }

    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes> {
        Some(self)
    }

    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes> {
        Some(self)
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        None
    }
}

#[cfg(test)]
mod tests;
