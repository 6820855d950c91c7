//! What engines tell that they cache (NVIDIA Dynamo 1.6.1, the compressed radix trees of one and of several threads).
//!
//! Blocks stand on edges of a tree. A rank covers an edge as a whole, or its beginning up to a cutoff. An edge is cut
//! in two where another branch begins, and is never joined again; the end of an edge that never had a branch grows.
//! Each rank knows on which edge each of its blocks is.
//!
//! * A store whose parent the rank does not cover is lost.
//! * A removal takes from the rank what comes after the block *on its edge*; edges behind keep what they have. So a block
//!   that leaves before those behind it and comes back brings others back with it, where they are on other edges.
//! * Where events are taken in by several threads, a look-up does not look who covers an edge if nobody covers it in
//!   part and as many cover it as are still in the walk.
//!
//! What a rank covers of an edge it knows to be there, block by block, unless a block of that name came to stand on another
//! edge meanwhile (*strays*). So blocks that are told of again cost what an edge costs. The last of them stands for
//! those before it, until one of these is asked for (`known.rs`).
//!
//! Edges that nobody covers are taken away when there are as many as others, where the maker looks for them every few
//! minutes or by volume.

mod children;
mod gone;
mod known;

use super::Rank;
use super::paths::equal;
use super::ranks::RankSet;
use crate::kv::{NameSlice, Names, Order};
use children::Children;
use gone::Gone;
use known::Known;

/// How many threads take in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One.
    One,
    /// Several.
    Several,
}

type Edge = usize;
const ROOT: Edge = 0;
/// Spare runs of blocks of an edge: most grow once, by the block in which an answer begins and those behind it, which then
/// fit without moving it.
const ROOM: usize = 2;

/// Blocks on edges, with who covers them.
#[derive(Debug, Clone)]
pub struct Index {
    threads: Threads,
    edges: Vec<Node>,
    free: Vec<Edge>,
    /// For each rank, the edges of its blocks.
    known: Vec<Known>,
    /// Edges that are kept though nothing leads to them.
    stranded: usize,
    /// Edges in use when those that nobody covers were last taken away.
    swept: usize,
    inside: Vec<Rank>,
}

/// An edge and what follows it.
#[derive(Debug, Clone, Default)]
struct Node {
    blocks: Names,
    full: RankSet,
    /// Ranks that cover the beginning, at least one block and not all.
    cutoffs: Vec<(Rank, usize)>,
    children: Children,
    /// Whether it ever had children.
    is_inner: bool,
    /// Whether it is a child of another.
    is_child: bool,
    /// Of the ranks that cover a part of it, those whose last block there stands for the others.
    brief: RankSet,
    /// Blocks of ranks that are known to be here, by those that stand for others.
    named: usize,
    /// Whether a rank may cover a block that it does not know to be here.
    strays: bool,
}

impl Node {
    fn of(blocks: NameSlice<'_>, rank: Rank) -> Self {
        let mut own = Names::with_room_of(blocks, ROOM);
        own.extend(blocks);
        Self { blocks: own, full: RankSet::of(rank), ..Self::default() }
    }

    /// The block at a place.
    fn block(&self, at: usize) -> u64 {
        self.blocks.get(at).expect("a block of the edge")
    }

    /// The place of a block, the last of them if its name is here twice.
    fn at(&self, block: u64) -> Option<usize> {
        self.blocks.last_place(block)
    }

    /// The same where the block is the one before a place, which it mostly is: edges are long, and engines evict
    /// tails first.
    fn just_before(&self, end: usize, block: u64) -> Option<usize> {
        let is_there = |at: &usize| !self.strays && self.blocks.get(*at) == Some(block);
        let guess = end.checked_sub(1).filter(is_there);
        debug_assert!(guess.is_none() || guess == self.at(block), "a name is on an edge once");
        guess
    }

    /// How many of the blocks that went are the last ones before a place, the last first.
    fn tail_in(&self, end: usize, gone: Gone<'_>) -> usize {
        if self.strays { 0 } else { gone.are_last_of(self.blocks.slice(0..end)) }
    }

