//! Which ranks hold which paths of blocks from the root, and how far of a prompt they do.
//!
//! Whoever holds a block holds all before it. Blocks that follow each other with the same ranks stand on one edge, so that
//! a prompt costs a look-up and a comparison for each edge that it shares, and not for each block. The name of the first
//! block of an edge says where it begins, as names are chained.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Rank;
use crate::kv::{NameSlice, Names};

/// Paths of blocks, each with the ranks that hold it and a value for each of them.
#[derive(Debug, Clone)]
pub(super) struct Paths<V> {
    edges: Vec<Edge<V>>,
    free: Vec<u32>,
    by_first: FxHashMap<u64, u32>,
}

/// Blocks of a list that follow each other.
#[derive(Debug, Clone)]
struct Edge<V> {
    list: Arc<Names>,
    from: u32,
    to: u32,
    /// Who holds them: nearly all have one holder, who stands in the edge itself.
    holder: Option<(Rank, V)>,
    others: Vec<(Rank, V)>,
}

impl<V> Edge<V> {
    fn blocks(&self) -> NameSlice<'_> {
        self.list.slice(self.from as usize..self.to as usize)
    }

    fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    fn holders(&self) -> impl Iterator<Item = &(Rank, V)> {
        self.holder.iter().chain(&self.others)
    }

    fn of(&mut self, rank: Rank) -> Option<&mut V> {
        let mut holders = self.holder.iter_mut().chain(&mut self.others);
        holders.find(|(one, _)| *one == rank).map(|(_, value)| value)
    }

    fn hold(&mut self, rank: Rank, value: V) {
        if self.holder.is_none() {
            self.holder = Some((rank, value));
        } else {
            self.others.push((rank, value));
        }
    }

    /// A holder lets them go.
    fn drop(&mut self, rank: Rank) {
        if let Some(place) = self.others.iter().position(|(one, _)| *one == rank) {
            self.others.swap_remove(place);
        } else {
            self.holder = self.others.pop();
        }
    }
}

impl<V> Default for Paths<V> {
    fn default() -> Self {
        Self { edges: Vec::new(), free: Vec::new(), by_first: FxHashMap::default() }
    }
}

impl<V: Copy> Paths<V> {
    /// A rank holds a path from now on: for each of its edges, the value is `first` where the rank did not hold it, and
    /// then changed. Returns how many blocks it did not hold before.
    pub(super) fn hold(
        &mut self,
        path: &Arc<Names>,
        rank: Rank,
        first: V,
        mut change: impl FnMut(&mut V),
    ) -> u32 {
        let (mut at, mut new) = (0, 0);
        while let Some(block) = path.get(at) {
            let Some(&id) = self.by_first.get(&block) else {
                let mut value = first;
                change(&mut value);
                let id = self.add(path.clone(), at as u32..path.len() as u32);
                self.edges[id as usize].hold(rank, value);
                return new + (path.len() - at) as u32;
            };
            let same = self.same(id, path.all().behind(at));
            if same < self.edges[id as usize].len() {
                self.cut(id, same);
            }
            let edge = &mut self.edges[id as usize];
            if let Some(value) = edge.of(rank) {
                change(value);
            } else {
                let mut value = first;
                change(&mut value);
                edge.hold(rank, value);
                new += same as u32;
            }
            at += same;
        }
        new
    }

