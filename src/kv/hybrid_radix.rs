//! The radix tree of models whose layers keep more than the KV of all tokens (SGLang 0.5.23,
//! `sglang/srt/mem_cache/unified_radix_cache.py` and its components).
//!
//! Its nodes are those of a [`RadixTree`], which keeps the KV of the layers with full attention. Beside it
//! a node may have slots of layers with a sliding window ([`Windows`]) or a state of layers that read their
//! sequence step by step ([`States`]), each with an order of eviction of its own. What is cached of a
//! sequence can be used up to a node from which all layers can go on; KV may reach further.
//!
//! * `window.rs`: slots of a sliding window
//! * `state.rs`: states

mod state;
mod window;

pub use state::{StateInsert, States};
pub use window::{WindowInsert, WindowShare, Windows};

use super::radix::Rest;
use super::{NodeId, Prefix, RadixTree, TreeKeys};
use crate::request::Segment;

/// What a node may have beside KV.
#[derive(Debug, Clone)]
enum Component {
    Window(Windows),
    State(States),
}

/// A tree of cached sequences of a hybrid model. What it counts as tokens are its [keys](TreeKeys).
#[derive(Debug, Clone)]
pub struct HybridTree {
    full: RadixTree,
    component: Component,
}

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HybridPrefix {
    /// What can be used.
    pub usable: Prefix,
    /// Tokens of which KV is cached, as many or more.
    pub kv_tokens: u32,
}

/// What was evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Tokens of KV.
    pub tokens: u32,
    /// Tokens of the window pool.
    pub window: u32,
    /// States.
    pub states: u32,
}

/// A protected path of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLock {
    /// The node that ends it.
    pub node: NodeId,
    /// The mark of the node where the protection of window slots ends; 0 where it goes up to the root.
    pub window_mark: u32,
}

impl PathLock {
    /// That of nothing.
    pub const NONE: Self = Self { node: RadixTree::ROOT, window_mark: 0 };
}

/// How far a walk down the tree has come from where layers could go on.
#[derive(Debug, Clone, Copy)]
struct Reach {
    /// Tokens whose window slots are there without a gap.
    live: u32,
}

impl Reach {
    /// Before the first token nothing is missing.
    const START: Self = Self { live: u32::MAX };
}

impl HybridTree {
    /// An empty tree of a model with sliding windows of `window` tokens.
    pub fn of_windows(page_size: u32, keys: TreeKeys, window: u32) -> Self {
        let full = RadixTree::new(page_size).with_keys(keys);
        Self { full, component: Component::Window(Windows::new(page_size, window)) }
    }

    /// An empty tree of a model with states.
    pub fn of_states(page_size: u32) -> Self {
        Self { full: RadixTree::new(page_size), component: Component::State(States::default()) }
    }

    /// What its positions stand for.
    pub fn keys(&self) -> TreeKeys {
        self.full.keys()
    }

    /// Cached tokens of KV that no lock covers.
    pub fn evictable(&self) -> u32 {
        self.full.evictable()
    }

    /// Cached tokens of KV under a lock.
    pub fn locked(&self) -> u32 {
        self.full.locked()
    }

    /// Its windows, if it is a tree of those.
    pub fn windows(&self) -> Option<&Windows> {
        match &self.component {
            Component::Window(windows) => Some(windows),
            Component::State(_) => None,
        }
    }

    /// Its states, if it is a tree of those.
    pub fn states(&self) -> Option<&States> {
        match &self.component {
            Component::State(states) => Some(states),
            Component::Window(_) => None,
        }
    }

    /// Finds the longest beginning of the first `tokens` tokens of a sequence that is cached and from
    /// which all layers can go on, in whole pages. Counts as an access to it, not to what is cached
    /// behind it. A node of which only a part matches is split, wherever it is.
    pub fn find(&mut self, namespace: u64, sequence: &[Segment], tokens: u32) -> HybridPrefix {
        let mut rest = Rest::new(sequence, self.full.floor(tokens));
        let nothing = Prefix { node: RadixTree::ROOT, tokens: 0 };
        let (mut at, mut usable, mut reach) = (nothing, nothing, Reach::START);
        while let Some(child) = self.full.child(at.node, namespace, rest) {
            let (common, left) = self.full.common(child, rest);
            let is_whole = common == self.full.length(child);
            at.node = if is_whole { child } else { self.split(child, common) };
            at.tokens += common;
            if self.can_go_on(at.node, common, &mut reach) {
                usable = at;
            }
            if !is_whole {
                break;
            }
            rest = left;
        }
        self.full.refresh(usable.node);
        match &mut self.component {
            Component::Window(windows) => windows.touch(&self.full, usable.node),
            Component::State(states) => states.touch(usable.node),
        }
        HybridPrefix { usable, kv_tokens: at.tokens }
    }