    fn covered(&self, rank: Rank) -> usize {
        if self.full.contains(rank) {
            return self.blocks.len();
        }
        self.cutoffs.iter().find(|(one, _)| *one == rank).map_or(0, |(_, cutoff)| *cutoff)
    }

    fn cover(&mut self, rank: Rank, blocks: usize) {
        self.cutoffs.retain(|(one, _)| *one != rank);
        self.full.remove(rank);
        if blocks == self.blocks.len() {
            self.full.insert(rank);
        } else if blocks > 0 {
            self.cutoffs.push((rank, blocks));
        }
    }

    fn is_covered(&self) -> bool {
        !self.full.is_empty() || !self.cutoffs.is_empty()
    }

    /// Blocks that are the same here from a place on as in a list.
    fn same(&self, from: usize, blocks: NameSlice<'_>) -> usize {
        equal(self.blocks.slice(from..self.blocks.len()), blocks)
    }
}

impl Index {
    /// Nothing is known.
    pub fn new(threads: Threads) -> Self {
        let root = Node { is_inner: true, is_child: true, ..Node::default() };
        Self {
            threads,
            edges: vec![root],
            free: Vec::new(),
            known: Vec::new(),
            stranded: 0,
            swept: 0,
            inside: Vec::new(),
        }
    }

    /// A rank has stored blocks behind one, or at the begin of a prompt. What it stores behind a block that it does not
    /// have is lost.
    pub fn store(&mut self, rank: Rank, parent: Option<u64>, blocks: &Names) {
        let blocks = blocks.all();
        if self.known.len() <= rank.index() {
            self.known.resize_with(rank.index() + 1, Known::default);
        }
        match parent {
            None => self.grow(rank, ROOT, blocks),
            Some(parent) => {
                if let Some(edge) = self.begin_behind(rank, parent, blocks) {
                    self.grow(rank, edge, blocks);
                }
            }
        }
        self.sweep();
    }

    /// The edge that ends with a block, if blocks are not on one behind it already.
    fn begin_behind(&mut self, rank: Rank, parent: u64, blocks: NameSlice<'_>) -> Option<Edge> {
        let edge = self.find(rank, parent, None)?;
        let node = &self.edges[edge];
        let covered = node.covered(rank);
        let at = node
            .just_before(covered, parent)
            .or_else(|| node.at(parent))
            .filter(|at| *at < covered);
        let Some(at) = at else {
            self.forget(rank, parent);
            return None;
        };
        let (behind, same) = (node.blocks.len() - at - 1, node.same(at + 1, blocks));
        if behind == 0 {
            return Some(edge);
        }
        if same == blocks.len() {
            let known = self.cover(rank, edge, at + 1 + same).clamp(at + 1, at + 1 + same);
            self.know(rank, edge, known..at + 1 + same);
            return None;
        }
        if same == behind && !node.is_inner {
            let known = self.cover(rank, edge, at + 1 + same).max(at + 1);
            self.extend(rank, edge, blocks.behind(same));
            self.know(rank, edge, known..at + 1 + blocks.len());
            return None;
        }
        self.cut(edge, at + 1);
        Some(edge)
    }

    /// Blocks follow an edge.
    fn grow(&mut self, rank: Rank, mut edge: Edge, mut blocks: NameSlice<'_>) {
        while let Some(first) = blocks.first() {
            let Some(child) = self.edges[edge].children.get(first) else {
                return self.branch(rank, edge, blocks);
            };
            let node = &self.edges[child];
            let (same, len) = (node.same(0, blocks), node.blocks.len());
            if same < len && same < blocks.len() {
                self.cut(child, same);
            }
            let known = self.cover(rank, child, same).min(same);
            self.know(rank, child, known..same);
            if same < len && same == blocks.len() {
                return;
            }
            (edge, blocks) = (child, blocks.behind(same));
            if same < len {
                return self.branch(rank, edge, blocks);
            }
        }
    }

    /// A rank covers this much of an edge at least. Returns how many of its first blocks it knows to be there.
    fn cover(&mut self, rank: Rank, edge: Edge, blocks: usize) -> usize {
        self.spell_out_in_doubt(rank, edge);
        let node = &mut self.edges[edge];
        let covered = node.covered(rank);
        if covered < blocks {
            node.cover(rank, blocks);
        }
        if node.strays { 0 } else { covered }
    }

