//! What follows an edge.

use rustc_hash::FxHashMap;

use super::Edge;

/// Edges by their first block. Boxed, as most edges have none.
#[derive(Debug, Clone, Default)]
pub(super) struct Children(Option<Box<FxHashMap<u64, Edge>>>);

impl Children {
    pub(super) fn get(&self, first: u64) -> Option<Edge> {
        self.0.as_ref()?.get(&first).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|of| of.is_empty())
    }

    pub(super) fn insert(&mut self, first: u64, edge: Edge) {
        self.0.get_or_insert_default().insert(first, edge);
    }

    pub(super) fn remove(&mut self, first: u64) {
        if let Some(of) = &mut self.0 {
            of.remove(&first);
        }
    }

    /// Those that this is said of, by their numbers, with their first blocks.
    pub(super) fn such(&self, is_such: impl Fn(Edge) -> bool) -> Vec<(Edge, u64)> {
        let all = self.0.iter().flat_map(|of| of.iter());
        let such = all.filter(|(_, edge)| is_such(**edge));
        let mut such: Vec<_> = such.map(|(first, edge)| (*edge, *first)).collect();
        such.sort_unstable();
        such
    }

    /// All, by their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = Edge> {
        self.such(|_| true).into_iter().map(|(edge, _)| edge)
    }
}
