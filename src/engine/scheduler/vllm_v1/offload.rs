//! KV offloaded to host memory by vLLM's own connector (vLLM 0.33.0,
//! `kv_connector/v1/offloading/scheduler.py`, `vllm/v1/kv_offload/`): blocks are written through as they are
//! scheduled, and come back for requests that find more of their tokens there than on the GPU.
//!
//! Transfers take a constant and a share per block, and do not wait for each other. Their ends are noticed with
//! the outcome of a step, or at once where none is in flight.
//!
//! Which of several blocks of host memory makes way first is not that of the recordings in every case: an engine
//! orders them by sets of names.
//!
//! Left out: several blocks to a chunk, tiers below host memory. Real runs have tiers whose transfers take their
//! turn on links (`below.rs`).

use rustc_hash::FxHashMap;

use super::VllmV1;
use super::sequence::Status;
use crate::engine::StepPlan;
use crate::ids::RequestId;
use crate::kv::{BlockHash, BlockId, KvPool, NumberedPool, Tier};
use crate::scenario::TierEviction;
use crate::units::{SimDuration, SimTime};

/// What a connector offloads, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadSettings {
    /// Blocks in host memory.
    pub host_blocks: u32,
    /// Whether blocks of answers stay on the GPU (`offload_prompt_only`).
    pub prompt_only: bool,
    /// Blocks are stored once they were offered so many times (`store_threshold`).
    pub store_threshold: u32,
    /// What every transfer takes.
    pub base: SimDuration,
    /// What each of its blocks takes beside it.
    pub per_block: SimDuration,
}

/// A transfer of blocks of a request.
#[derive(Debug, Clone)]
struct Job {
    request: RequestId,
    slot: u32,
    names: Vec<BlockHash>,
    /// Of a store: the blocks it reads, and how many times each had been taken when it was chosen.
    blocks: Vec<(BlockId, u32)>,
    is_load: bool,
    ready: SimTime,
}

/// Host memory, and transfers to and from it.
#[derive(Debug, Clone)]
pub(super) struct Offload {
    settings: OffloadSettings,
    host: Tier,
    offered: FxHashMap<BlockHash, u32>,
    /// Stores that begin with the next decision.
    chosen: Vec<Job>,
    /// Transfers on their way.
    jobs: Vec<Job>,
}

/// What host memory has for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offloaded {
    /// So many tokens behind those on the GPU.
    Tokens(u32),
    /// Some of them are still on their way there, or from there.
    Later,
}

impl Offload {
    fn new(settings: OffloadSettings) -> Self {
        Self {
            host: Tier::new(settings.host_blocks as usize, TierEviction::Lru),
            offered: FxHashMap::default(),
            chosen: Vec::new(),
            jobs: Vec::new(),
            settings,
        }
    }

    pub(super) fn is_balanced(&self) -> bool {
        self.host.is_balanced()
    }

    fn ready(&self, now: SimTime, blocks: usize) -> SimTime {
        now + self.settings.base + self.settings.per_block * blocks as u64
    }

    fn has_job(&self, request: RequestId) -> bool {
        self.chosen.iter().chain(&self.jobs).any(|job| job.request == request)
    }

    /// The names of these blocks that are to be stored, for which there is room now; none where there is not
    /// room for all.
    fn reserve(&mut self, names: &[BlockHash]) -> Option<Vec<BlockHash>> {
        let threshold = self.settings.store_threshold;
        let mut wanted: Vec<BlockHash> = Vec::new();
        for &name in names {
            let offered = self.offered.entry(name).or_default();
            *offered += 1;
            if *offered >= threshold && !self.host.knows(name) && !wanted.contains(&name) {
                wanted.push(name);
            }
        }
        let lacking = !wanted.is_empty();
        self.host.reserve(&mut wanted, &mut Vec::new());
        (!lacking || !wanted.is_empty()).then_some(wanted)
    }
}

