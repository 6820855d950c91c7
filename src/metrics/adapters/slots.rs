//! Which adapters are in the slots of an engine, and since when all slots are in use.
//!
//! An engine with adapters keeps a clock that stands still while slots are free. What it has gone since
//! a request was queued, less what its adapter was in use meanwhile, is the wait for a slot: O(1) for
//! each request and each adapter that comes into use.

use std::collections::BTreeMap;

use crate::ids::AdapterId;
use crate::metrics::breakdown::minus;
use crate::resolved::ReplicaGroup;
use crate::scenario::{AdapterMix, EngineConfig};
use crate::units::{SimDuration, SimTime};

/// The slots of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots {
    /// Distinct adapters in a batch at most, without those that keep their slots.
    pub(super) count: u32,
    /// Whether requests without an adapter count as one (SGLang).
    pub(super) counts_none: bool,
    /// Whether adapters are merged, so that requests pause.
    pub(super) merges: bool,
    /// Adapters that keep their slots: nobody waits for those.
    pinned: Vec<AdapterId>,
}

impl Slots {
    pub(super) fn of(group: &ReplicaGroup, mix: &AdapterMix) -> Self {
        let engine = &group.cluster.engine;
        let counts_none = matches!(engine, EngineConfig::Sglang(_));
        let lora = group.cluster.lora.as_ref();
        let merges = lora.is_some_and(|lora| lora.batching.merges());
        let pinned = lora.map(|lora| lora.pinned_ids(mix)).unwrap_or_default();
        let count = engine.adapter_slots().unwrap_or(u32::MAX) - pinned.len() as u32;
        Self { count, counts_none, merges, pinned }
    }

    /// Whether an adapter, or none, takes a slot that others may want.
    fn counts(&self, adapter: Option<AdapterId>) -> bool {
        adapter.map_or(self.counts_none, |adapter| !self.pinned.contains(&adapter))
    }
}

/// Which adapters the running requests of an engine use.
#[derive(Debug, Clone, Default)]
pub(super) struct Engine {
    /// Requests without an adapter, then those of each adapter.
    running: Vec<u32>,
    distinct: u32,
    full: Clock,
    /// Per adapter, the clock when it came into use, and how far the clock went in earlier uses.
    since: Vec<SimDuration>,
    used: Vec<SimDuration>,
    ranks: BTreeMap<u32, u32>,
}

/// A clock that goes while all slots are in use.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    gone: SimDuration,
    since: Option<SimTime>,
}

impl Clock {
    fn at(&self, now: SimTime) -> SimDuration {
        self.gone + self.since.map_or(SimDuration::ZERO, |since| now - since)
    }

    fn run(&mut self, now: SimTime, runs: bool) {
        self.gone = self.at(now);
        self.since = runs.then_some(now);
    }
}

impl Engine {
    pub(super) fn new(adapters: usize) -> Self {
        let zeros = vec![SimDuration::ZERO; adapters + 1];
        Self {
            running: vec![0; adapters + 1],
            since: zeros.clone(),
            used: zeros,
            ..Self::default()
        }
    }

    /// How long an adapter could get no slot until now.
    pub(super) fn blocked(
        &self,
        now: SimTime,
        adapter: Option<AdapterId>,
        slots: &Slots,
    ) -> SimDuration {
        if !slots.counts(adapter) {
            return SimDuration::ZERO;
        }
        let (at, clock) = (AdapterId::place(adapter), self.full.at(now));
        let present =
            if self.running[at] > 0 { minus(clock, self.since[at]) } else { SimDuration::ZERO };
        minus(minus(clock, self.used[at]), present)
    }

    pub(super) fn join(
        &mut self,
        now: SimTime,
        adapter: Option<AdapterId>,
        slots: &Slots,
        rank: u32,
    ) {
        let at = AdapterId::place(adapter);
        self.running[at] += 1;
        if self.running[at] > 1 {
            return;
        }
        *self.ranks.entry(rank).or_default() += 1;
        self.since[at] = self.full.at(now);
        self.count(now, adapter, slots, 1);
    }

    pub(super) fn leave(
        &mut self,
        now: SimTime,
        adapter: Option<AdapterId>,
        slots: &Slots,
        rank: u32,
    ) {
        let at = AdapterId::place(adapter);
        self.running[at] -= 1;
        if self.running[at] > 0 {
            return;
        }
        if let Some(count) = self.ranks.get_mut(&rank) {
            *count -= 1;
            if *count == 0 {
                self.ranks.remove(&rank);
            }
        }
        self.used[at] += minus(self.full.at(now), self.since[at]);
        self.count(now, adapter, slots, -1);
    }

    fn count(&mut self, now: SimTime, adapter: Option<AdapterId>, slots: &Slots, by: i32) {
        if !slots.counts(adapter) {
            return;
        }
        self.distinct = self.distinct.saturating_add_signed(by);
        let is_full = self.distinct >= slots.count;
        if is_full != self.full.since.is_some() {
            self.full.run(now, is_full);
        }
    }

    pub(super) fn largest_rank(&self) -> u32 {
        self.ranks.last_key_value().map_or(0, |(rank, _)| *rank)
    }
}
