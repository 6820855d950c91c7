//! States in the tree (SGLang 0.5.23, `sglang/srt/mem_cache/unified_cache/components/mamba_component.py`):
//! what layers with state-space models or linear attention know of a sequence, valid behind exactly one of its
//! tokens. A node may have that of its end.

use super::{Component, Evicted, HybridTree};
use crate::kv::lists::{Ends, Links, NONE};
use crate::kv::radix::Rest;
use crate::kv::{NodeId, Prefix, RadixTree};
use crate::request::Segment;

/// The states of a tree.
#[derive(Debug, Clone)]
pub struct States {
    nodes: Vec<Kept>,
    /// Nodes that have a state, the one used last at the end.
    links: Links,
    used: Ends,
    evictable: u32,
    locked: u32,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    is_there: bool,
    locks: u32,
}

/// What became of a sequence that was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateInsert {
    /// The node that ends it, and how many of its tokens were cached before.
    pub prefix: Prefix,
    /// Whether the node took the state: it had none.
    pub is_stored: bool,
}

impl HybridTree {
    /// Caches the first `tokens` tokens of a sequence, rounded down to whole pages, with the state
    /// behind them.
    ///
    /// # Panics
    /// When this is no tree of states.
    pub fn insert_state(
        &mut self,
        namespace: u64,
        sequence: &[Segment],
        tokens: u32,
    ) -> StateInsert {
        let mut rest = Rest::new(sequence, self.full.floor(tokens));
        let mut prefix = Prefix { node: RadixTree::ROOT, tokens: 0 };
        while let Some(child) = self.full.child(prefix.node, namespace, rest) {
            self.full.access(child);
            let (common, left) = self.full.common(child, rest);
            let is_whole = common == self.full.length(child);
            prefix.node = if is_whole { child } else { self.split(child, common) };
            prefix.tokens += common;
            rest = left;
        }
        if rest.left > 0 {
            prefix.node = self.add_leaf(prefix.node, namespace, rest);
        }
        let is_stored = prefix.node != RadixTree::ROOT && states(self).store(prefix.node);
        StateInsert { prefix, is_stored }
    }

    /// Takes states that no request uses, those not used for longest first, until at least `count` are
    /// gone or there are no more. A leaf goes with its KV; of other nodes the KV stays.
    ///
    /// # Panics
    /// When this is no tree of states.
    pub fn evict_states(&mut self, count: u32) -> Evicted {
        let mut gone = Evicted::default();
        let mut at = states(self).used.first;
        while gone.states < count && at != NONE {
            let states = states(self);
            let (node, next) = (at, states.links.next(at));
            at = next;
            if states.nodes[node as usize].locks > 0 {
                continue;
            }
            if self.full.is_free_leaf(node) {
                self.remove(node, &mut gone);
            } else {
                gone.states += self::states(self).drop_state(node);
            }
        }
        gone
    }
}

fn states(tree: &mut HybridTree) -> &mut States {
    match &mut tree.component {
        Component::State(states) => states,
        Component::Window(_) => panic!("a tree of windows has no states"),
    }
}

impl Default for States {
    fn default() -> Self {
        let mut links = Links::default();
        links.grow(1);
        let nodes = vec![Kept::default()];
        Self { nodes, links, used: Ends::default(), evictable: 0, locked: 0 }
    }
}

impl States {
    /// States that no request uses.
    pub fn evictable(&self) -> u32 {
        self.evictable
    }

    /// States under a lock.
    pub fn locked(&self) -> u32 {
        self.locked
    }

    pub(super) fn grow(&mut self, full: &RadixTree) {
        let count = full.nodes_count();
        self.nodes.resize(self.nodes.len().max(count), Kept::default());
        self.links.grow(count);
    }

    /// Whether a node has a state.
    pub(super) fn is_at(&self, node: NodeId) -> bool {
        self.nodes[node as usize].is_there
    }

    /// Counts as a use of the state of one node, not of those before it.
    pub(super) fn touch(&mut self, node: NodeId) {
        if self.is_at(node) {
            self.links.unlink(&mut self.used, node);
            self.links.push_back(&mut self.used, node);
        }
    }

    /// A node gets a state, unless it has one.
    fn store(&mut self, node: NodeId) -> bool {
        let is_new = !self.is_at(node);
        if is_new {
            self.nodes[node as usize].is_there = true;
            self.links.push_back(&mut self.used, node);
            self.evictable += 1;
        } else {
            self.touch(node);
        }
        is_new
    }

    pub(super) fn lock(&mut self, node: NodeId) {
        if node == RadixTree::ROOT {
            return;
        }
        let kept = &mut self.nodes[node as usize];
        assert!(kept.is_there, "node {node} is locked without its state");
        if kept.locks == 0 {
            self.evictable -= 1;
            self.locked += 1;
        }
        kept.locks += 1;
    }

    pub(super) fn unlock(&mut self, node: NodeId) {
        if node == RadixTree::ROOT {
            return;
        }
        let kept = &mut self.nodes[node as usize];
        assert!(kept.locks > 0, "the state of node {node} is unlocked more often than locked");
        kept.locks -= 1;
        if kept.locks == 0 {
            self.locked -= 1;
            self.evictable += 1;
        }
    }

    /// A node loses its state; how many that is.
    pub(super) fn drop_state(&mut self, node: NodeId) -> u32 {
        let kept = std::mem::take(&mut self.nodes[node as usize]);
        assert!(kept.locks == 0, "the state of node {node} is dropped under a lock");
        if !kept.is_there {
            return 0;
        }
        self.links.unlink(&mut self.used, node);
        self.evictable -= 1;
        1
    }

    /// Whether the counters agree with the nodes.
    pub(super) fn is_balanced(&self) -> bool {
        let is_locked = |node: u32| self.nodes[node as usize].locks > 0;
        let (locked, evictable): (Vec<u32>, Vec<u32>) =
            self.links.iter(self.used).partition(|&node| is_locked(node));
        let is_sound = self.nodes.iter().all(|kept| kept.is_there || kept.locks == 0);
        let all = self.nodes.iter().filter(|kept| kept.is_there).count();
        is_sound
            && all == locked.len() + evictable.len()
            && self.evictable as usize == evictable.len()
            && self.locked as usize == locked.len()
    }
}