impl VllmV1 {
    /// The same engine that offloads to host memory. Blocks get numbers: a store reads them after their request
    /// may have left.
    ///
    /// # Panics
    /// When its KV goes elsewhere, too, or groups of layers share its memory.
    #[must_use]
    pub fn with_offload(mut self, settings: OffloadSettings) -> Self {
        assert!(
            !self.connector.is_there() && self.tiers.is_none() && !self.has_groups(),
            "offloading is the only way that KV goes"
        );
        if !self.pool.is_numbered() {
            self.pool = KvPool::Numbered(NumberedPool::new(1 + self.pool.usable()));
        }
        self.offload = Some(Box::new(Offload::new(settings)));
        self.groups = false;
        self
    }

    /// Blocks in host memory, and those that would make way for others; none without offloading.
    pub fn host_blocks(&self) -> Option<(usize, usize)> {
        self.offload.as_ref().map(|offload| (offload.host.len(), offload.host.idle()))
    }

    /// A decision begins: stores chosen by the one before are on their way.
    pub(super) fn begin_stores(&mut self, now: SimTime) {
        if self.executed_steps == self.processed_steps {
            self.notice_transfers(now);
        }
        let Some(offload) = &mut self.offload else { return };
        for mut job in std::mem::take(&mut offload.chosen) {
            job.ready = offload.ready(now, job.names.len());
            offload.jobs.push(job);
        }
    }

    /// When the next transfer ends.
    pub(super) fn next_transfer(&self) -> Option<SimTime> {
        let offload = self.offload.as_ref()?;
        offload.jobs.iter().map(|job| job.ready).min()
    }

    /// Takes in the ends of transfers.
    #[inline]
    pub(super) fn notice_transfers(&mut self, now: SimTime) {
        if self.offload.is_some() {
            self.end_transfers(now);
        }
    }

    fn end_transfers(&mut self, now: SimTime) {
        let Some(offload) = &mut self.offload else { return };
        let (ended, going) =
            std::mem::take(&mut offload.jobs).into_iter().partition(|job| job.ready <= now);
        offload.jobs = going;
        let ended: Vec<Job> = ended;
        for job in ended {
            for &name in &job.names {
                if job.is_load {
                    offload.host.let_go(name);
                } else {
                    offload.host.arrive(name);
                }
                // What a transfer has ended for gives way last, the end of the sequence after its begin.
                offload.host.touch(&[name]);
            }
            let s = &mut self.sequences[job.slot as usize];
            let is_awaited = s.life.id == job.request && s.status == Status::Loading;
            if job.is_load && is_awaited && !s.has_landed {
                s.has_landed = true;
                self.unlanded -= 1;
            }
        }
    }

    /// What host memory has for a request of which the GPU holds the first `hit` tokens.
    pub(super) fn find_offloaded(&mut self, slot: u32, hit: u32) -> Offloaded {
        let Some(offload) = &mut self.offload else { return Offloaded::Tokens(0) };
        let s = &mut self.sequences[slot as usize];
        let Some(chunks) = &mut s.chunks else { return Offloaded::Tokens(0) };
        let (block, names) = (self.settings.block_size, chunks.of(s.tokens - 1));
        let first = (hit / block) as usize;
        if first >= names.len() {
            return Offloaded::Tokens(0);
        }
        if offload.has_job(s.life.id) {
            return Offloaded::Later;
        }
        let mut blocks = 0;
        for &name in &names[first..] {
            if !offload.host.knows(name) {
                break;
            }
            // What is coming for another request is found on the GPU soon.
            if !offload.host.has(name) || offload.host.is_read(name) {
                return Offloaded::Later;
            }
            blocks += 1;
        }
        Offloaded::Tokens(blocks * block)
    }

    /// A request with `hit` tokens on the GPU was given blocks for `tokens` more, which come from host memory.
    pub(super) fn load_offloaded(&mut self, slot: u32, (hit, tokens): (u32, u32)) {
        let now = self.clock;
        let Some(offload) = &mut self.offload else { return };
        let s = &mut self.sequences[slot as usize];
        let Some(chunks) = &mut s.chunks else { return };
        let block = self.settings.block_size;
        let (first, last) = ((hit / block) as usize, ((hit + tokens) / block) as usize);
        let names = chunks.of(s.tokens)[first..last].to_vec();
        for &name in &names {
            offload.host.hold(name);
        }
        chunks.set_offered(last);
        let ready = offload.ready(now, names.len());
        let (request, blocks) = (s.life.id, Vec::new());
        offload.jobs.push(Job { request, slot, names, blocks, is_load: true, ready });
    }