    /// Blocks follow an edge that has none of them behind it.
    fn branch(&mut self, rank: Rank, edge: Edge, blocks: NameSlice<'_>) {
        let Some(first) = blocks.first() else { return };
        let node = &self.edges[edge];
        if !node.is_inner && node.full.contains(rank) {
            let len = node.blocks.len();
            self.extend(rank, edge, blocks);
            return self.know(rank, edge, len..len + blocks.len());
        }
        let child = self.add(Node { is_child: true, ..Node::of(blocks, rank) });
        let node = &mut self.edges[edge];
        node.is_inner = true;
        node.children.insert(first, child);
        self.know(rank, child, 0..blocks.len());
    }

    /// An edge without children goes on.
    fn extend(&mut self, rank: Rank, edge: Edge, blocks: NameSlice<'_>) {
        self.spell_out_in_doubt(rank, edge);
        let node = &mut self.edges[edge];
        let len = node.blocks.len();
        let others: Vec<_> = node.full.iter().filter(|one| *one != rank).collect();
        for one in others {
            node.full.remove(one);
            node.cutoffs.push((one, len));
        }
        node.blocks.extend(blocks);
        let len = node.blocks.len();
        node.cover(rank, len);
    }

    /// An edge ends at a place, and what comes after is its child.
    fn cut(&mut self, edge: Edge, at: usize) {
        let node = &mut self.edges[edge];
        let mut tail = Node {
            blocks: node.blocks.split_off(at),
            full: node.full.clone(),
            children: std::mem::take(&mut node.children),
            is_child: true,
            ..Node::default()
        };
        tail.is_inner = !tail.children.is_empty();
        let first = tail.block(0);
        for (rank, cutoff) in std::mem::take(&mut node.cutoffs) {
            if cutoff < at {
                node.cutoffs.push((rank, cutoff));
                continue;
            }
            node.full.insert(rank);
            if cutoff > at {
                tail.cutoffs.push((rank, cutoff - at));
            }
        }
        node.is_inner = true;
        let len = tail.blocks.len();
        let full = tail.full.iter().map(|rank| (rank, len));
        let holders: Vec<_> = full.chain(tail.cutoffs.iter().copied()).collect();
        let tail = self.add(tail);
        self.edges[edge].children.insert(first, tail);
        for (rank, covered) in holders {
            self.know_behind(rank, edge, tail, covered);
        }
    }

    /// A rank has removed blocks.
    pub fn remove(&mut self, rank: Rank, blocks: &Names, order: Order) {
        let mut gone = Gone::new(blocks.all(), order);
        let last = gone.last();
        while let Some(block) = gone.get(0) {
            let Some(edge) = self.find(rank, block, last) else {
                gone = gone.behind(1);
                continue;
            };
            // Those that follow on the same edge go with it.
            let node = &self.edges[edge];
            let covered = node.covered(rank);
            let mut count = node.tail_in(covered, gone);
            let mut end = covered - count;
            let mut least = if count > 0 { end } else { usize::MAX };
            while let Some(block) = gone.get(count) {
                end = match node.just_before(end, block) {
                    Some(at) => at,
                    None if self.is_elsewhere(rank, block, edge) => break,
                    None => match node.at(block) {
                        Some(at) => at,
                        None => break,
                    },
                };
                count += 1;
                least = least.min(end);
            }
            if count == 0 {
                self.forget(rank, block);
                gone = gone.behind(1);
                continue;
            }
            self.shorten(rank, edge, least);
            gone = gone.behind(count);
        }
        self.sweep();
    }

    fn shorten(&mut self, rank: Rank, edge: Edge, at: usize) {
        let node = &mut self.edges[edge];
        // What comes after is not known to be here any more.
        let covered = node.covered(rank);
        let gone = if at < covered {
            node.cover(rank, at);
            at..covered
        } else {
            at..at + 1
        };
        let children = if node.full.is_empty() {
            std::mem::take(&mut node.children)
        } else {
            Children::default()
        };
        self.unlink(&children);
        self.forget_on(rank, edge, gone);
        self.release(edge);
    }

