//! Window slots in the tree (SGLang 0.5.23, `sglang/srt/mem_cache/unified_cache/components/swa_component.py`).
//!
//! A node has the window slots of all its tokens, or of none: then it is a tombstone, KV that later tokens
//! can only use if the window before them is there. Window slots are evicted node by node, whatever is below,
//! in the order of their last use.

use super::{Component, Evicted, HybridTree, PathLock};
use crate::kv::lists::{Ends, Links, NONE};
use crate::kv::radix::Rest;
use crate::kv::{NodeId, RadixTree};
use crate::request::Segment;

/// The window slots of a tree.
#[derive(Debug, Clone)]
pub struct Windows {
    page_size: u32,
    window: u32,
    nodes: Vec<Slots>,
    /// Nodes that have slots, the one used last at the end.
    links: Links,
    used: Ends,
    marks: u32,
    evictable: u32,
    locked: u32,
}

/// The window slots of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Slots {
    is_live: bool,
    locks: u32,
    /// By which locks that end here know it; 0 before there is one.
    mark: u32,
}

/// The part of a sequence that is its request's own.
#[derive(Debug, Clone, Copy)]
pub struct WindowShare {
    /// Tokens before it, which the tree has.
    pub protected: u32,
    /// Tokens whose window slots the request has given back.
    pub dropped: u32,
}

/// What became of a sequence that was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowInsert {
    /// The node that ends it.
    pub node: NodeId,
    /// Tokens of KV of the request that the tree had already: they are free.
    pub tokens_freed: u32,
    /// The same of the window pool.
    pub window_freed: u32,
}

impl HybridTree {
    /// Caches the first `tokens` tokens of a sequence, rounded down to whole pages, with those of their
    /// window slots that the request still has. They also bring tombstones back to life.
    ///
    /// # Panics
    /// When this is no tree of windows.
    pub fn insert_window(
        &mut self,
        namespace: u64,
        sequence: &[Segment],
        tokens: u32,
        share: WindowShare,
    ) -> WindowInsert {
        let mut rest = Rest::new(sequence, self.full.floor(tokens));
        let mut inserted = WindowInsert { node: RadixTree::ROOT, tokens_freed: 0, window_freed: 0 };
        let mut from = 0;
        while let Some(child) = self.full.child(inserted.node, namespace, rest) {
            self.full.access(child);
            let (common, left) = self.full.common(child, rest);
            let is_whole = common == self.full.length(child);
            inserted.node = if is_whole { child } else { self.split(child, common) };
            if from >= share.protected {
                self.overlap(from, common, share, &mut inserted);
            }
            from += common;
            rest = left;
        }
        if rest.left > 0 {
            inserted.node = self.add_tail(inserted.node, namespace, rest, from, share.dropped);
        }
        let Self { full, component } = self;
        windows(component).touch(full, inserted.node);
        inserted
    }

    /// The request has `tokens` tokens from `from` on twice: its own, and those of the node just inserted to.
    fn overlap(&mut self, from: u32, tokens: u32, share: WindowShare, inserted: &mut WindowInsert) {
        inserted.tokens_freed += tokens;
        let dropped = share.dropped.saturating_sub(from).min(tokens);
        let is_live = windows(&mut self.component).nodes[inserted.node as usize].is_live;
        if is_live {
            inserted.window_freed += tokens - dropped;
        } else if dropped < tokens {
            if dropped > 0 {
                self.split(inserted.node, dropped);
            }
            let Self { full, component } = self;
            windows(component).fill(full, inserted.node);
        }
    }

    /// Adds what the tree does not have: as a tombstone what has lost its window slots, and the last
    /// window apart from what is before it, so that it can be evicted alone.
    fn add_tail(
        &mut self,
        parent: NodeId,
        namespace: u64,
        mut rest: Rest<'_>,
        from: u32,
        dropped: u32,
    ) -> NodeId {
        let mut node = parent;
        let gone = dropped.saturating_sub(from).min(rest.left);
        if gone > 0 {
            node = self.add_leaf(node, namespace, rest.first(gone));
            rest.skip(gone);
        }
        let window = windows(&mut self.component).paged_window();
        let front = rest.left.saturating_sub(window);
        for part in [front, rest.left - front] {
            if part > 0 {
                node = self.add_leaf(node, namespace, rest.first(part));
                rest.skip(part);
                let Self { full, component } = self;
                windows(component).fill(full, node);
            }
        }
        node
    }

    /// Takes window slots from nodes that no window covers, those not used for longest first, until at
    /// least `tokens` are gone or there are no more. A leaf goes with its KV, which nobody could use.
    ///
    /// # Panics
    /// When this is no tree of windows.
    pub fn evict_window(&mut self, tokens: u32) -> Evicted {
        let mut gone = Evicted::default();
        let mut at = windows(&mut self.component).used.first;
        while gone.window < tokens && at != NONE {
            let windows = windows(&mut self.component);
            let (node, next) = (at, windows.links.next(at));
            at = next;
            if windows.nodes[node as usize].locks > 0 {
                continue;
            }
            if self.full.is_free_leaf(node) {
                self.remove(node, &mut gone);
            } else {
                gone.window += windows.drop_slots(&self.full, node);
            }
        }
        gone
    }
}

fn windows(component: &mut Component) -> &mut Windows {
    match component {
        Component::Window(windows) => windows,
        Component::State(_) => panic!("a tree of states has no window slots"),
    }
}