    /// Looks at each edge of a path that a rank holds, from the root on, and lets it go where `goes` says so of its value.
    /// Tells of each edge that it let go its blocks. The path was held before, and may be gone in part.
    pub(super) fn let_go(
        &mut self,
        path: &Names,
        rank: Rank,
        mut goes: impl FnMut(&mut V) -> bool,
        mut gone: impl FnMut(NameSlice<'_>),
    ) {
        let mut at = 0;
        while let Some(block) = path.get(at) {
            // What is before may have gone with another path.
            let Some(&id) = self.by_first.get(&block) else {
                at += 1;
                continue;
            };
            let edge = &mut self.edges[id as usize];
            at += edge.len();
            if !edge.of(rank).is_some_and(&mut goes) {
                continue;
            }
            edge.drop(rank);
            gone(edge.blocks());
            if edge.holder.is_none() {
                self.remove(id);
            }
        }
    }

    /// The blocks of a path from its end, edge by edge, with the value of a rank for each.
    pub(super) fn backwards(&mut self, path: &Names, rank: Rank) -> Vec<(Names, V)> {
        let (mut at, mut found) = (0, Vec::new());
        while let Some(&id) = path.get(at).and_then(|block| self.by_first.get(&block)) {
            let edge = &mut self.edges[id as usize];
            at += edge.len();
            let Some(value) = edge.of(rank).copied() else { break };
            found.push((edge.blocks().to_names(), value));
        }
        found.reverse();
        found
    }

    /// Tells for each rank that holds the first block of a path how many it holds from there on. `holds` says whether a
    /// value counts, as for all before it.
    pub(super) fn runs(
        &self,
        path: &Names,
        holds: impl Fn(&V) -> bool,
        inside: &mut Vec<Rank>,
        mut tell: impl FnMut(Rank, u32),
    ) {
        inside.clear();
        let mut at = 0;
        while let Some(&id) = path.get(at).and_then(|block| self.by_first.get(&block)) {
            let edge = &self.edges[id as usize];
            let holders = || edge.holders().filter(|(_, value)| holds(value));
            if at == 0 {
                inside.extend(holders().map(|(rank, _)| *rank));
            } else if holders().count() < inside.len() {
                inside.retain(|&rank| {
                    let goes_on = holders().any(|(one, _)| *one == rank);
                    if !goes_on {
                        tell(rank, at as u32);
                    }
                    goes_on
                });
            }
            let same = self.same(id, path.all().behind(at));
            at += same;
            if inside.is_empty() || same < edge.len() {
                break;
            }
        }
        for &rank in inside.iter() {
            tell(rank, at as u32);
        }
    }

    /// Blocks that are kept.
    pub(super) fn len(&self) -> usize {
        self.edges.iter().filter(|edge| edge.holder.is_some()).map(Edge::len).sum()
    }

    fn same(&self, id: u32, path: NameSlice<'_>) -> usize {
        equal(self.edges[id as usize].blocks(), path)
    }

    fn cut(&mut self, id: u32, at: usize) {
        let edge = &mut self.edges[id as usize];
        let middle = edge.from + at as u32;
        let behind = middle..std::mem::replace(&mut edge.to, middle);
        let (list, holder, others) = (edge.list.clone(), edge.holder, edge.others.clone());
        let id = self.add(list, behind);
        let edge = &mut self.edges[id as usize];
        (edge.holder, edge.others) = (holder, others);
    }

    /// An edge that nobody holds yet, in the memory of one that is gone where there is one.
    fn add(&mut self, list: Arc<Names>, Range { start, end }: Range<u32>) -> u32 {
        let first = list.get(start as usize).expect("an edge has blocks");
        let id = if let Some(id) = self.free.pop() {
            let edge = &mut self.edges[id as usize];
            (edge.list, edge.from, edge.to) = (list, start, end);
            id
        } else {
            let (holder, others) = (None, Vec::new());
            self.edges.push(Edge { list, from: start, to: end, holder, others });
            self.edges.len() as u32 - 1
        };
        self.by_first.insert(first, id);
        id
    }

    fn remove(&mut self, id: u32) {
        let first = self.edges[id as usize].blocks().first().expect("an edge has blocks");
        self.by_first.remove(&first);
        self.free.push(id);
    }
}

/// How many names of two chains are equal from the begin on: names that are equal at a place are equal before it.
pub(super) fn equal(a: NameSlice<'_>, b: NameSlice<'_>) -> usize {
    let most = a.len().min(b.len());
    if most == 0 || a.get(most - 1) == b.get(most - 1) {
        return most;
    }
    a.common(b)
}
