//! The adapters of an engine: which the running requests use, and where each lies.
//!
//! A slot on the GPU holds one adapter. An adapter without a slot takes a free one, or that of the
//! adapter that has been unused for longest; what is loaded delays the step that needs it. Host
//! memory keeps the adapters used last; others are read from disk again (vLLM 0.33.0,
//! `vllm/lora/worker_manager.py`, `LRUCacheWorkerLoRAManager`; SGLang 0.5.23,
//! `sglang/srt/lora/mem_pool.py`, which keeps all in host memory).

use std::sync::Arc;

use crate::cost::StepShape;
use crate::ids::AdapterId;

/// Loads of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterLoads {
    /// Adapters read from disk, and the sum of their ranks.
    pub from_disk: [u32; 2],
    /// Adapters copied to a slot, and the sum of their ranks.
    pub to_gpu: [u32; 2],
    /// One by one, those copied to a slot.
    pub moves: Vec<AdapterMove>,
}

impl AdapterLoads {
    /// Forgets them and keeps the buffer.
    pub(super) fn clear(&mut self) {
        (self.from_disk, self.to_gpu) = ([0; 2], [0; 2]);
        self.moves.clear();
    }

    /// An adapter of this rank is read from disk.
    fn read(&mut self, rank: u32) {
        self.from_disk[0] += 1;
        self.from_disk[1] += rank;
    }

    /// An adapter of this rank is copied to a slot.
    fn copy(&mut self, moved: AdapterMove, rank: u32) {
        self.moves.push(moved);
        self.to_gpu[0] += 1;
        self.to_gpu[1] += rank;
    }
}

/// An adapter that comes to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterMove {
    /// Which.
    pub adapter: AdapterId,
    /// Whether it is read from disk before.
    pub from_disk: bool,
    /// The one that gives up the slot, if none is free.
    pub evicted: Option<AdapterId>,
}

/// Where an adapter lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterPlace {
    /// In a slot on the GPU.
    Slot,
    /// In host memory.
    Host,
    /// On disk.
    Disk,
}

/// The adapters of an engine.
#[derive(Debug, Clone, Default)]
pub struct Adapters {
    /// By id. Adapters beyond have rank 0, for recordings that know slots only.
    ranks: Arc<[u32]>,
    /// Running requests of each adapter.
    requests: Vec<u32>,
    /// Running requests with an adapter, and the sum of its rank over them.
    running: u32,
    running_ranks: u64,
    /// Adapters with running requests, and the sum of their ranks.
    distinct: u32,
    distinct_ranks: u32,
    slots: Option<Store>,
    host: Option<Store>,
    /// Those that keep their slots.
    pinned: Vec<AdapterId>,
    clock: u64,
}

impl Adapters {
    /// Adapters of these ranks, all on disk but the first ones, which the server has loaded when it
    /// starts: as many as there are `slots` on the GPU, and as host memory holds.
    pub fn new(ranks: Arc<[u32]>, slots: u32, host: u32) -> Self {
        let store = |capacity| Some(Store::filled(capacity, ranks.len()));
        Self { slots: store(slots), host: store(host), ranks, ..Self::default() }
    }

    /// The same, where only these can be asked for: the first of them are there when the server starts.
    #[must_use]
    pub fn holding(mut self, held: &[AdapterId]) -> Self {
        for store in [&mut self.slots, &mut self.host].into_iter().flatten() {
            store.refill(held);
        }
        self
    }

    /// The same, where these keep their slots, which they have when the server starts.
    #[must_use]
    pub fn pinning(mut self, pinned: Vec<AdapterId>) -> Self {
        let others = (0..self.ranks.len()).map(AdapterId::from_index);
        let others = others.filter(|adapter| !pinned.contains(adapter));
        let first: Vec<AdapterId> = pinned.iter().copied().chain(others).collect();
        for store in [&mut self.slots, &mut self.host].into_iter().flatten() {
            store.refill(&first);
        }
        self.pinned = pinned;
        self
    }

