//! What requests waited for adapters, and what engines loaded.
//!
//! A request waits for a *slot* while it is queued and its adapter could get none: all slots are in use
//! by adapters of other running requests. It counts whatever else holds the request up at the time. It
//! waits for a *load* while its adapter is brought into its slot, before its first step.
//!
//! Where batches are made by adapter, a request that began to run *pauses* while it is in no step. There
//! slots are those of a step, and nobody is counted as waiting for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::slots::{Engine, Slots};
use crate::engine::{Batch, Execution, Life};
use crate::ids::{AdapterId, InstanceId, RequestId};
use crate::metrics::breakdown::minus;
use crate::request::Request;
use crate::resolved::Scenario;
use crate::sim::{Lane, Occurrence};
use crate::units::{SimDuration, SimTime};

/// What a request waited for its adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdapterWait {
    /// Which adapter it uses.
    pub adapter: Option<AdapterId>,
    /// While the adapter could get no slot.
    pub slot: SimDuration,
    /// While it was loaded.
    pub load: SimDuration,
    /// In no step after its first, until it was in its last, because others' adapters had their turn.
    pub paused: SimDuration,
    /// The longest such time without a step.
    pub longest_pause: SimDuration,
    /// When the last step that it was in ends.
    until: Option<SimTime>,
    /// What the clock of its adapter showed when it was queued.
    mark: SimDuration,
    is_running: bool,
}

impl AdapterWait {
    /// It is in a step that is decided now.
    fn step(&mut self, now: SimTime, batch: &Batch) {
        let pause = self.until.map_or(SimDuration::ZERO, |until| now - until.min(now));
        self.paused += pause;
        self.longest_pause = self.longest_pause.max(pause);
        self.until = Some(batch.ends_at() + batch.post_process);
    }
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
    /// Where adapters are merged.
    pub merging: MergingLog,
}

/// Steps of engines that merge adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergingLog {
    /// How many there are, and what the device works on them.
    pub steps: u64,
    /// The same.
    pub time: SimDuration,
    /// Those in which an adapter is merged, or none is needed.
    pub merged_steps: u64,
    /// What the device works on them.
    pub merged_time: SimDuration,
    /// Steps before which the merged adapter changes.
    pub switches: u64,
    /// How long that takes.
    pub switching: SimDuration,
}

impl MergingLog {
    fn count(&mut self, batch: &Batch) {
        self.steps += 1;
        self.time += batch.duration;
        if batch.plan.execution != Execution::Unmerged {
            self.merged_steps += 1;
            self.merged_time += batch.duration;
        }
        self.switches += u64::from(batch.plan.merges > 0);
        self.switching += batch.switching;
    }

    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.merged_steps += other.merged_steps;
        self.merged_time += other.merged_time;
        self.switches += other.switches;
        self.switching += other.switching;
    }
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

impl AdapterLog {
    /// Of a run of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let Some(mix) = &scenario.workload.adapters else { return Self::default() };
        let slots = scenario.groups.iter().flat_map(|group| {
            std::iter::repeat_n(Slots::of(group, mix), group.replicas() as usize)
        });
        Self::new(mix.ranks().collect(), slots.collect())
    }

    pub(super) fn new(ranks: Arc<[u32]>, slots: Arc<[Slots]>) -> Self {
        let engines = slots.iter().map(|_| Engine::new(ranks.len())).collect();
        let moves = vec![AdapterMoves::default(); ranks.len()];
        Self { ranks, slots, engines, moves, ..Self::default() }
    }

    /// Whether some engine merges adapters.
    pub fn merges(&self) -> bool {
        self.slots.iter().any(|slots| slots.merges)
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
            let AdapterSteps { by_distinct, by_rank, merging } = &lane.steps;
            self.steps.merging.add(merging);
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

    #[inline]
    fn take_in(&mut self, lane: Lane, at: SimTime, what: &Occurrence<'_>) {
        match *what {
            Occurrence::Arrived(_, request) => self.arrive(request),
            Occurrence::Queued(instance, id, _) => self.queue(at, instance, lane.place(id)),
            Occurrence::Planned(instance, batch, _) => self.plan(lane, at, instance, batch),
            Occurrence::Displaced(instance, ids) => self.displace(lane, at, instance, ids),
            Occurrence::Left(instance, life, _)
            | Occurrence::HandedOver(instance, life)
            | Occurrence::Moved { from: instance, life, .. }
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
        let (engine, slots) = (&self.engines[instance.index()], &self.slots[instance.index()]);
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
            let slots = &self.slots[instance.index()];
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
        let adapters = match plan.execution {
            Execution::Unmerged => plan.shape.adapters.into(),
            Execution::Merged(adapter) => u32::from(adapter.is_some()),
        };
        self.count_steps(instance, adapters, 1);
        if self.slots[instance.index()].merges {
            self.steps.merging.count(batch);
            for entry in &plan.entries {
                self.requests[lane.place(entry.request)].step(at, batch);
            }
        }
    }

    fn admit(&mut self, at: SimTime, instance: InstanceId, place: usize, batch: &Batch) {
        let wait = &mut self.requests[place];
        if wait.is_running {
            return;
        }
        let (engine, slots) = (&mut self.engines[instance.index()], &self.slots[instance.index()]);
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
