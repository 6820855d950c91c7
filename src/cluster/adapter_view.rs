//! What a router may know of adapters: how many outstanding requests use each, which the gateway counts
//! itself, and where each lies and how many requests run with it, as engines reported, of some age.

use crate::engine::{AdapterPlace, Instance};
use crate::ids::{AdapterId, InstanceId};

/// What an engine reported of its adapters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdapterReport {
    /// Where each lies, by id; those beyond are on disk.
    pub places: Vec<AdapterPlace>,
    /// Running requests that use none, then those of each adapter; none of those beyond.
    pub running: Vec<u32>,
    /// The longest sequence that waits to be admitted, in tokens; 0 where none does.
    pub longest_waiting: u32,
}

impl AdapterReport {
    /// Of an instance, now.
    pub fn of(instance: &Instance) -> Self {
        let scheduler = instance.scheduler();
        let Some(adapters) = scheduler.adapters() else {
            return Self { running: vec![scheduler.load().running], ..Self::default() };
        };
        let longest_waiting = adapters.longest_waiting();
        let adapters = adapters.held();
        let with_adapter = adapters.running().iter().sum();
        let with_none = scheduler.load().running.saturating_sub(with_adapter);
        let running = std::iter::once(with_none).chain(adapters.running().iter().copied());
        let ids = (0..adapters.ranks().len()).map(AdapterId::from_index);
        Self {
            places: ids.map(|adapter| adapters.place(adapter)).collect(),
            running: running.collect(),
            longest_waiting,
        }
    }
}

/// An instance takes an adapter in and gives another one up for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// Which.
    pub instance: InstanceId,
    /// The adapter that it holds no longer.
    pub given_up: AdapterId,
    /// The one that it holds from now on.
    pub taken_in: AdapterId,
}

/// Adapters as a router sees them. What it does not [need](super::router::Needs) is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdapterView<'a> {
    ranks: &'a [u32],
    reports: &'a [AdapterReport],
    outstanding: &'a [Vec<u32>],
    swaps: &'a [Swap],
    swap_cost: f64,
}

impl<'a> AdapterView<'a> {
    /// Of adapters of these ranks, of what instances reported, and of outstanding requests by instance: those
    /// that use none, then those of each adapter.
    pub fn new(
        ranks: &'a [u32],
        reports: &'a [AdapterReport],
        outstanding: &'a [Vec<u32>],
    ) -> Self {
        Self { ranks, reports, outstanding, swaps: &[], swap_cost: 0.0 }
    }

    /// The same, where instances would exchange these adapters, each at this cost, if they got the request.
    #[must_use]
    pub fn with_swaps(self, swaps: &'a [Swap], swap_cost: f64) -> Self {
        Self { swaps, swap_cost, ..self }
    }

    /// What it costs that an instance takes in the adapter of the request; 0 where it holds it.
    pub fn swap_cost(&self, id: InstanceId) -> f64 {
        let swaps = self.swaps.iter().any(|swap| swap.instance == id);
        if swaps { self.swap_cost } else { 0.0 }
    }

    /// The rank of an adapter; 0 of none.
    pub fn rank(&self, adapter: Option<AdapterId>) -> u32 {
        adapter.and_then(|adapter| self.ranks.get(adapter.index())).copied().unwrap_or(0)
    }

    /// Where an instance holds an adapter, as it reported.
    pub fn place(&self, id: InstanceId, adapter: AdapterId) -> AdapterPlace {
        let places = self.reports.get(id.index()).map_or(&[][..], |report| &report.places);
        places.get(adapter.index()).copied().unwrap_or(AdapterPlace::Disk)
    }

    /// Requests of an instance that run with an adapter, or with none, as it reported.
    pub fn running(&self, id: InstanceId, adapter: Option<AdapterId>) -> u32 {
        let running = self.reports.get(id.index()).map_or(&[][..], |report| &report.running);
        running.get(AdapterId::place(adapter)).copied().unwrap_or(0)
    }

    /// The longest sequence that waits at an instance to be admitted, as it reported, in tokens.
    pub fn longest_waiting(&self, id: InstanceId) -> u32 {
        self.reports.get(id.index()).map_or(0, |report| report.longest_waiting)
    }

    /// Outstanding requests of an instance: those that use none, then those of each adapter; none of those beyond.
    pub fn outstanding(&self, id: InstanceId) -> &'a [u32] {
        self.outstanding.get(id.index()).map_or(&[], Vec::as_slice)
    }

    /// The same, each with its adapter.
    pub fn counts(
        &self,
        id: InstanceId,
    ) -> impl Iterator<Item = (Option<AdapterId>, u32)> + use<'a> {
        let adapter = |place: usize| place.checked_sub(1).map(AdapterId::from_index);
        self.outstanding(id).iter().enumerate().map(move |(place, count)| (adapter(place), *count))
    }
}
