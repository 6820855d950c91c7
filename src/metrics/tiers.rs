//! What came from KV memory below that of the GPUs, and what went there.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::record::{RequestRecord, Status};
use super::recorder::Recorder;
use crate::engine::tiers::{TierKind, TierLoad, TierWay};
use crate::ids::{InstanceId, RequestId};
use crate::resolved::Scenario;
use crate::stats::{Sample, Values};
use crate::units::{Bytes, SimDuration, SimTime};

const TIERS: usize = TierKind::ALL.len();
const WAYS: usize = TierWay::ALL.len();

/// What one replica fetched and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaTiers {
    /// Prompt tokens of the requests that it answered that came from each tier, when they were first
    /// admitted.
    pub tokens: [u64; TIERS],
    /// Bytes that began to move, by way.
    pub moved: [u64; WAYS],
    /// Bytes that gave way in each tier, for what this replica brought there.
    pub evicted: [u64; TIERS],
}

/// A request whose KV comes from below before any step works on it.
#[derive(Debug, Clone, Copy)]
struct Loading {
    /// Since when it waits; nothing once its KV has come.
    since: Option<SimTime>,
    tokens: [u32; TIERS],
}

/// What all replicas fetched and wrote.
#[derive(Debug, Clone, Default)]
pub struct TierLog {
    replicas: Vec<ReplicaTiers>,
    loading: FxHashMap<RequestId, Loading>,
    /// Loads of requests that no step had worked on.
    first_loads: u64,
    /// Those of requests that had lost their memory.
    reloads: u64,
    /// How long requests waited that another instance decodes and that have not left.
    handed_over: FxHashMap<RequestId, SimDuration>,
    /// The same of those that were answered.
    waited: Vec<SimDuration>,
}

impl TierLog {
    pub(super) fn begin(&mut self, at: SimTime, what: &TierLoad) {
        if what.is_first {
            self.first_loads += 1;
            self.loading.insert(what.request, Loading { since: Some(at), tokens: what.tokens });
        } else {
            self.reloads += 1;
        }
    }

    /// A load has ended: how long the request waited for it, if no step had worked on it.
    pub(super) fn end(&mut self, at: SimTime, id: RequestId) -> Option<SimDuration> {
        let since = self.loading.get_mut(&id)?.since.take()?;
        Some(at - since)
    }

    /// An instance has prefilled a request, for which it waited so long if it waited; another one decodes it.
    pub(super) fn hand_over(
        &mut self,
        instance: InstanceId,
        id: RequestId,
        waited: Option<SimDuration>,
    ) {
        self.served(instance, id);
        if let Some(waited) = waited {
            self.handed_over.insert(id, waited);
        }
    }

    #[inline]
    pub(super) fn served(&mut self, instance: InstanceId, id: RequestId) {
        if !self.loading.is_empty() {
            self.count_served(instance, id);
        }
    }

    fn count_served(&mut self, instance: InstanceId, id: RequestId) {
        let Some(Loading { tokens, .. }) = self.loading.remove(&id) else { return };
        let of = &mut self.replica(instance).tokens;
        of.iter_mut().zip(tokens).for_each(|(sum, tokens)| *sum += u64::from(tokens));
    }

    /// A request has left, or is sent again: what comes for it is not for it any more.
    #[inline]
    pub(super) fn left(&mut self, id: RequestId, is_answered: bool) {
        if !self.loading.is_empty() || !self.handed_over.is_empty() {
            self.forget(id, is_answered);
        }
    }

    fn forget(&mut self, id: RequestId, is_answered: bool) {
        self.loading.remove(&id);
        let waited = self.handed_over.remove(&id);
        self.waited.extend(waited.filter(|_| is_answered));
    }

    pub(super) fn moved(&mut self, instance: InstanceId, way: TierWay, bytes: Bytes) {
        self.replica(instance).moved[way as usize] += bytes.0;
    }

    pub(super) fn evicted(&mut self, instance: InstanceId, bytes: [Bytes; TIERS]) {
        let of = &mut self.replica(instance).evicted;
        of.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes.0);
    }

    fn replica(&mut self, instance: InstanceId) -> &mut ReplicaTiers {
        if self.replicas.len() <= instance.index() {
            self.replicas.resize(instance.index() + 1, ReplicaTiers::default());
        }
        &mut self.replicas[instance.index()]
    }

    /// Of a replica, by id.
    pub fn of(&self, replica: usize) -> ReplicaTiers {
        self.replicas.get(replica).copied().unwrap_or_default()
    }
}

/// Where prompt tokens came from: all of them together are the tokens of the prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TierTokens {
    /// The prefix cache on the GPUs.
    pub gpu: u64,
    /// Host memory.
    pub host: u64,
    /// A disk.
    pub disk: u64,
    /// The pool.
    pub pool: u64,
    /// None: they were computed.
    pub computed: u64,
}

