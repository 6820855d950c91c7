//! The radix tree of cached prefixes of SGLang (SGLang 0.5.23,
//! `sglang/srt/mem_cache/unified_cache/unified_tree_core.py`, full attention, least recently used
//! evicted first).
//!
//! A node stands for a run of tokens behind those of its parent; all lengths are whole pages.
//! Requests lock the path to the node whose tokens they use. What no lock covers can be evicted,
//! leaf by leaf, oldest access first. Tokens are known by stream and position ([`Segment`]), so a
//! prompt that shares nothing is one node with one segment, however long it is. While only its
//! request can look for it, and holds it, the node has no name and no tokens but their number.
//!
//! The order of accesses is a counter: each touch, each new node and each side of a split takes
//! the next value; a match gives its value to the node it ends on and slightly older ones to the
//! ancestors. Tokens are only counted, which memory slots hold them makes no difference.

mod nodes;
mod rest;
mod told;

use rustc_hash::FxHashMap;

use nodes::Node;
pub(super) use rest::Rest;
use told::Told;

use super::TreeKeys;
use crate::des::Ascending;
use crate::request::Segment;
use crate::rng::mix;

/// The index of a node in its tree.
pub type NodeId = u32;

/// One step of the access counter; ancestors of a matched node are spread below it.
const TICK: u64 = 1 << 24;

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The node that ends the prefix; [`RadixTree::ROOT`] for none.
    pub node: NodeId,
    /// Tokens from the first one up to the end of the node.
    pub tokens: u32,
}

/// A tree of cached token sequences.
#[derive(Debug, Clone)]
pub struct RadixTree {
    page_size: u32,
    keys: TreeKeys,
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    children: FxHashMap<(NodeId, u64), NodeId>,
    /// Leaves that may be evicted, oldest first. An entry may be out of date: its node was
    /// accessed later, is no unlocked leaf any more, or is gone. That is seen when it comes up.
    due: Ascending<(u64, NodeId)>,
    clock: u64,
    evictable: u32,
    locked: u32,
    told: Option<Box<Told>>,
}

impl RadixTree {
    /// The node before every first token.
    pub const ROOT: NodeId = 0;

    /// An empty tree for pages of `page_size` tokens.
    ///
    /// # Panics
    /// When `page_size` is 0.
    pub fn new(page_size: u32) -> Self {
        assert!(page_size > 0, "a page holds at least one token");
        Self {
            page_size,
            keys: TreeKeys::Tokens,
            nodes: vec![Node::default()],
            vacant: Vec::new(),
            children: FxHashMap::default(),
            due: Ascending::default(),
            clock: 0,
            evictable: 0,
            locked: 0,
            told: None,
        }
    }

    /// The same empty tree of other keys. What are tokens elsewhere here are these.
    #[must_use]
    pub fn with_keys(mut self, keys: TreeKeys) -> Self {
        self.keys = keys;
        self
    }

    /// What its positions stand for.
    pub fn keys(&self) -> TreeKeys {
        self.keys
    }

    /// Cached tokens that no lock covers.
    pub fn evictable(&self) -> u32 {
        self.evictable
    }

    /// Cached tokens under a lock.
    pub fn locked(&self) -> u32 {
        self.locked
    }

    /// Finds the longest cached beginning of the first `tokens` tokens of a sequence, in whole
    /// pages, and counts as an access to it. A node of which only a part matches is split.
    ///
    /// The segments must be joined: none may continue the one before.
    pub fn find(&mut self, namespace: u64, sequence: &[Segment], tokens: u32) -> Prefix {
        let mut rest = Rest::new(sequence, self.floor(tokens));
        let mut found = Prefix { node: Self::ROOT, tokens: 0 };
        while let Some(child) = self.child(found.node, namespace, rest) {
            let (common, left) = self.common(child, rest);
            found.tokens += common;
            if common < self.nodes[child as usize].tokens {
                found.node = self.split(child, common);
                break;
            }
            found.node = child;
            rest = left;
        }
        self.refresh(found.node);
        found
    }

    /// Counts as an access to a node that was looked for, its ancestors a little before it.
    pub(super) fn refresh(&mut self, node: NodeId) {
        let mut accessed = self.tick();
        let mut at = node;
        while at != Self::ROOT {
            let node = &mut self.nodes[at as usize];
            node.accessed = accessed;
            accessed -= 1;
            at = node.parent;
        }
    }

