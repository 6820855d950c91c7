//! The scheduler of vLLM V1 (vLLM 0.33.0, `vllm/v1/core/sched/scheduler.py`,
//! `async_scheduler.py`, `vllm/v1/core/kv_cache_manager.py`).
//!
//! Every step first serves the running requests, in order of admission, then admits waiting ones,
//! all out of one token budget; there is no prefill phase and no decode phase. Memory is paged; a
//! running request that finds no block takes those of the request admitted last, which starts
//! over. With asynchronous scheduling the next step is decided while one runs, before the tokens
//! of that one are known: placeholders stand for them.
//!
//! * `build.rs`: an engine before its first request
//! * `groups.rs`: layers that keep different things
//! * `limits.rs`: how much a step may compute
//! * `running.rs`: what running requests get, and who loses its memory
//! * `waiting.rs`: who is admitted
//! * `commit.rs`: a step that was decided becomes state
//! * `complete.rs`: what its outcome changes
//! * `abort.rs`: requests whose clients have gone away
//! * `connector.rs`: what it changes that KV comes from other machines, or goes there
//! * `encoder.rs`: embeddings of images
//! * `grammar.rs`: requests whose grammar is not compiled yet
//! * `livelock.rs`: requests that displace each other without end
//! * `memory.rs`: blocks of one request
//! * `below.rs`: KV in tiers below the GPU
//! * `offload.rs`: KV in host memory, as vLLM's own connector offloads it
//! * `group.rs`, `lockstep.rs`: requests that decode in lock step, served together with the same
//!   outcome
//! * `stages.rs`: what pipeline parallelism changes
//! * `windows.rs`: blocks of layers with a sliding window
//!
//! Left out: hits that end inside a block.

mod abilities;
mod abort;
mod acceptance;
mod answers;
mod backlog;
mod below;
mod build;
mod commit;
mod complete;
mod connector;
mod encoder;
mod grammar;
mod group;
mod groups;
mod lanes;
mod limits;
mod livelock;
mod lockstep;
mod memory;
mod offload;
mod queue;
mod running;
mod seats;
mod sequence;
mod settings;
mod stages;
mod waiting;
mod windows;

use super::handed::Handed;
use super::{
    Backlog, CachesPrefixes, Handoff, HoldsAdapters, Load, Migrates, RunsQuiet, Schedule,
    TransfersKv,
};
use crate::engine::{Adapters, Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::RequestId;
use crate::kv::{Hits, KvPool, Lookahead};
use crate::model::KvGroups;
use crate::request::Request;
use crate::scenario::Policy;
use crate::units::SimTime;

use std::collections::VecDeque;

pub use acceptance::Acceptance;
use connector::Connector;
pub use connector::KvRole;
use encoder::Encoder;
pub use encoder::EncoderSettings;
use group::{Group, Place};
use livelock::Livelock;
use offload::Offload;
pub use offload::OffloadSettings;
use queue::Queue;
use sequence::{Sequence, Status};
pub use settings::VllmV1Settings;
use stages::Stagger;

/// What plans tell beyond what is needed to run them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Record {
    /// The share of every request that decodes in lock step.
    entries: bool,
    /// The blocks of requests.
    blocks: bool,
}