    /// Whether an adapter keeps its slot.
    pub fn is_pinned(&self, adapter: AdapterId) -> bool {
        self.pinned.contains(&adapter)
    }

    /// How many adapters keep their slots.
    pub fn pinned(&self) -> u32 {
        self.pinned.len() as u32
    }

    /// The rank of each, by id.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Running requests of each, by id; those beyond have none.
    pub fn running(&self) -> &[u32] {
        &self.requests
    }

    /// Where an adapter lies.
    pub fn place(&self, adapter: AdapterId) -> AdapterPlace {
        let is_in = |store: &Option<Store>| store.as_ref().is_some_and(|it| it.holds(adapter));
        if is_in(&self.slots) {
            AdapterPlace::Slot
        } else if is_in(&self.host) {
            AdapterPlace::Host
        } else {
            AdapterPlace::Disk
        }
    }

    fn rank(&self, adapter: AdapterId) -> u32 {
        self.ranks.get(adapter.index()).copied().unwrap_or(0)
    }

    /// Adapters with running requests.
    pub fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Whether a running request uses it.
    pub fn is_running(&self, adapter: AdapterId) -> bool {
        self.requests.get(adapter.index()).is_some_and(|count| *count > 0)
    }

    /// A request with this adapter begins to run; what has to be loaded for it is counted.
    pub fn join(&mut self, adapter: AdapterId, loads: &mut AdapterLoads) {
        let rank = self.rank(adapter);
        if self.requests.len() <= adapter.index() {
            self.requests.resize(adapter.index() + 1, 0);
        }
        self.running += 1;
        self.running_ranks += u64::from(rank);
        self.requests[adapter.index()] += 1;
        if self.requests[adapter.index()] > 1 {
            return;
        }
        self.distinct += 1;
        self.distinct_ranks += rank;
        self.clock += 1;
        let (clock, requests, pinned) = (self.clock, &self.requests, &self.pinned);
        let is_idle = |index: usize| requests.get(index).is_none_or(|count| *count == 0);
        let gives_way =
            |index: usize| is_idle(index) && !pinned.contains(&AdapterId::from_index(index));
        let mut from_disk = false;
        if let Some(host) = &mut self.host
            && host.take(adapter, clock, |index| is_idle(index).then_some(0)).is_some()
        {
            from_disk = true;
            loads.read(rank);
        }
        if let Some(slots) = &mut self.slots
            && let Some(Taken { evicted }) =
                slots.take(adapter, clock, |index| gives_way(index).then_some(0))
        {
            loads.copy(AdapterMove { adapter, from_disk, evicted }, rank);
        }
    }

    /// A step needs these adapters and no others; what has to be loaded for it is counted. Others give
    /// way, those with the fewest requests first (`requests` by adapter), then those unused for longest.
    pub fn bring(
        &mut self,
        needed: &[AdapterId],
        requests: impl Fn(AdapterId) -> u32,
        loads: &mut AdapterLoads,
    ) {
        self.clock += 1;
        let clock = self.clock;
        let weight = |index: usize| {
            let adapter = AdapterId::from_index(index);
            (!needed.contains(&adapter)).then(|| requests(adapter))
        };
        for &adapter in needed {
            let rank = self.rank(adapter);
            let take = |store: &mut Option<Store>| {
                store.as_mut().and_then(|store| store.take(adapter, clock, weight))
            };
            let from_disk = take(&mut self.host).is_some();
            if from_disk {
                loads.read(rank);
            }
            if let Some(Taken { evicted }) = take(&mut self.slots) {
                loads.copy(AdapterMove { adapter, from_disk, evicted }, rank);
            }
        }
    }

    /// A request with this adapter runs no longer.
    pub fn leave(&mut self, adapter: AdapterId) {
        let rank = self.rank(adapter);
        self.running -= 1;
        self.running_ranks -= u64::from(rank);
        self.requests[adapter.index()] -= 1;
        if self.requests[adapter.index()] > 0 {
            return;
        }
        self.distinct -= 1;
        self.distinct_ranks -= rank;
        self.clock += 1;
        for store in [&mut self.host, &mut self.slots].into_iter().flatten() {
            store.touch(adapter, self.clock);
        }
    }