    /// The step is decided: what its shares fill is to be stored, and it waits for stores whose blocks it takes.
    pub(super) fn store_shares(&mut self, now: SimTime, plan: &mut StepPlan) {
        let Some(offload) = &self.offload else { return };
        let is_taken = |(id, times): &(BlockId, u32)| self.pool.times_taken(*id) != *times;
        let flushed = offload.jobs.iter().filter(|job| {
            let s = &self.sequences[job.slot as usize];
            let has_left = s.life.id != job.request || !s.status.is_here();
            let is_overwritten = has_left && job.blocks.iter().any(is_taken);
            !job.is_load && (is_overwritten || plan.preempted.contains(&job.request))
        });
        let last = flushed.map(|job| job.ready).max();
        plan.stall = last.map_or(SimDuration::ZERO, |ready| ready.saturating_since(now));
        let prompt_only = offload.settings.prompt_only;
        for entry in &plan.entries {
            let s = &self.sequences[entry.slot as usize];
            let limit = if prompt_only { s.life.prompt_tokens } else { s.tokens };
            self.store(entry.slot, (entry.computed + entry.tokens).min(limit));
        }
    }

    /// A request has all its tokens: those of its answer are to be stored, but for the last, which is not
    /// computed.
    pub(super) fn store_answer(&mut self, slot: u32) {
        if self.offload.as_ref().is_some_and(|offload| !offload.settings.prompt_only) {
            self.store(slot, self.sequences[slot as usize].tokens - 1);
        }
    }

    /// Offers to host memory what a request with `tokens` tokens has filled since it did so last.
    fn store(&mut self, slot: u32, tokens: u32) {
        let Some(offload) = &mut self.offload else { return };
        let s = &mut self.sequences[slot as usize];
        let Some(chunks) = &mut s.chunks else { return };
        let first = chunks.offered();
        let names = chunks.of(tokens).to_vec();
        let last = names.len();
        if last <= first {
            return;
        }
        let Some(wanted) = offload.reserve(&names[first..]) else { return };
        offload.host.touch(&names);
        chunks.set_offered(last);
        if wanted.is_empty() {
            return;
        }
        let numbers = s.blocks.numbers();
        let places = (0..last).filter(|place| wanted.contains(&names[*place]));
        let block = |place: usize| {
            let id = numbers.get(place).copied()?;
            Some((id, self.pool.times_taken(id)))
        };
        offload.chosen.push(Job {
            request: s.life.id,
            slot,
            blocks: places.filter_map(block).collect(),
            names: wanted,
            is_load: false,
            ready: SimTime::MAX,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(host_blocks: u32, store_threshold: u32) -> OffloadSettings {
        OffloadSettings {
            host_blocks,
            prompt_only: true,
            store_threshold,
            base: SimDuration::from_micros(1000),
            per_block: SimDuration::from_micros(40),
        }
    }

    fn names(range: std::ops::Range<u64>) -> Vec<BlockHash> {
        range.map(BlockHash::of).collect()
    }

    #[test]
    fn what_host_memory_knows_is_not_stored_again() {
        let mut offload = Offload::new(settings(8, 0));
        assert_eq!(offload.reserve(&names(0..3)), Some(names(0..3)));
        assert_eq!(offload.reserve(&names(0..5)), Some(names(3..5)));
        assert_eq!(offload.reserve(&names(0..5)), Some(Vec::new()));
    }

    #[test]
    fn all_is_stored_or_nothing() {
        let mut offload = Offload::new(settings(4, 0));
        assert_eq!(offload.reserve(&names(0..3)), Some(names(0..3)));
        // Three of four are on their way and do not make way.
        assert_eq!(offload.reserve(&names(3..5)), None);
        for name in names(0..3) {
            offload.host.arrive(name);
        }
        assert_eq!(offload.reserve(&names(3..5)), Some(names(3..5)));
        assert_eq!(offload.host.len(), 4);
    }

    #[test]
    fn blocks_are_stored_when_they_are_offered_again() {
        let mut offload = Offload::new(settings(8, 2));
        assert_eq!(offload.reserve(&names(0..2)), Some(Vec::new()));
        assert_eq!(offload.reserve(&names(1..3)), Some(names(1..2)));
    }
}