    /// How many of the first `tokens` tokens of a sequence can be used, in whole pages; no access.
    pub fn matched(&self, namespace: u64, sequence: &[Segment], tokens: u32) -> u32 {
        let mut rest = Rest::new(sequence, self.full.floor(tokens));
        let (mut node, mut matched, mut usable) = (RadixTree::ROOT, 0, 0);
        let mut reach = Reach::START;
        while let Some(child) = self.full.child(node, namespace, rest) {
            let (common, left) = self.full.common(child, rest);
            let is_whole = common == self.full.length(child);
            matched += common;
            // The front part of a node has no state.
            let has_end = is_whole || matches!(self.component, Component::Window(_));
            if has_end && self.can_go_on(child, common, &mut reach) {
                usable = matched;
            }
            if !is_whole {
                break;
            }
            (node, rest) = (child, left);
        }
        usable
    }

    /// Whether all layers can go on behind the first `tokens` tokens of a node.
    fn can_go_on(&self, node: NodeId, tokens: u32, reach: &mut Reach) -> bool {
        match &self.component {
            Component::Window(windows) => windows.can_go_on(node, tokens, &mut reach.live),
            Component::State(states) => states.is_at(node),
        }
    }

    /// Protects what a request uses: the KV up to the end of a node, the window before that, its state.
    pub fn lock(&mut self, node: NodeId) -> PathLock {
        self.full.lock(node);
        let window_mark = match &mut self.component {
            Component::Window(windows) => windows.lock(&self.full, node),
            Component::State(states) => {
                states.lock(node);
                0
            }
        };
        PathLock { node, window_mark }
    }

    /// Takes back one [`lock`](Self::lock).
    ///
    /// # Panics
    /// When there is none.
    pub fn unlock(&mut self, lock: PathLock) {
        match &mut self.component {
            Component::Window(windows) => windows.unlock(&self.full, lock),
            Component::State(states) => states.unlock(lock.node),
        }
        self.full.unlock(lock.node);
    }

    /// Drops unlocked leaves with all that they have, oldest access first, until at least `tokens`
    /// tokens of KV are gone or no unlocked leaf is left.
    pub fn evict(&mut self, tokens: u32) -> Evicted {
        let mut gone = Evicted::default();
        while gone.tokens < tokens {
            let Some(leaf) = self.full.next_due() else { break };
            self.remove(leaf, &mut gone);
        }
        gone
    }

    fn remove(&mut self, leaf: NodeId, gone: &mut Evicted) {
        match &mut self.component {
            Component::Window(windows) => gone.window += windows.drop_slots(&self.full, leaf),
            Component::State(states) => gone.states += states.drop_state(leaf),
        }
        gone.tokens += self.full.remove_leaf(leaf);
    }

    fn split(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let front = self.full.split(node, tokens);
        match &mut self.component {
            Component::Window(windows) => windows.split(&self.full, front, node),
            // A state is that of the node's end: the front has none.
            Component::State(states) => states.grow(&self.full),
        }
        front
    }

    fn add_leaf(&mut self, parent: NodeId, namespace: u64, rest: Rest<'_>) -> NodeId {
        let leaf = self.full.add_leaf(parent, namespace, rest);
        match &mut self.component {
            Component::Window(windows) => windows.grow(&self.full),
            Component::State(states) => states.grow(&self.full),
        }
        leaf
    }

    /// Whether the counters agree with the nodes.
    pub fn is_balanced(&self) -> bool {
        let component = match &self.component {
            Component::Window(windows) => windows.is_balanced(&self.full),
            Component::State(states) => states.is_balanced(),
        };
        self.full.is_balanced() && component
    }
}

#[cfg(test)]
mod tests;
