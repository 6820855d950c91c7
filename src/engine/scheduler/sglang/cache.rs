//! The memory of prefixes, and what a hybrid model keeps beside the KV of all tokens. The scheduler asks it
//! for matches, locks and evictions and does not look inside, but for what only windows or only states
//! have: see `windows.rs` and `states.rs`.

use std::ops::{Index, IndexMut};

use super::states::StateCache;
use super::windows::WindowCache;
use crate::kv::{CacheContent, CacheEvent, HybridPrefix, NodeId, PathLock, RadixTree, TreeKeys};
use crate::request::{RequestView, Segment};

/// By what the layers of the model read of a sequence.
#[derive(Debug, Clone)]
pub(super) enum Cache {
    /// All of it.
    Full(RadixTree),
    /// Some of them a window of it.
    Window(Box<WindowCache>),
    /// Some of them step by step, into a state.
    State(Box<StateCache>),
}

/// What requests have beside KV, by their places in the arena.
#[derive(Debug, Clone, Default)]
pub(super) struct Uses<U>(Vec<U>);

impl<U: Default + Clone> Uses<U> {
    fn enter(&mut self, slot: u32) {
        let count = self.0.len().max(slot as usize + 1);
        self.0.resize(count, U::default());
        self.0[slot as usize] = U::default();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &U)> {
        (0..).zip(&self.0)
    }
}

impl<U> Index<u32> for Uses<U> {
    type Output = U;
    fn index(&self, slot: u32) -> &U {
        &self.0[slot as usize]
    }
}

impl<U> IndexMut<u32> for Uses<U> {
    fn index_mut(&mut self, slot: u32) -> &mut U {
        &mut self.0[slot as usize]
    }
}

impl Cache {
    /// A request gets this place in the arena.
    pub(super) fn enter(&mut self, slot: u32) {
        match self {
            Self::Full(_) => {}
            Self::Window(cache) => cache.uses.enter(slot),
            Self::State(cache) => cache.uses.enter(slot),
        }
    }

    pub(super) fn keys(&self) -> TreeKeys {
        match self {
            Self::Full(tree) => tree.keys(),
            Self::Window(cache) => cache.tree.keys(),
            Self::State(cache) => cache.tree.keys(),
        }
    }

    /// Cached tokens of KV that no request holds.
    pub(super) fn evictable(&self) -> u32 {
        match self {
            Self::Full(tree) => tree.evictable(),
            Self::Window(cache) => cache.tree.evictable(),
            Self::State(cache) => cache.tree.evictable(),
        }
    }

    /// Cached tokens of KV that requests hold.
    pub(super) fn locked(&self) -> u32 {
        match self {
            Self::Full(tree) => tree.locked(),
            Self::Window(cache) => cache.tree.locked(),
            Self::State(cache) => cache.tree.locked(),
        }
    }

    /// The longest cached beginning of the first `keys` keys of a sequence.
    pub(super) fn find(&mut self, namespace: u64, sequence: &[Segment], keys: u32) -> HybridPrefix {
        match self {
            Self::Full(tree) => {
                let usable = tree.find(namespace, sequence, keys);
                HybridPrefix { usable, kv_tokens: usable.tokens }
            }
            Self::Window(cache) => cache.tree.find(namespace, sequence, keys),
            Self::State(cache) => cache.tree.find(namespace, sequence, keys),
        }
    }

    /// A candidate was looked up.
    pub(super) fn found(&mut self, slot: u32, found: HybridPrefix) {
        if let Self::Window(cache) = self {
            cache.uses[slot].found(found);
        }
    }

    /// A step computes a part of a prompt.
    pub(super) fn prefill(&mut self, slot: u32) {
        if let Self::Window(cache) = self {
            cache.uses[slot].prefill();
        }
    }

    #[inline]
    pub(super) fn lock(&mut self, node: NodeId) -> PathLock {
        match self {
            Self::Full(tree) => {
                tree.lock(node);
                PathLock { node, ..PathLock::NONE }
            }
            Self::Window(cache) => cache.tree.lock(node),
            Self::State(cache) => cache.tree.lock(node),
        }
    }

    #[inline]
    pub(super) fn unlock(&mut self, lock: PathLock) {
        match self {
            Self::Full(tree) => tree.unlock(lock.node),
            Self::Window(cache) => cache.tree.unlock(lock),
            Self::State(cache) => cache.tree.unlock(lock),
        }
    }

    /// Evicts until `tokens` tokens are free in every pool of tokens or nothing can be evicted, while
    /// `available` of those of full attention are. Returns how many of these come free.
    #[inline]
    pub(super) fn evict_until(&mut self, available: u32, tokens: u32) -> u32 {
        match self {
            Self::Full(tree) if available < tokens => tree.evict(tokens - available),
            Self::Full(_) => 0,
            Self::Window(cache) => cache.evict_until(available, tokens),
            Self::State(cache) => cache.evict_until(available, tokens),
        }
    }

    /// Whether the pools beside that of full attention have so many tokens free.
    pub(super) fn has_free(&self, tokens: u32) -> bool {
        match self {
            Self::Full(_) | Self::State(_) => true,
            Self::Window(cache) => cache.free >= tokens,
        }
    }

    pub(super) fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        match self {
            Self::Full(tree) => tree.cached_tokens(request),
            Self::Window(cache) => cache.tree.cached_tokens(request),
            Self::State(cache) => cache.tree.cached_tokens(request),
        }
    }

    pub(super) fn content(&self) -> CacheContent {
        match self {
            Self::Full(tree) => CacheContent::Tree(Box::new(tree.clone())),
            Self::Window(cache) => CacheContent::Hybrid(Box::new(cache.tree.clone())),
            Self::State(cache) => CacheContent::Hybrid(Box::new(cache.tree.clone())),
        }
    }

    /// Tells from now on which pages it holds, and whether it can.
    pub(super) fn tell_events(&mut self) -> bool {
        match self {
            Self::Full(tree) if tree.keys() == TreeKeys::Tokens => {
                tree.tell_events();
                true
            }
            Self::Full(_) | Self::Window(_) | Self::State(_) => false,
        }
    }

    pub(super) fn take_events(&mut self) -> Vec<CacheEvent> {
        match self {
            Self::Full(tree) => tree.take_events(),
            Self::Window(_) | Self::State(_) => Vec::new(),
        }
    }

    pub(super) fn is_balanced(&self) -> bool {
        match self {
            Self::Full(tree) => tree.is_balanced(),
            Self::Window(cache) => cache.tree.is_balanced(),
            Self::State(cache) => cache.tree.is_balanced(),
        }
    }
}
