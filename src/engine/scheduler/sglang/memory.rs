//! KV memory: slots of requests, what the tree keeps, and eviction
//! (SGLang 0.5.23, `sglang/srt/mem_cache/common.py`, `allocation.py`, `unified_radix_cache.py`).

use super::Sglang;
use super::cache::Cache;
use super::sequence::Sequence;
use crate::kv::{HybridPrefix, PathLock, Prefix, RadixTree};

/// What becomes of the KV of a request that gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The tree keeps the tokens that are known.
    InTree,
    /// It is lost, but for what the tree has.
    Nothing,
}

impl Sglang {
    /// `tokens` rounded up to whole pages.
    pub(super) fn ceil(&self, tokens: u32) -> u32 {
        tokens.next_multiple_of(self.settings.page_size)
    }

    fn floor(&self, tokens: u32) -> u32 {
        tokens - tokens % self.settings.page_size
    }

    /// Tokens of memory that are free or can be.
    pub(super) fn reclaimable(&self) -> u32 {
        self.available + self.cache.evictable()
    }

    /// Evicts cached tokens until `tokens` are free, in each pool, or nothing can be evicted.
    pub(super) fn evict_until(&mut self, tokens: u32) {
        if self.has_tree() {
            self.available += self.cache.evict_until(self.available, tokens);
        }
    }

    /// The longest cached beginning of the first `tokens` tokens of a request.
    pub(super) fn find_prefix(&mut self, slot: u32, tokens: u32) -> HybridPrefix {
        let usable = Prefix { node: RadixTree::ROOT, tokens: 0 };
        let nothing = HybridPrefix { usable, kv_tokens: 0 };
        if !self.has_tree() {
            return nothing;
        }
        let s = &self.sequences[slot as usize];
        match &mut self.cache {
            Cache::Full(tree) if s.is_private() => {
                tree.find_nothing();
                nothing
            }
            cache => cache.find(s.namespace, &s.tokens, cache.keys().count(tokens)),
        }
    }

    /// Makes what the tree keeps of a request findable by its tokens.
    pub(super) fn reveal(&mut self, slot: u32) {
        let s = &mut self.sequences[slot as usize];
        if let Cache::Full(tree) = &mut self.cache
            && s.is_private()
        {
            s.reveal();
            tree.tell_of(s.life.id);
            tree.name_path(s.namespace, &s.tokens, s.lock.node);
        }
    }

    /// Takes memory for a request up to `kv` tokens.
    #[inline]
    pub(super) fn extend(&mut self, slot: u32, kv: u32) {
        let s = &self.sequences[slot as usize];
        let need = self.ceil(s.slots().max(kv)) - self.ceil(s.slots());
        assert!(
            need <= self.available && self.cache.has_free(need),
            "request {} needs {need} tokens of KV memory, {} are free",
            s.life.id,
            self.available
        );
        self.available -= need;
        if let Cache::Window(cache) = &mut self.cache {
            cache.free -= need;
        }
        self.sequences[slot as usize].kv = kv;
    }

    /// Gives the first `tokens` tokens of a request that goes on to the tree. Copies of what the tree
    /// has already are freed.
    #[inline]
    pub(super) fn checkpoint(&mut self, slot: u32, tokens: u32) {
        if !self.has_tree() {
            return;
        }
        match &self.cache {
            Cache::Full(_) => self.checkpoint_full(slot, tokens),
            Cache::Window(_) => self.checkpoint_window(slot, tokens, true),
            Cache::State(_) => self.checkpoint_state(slot, tokens),
        }
    }

    /// The same for one that leaves.
    fn checkpoint_last(&mut self, slot: u32, tokens: u32) {
        if !self.has_tree() {
            return;
        }
        match &self.cache {
            Cache::Full(_) => self.checkpoint_full(slot, tokens),
            Cache::Window(_) => self.checkpoint_window(slot, tokens, false),
            // What the tree keeps of it is decided with its slots.
            Cache::State(_) => {}
        }
    }

    fn checkpoint_full(&mut self, slot: u32, tokens: u32) {
        let (kept, prompt) = {
            let (s, keys) = (&self.sequences[slot as usize], self.cache.keys());
            (self.floor(keys.count(tokens)), self.floor(keys.count(s.life.prompt_tokens)))
        };
        let s = &self.sequences[slot as usize];
        let prompt_apart = 0 < prompt && prompt < kept;
        if s.is_private() && s.protected <= kept && (!prompt_apart || s.protected == prompt) {
            self.checkpoint_private(slot, kept, prompt_apart);
            return;
        }
        self.reveal(slot);
        let Cache::Full(tree) = &mut self.cache else { return };
        let s = &mut self.sequences[slot as usize];
        tree.tell_of(s.life.id);
        let inserted = tree.insert(s.namespace, &s.tokens, kept);
        self.available += inserted.tokens.saturating_sub(s.protected);
        if prompt_apart {
            // The answer can then be evicted without the prompt.
            tree.insert(s.namespace, &s.tokens, prompt);
        }
        tree.unlock(s.lock.node);
        tree.lock(inserted.node);
        s.lock.node = inserted.node;
        s.protected = kept;
    }

    /// The same for tokens that nobody else can look for: no copies of them are in the tree, and
    /// the prompt, where it is kept apart, ends where the protected tokens do.
    fn checkpoint_private(&mut self, slot: u32, kept: u32, prompt_apart: bool) {
        let Cache::Full(tree) = &mut self.cache else { return };
        let s = &mut self.sequences[slot as usize];
        let node = tree.append(s.lock.node, kept - s.protected);
        if prompt_apart {
            tree.touch(s.lock.node);
        }
        tree.unlock(s.lock.node);
        tree.lock(node);
        s.lock.node = node;
        s.protected = kept;
    }

    /// Takes all memory and the row of a request.
    pub(super) fn release(&mut self, slot: u32, keep: Keep) {
        let s = &self.sequences[slot as usize];
        if !s.has_row {
            return;
        }
        let tokens = s.kv.min(s.known());
        if keep == Keep::InTree {
            self.checkpoint_last(slot, tokens);
        }
        self.free_state(slot, tokens, keep);
        let held = self.ceil(self.sequences[slot as usize].slots());
        self.free_window(slot, held);
        let s = &mut self.sequences[slot as usize];
        self.available += held - s.protected;
        self.cache.unlock(std::mem::replace(&mut s.lock, PathLock::NONE));
        s.protected = 0;
        s.kv = 0;
        s.allocated = 0;
        s.has_row = false;
        self.rows_free += 1;
    }

    /// Whether every token of memory is free, cached or held by a request.
    pub(super) fn memory_is_balanced(&self) -> bool {
        let slots = (0..).zip(&self.sequences);
        let held =
            |(slot, s): (u32, &Sequence)| self.ceil(self.kv(slot).max(s.allocated)) - s.protected;
        let held: u32 = slots.map(held).sum();
        let rows = self.sequences.iter().filter(|s| s.has_row).count() as u32;
        let beside = match &self.cache {
            Cache::Full(_) => true,
            Cache::Window(cache) => cache.is_balanced(self.window_held(cache)),
            Cache::State(cache) => cache.is_balanced(),
        };
        self.available + self.cache.evictable() + self.cache.locked() + held == self.pool
            && rows + self.rows_free == self.rows
            && self.cache.is_balanced()
            && beside
    }
}
