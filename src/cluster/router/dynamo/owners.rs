//! Which ranks hold which blocks, in any order: those of tiers below the device.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::Rank;
use crate::kv::NameSlice;

/// Blocks by name, each with the ranks that hold it and a value for each of them.
#[derive(Debug, Clone)]
pub(super) struct Owners<V> {
    of: FxHashMap<u64, Held<V>>,
}

/// Nearly all blocks are held by one rank.
#[derive(Debug, Clone)]
enum Held<V> {
    One(Rank, V),
    Several(Vec<(Rank, V)>),
}

impl<V> Held<V> {
    fn ranks(&self) -> impl Iterator<Item = (Rank, &V)> {
        let (one, several) = match self {
            Self::One(rank, value) => (Some((*rank, value)), [].as_slice()),
            Self::Several(ranks) => (None, ranks.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(rank, value)| (*rank, value)))
    }

    fn of(&mut self, rank: Rank) -> Option<&mut V> {
        match self {
            Self::One(one, value) => (*one == rank).then_some(value),
            Self::Several(ranks) => {
                ranks.iter_mut().find(|(one, _)| *one == rank).map(|(_, value)| value)
            }
        }
    }
}

impl<V> Default for Owners<V> {
    fn default() -> Self {
        Self { of: FxHashMap::default() }
    }
}

impl<V: Copy> Owners<V> {
    /// The value of a rank for a block, which it holds from now on.
    pub(super) fn hold(&mut self, block: u64, rank: Rank, first: V) -> &mut V {
        let held = match self.of.entry(block) {
            Entry::Vacant(entry) => entry.insert(Held::One(rank, first)),
            Entry::Occupied(entry) => {
                let held = entry.into_mut();
                if held.of(rank).is_none() {
                    match held {
                        Held::One(one, value) => {
                            *held = Held::Several(vec![(*one, *value), (rank, first)]);
                        }
                        Held::Several(ranks) => ranks.push((rank, first)),
                    }
                }
                held
            }
        };
        held.of(rank).expect("the rank holds the block")
    }

    /// The rank holds the block no more.
    pub(super) fn drop(&mut self, block: u64, rank: Rank) {
        let Entry::Occupied(mut entry) = self.of.entry(block) else { return };
        let is_empty = match entry.get_mut() {
            Held::One(one, _) => *one == rank,
            Held::Several(ranks) => {
                ranks.retain(|(one, _)| *one != rank);
                ranks.is_empty()
            }
        };
        if is_empty {
            entry.remove();
        }
    }

    /// How many of some blocks a rank holds from the first one on.
    pub(super) fn run(&self, blocks: NameSlice<'_>, rank: Rank) -> u32 {
        let holds = |block: &u64| {
            self.of.get(block).is_some_and(|held| held.ranks().any(|(one, _)| one == rank))
        };
        blocks.iter().take_while(holds).count() as u32
    }

    /// A rank holds nothing any more.
    pub(super) fn clear(&mut self, rank: Rank) {
        self.of.retain(|_, held| match held {
            Held::One(one, _) => *one != rank,
            Held::Several(ranks) => {
                ranks.retain(|(one, _)| *one != rank);
                !ranks.is_empty()
            }
        });
    }

    /// How many blocks are held by anybody.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}
