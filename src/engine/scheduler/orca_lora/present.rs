//! All requests that are there, admitted or not, in order of arrival and by adapter.

use std::collections::BTreeMap;

use crate::ids::AdapterId;

/// What a step has room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Requests.
    pub(super) requests: usize,
    /// Distinct adapters.
    pub(super) adapters: usize,
}

/// An adapter, by its number; the one after the last stands for none.
pub(super) type Key = usize;

/// The requests that are there.
#[derive(Debug, Clone)]
pub(super) struct Present {
    /// Places by number of arrival.
    all: BTreeMap<u64, u32>,
    by_key: Vec<BTreeMap<u64, u32>>,
    /// By place, the number of arrival and the adapter.
    known: Vec<(u64, Key)>,
    arrived: u64,
}

impl Present {
    /// Nobody, where there are so many adapters.
    pub(super) fn new(adapters: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            by_key: vec![BTreeMap::new(); adapters + 1],
            known: Vec::new(),
            arrived: 0,
        }
    }

    pub(super) fn insert(&mut self, slot: u32, adapter: Option<AdapterId>) {
        let key = adapter.map_or(self.by_key.len() - 1, AdapterId::index);
        let place = slot as usize;
        if self.known.len() <= place {
            self.known.resize(place + 1, (0, 0));
        }
        self.known[place] = (self.arrived, key);
        self.all.insert(self.arrived, slot);
        self.by_key[key].insert(self.arrived, slot);
        self.arrived += 1;
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let (arrival, key) = self.known[slot as usize];
        self.all.remove(&arrival);
        self.by_key[key].remove(&arrival);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, in order of arrival.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.all.values().copied()
    }

    /// Those of an adapter, in order of arrival.
    pub(super) fn of(&self, key: Key) -> impl Iterator<Item = u32> {
        self.by_key[key].values().copied()
    }

    /// How many use an adapter.
    pub(super) fn count(&self, key: Key) -> usize {
        self.by_key[key].len()
    }

    /// The same.
    pub(super) fn requests_of(&self, adapter: AdapterId) -> u32 {
        self.count(adapter.index()) as u32
    }

    /// What there is to choose from, none at the end.
    pub(super) fn keys(&self) -> std::ops::Range<Key> {
        0..self.by_key.len()
    }

    /// What a request uses.
    pub(super) fn key(&self, slot: u32) -> Key {
        self.known[slot as usize].1
    }

    /// The adapter of a key.
    pub(super) fn adapter_of(&self, key: Key) -> Option<AdapterId> {
        (key + 1 < self.by_key.len()).then(|| AdapterId::from_index(key))
    }

    /// What a request uses.
    pub(super) fn adapter(&self, slot: u32) -> Option<AdapterId> {
        self.adapter_of(self.key(slot))
    }
}