/// vLLM's V1 scheduler with its queues and its KV pool.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct VllmV1 {
    settings: VllmV1Settings,
    watermark_blocks: u32,
    /// Drafts per step; 0 without speculation.
    drafts: u32,
    /// Slots reserved beyond the tokens of a step for the draft head.
    lookahead: u32,
    naming: Lookahead,
    /// Whether the last block that a lookup finds is computed again, for a draft head.
    drops_last_hit: bool,
    /// Layers with a window, where their blocks are their own.
    windows: Option<KvGroups>,
    connector: Connector,
    tiers: Option<Box<Tiers>>,
    encoder: Option<Box<Encoder>>,
    offload: Option<Box<Offload>>,
    acceptance: Acceptance,
    record: Record,
    stagger: Stagger,

    pool: KvPool,
    sequences: Vec<Sequence>,
    /// Their requests, beside each other to be searched.
    seated: Vec<RequestId>,
    /// Of those whose KV travels.
    handed: Handed,
    vacant: Vec<u32>,
    running: Vec<u32>,
    waiting: Queue,
    /// Requests that own blocks while their KV is on its way.
    holding: Queue,
    /// Of those, the ones whose KV is on its way.
    unlanded: u32,

    /// Requests that decode in lock step, where that is possible.
    group: Group,
    groups: bool,
    /// The step, counted from 1, that the group last computed something in.
    ticked_in: u64,
    /// Until this step no group is formed.
    ungrouped_until: u64,
    /// Rows of ticks in flight when the group was dissolved.
    dissolved: VecDeque<Vec<(u32, RequestId)>>,
    admissions: u64,
    last_completion: SimTime,
    /// The last moment that it was told.
    clock: SimTime,
    /// From then on every grammar is ready that a request has asked for.
    grammars_until: SimTime,

    /// Steps decided, and those whose outcome is in.
    executed_steps: u64,
    processed_steps: u64,
    last_prefill_step: Option<u64>,
    capacity_bound: bool,
    /// Waiting requests that were passed over since they came or came back.
    deferred: u32,
    livelock: Livelock,

    skipped: Vec<lanes::Place>,
    /// Adapters of running requests.
    adapters: Adapters,
    /// Where in the queue the last step stopped to look.
    scanned_to: i64,
    /// Requests that it passed over for want of adapters, where the queue has no lanes.
    passed_over: u32,
    hits: Hits,
    /// For which request, of how many tokens, in which version of the pool the hits were found.
    found: Option<(RequestId, u32, u64)>,
    /// Whether memory is all that the head of the queue lacks, and none has come free since.
    lacks_memory: bool,
    done: Vec<Place>,
}

impl VllmV1 {
    fn is_by_priority(&self) -> bool {
        self.settings.policy == Policy::Priority
    }

    fn is_async(&self) -> bool {
        self.settings.async_scheduling
    }

    fn insert(&mut self, sequence: Sequence) -> u32 {
        let (id, handoff) = (sequence.life.id, sequence.handoff);
        let slot = self.seat(sequence);
        // With tiers below, the KV of any request may come from there.
        if handoff != Handoff::None || self.tiers.is_some() {
            self.handed.insert(id, slot);
        }
        slot
    }

    /// The place of a request whose KV travels.
    fn handed_over(&self, id: RequestId) -> Option<u32> {
        self.handed.get(id).and_then(|_| self.slot_of(id))
    }

    /// A request runs no longer: neither does its adapter, for it.
    fn leave_adapter(&mut self, slot: u32) {
        if let Some(adapter) = self.sequences[slot as usize].adapter {
            self.adapters.leave(adapter);
        }
    }

    /// Frees a request's memory and its place.
    #[inline]
    fn remove(&mut self, slot: u32) {
        self.linger_no_more(slot);
        self.release_blocks(slot);
        let s = &mut self.sequences[slot as usize];
        s.status = Status::Gone;
        self.handed.remove(s.life.id);
        self.vacant.push(slot);
    }
}

impl Schedule for VllmV1 {
    fn now(&mut self, now: SimTime) {
        self.clock = now;
    }

