//! On which edge each rank knows each of its blocks to be.
//!
//! Of the edges that a way from the root leads to a name stands on one alone, as names are chained. Of the blocks
//! that a rank covers of such an edge the last one stands for those before it (the rank is *brief* there): what is stored
//! and what is removed ends with it, where tails go first. A block in between is looked for on all these edges: engines also
//! tell of blocks that a rank has twice, when the second goes.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{Edge, Index};
use crate::cluster::router::dynamo::Rank;

/// What a rank knows of its blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// The edge of each; where the rank is brief, of the last block that it covers of the edge.
    places: FxHashMap<u64, Edge>,
    /// On how many edges it is brief: those of places that say so of it.
    briefs: usize,
    /// The edge on which it stored last.
    latest: Edge,
    /// Whether it may know of blocks on edges that no way from the root leads to.
    in_doubt: bool,
}

impl Index {
    /// The edge on which a rank knows a block to be. If it is brief there, perhaps that is the edge of another block.
    pub(super) fn find(&self, rank: Rank, block: u64, other: Option<u64>) -> Option<Edge> {
        let known = self.known.get(rank.index())?;
        let place = known.places.get(&block);
        if place.is_some() || known.briefs == 0 {
            return place.copied();
        }
        let is_on = |edge: &Edge| {
            let node = &self.edges[*edge];
            node.brief.contains(rank) && node.blocks.has_before(node.covered(rank), block)
        };
        let other = other.and_then(|other| known.places.get(&other)).copied();
        let guess = [Some(known.latest), other].into_iter().flatten().find(is_on);
        // A comparison for each block of the rank, where spelling out makes an entry of the table for each.
        guess.or_else(|| known.places.values().copied().find(is_on))
    }

    /// Whether a block of a rank is surely not on an edge, but on another one.
    pub(super) fn is_elsewhere(&self, rank: Rank, block: u64, edge: Edge) -> bool {
        let place = self.known[rank.index()].places.get(&block);
        !self.is_in_doubt(rank, edge) && place.is_some_and(|place| *place != edge)
    }

    /// A rank covers an edge up to the end of a range, and did not know it to cover the blocks in it.
    pub(super) fn know(&mut self, rank: Rank, edge: Edge, new: Range<usize>) {
        if new.is_empty() {
            return;
        }
        self.spell_out_in_doubt(rank, edge);
        self.known[rank.index()].latest = edge;
        let is_brief = self.edges[edge].brief.contains(rank);
        if self.is_in_doubt(rank, edge) || is_brief != (new.start > 0) {
            return self.know_each(rank, edge, new);
        }
        let (known, node) = (&mut self.known[rank.index()], &mut self.edges[edge]);
        if is_brief {
            known.places.remove(&node.block(new.start - 1));
        } else {
            known.briefs += 1;
            node.brief.insert(rank);
            node.named += 1;
        }
        let before = known.places.insert(node.block(new.end - 1), edge);
        debug_assert!(before.is_none(), "a name stands on one edge");
    }

    /// What a rank covers of an edge that was cut is now on the edge behind it, up to a place there.
    pub(super) fn know_behind(&mut self, rank: Rank, edge: Edge, behind: Edge, covered: usize) {
        if !self.edges[edge].brief.contains(rank) {
            self.spell_out_in_doubt(rank, edge);
            let strays = self.edges[edge].strays;
            self.know_each(rank, behind, 0..covered);
            // They were taken from an edge on which they are no more.
            self.edges[edge].strays = strays;
            return;
        }
        let known = &mut self.known[rank.index()];
        let node = &mut self.edges[behind];
        known.places.insert(node.block(covered - 1), behind);
        node.brief.insert(rank);
        node.named += 1;
        let last = self.edges[edge].blocks.all().last().expect("an edge has blocks");
        known.places.insert(last, edge);
        known.briefs += 1;
    }

    /// A rank knows each of these blocks to be on an edge.
    fn know_each(&mut self, rank: Rank, edge: Edge, new: Range<usize>) {
        let blocks = std::mem::take(&mut self.edges[edge].blocks);
        for block in blocks.slice(new).iter() {
            let before = self.known[rank.index()].places.insert(block, edge);
            self.edges[edge].named += 1;
            if let Some(before) = before {
                // On another edge, or the name is twice on this one.
                let node = &mut self.edges[before];
                node.named -= 1;
                node.strays = true;
                if before != edge {
                    self.release(before);
                }
            }
        }
        self.edges[edge].blocks = blocks;
    }

    /// Whether a name that a rank knows or learns to be on an edge may be known to it on another one as well.
    fn is_in_doubt(&self, rank: Rank, edge: Edge) -> bool {
        self.edges[edge].strays || self.known.get(rank.index()).is_some_and(|known| known.in_doubt)
    }