    /// Adds to a step in which every running request computes one token what their adapters are.
    pub fn add_decodes(&self, shape: &mut StepShape) {
        shape.adapters = self.distinct as u16;
        shape.adapter_ranks = self.distinct_ranks;
        shape.lora_tokens = self.running;
        shape.lora_rank_tokens = self.running_ranks;
    }

    /// Adds to a step of these shares, each with its adapter and its tokens, what their adapters are.
    pub fn add_batch(
        &self,
        shares: impl Iterator<Item = (Option<AdapterId>, u32)>,
        shape: &mut StepShape,
    ) {
        let mut seen: Vec<AdapterId> = Vec::new();
        for (adapter, tokens) in shares {
            let Some(adapter) = adapter else { continue };
            let rank = self.rank(adapter);
            if !seen.contains(&adapter) {
                seen.push(adapter);
                shape.adapters += 1;
                shape.adapter_ranks += rank;
            }
            shape.lora_tokens += tokens;
            shape.lora_rank_tokens += u64::from(rank) * u64::from(tokens);
        }
    }

    /// Adds the tokens beyond the first that a running request with this adapter computes.
    pub fn add_tokens(&self, adapter: AdapterId, tokens: u32, shape: &mut StepShape) {
        let more = tokens.saturating_sub(1);
        shape.lora_tokens += more;
        shape.lora_rank_tokens += u64::from(self.rank(adapter)) * u64::from(more);
    }
}

/// A place that an adapter got.
#[derive(Debug, Clone, Copy)]
struct Taken {
    evicted: Option<AdapterId>,
}

/// A place for some adapters.
#[derive(Debug, Clone)]
struct Store {
    capacity: u32,
    held: u32,
    /// When each was used last, if it is here.
    used: Vec<Option<u64>>,
}

impl Store {
    fn filled(capacity: u32, adapters: usize) -> Self {
        let held = (capacity as usize).min(adapters);
        let used = (0..adapters).map(|index| (index < held).then_some(0)).collect();
        Self { capacity, held: held as u32, used }
    }

    fn holds(&self, adapter: AdapterId) -> bool {
        self.used.get(adapter.index()).is_some_and(Option::is_some)
    }

    fn refill(&mut self, with: &[AdapterId]) {
        self.used.fill(None);
        let first = with.iter().take(self.capacity as usize);
        self.held = first.len() as u32;
        first.for_each(|adapter| self.used[adapter.index()] = Some(0));
    }

    fn touch(&mut self, adapter: AdapterId, clock: u64) {
        if let Some(used) = self.used.get_mut(adapter.index()).and_then(Option::as_mut) {
            *used = clock;
        }
    }

    /// Makes sure that an adapter is here; nothing if it is. Of those with a `weight`, the one of the
    /// least gives up its place, of equal ones that unused for longest; where all others are in use, none.
    fn take(
        &mut self,
        adapter: AdapterId,
        clock: u64,
        weight: impl Fn(usize) -> Option<u32>,
    ) -> Option<Taken> {
        if self.used.len() <= adapter.index() {
            self.used.resize(adapter.index() + 1, None);
        }
        if self.used[adapter.index()].replace(clock).is_some() {
            return None;
        }
        self.held += 1;
        let mut evicted = None;
        if self.held > self.capacity {
            let others = self.used.iter().enumerate().filter_map(|(index, used)| {
                let used = (*used).filter(|_| index != adapter.index())?;
                Some((weight(index)?, used, index))
            });
            if let Some((_, _, least)) = others.min() {
                self.used[least] = None;
                self.held -= 1;
                evicted = Some(AdapterId::from_index(least));
            }
        }
        Some(Taken { evicted })
    }
}

#[cfg(test)]
mod tests;