    /// Counts as an access to one node.
    pub(super) fn access(&mut self, node: NodeId) {
        self.nodes[node as usize].accessed = self.tick();
    }

    /// How many of the first `tokens` tokens of a sequence are cached, in whole pages; no access.
    ///
    /// The segments must be joined: none may continue the one before.
    #[inline]
    pub fn matched(&self, namespace: u64, sequence: &[Segment], tokens: u32) -> u32 {
        let mut rest = Rest::new(sequence, self.floor(tokens));
        let (mut node, mut matched) = (Self::ROOT, 0);
        while let Some(child) = self.child(node, namespace, rest) {
            let (common, left) = self.common(child, rest);
            matched += common;
            if common < self.nodes[child as usize].tokens {
                break;
            }
            (node, rest) = (child, left);
        }
        matched
    }

    /// Caches the first `tokens` tokens of a sequence, rounded down to whole pages. Returns the
    /// node that ends them, and how many of them were cached before.
    pub fn insert(&mut self, namespace: u64, sequence: &[Segment], tokens: u32) -> Prefix {
        let mut rest = Rest::new(sequence, self.floor(tokens));
        let mut at = Prefix { node: Self::ROOT, tokens: 0 };
        while let Some(child) = self.child(at.node, namespace, rest) {
            self.access(child);
            let (common, left) = self.common(child, rest);
            at.node = if common < self.nodes[child as usize].tokens {
                self.split(child, common)
            } else {
                child
            };
            at.tokens += common;
            rest = left;
        }
        if rest.left > 0 {
            at.node = self.add_leaf(at.node, namespace, rest);
        }
        at
    }

    /// A lookup of what cannot be cached; it counts as an access.
    pub fn find_nothing(&mut self) {
        self.tick();
    }

    /// Caches `tokens` further tokens, whole pages, behind a locked node: what
    /// [`insert`](Self::insert) does with tokens that nobody else can look for. Returns the node
    /// that ends them. It cannot be found before it is [named](Self::name_path).
    #[inline]
    pub fn append(&mut self, node: NodeId, tokens: u32) -> NodeId {
        self.touch(node);
        if tokens == 0 { node } else { self.add_unnamed(node, tokens) }
    }

    /// Counts as an access to all tokens up to the end of a node, as inserting them does.
    pub fn touch(&mut self, node: NodeId) {
        let mut depth = 0;
        let mut at = node;
        while at != Self::ROOT {
            depth += 1;
            at = self.nodes[at as usize].parent;
        }
        self.clock += depth * TICK;
        let mut accessed = self.clock;
        at = node;
        while at != Self::ROOT {
            let node = &mut self.nodes[at as usize];
            node.accessed = accessed;
            accessed -= TICK;
            at = node.parent;
        }
    }

    /// Makes the nodes up to this one findable by their tokens, with which `sequence` begins.
    pub fn name_path(&mut self, namespace: u64, sequence: &[Segment], node: NodeId) {
        let mut path = Vec::new();
        let mut at = node;
        while at != Self::ROOT {
            path.push(at);
            at = self.nodes[at as usize].parent;
        }
        let tokens = path.iter().map(|&id| self.nodes[id as usize].tokens).sum();
        let mut rest = Rest::new(sequence, tokens);
        for id in path.into_iter().rev() {
            let Node { parent, tokens, is_named, .. } = self.nodes[id as usize];
            if !is_named {
                let name = self.name(parent, namespace, rest);
                self.children.insert((parent, name), id);
                let node = &mut self.nodes[id as usize];
                rest.first(tokens).collect_into(&mut node.key);
                (node.name, node.is_named) = (name, true);
                self.tell_added(id, namespace, rest.first(tokens));
            }
            rest.skip(tokens);
        }
    }

    /// Protects the tokens up to the end of a node.
    #[inline]
    pub fn lock(&mut self, node: NodeId) {
        let mut at = node;
        while at != Self::ROOT {
            let node = &mut self.nodes[at as usize];
            if node.locks == 0 {
                self.evictable -= node.tokens;
                self.locked += node.tokens;
            }
            node.locks += 1;
            at = node.parent;
        }
    }

    /// Takes back one [`lock`](Self::lock).
    ///
    /// # Panics
    /// When the node is not locked.
    #[inline]
    pub fn unlock(&mut self, node: NodeId) {
        let mut at = node;
        while at != Self::ROOT {
            let node = &mut self.nodes[at as usize];
            assert!(node.locks > 0, "node {at} is unlocked more often than locked");
            node.locks -= 1;
            let parent = node.parent;
            if node.locks == 0 {
                self.locked -= node.tokens;
                self.evictable += node.tokens;
                self.queue_if_due(at);
            }
            at = parent;
        }
    }