    /// Nothing leads to an edge any more: ranks that cover it, or what follows it, are in doubt.
    pub(super) fn doubt_behind(&mut self, edge: Edge) {
        let mut open = vec![edge];
        while let Some(edge) = open.pop() {
            let node = &self.edges[edge];
            if node.strays {
                self.known.iter_mut().for_each(|known| known.in_doubt = true);
                return;
            }
            for rank in node.full.iter().chain(node.cutoffs.iter().map(|(rank, _)| *rank)) {
                self.known[rank.index()].in_doubt = true;
            }
            open.extend(node.children.all());
        }
    }

    /// All edges are led to.
    pub(super) fn doubt_nobody(&mut self) {
        self.known.iter_mut().for_each(|known| known.in_doubt = false);
    }

    /// Before a rank covers more of such an edge it spells out what it knows.
    pub(super) fn spell_out_in_doubt(&mut self, rank: Rank, edge: Edge) {
        if self.is_in_doubt(rank, edge) {
            self.spell_out(rank);
        }
    }

    /// A rank that is brief somewhere knows each of its blocks from now on.
    pub(super) fn spell_out(&mut self, rank: Rank) {
        let known = &mut self.known[rank.index()];
        if std::mem::take(&mut known.briefs) == 0 {
            return;
        }
        let is_brief = |edge: &Edge| self.edges[*edge].brief.contains(rank);
        let mut brief: Vec<_> = known.places.values().copied().filter(is_brief).collect();
        brief.sort_unstable();
        for edge in brief {
            let node = &mut self.edges[edge];
            node.brief.remove(rank);
            let before = node.blocks.slice(0..node.covered(rank) - 1);
            known.places.extend(before.iter().map(|block| (block, edge)));
            node.named += before.len();
        }
    }

    /// A block of a rank is known to be nowhere. Returns the edge on which it was.
    pub(super) fn forget(&mut self, rank: Rank, block: u64) -> Option<Edge> {
        let edge = self.known[rank.index()].places.remove(&block)?;
        self.edges[edge].named -= 1;
        if !self.edges[edge].is_child {
            self.release(edge);
        }
        Some(edge)
    }

    /// These blocks of an edge, which were the last that a rank covered of it, are known to be nowhere.
    pub(super) fn forget_on(&mut self, rank: Rank, edge: Edge, gone: Range<usize>) {
        let (known, node) = (&mut self.known[rank.index()], &mut self.edges[edge]);
        if node.brief.contains(rank) {
            known.places.remove(&node.block(gone.end - 1));
            if let Some(last) = gone.start.checked_sub(1) {
                known.places.insert(node.block(last), edge);
            } else {
                known.briefs -= 1;
                node.brief.remove(rank);
                node.named -= 1;
            }
            return;
        }
        // Without a block that names it, the edge may be gone; then its blocks are nobody's.
        let blocks = std::mem::take(&mut node.blocks);
        for block in blocks.slice(gone).iter() {
            if let Some(other) = self.forget(rank, block).filter(|other| *other != edge) {
                self.edges[other].strays = true;
            }
        }
        self.edges[edge].blocks = blocks;
    }

    /// A rank knows of no block any more.
    pub(super) fn know_nothing(&mut self, rank: Rank) {
        let known = std::mem::take(&mut self.known[rank.index()]);
        let mut edges: Vec<_> = known.places.into_values().collect();
        edges.sort_unstable();
        for edge in edges {
            let node = &mut self.edges[edge];
            node.named -= 1;
            node.brief.remove(rank);
        }
    }

    /// Whether ranks know to be on an edge what they cover of it, where it has no strays.
    #[cfg(test)]
    pub(in crate::cluster::router::dynamo) fn knows_what_is_covered(&self) -> bool {
        let edges = self.edges.iter().enumerate().filter(|(_, node)| !node.strays);
        edges.into_iter().all(|(edge, node)| {
            self.known.iter().zip(0..).all(|(known, rank)| {
                let covered = node.blocks.slice(0..node.covered(Rank(rank)));
                let is_brief = node.brief.contains(Rank(rank));
                let told = if is_brief { covered.len() - 1 } else { 0 };
                covered.behind(told).iter().all(|block| known.places.get(&block) == Some(&edge))
            })
        })
    }

    /// The same index, in which nobody is brief.
    #[cfg(test)]
    pub(in crate::cluster::router::dynamo) fn spelled_out(mut self) -> Self {
        for rank in 0..self.known.len() {
            self.spell_out(Rank(rank as u32));
        }
        self
    }
}
