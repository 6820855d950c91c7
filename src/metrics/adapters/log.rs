//! What requests waited for adapters, and what engines loaded.
//!
//! A request waits for a *slot* while it is queued and its adapter could get none: all slots are in use
//! by adapters of other running requests. It counts whatever else holds the request up at the time. It
//! waits for a *load* while its adapter is brought into its slot, before its first step.
//!
//! An engine with adapters keeps a clock that stands still while slots are free. What it has gone since
//! a request was queued, less what its adapter was in use meanwhile, is the wait for a slot: O(1) for
//! each request and each adapter that comes into use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{Batch, Life};
use crate::ids::{AdapterId, InstanceId, RequestId};
use crate::metrics::breakdown::minus;
use crate::request::Request;
use crate::scenario::{EngineConfig, Scenario};
use crate::sim::{Lane, Occurrence};
use crate::units::{SimDuration, SimTime};

/// The slots of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    /// Distinct adapters in a batch at most.
    pub(super) count: u32,
    /// Whether requests without an adapter count as one (SGLang).
    pub(super) counts_none: bool,
}

/// What a request waited for its adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterWait {
    /// Which adapter it uses.
    pub adapter: Option<AdapterId>,
    /// While the adapter could get no slot.
    pub slot: SimDuration,
    /// While it was loaded.
    pub load: SimDuration,
    /// What the clock of its adapter showed when it was queued.
    mark: SimDuration,
    is_running: bool,
}

/// What happened to one adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterMoves {
    /// Times a request with it was admitted.
    pub admissions: u64,
    /// Those that found it in no slot: it was copied to the GPU.
    pub loads: u64,
    /// Loads for which it was read from disk.
    pub from_disk: u64,
    /// Times it gave up its slot.
    pub evictions: u64,
}

/// Adapters in the steps of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterSteps {
    /// Steps by the distinct adapters of their batch.
    pub by_distinct: BTreeMap<u32, u64>,
    /// Steps by the largest rank in use when they were decided; 0 where no adapter was.
    pub by_rank: BTreeMap<u32, u64>,
}

/// The adapters of a run; nothing is kept where a scenario has none.
#[derive(Debug, Clone, Default)]
pub struct AdapterLog {
    ranks: Arc<[u32]>,
    slots: Arc<[Slots]>,
    requests: Vec<AdapterWait>,
    engines: Vec<Engine>,
    /// By adapter.
    pub moves: Vec<AdapterMoves>,
    /// Of all engines.
    pub steps: AdapterSteps,
}

/// Which adapters the running requests of an engine use.
#[derive(Debug, Clone, Default)]
struct Engine {
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

fn place(adapter: Option<AdapterId>) -> usize {
    adapter.map_or(0, |adapter| adapter.index() + 1)
}

impl Engine {
    fn new(adapters: usize) -> Self {
        let zeros = vec![SimDuration::ZERO; adapters + 1];
        Self {
            running: vec![0; adapters + 1],
            since: zeros.clone(),
            used: zeros,
            ..Self::default()
        }
    }

    /// How long an adapter could get no slot until now.
    fn blocked(&self, now: SimTime, adapter: Option<AdapterId>, slots: Slots) -> SimDuration {
        if adapter.is_none() && !slots.counts_none {
            return SimDuration::ZERO;
        }
        let (at, clock) = (place(adapter), self.full.at(now));
        let present =
            if self.running[at] > 0 { minus(clock, self.since[at]) } else { SimDuration::ZERO };
        minus(minus(clock, self.used[at]), present)
    }

    fn join(&mut self, now: SimTime, adapter: Option<AdapterId>, slots: Slots, rank: u32) {
        let at = place(adapter);
        self.running[at] += 1;
        if self.running[at] > 1 {
            return;
        }
        *self.ranks.entry(rank).or_default() += 1;
        self.since[at] = self.full.at(now);
        self.count(now, adapter, slots, 1);
    }