impl Windows {
    pub(super) fn new(page_size: u32, window: u32) -> Self {
        assert!(window > 0, "a window holds at least one token");
        let mut links = Links::default();
        links.grow(1);
        Self {
            page_size,
            window,
            nodes: vec![Slots::default()],
            links,
            used: Ends::default(),
            marks: 0,
            evictable: 0,
            locked: 0,
        }
    }

    /// Window slots that no lock covers, in tokens.
    pub fn evictable(&self) -> u32 {
        self.evictable
    }

    /// Window slots under a lock, in tokens.
    pub fn locked(&self) -> u32 {
        self.locked
    }

    fn paged_window(&self) -> u32 {
        self.window.next_multiple_of(self.page_size)
    }

    pub(super) fn grow(&mut self, full: &RadixTree) {
        let count = full.nodes_count();
        self.nodes.resize(self.nodes.len().max(count), Slots::default());
        self.links.grow(count);
    }

    /// Whether the window behind the first `tokens` tokens of a node is there; `live` are the tokens before
    /// it that have their slots without a gap.
    pub(super) fn can_go_on(&self, node: NodeId, tokens: u32, live: &mut u32) -> bool {
        let is_live = self.nodes[node as usize].is_live;
        *live = if is_live { live.saturating_add(tokens) } else { 0 };
        is_live && *live >= self.window
    }

    /// Counts as a use of the last window before the end of a node, and a page before it.
    pub(super) fn touch(&mut self, full: &RadixTree, node: NodeId) {
        let (mut at, mut covered, mut newer) = (node, 0, NONE);
        while at != RadixTree::ROOT && covered < self.window + self.page_size {
            covered += full.length(at);
            if self.nodes[at as usize].is_live {
                self.links.unlink(&mut self.used, at);
                let before = if newer == NONE { self.used.last } else { self.links.prev(newer) };
                self.links.insert_after(&mut self.used, before, at);
                newer = at;
            }
            at = full.parent(at);
        }
    }

    /// Protects the last window before the end of a node. Returns the mark of the node where that ends.
    pub(super) fn lock(&mut self, full: &RadixTree, node: NodeId) -> u32 {
        let (mut at, mut covered) = (node, 0);
        while at != RadixTree::ROOT {
            let tokens = full.length(at);
            let slots = &mut self.nodes[at as usize];
            assert!(slots.is_live, "node {at} is locked without its window slots");
            if slots.locks == 0 {
                self.evictable -= tokens;
                self.locked += tokens;
            }
            slots.locks += 1;
            covered += tokens;
            if covered >= self.window {
                if slots.mark == 0 {
                    self.marks += 1;
                    slots.mark = self.marks;
                }
                return slots.mark;
            }
            at = full.parent(at);
        }
        0
    }

    pub(super) fn unlock(&mut self, full: &RadixTree, lock: PathLock) {
        let mut at = lock.node;
        while at != RadixTree::ROOT {
            let slots = &mut self.nodes[at as usize];
            assert!(
                slots.locks > 0,
                "window slots of node {at} are unlocked more often than locked"
            );
            slots.locks -= 1;
            if slots.locks == 0 {
                self.locked -= full.length(at);
                self.evictable += full.length(at);
            }
            if lock.window_mark != 0 && slots.mark == lock.window_mark {
                return;
            }
            at = full.parent(at);
        }
    }

    /// A node was cut in two. Locks that end at it go on to its front.
    pub(super) fn split(&mut self, full: &RadixTree, front: NodeId, back: NodeId) {
        self.grow(full);
        let slots = &mut self.nodes[back as usize];
        let whole = *slots;
        slots.mark = 0;
        self.nodes[front as usize] = whole;
        if whole.is_live {
            let before = self.links.prev(back);
            self.links.insert_after(&mut self.used, before, front);
        }
    }

    /// A node gets window slots.
    fn fill(&mut self, full: &RadixTree, node: NodeId) {
        self.nodes[node as usize].is_live = true;
        self.evictable += full.length(node);
        self.links.push_back(&mut self.used, node);
    }

    /// A node loses its window slots; how many those were.
    pub(super) fn drop_slots(&mut self, full: &RadixTree, node: NodeId) -> u32 {
        let slots = std::mem::take(&mut self.nodes[node as usize]);
        assert!(slots.locks == 0, "window slots of node {node} are dropped under a lock");
        if !slots.is_live {
            return 0;
        }
        self.links.unlink(&mut self.used, node);
        let tokens = full.length(node);
        self.evictable -= tokens;
        tokens
    }

    /// Whether the counters agree with the nodes.
    pub(super) fn is_balanced(&self, full: &RadixTree) -> bool {
        let (mut evictable, mut locked, mut live) = (0, 0, 0);
        for node in self.links.iter(self.used) {
            let slots = self.nodes[node as usize];
            let tokens = full.length(node);
            live += 1;
            if !slots.is_live {
                return false;
            }
            if slots.locks > 0 { locked += tokens } else { evictable += tokens }
        }
        let all = self.nodes.iter().filter(|slots| slots.is_live).count();
        let is_sound = self.nodes.iter().all(|slots| slots.is_live || slots.locks == 0);
        is_sound && live == all && evictable == self.evictable && locked == self.locked
    }
}