impl TierTokens {
    /// Of prompts of which caches and tiers held so many tokens when they were first admitted.
    pub(super) fn new(prompt: u64, cached: u64, [host, disk, pool]: [u64; TIERS]) -> Self {
        Self { gpu: cached - host - disk - pool, host, disk, pool, computed: prompt - cached }
    }

    /// All.
    pub fn total(&self) -> u64 {
        self.gpu + self.host + self.disk + self.pool + self.computed
    }

    fn add(&mut self, other: &Self) {
        self.gpu += other.gpu;
        self.host += other.host;
        self.disk += other.disk;
        self.pool += other.pool;
        self.computed += other.computed;
    }
}

/// What a run's tiers did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierReport {
    /// Where the prompt tokens of the requests that were answered came from.
    pub prompt_tokens: TierTokens,
    /// Requests that waited for KV from below before their first step.
    pub loads: u64,
    /// The same of requests that had lost their memory.
    pub reloads: u64,
    /// How long those of `loads` that were answered waited, on average, in ms.
    pub load_mean_ms: f64,
    /// The 99th percentile of that time, in ms.
    pub load_p99_ms: f64,
    /// Bytes that began to move, by way.
    pub moved_bytes: BTreeMap<&'static str, u64>,
    /// Bytes that gave way, by tier.
    pub evicted_bytes: BTreeMap<&'static str, u64>,
}

impl TierReport {
    /// Of a recorded run; nothing where no replica has tiers.
    pub fn of(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        scenario.kv_tiers()?;
        let with_tiers = scenario.groups.iter().filter(|group| group.cluster.kv_tiers.is_some());
        let replicas = with_tiers.map(|group| group.replicas() as usize).sum();
        Some(Self::of_first(recorder, replicas))
    }

    /// Of a recorded run in which all replicas have tiers.
    pub fn new(recorder: &Recorder) -> Self {
        Self::of_first(recorder, usize::MAX)
    }

    /// Of one in which the first so many have.
    pub fn of_first(recorder: &Recorder, replicas: usize) -> Self {
        let (mut tokens, mut moved, mut evicted) = (TierTokens::default(), [0; WAYS], [0; TIERS]);
        for (index, log) in recorder.replicas.iter().enumerate().take(replicas) {
            let tiers = recorder.tiers.of(index);
            tokens.add(&TierTokens::new(log.prompt_tokens, log.cached_tokens, tiers.tokens));
            moved.iter_mut().zip(tiers.moved).for_each(|(sum, bytes)| *sum += bytes);
            evicted.iter_mut().zip(tiers.evicted).for_each(|(sum, bytes)| *sum += bytes);
        }
        let has_waited =
            |record: &&RequestRecord| record.loads_first && record.status == Status::Finished;
        let waits = recorder.requests.iter().filter(has_waited).map(|record| record.transfer);
        let waits = waits.chain(recorder.tiers.waited.iter().copied());
        let waits: Vec<f64> = waits.map(SimDuration::as_millis_f64).collect();
        let has_waits = !waits.is_empty();
        let waits = Values::new(waits);
        Self {
            prompt_tokens: tokens,
            loads: recorder.tiers.first_loads,
            reloads: recorder.tiers.reloads,
            load_mean_ms: if has_waits { waits.mean() } else { 0.0 },
            load_p99_ms: if has_waits { waits.percentile(99.0) } else { 0.0 },
            moved_bytes: named(TierWay::ALL.map(TierWay::name), moved),
            evicted_bytes: named(TierKind::ALL.map(TierKind::name), evicted),
        }
    }

    /// In words, on two lines; of these tiers.
    pub fn text(&self, tiers: &[TierKind]) -> String {
        let tokens = &self.prompt_tokens;
        let share = |of: u64| format!("{:.1} %", 100.0 * of as f64 / tokens.total().max(1) as f64);
        let below = tiers.iter().map(|kind| {
            let of = [tokens.host, tokens.disk, tokens.pool][*kind as usize];
            format!("{} {}, ", share(of), kind.name())
        });
        let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        let moved = |ways: &[TierWay]| {
            gb(ways.iter().filter_map(|way| self.moved_bytes.get(way.name())).sum())
        };
        let (up, down) = TierWay::ALL.split_at(TIERS);
        format!(
            "Prompt tokens: {} from GPU memory, {}{} computed\n{} KV loads: mean {:.1} ms, P99 {:.1} ms; {} \
             reloads; {} read, {} written, {} gave way",
            share(tokens.gpu),
            below.collect::<String>(),
            share(tokens.computed),
            self.loads,
            self.load_mean_ms,
            self.load_p99_ms,
            self.reloads,
            moved(up),
            moved(down),
            gb(self.evicted_bytes.values().sum()),
        )
    }
}

fn named<const N: usize>(
    names: [&'static str; N],
    values: [u64; N],
) -> BTreeMap<&'static str, u64> {
    names.into_iter().zip(values).collect()
}