    #[inline]
    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        if request.prompt_tokens >= self.settings.max_model_len {
            return Err(Finish::Rejected);
        }
        // It is large: it is moved once, into its place.
        let (block_size, naming) = (self.settings.block_size, self.naming);
        let slot = self.insert(Sequence::new(id, request, handoff, block_size, naming));
        self.name_chunks(slot, request);
        let sequence = &mut self.sequences[slot as usize];
        if let Some(inputs) = &mut sequence.inputs
            && let Some(compiles) = request.inputs.as_ref().and_then(|inputs| inputs.grammar)
        {
            inputs.grammar_ready = self.clock.max(request.arrival) + compiles;
            self.grammars_until = self.grammars_until.max(inputs.grammar_ready);
        }
        let key = sequence.key();
        self.livelock.end();
        self.lacks_memory &= self.settings.policy == Policy::Fcfs;
        self.waiting.push_back(slot, key);
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.abort_request(id, result);
    }

    fn rewind_clock(&mut self) {
        self.last_completion = SimTime::ZERO;
        (self.clock, self.grammars_until) = (SimTime::ZERO, SimTime::ZERO);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        self.begin_step();
        self.clock = now;
        self.begin_stores(now);
        self.stagger.decisions += 1;
        if self.livelock.is_found() {
            return;
        }
        let mut limits = self.step_limits();
        if !self.schedule_group(&mut limits, plan) {
            self.schedule_running(&mut limits, plan);
        }
        if plan.preempted.is_empty() {
            self.schedule_waiting(&mut limits, plan);
        }
        self.commit(now, plan);
        self.store_shares(now, plan);
        self.write_given_up();
        if limits.prefills && self.settings.prefill_schedule_interval > 1 {
            self.last_prefill_step = Some(self.executed_steps);
        }
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.complete_step(now, plan, result);
        self.notice_transfers(now);
        if result.tokens > 0 {
            self.livelock.end();
        }
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        self.tiers.as_deref_mut()
    }

    #[inline]
    fn load(&self) -> Load {
        Load {
            waiting: self.waiting.len() + self.holding.len(),
            running: self.running.len() as u32,
            kv_blocks: self.pool.usable(),
            kv_blocks_free: self.pool.free(),
            kv_blocks_lingering: self.connector.lingering(),
        }
    }

    fn backlog(&self) -> Option<Backlog> {
        Some(self.backlog_of_all())
    }

    fn token_budget(&self) -> u32 {
        self.settings.max_num_batched_tokens
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        self.slot_of(id).map(|slot| {
            let sequence = &self.sequences[slot as usize];
            let mut life = sequence.life;
            life.generated += sequence.member.map_or(0, |member| self.ticks_done(&member));
            life
        })
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        for sequence in &self.sequences {
            let ticks = sequence.member.map_or(0, |member| self.ticks_done(&member));
            let generated = sequence.life.generated + ticks;
            if generated > 0 && !matches!(sequence.status, Status::Draining | Status::Gone) {
                tell(sequence.life.id, generated);
            }
        }
    }

    fn head(&self) -> Option<RequestId> {
        self.waiting.head().map(|slot| self.sequences[slot as usize].life.id)
    }

    fn displaces_in_vain(&self) -> bool {
        self.livelock.is_found()
    }

    fn steps_in_flight_max(&self) -> usize {
        self.stagger.batches_max(self.is_async())
    }

    fn is_balanced(&self) -> bool {
        let slots = 0..self.sequences.len() as u32;
        let unlanded = slots.filter(|slot| self.is_unlanded(*slot)).count();
        unlanded == self.unlanded as usize
            && self.pool.is_balanced()
            && self.tiers.as_ref().is_none_or(|tiers| tiers.is_balanced())
            && self.offload.as_ref().is_none_or(|offload| offload.is_balanced())
    }

    fn reads_outcomes_first(&self) -> bool {
        false
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.next_grammar().into_iter().chain(self.next_transfer()).min()
    }

    #[inline]
    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv> {
        Some(self)
    }

    #[inline]
    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet> {
        Some(self)
    }

    fn adapters(&self) -> Option<&dyn HoldsAdapters> {
        Some(self)
    }

    fn migration(&mut self) -> Option<&mut dyn Migrates> {
        Some(self)
    }

    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes> {
        Some(self)
    }

    #[inline]
    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes> {
        Some(self)
    }
}