    fn leave(&mut self, now: SimTime, adapter: Option<AdapterId>, slots: Slots, rank: u32) {
        let at = place(adapter);
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

    fn count(&mut self, now: SimTime, adapter: Option<AdapterId>, slots: Slots, by: i32) {
        if adapter.is_none() && !slots.counts_none {
            return;
        }
        self.distinct = self.distinct.saturating_add_signed(by);
        let is_full = self.distinct >= slots.count;
        if is_full != self.full.since.is_some() {
            self.full.run(now, is_full);
        }
    }

    fn largest_rank(&self) -> u32 {
        self.ranks.last_key_value().map_or(0, |(rank, _)| *rank)
    }
}

impl AdapterLog {
    /// Of a run of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let Some(mix) = &scenario.file.workload.adapters else { return Self::default() };
        let slots = scenario.groups.iter().flat_map(|group| {
            let slots = match &group.cluster.engine {
                EngineConfig::VllmV1(vllm) => {
                    Slots { count: vllm.max_loras.unwrap_or(u32::MAX), counts_none: false }
                }
                EngineConfig::Sglang(sglang) => Slots {
                    count: sglang.max_loras_per_batch.unwrap_or(u32::MAX),
                    counts_none: true,
                },
                _ => Slots { count: u32::MAX, counts_none: false },
            };
            std::iter::repeat_n(slots, group.replicas() as usize)
        });
        Self::new(mix.ranks().collect(), slots.collect())
    }

    pub(super) fn new(ranks: Arc<[u32]>, slots: Arc<[Slots]>) -> Self {
        let engines = slots.iter().map(|_| Engine::new(ranks.len())).collect();
        let moves = vec![AdapterMoves::default(); ranks.len()];
        Self { ranks, slots, engines, moves, ..Self::default() }
    }

    /// Whether there are adapters.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// What the request of a record waited for its adapter.
    pub fn wait_of(&self, place: usize) -> AdapterWait {
        self.requests.get(place).copied().unwrap_or_default()
    }

    /// Of one lane of the run.
    pub(in crate::metrics) fn lane(&self) -> Self {
        if self.is_on() {
            Self::new(self.ranks.clone(), self.slots.clone())
        } else {
            Self::default()
        }
    }

    /// Takes in what lanes heard, in the order of their instances.
    pub(in crate::metrics) fn join<'a>(&mut self, lanes: impl Iterator<Item = &'a Self> + Clone) {
        if !self.is_on() {
            return;
        }
        let lanes: Vec<&Self> = lanes.collect();
        let count: usize = lanes.iter().map(|lane| lane.requests.len()).sum();
        let wait = |place: usize| lanes[place % lanes.len()].wait_of(place / lanes.len());
        self.requests = (0..count).map(wait).collect();
        for lane in lanes {
            for (sum, of) in self.moves.iter_mut().zip(&lane.moves) {
                sum.admissions += of.admissions;
                sum.loads += of.loads;
                sum.from_disk += of.from_disk;
                sum.evictions += of.evictions;
            }
            let AdapterSteps { by_distinct, by_rank } = &lane.steps;
            for (distinct, steps) in by_distinct {
                add(&mut self.steps.by_distinct, *distinct, *steps);
            }
            for (rank, steps) in by_rank {
                add(&mut self.steps.by_rank, *rank, *steps);
            }
        }
    }

    /// Something happened; `lane` gives the places of requests.
    #[inline]
    pub(in crate::metrics) fn hear(&mut self, lane: Lane, at: SimTime, what: &Occurrence<'_>) {
        if self.is_on() {
            self.take_in(lane, at, what);
        }
    }