    /// A rank has nothing any more.
    pub fn clear(&mut self, rank: Rank) {
        if rank.index() >= self.known.len() {
            return;
        }
        self.know_nothing(rank);
        for edge in 1..self.edges.len() {
            let node = &mut self.edges[edge];
            if node.covered(rank) > 0 {
                node.cover(rank, 0);
                if node.full.is_empty() {
                    let children = std::mem::take(&mut node.children);
                    self.unlink(&children);
                }
            }
        }
        for edge in 1..self.edges.len() {
            self.release(edge);
        }
        self.sweep();
    }

    /// Tells for each rank that covers the beginning of a prompt how many of its blocks it has.
    pub fn runs(&mut self, blocks: &Names, mut tell: impl FnMut(Rank, u32)) {
        let mut inside = std::mem::take(&mut self.inside);
        inside.clear();
        let (mut edge, mut at) = (ROOT, 0);
        while let Some(child) =
            blocks.get(at).and_then(|block| self.edges[edge].children.get(block))
        {
            let node = &self.edges[child];
            let same = node.same(0, blocks.all().behind(at));
            if edge == ROOT {
                inside.extend(node.full.iter());
                for &(rank, cutoff) in &node.cutoffs {
                    tell(rank, cutoff.min(same) as u32);
                }
            } else if self.threads == Threads::One
                || !node.cutoffs.is_empty()
                || node.full.len() as usize != inside.len()
            {
                inside.retain(|&rank| {
                    let goes_on = node.full.contains(rank);
                    if !goes_on {
                        tell(rank, (at + node.covered(rank).min(same)) as u32);
                    }
                    goes_on
                });
            }
            (edge, at) = (child, at + same);
            if inside.is_empty() || same < node.blocks.len() {
                break;
            }
        }
        for &rank in &inside {
            tell(rank, at as u32);
        }
        self.inside = inside;
    }

    fn add(&mut self, node: Node) -> Edge {
        if let Some(edge) = self.free.pop() {
            self.edges[edge] = node;
            return edge;
        }
        self.edges.push(node);
        self.edges.len() - 1
    }

    fn unlink(&mut self, children: &Children) {
        for child in children.all() {
            self.strand(child);
        }
    }

    /// Nothing leads to an edge any more.
    fn strand(&mut self, edge: Edge) {
        self.edges[edge].is_child = false;
        self.stranded += 1;
        self.release(edge);
        // What is left without blocks is gone.
        if !self.edges[edge].blocks.is_empty() {
            self.doubt_behind(edge);
        }
    }

    /// An edge that nothing leads to is gone, and what follows it has nothing before it.
    fn release(&mut self, edge: Edge) {
        let node = &mut self.edges[edge];
        if edge == ROOT || node.is_child || node.named > 0 || node.blocks.is_empty() {
            return;
        }
        let children = std::mem::take(&mut node.children);
        *node = Node::default();
        self.stranded -= 1;
        if self.stranded == 0 {
            self.doubt_nobody();
        }
        self.free.push(edge);
        self.unlink(&children);
    }

    /// Takes away edges at the end of branches that nobody covers, when there may be as many as others.
    fn sweep(&mut self) {
        const FLOOR: usize = 1024;
        if self.kept() < 2 * self.swept.max(FLOOR) {
            return;
        }
        let mut order = vec![ROOT];
        let mut at = 0;
        while let Some(&edge) = order.get(at) {
            order.extend(self.edges[edge].children.all());
            at += 1;
        }
        for &edge in order.iter().rev() {
            let edges = &self.edges;
            let is_idle = |child: Edge| {
                let child = &edges[child];
                !child.is_covered() && child.children.is_empty() && child.named == 0
            };
            for (child, block) in edges[edge].children.such(is_idle) {
                self.edges[edge].children.remove(block);
                self.strand(child);
            }
        }
        self.swept = self.kept();
    }

    /// Edges that are kept.
    pub fn kept(&self) -> usize {
        self.edges.len() - self.free.len()
    }
}
