//! What can be found by name, and its copies.

use rustc_hash::FxHashMap;

use super::BlockHash;
use super::lists::{Ends, Links, NONE};

/// For each name the entries that carry it, earliest cached first.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    by_name: FxHashMap<BlockHash, Ends>,
    links: Links,
}

impl Copies {
    /// Makes room for entries below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        self.links.grow(count);
    }

    /// The copies of a name in the order in which they were cached.
    pub(super) fn of(&self, name: BlockHash) -> impl Iterator<Item = u32> {
        self.links.iter(self.by_name.get(&name).copied().unwrap_or_default())
    }

    /// Adds the latest copy.
    pub(super) fn add(&mut self, name: BlockHash, entry: u32) {
        self.links.push_back(self.by_name.entry(name).or_default(), entry);
    }

    pub(super) fn remove(&mut self, name: BlockHash, entry: u32) {
        let ends = self.by_name.get_mut(&name).expect("an entry with a name is listed by it");
        self.links.unlink(ends, entry);
        if ends.first == NONE {
            self.by_name.remove(&name);
        }
    }
}