    fn take_in(&mut self, lane: Lane, at: SimTime, what: &Occurrence<'_>) {
        match *what {
            Occurrence::Arrived(_, request) => self.arrive(request),
            Occurrence::Queued(instance, id, _) => self.queue(at, instance, lane.place(id)),
            Occurrence::Planned(instance, batch, _) => self.plan(lane, at, instance, batch),
            Occurrence::Displaced(instance, ids) => self.displace(lane, at, instance, ids),
            Occurrence::Left(instance, life, _)
            | Occurrence::HandedOver(instance, life)
            | Occurrence::Dropped(instance, life, _) => {
                self.leave(at, instance, lane.place(life.id));
            }
            Occurrence::Quiet(instance, run) => {
                let adapters = u32::from(run.shape.adapters);
                self.count_steps(instance, adapters, run.steps.len() as u64);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, request: &Request) {
        self.requests.push(AdapterWait { adapter: request.adapter, ..AdapterWait::default() });
    }

    fn queue(&mut self, at: SimTime, instance: InstanceId, place: usize) {
        let wait = &mut self.requests[place];
        let (engine, slots) = (&self.engines[instance.index()], self.slots[instance.index()]);
        wait.mark = engine.blocked(at, wait.adapter, slots);
    }

    fn displace(&mut self, lane: Lane, at: SimTime, instance: InstanceId, ids: &[RequestId]) {
        for id in ids {
            self.leave(at, instance, lane.place(*id));
            self.queue(at, instance, lane.place(*id));
        }
    }

    fn leave(&mut self, at: SimTime, instance: InstanceId, place: usize) {
        let wait = &mut self.requests[place];
        if std::mem::take(&mut wait.is_running) {
            let rank = rank(&self.ranks, wait.adapter);
            let slots = self.slots[instance.index()];
            self.engines[instance.index()].leave(at, wait.adapter, slots, rank);
        }
    }

    fn plan(&mut self, lane: Lane, at: SimTime, instance: InstanceId, batch: &Batch) {
        let plan = &batch.plan;
        self.displace(lane, at, instance, &plan.preempted);
        for (life, _) in &plan.ended {
            let Life { id, .. } = life;
            self.leave(at, instance, lane.place(*id));
        }
        for entry in &plan.entries {
            self.admit(at, instance, lane.place(entry.request), batch);
        }
        for moved in &plan.adapter_loads.moves {
            let moves = &mut self.moves[moved.adapter.index()];
            moves.loads += 1;
            moves.from_disk += u64::from(moved.from_disk);
            if let Some(evicted) = moved.evicted {
                self.moves[evicted.index()].evictions += 1;
            }
        }
        self.count_steps(instance, plan.shape.adapters.into(), 1);
    }

    fn admit(&mut self, at: SimTime, instance: InstanceId, place: usize, batch: &Batch) {
        let wait = &mut self.requests[place];
        if wait.is_running {
            return;
        }
        let (engine, slots) = (&mut self.engines[instance.index()], self.slots[instance.index()]);
        wait.slot += minus(engine.blocked(at, wait.adapter, slots), wait.mark);
        wait.is_running = true;
        if let Some(adapter) = wait.adapter {
            let mut loaded = batch.plan.adapter_loads.moves.iter();
            if loaded.any(|moved| moved.adapter == adapter) {
                wait.load += batch.loading;
            }
            self.moves[adapter.index()].admissions += 1;
        }
        engine.join(at, wait.adapter, slots, rank(&self.ranks, wait.adapter));
    }

    fn count_steps(&mut self, instance: InstanceId, adapters: u32, steps: u64) {
        let largest = self.engines[instance.index()].largest_rank();
        add(&mut self.steps.by_distinct, adapters, steps);
        add(&mut self.steps.by_rank, largest, steps);
    }
}

fn rank(ranks: &[u32], adapter: Option<AdapterId>) -> u32 {
    adapter.map_or(0, |adapter| ranks[adapter.index()])
}

fn add(counts: &mut BTreeMap<u32, u64>, of: u32, steps: u64) {
    *counts.entry(of).or_default() += steps;
}
