//! An engine before its first request.

use std::collections::VecDeque;

use super::acceptance::Acceptance;
use super::connector::Connector;
use super::group::Group;
use super::livelock::Livelock;
use super::queue::Queue;
use super::stages::Stagger;
use super::{Record, VllmV1, VllmV1Settings};
use crate::engine::Adapters;
use crate::engine::scheduler::handed::Handed;
use crate::kv::{BlockPool, Hits, KvPool, Lookahead, NumberedPool};
use crate::units::SimTime;

/// The group keeps a list for every place in a block; blocks larger than any real engine's are
/// served by the plain algorithm.
pub(super) const GROUP_BLOCK_SIZE_MAX: u32 = 4096;

impl VllmV1 {
    /// An engine without requests.
    ///
    /// # Panics
    /// When the block size, the token budget or the number of sequences is 0.
    pub fn new(settings: VllmV1Settings, acceptance: Acceptance) -> Self {
        let (block_size, blocks) = (settings.block_size, settings.num_gpu_blocks);
        assert!(
            block_size > 0
                && settings.max_num_batched_tokens > 0
                && settings.max_num_active_seqs > 0,
            "block size, token budget and sequences are at least 1"
        );
        let drafts = settings.drafts.map_or(0, |(_, tokens)| tokens);
        let eagle = settings.drafts.is_some_and(|(method, _)| method.reads_states());
        let looks_ahead = settings.drafts.is_some_and(|(method, _)| method.looks_ahead());
        let groups = drafts == 0 && block_size <= GROUP_BLOCK_SIZE_MAX;
        let naming = if eagle { Lookahead::OneToken } else { Lookahead::None };
        Self {
            watermark_blocks: (settings.watermark * f64::from(blocks)) as u32,
            drafts,
            lookahead: if looks_ahead { drafts } else { 0 },
            naming,
            drops_last_hit: false,
            windows: None,
            connector: Connector::default(),
            tiers: None,
            encoder: None,
            offload: None,
            acceptance,
            record: Record::default(),
            stagger: Stagger::default(),
            pool: KvPool::Counted(BlockPool::new(blocks)),
            sequences: Vec::new(),
            seated: Vec::new(),
            handed: Handed::default(),
            vacant: Vec::new(),
            running: Vec::new(),
            waiting: Queue::of(&settings),
            holding: Queue::new(settings.policy),
            unlanded: 0,
            group: Group::new(if groups { block_size } else { 1 }),
            groups,
            ticked_in: 0,
            ungrouped_until: 0,
            dissolved: VecDeque::new(),
            admissions: 0,
            last_completion: SimTime::ZERO,
            clock: SimTime::ZERO,
            grammars_until: SimTime::ZERO,
            executed_steps: 0,
            processed_steps: 0,
            last_prefill_step: None,
            capacity_bound: false,
            deferred: 0,
            passed_over: 0,
            livelock: Livelock::default(),
            skipped: Vec::new(),
            adapters: Adapters::default(),
            scanned_to: i64::MIN,
            hits: Hits::default(),
            found: None,
            lacks_memory: false,
            done: Vec::new(),
            settings,
        }
    }

    /// The same engine with these adapters.
    #[must_use]
    pub fn with_adapters(mut self, adapters: Adapters) -> Self {
        self.adapters = adapters;
        self
    }

    /// Tells every share of a step in its plan.
    #[must_use]
    pub fn recording_entries(mut self) -> Self {
        self.record.entries = true;
        self
    }

    /// Tells the blocks of each request in every plan.
    #[must_use]
    pub fn recording_blocks(mut self) -> Self {
        self.record.blocks = true;
        if !self.pool.is_numbered() {
            self.pool = KvPool::Numbered(NumberedPool::new(1 + self.pool.usable()));
        }
        self
    }

    /// Decides every step request by request: the plain algorithm, without the group of requests
    /// that decode in lock step.
    #[must_use]
    pub fn request_by_request(mut self) -> Self {
        self.groups = false;
        self
    }
}