    /// Drops unlocked leaves, whole, oldest access first, until at least `tokens` tokens are gone
    /// or no unlocked leaf is left. Returns how many went.
    pub fn evict(&mut self, tokens: u32) -> u32 {
        let mut gone = 0;
        while gone < tokens {
            let Some(id) = self.next_due() else { break };
            gone += self.remove_leaf(id);
        }
        gone
    }

    /// Takes the unlocked leaf of the oldest access from the queue; it has to be removed.
    #[inline]
    pub(super) fn next_due(&mut self) -> Option<NodeId> {
        while let Some((accessed, id)) = self.due.pop() {
            let node = &mut self.nodes[id as usize];
            node.is_queued = false;
            if node.accessed > accessed {
                self.queue_if_due(id);
            } else if node.locks == 0 && node.children == 0 && node.tokens > 0 {
                return Some(id);
            }
        }
        None
    }

    pub(super) fn floor(&self, tokens: u32) -> u32 {
        tokens - tokens % self.page_size
    }

    fn tick(&mut self) -> u64 {
        self.clock += TICK;
        self.clock
    }

    #[inline]
    pub(super) fn child(&self, parent: NodeId, namespace: u64, rest: Rest<'_>) -> Option<NodeId> {
        if rest.left == 0 {
            return None;
        }
        self.children.get(&(parent, self.name(parent, namespace, rest))).copied()
    }

    /// The name of the page that comes next, below a parent. Only names below the root need the
    /// namespace: what is below them shares it.
    fn name(&self, parent: NodeId, namespace: u64, rest: Rest<'_>) -> u64 {
        let mut name = if parent == Self::ROOT { mix(namespace) } else { 0 };
        let mut page = rest.first(self.page_size);
        while let Some(run) = page.run() {
            name = mix(name ^ mix(run.stream)) ^ (u64::from(run.start) << 32 | u64::from(run.len));
            page.skip(run.len);
        }
        mix(name)
    }

    /// How many tokens, in whole pages, a sequence has in common with a node, and what is left of it
    /// behind them.
    pub(super) fn common<'a>(&self, node: NodeId, rest: Rest<'a>) -> (u32, Rest<'a>) {
        let node = &self.nodes[node as usize];
        let mut key = Rest::new(&node.key, node.tokens);
        let mut left = rest;
        let mut common = key.skip_whole_in_common(&mut left);
        while let (Some(a), Some(b)) = (key.run(), left.run()) {
            if a.stream != b.stream || a.start != b.start {
                break;
            }
            let same = a.len.min(b.len);
            common += same;
            key.skip(same);
            left.skip(same);
        }
        let pages = self.floor(common);
        if pages < common {
            left = rest;
            left.skip(pages);
        }
        (pages, left)
    }

    /// Whether the counters agree with the nodes, children with parents, and every unlocked leaf
    /// can be evicted.
    pub fn is_balanced(&self) -> bool {
        let mut is_vacant = vec![false; self.nodes.len()];
        for &id in &self.vacant {
            is_vacant[id as usize] = true;
        }
        let (mut evictable, mut locked, mut live) = (0, 0, 0);
        let mut children = vec![0; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate().skip(1).filter(|(id, _)| !is_vacant[*id]) {
            live += usize::from(node.is_named);
            children[node.parent as usize] += 1;
            let tokens = node.tokens;
            let key: u32 = node.key.iter().map(|run| run.len).sum();
            let parent_locks = self.nodes[node.parent as usize].locks;
            let child = self.children.get(&(node.parent, node.name));
            let is_found = key == tokens && child == Some(&(id as NodeId));
            let is_sound = tokens > 0
                && tokens.is_multiple_of(self.page_size)
                && !is_vacant[node.parent as usize]
                && (node.parent == Self::ROOT || parent_locks >= node.locks)
                && (node.locks > 0 || node.children > 0 || node.is_queued)
                && if node.is_named { is_found } else { key == 0 };
            if !is_sound {
                return false;
            }
            if node.locks > 0 { locked += tokens } else { evictable += tokens }
        }
        let agree = self.nodes.iter().zip(&children).all(|(node, count)| node.children == *count);
        agree && live == self.children.len() && evictable == self.evictable && locked == self.locked
    }
}

#[cfg(test)]
mod tests;
