//! Models with sliding windows: a pool of slots for the layers that read a window, beside that for all tokens
//! (SGLang 0.5.23, `sglang/srt/mem_cache/swa_memory_pool.py`, `sglang/srt/managers/schedule_batch.py`,
//! `maybe_evict_swa`, `prefill_budget.py`).
//!
//! Every token takes a slot in each pool. A request gives those back that its window has passed, now and then;
//! what it gives to the tree has window slots only as far as they are still there. Where the pool is hardly
//! larger than one request, one in chunked prefill can wait for window slots for ever: so it does in the engine.

use super::Sglang;
use super::budget::Verdict;
use super::cache::{Cache, Uses};
use super::hybrid::SglangWindowPool;
use crate::kv::{HybridPrefix, HybridTree, TreeKeys, WindowShare};

/// The tree, and the pool of window slots.
#[derive(Debug, Clone)]
pub(super) struct WindowCache {
    pub(super) tree: HybridTree,
    pub(super) settings: SglangWindowPool,
    /// Tokens of the pool in whole pages, and those that hold nothing.
    pub(super) size: u32,
    pub(super) free: u32,
    pub(super) uses: Uses<WindowUse>,
}

/// What a request has of windows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowUse {
    /// Tokens from the first one whose slots it has given back, as far as they were its own.
    pub(super) dropped: u32,
    /// How far KV was cached when it was looked up, if that is further than what could be used.
    branch: Option<u32>,
    /// Prefills since it has memory, and decode steps since the last of them.
    prefills: u32,
    decodes: u32,
}

/// Window slots spoken for while a prefill batch is put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowBudget {
    window: i64,
    page_size: i64,
    reserved: i64,
}

impl WindowBudget {
    /// Slots that a share of `tokens` takes, of which a step computes `chunk` at most, with `answer` tokens to come:
    /// those in excess of a window while it computes, a window, and a page.
    pub(super) fn need(&self, tokens: i64, answer: i64, chunk: Option<i64>) -> i64 {
        let at_once = chunk.map_or(tokens, |chunk| tokens.min(chunk));
        (at_once - self.window).max(0) + (tokens + answer).min(self.window) + self.page_size
    }

    pub(super) fn charge(&mut self, tokens: i64, answer: i64, chunk: Option<i64>) {
        self.reserved += self.need(tokens, answer, chunk);
    }
}

impl WindowCache {
    pub(super) fn new(page_size: u32, keys: TreeKeys, settings: SglangWindowPool) -> Self {
        let size = settings.tokens - settings.tokens % page_size;
        let tree = HybridTree::of_windows(page_size, keys, settings.window);
        Self { tree, settings, size, free: size, uses: Uses::default() }
    }

    pub(super) fn evictable(&self) -> u32 {
        self.tree.windows().map_or(0, crate::kv::Windows::evictable)
    }

    /// Both pools are short of their own: first that of full attention evicts, whose leaves bring their
    /// window slots, then that of windows.
    pub(super) fn evict_until(&mut self, available: u32, tokens: u32) -> u32 {
        let mut freed = 0;
        if available < tokens {
            let gone = self.tree.evict(tokens - available);
            self.free += gone.window;
            freed += gone.tokens;
        }
        if self.free < tokens {
            let gone = self.tree.evict_window(tokens - self.free);
            self.free += gone.window;
            freed += gone.tokens;
        }
        freed
    }

    /// Whether every window slot is free, cached or held by a request.
    pub(super) fn is_balanced(&self, held: u32) -> bool {
        let locked = self.tree.windows().map_or(0, crate::kv::Windows::locked);
        self.free + self.evictable() + locked + held == self.size
    }
}

impl WindowUse {
    /// A request was looked up.
    pub(super) fn found(&mut self, HybridPrefix { usable, kv_tokens }: HybridPrefix) {
        self.branch = (kv_tokens > usable.tokens).then_some(kv_tokens);
    }

    /// Of so many slots that a request holds, those of windows.
    pub(super) fn held(&self, slots: u32, protected: u32) -> u32 {
        slots - self.dropped.max(protected)
    }

    /// A step computes a part of its prompt.
    pub(super) fn prefill(&mut self) {
        self.prefills += 1;
        self.decodes = 0;
    }
}

impl Sglang {
    /// The budget of window slots as a batch begins.
    pub(super) fn new_window_budget(&self) -> Option<WindowBudget> {
        let cache = self.window_cache()?;
        let (window, page_size) = (cache.settings.window.into(), self.settings.page_size.into());
        Some(WindowBudget { window, page_size, reserved: 0 })
    }

    fn window_cache(&self) -> Option<&WindowCache> {
        match &self.cache {
            Cache::Window(cache) => Some(cache),
            Cache::Full(_) | Cache::State(_) => None,
        }
    }

    /// Window slots that are free or can be, and not spoken for; nothing where there are no windows.
    pub(super) fn window_left(&self, budget: &WindowBudget) -> i64 {
        let reclaimable = self.window_cache().map_or(0, |cache| cache.free + cache.evictable());
        i64::from(reclaimable) - budget.reserved
    }

    /// The most tokens of a candidate that a step may compute, if its window slots are there. What would never
    /// fit comes in smaller chunks.
    pub(super) fn window_chunk(
        &self,
        budget: &WindowBudget,
        tokens: u32,
        answer: u32,
        chunk: Option<i64>,
    ) -> Result<Option<i64>, Verdict> {
        let need = budget.need(tokens.into(), answer.into(), chunk);
        let left = self.window_left(budget);
        if need < left {
            return Ok(chunk);
        }
        let size = self.window_cache().map_or(0, |cache| cache.size);
        if need < i64::from(size) {
            return Err(Verdict::NoMemory);
        }
        let spare = left - budget.need(0, answer.into(), None);
        let pages = spare.max(0) / budget.page_size * budget.page_size;
        let smaller = chunk.map_or(pages, |chunk| chunk.min(pages));
        if smaller > 0 { Ok(Some(smaller)) } else { Err(Verdict::NoMemory) }
    }

    /// Gives window slots back that `reached` tokens need no more.
    fn slide(&mut self, slot: u32, reached: u32) {
        let (has_tree, page) = (self.has_tree(), self.settings.page_size);
        let Cache::Window(cache) = &mut self.cache else { return };
        let window = cache.settings.window;
        let dropped = &mut cache.uses[slot].dropped;
        if reached < window + *dropped + 1 {
            return;
        }
        let before = self.sequences[slot as usize].protected.max(*dropped);
        let kept = if has_tree { window.max(page).next_multiple_of(page) } else { window };
        let end = reached.saturating_sub(kept);
        *dropped = before.max(end - end % page);
        cache.free += *dropped - before;
    }

    /// Before a decode step takes its slots: each request gives back what its window has passed, if that
    /// is worth it. The step after a prefill would take slots from one that still runs.
    pub(super) fn slide_decodes(&mut self) {
        for index in 0..self.running.len() {
            let Cache::Window(cache) = &mut self.cache else { return };
            let SglangWindowPool { window, eviction_interval, .. } = cache.settings;
            let slot = self.running[index];
            let used = &mut cache.uses[slot];
            let is_first = used.decodes == 0;
            used.decodes += 1;
            let reached = self.sequences[slot as usize].known() - 1;
            if !is_first && reached >= window + used.dropped + eviction_interval {
                self.slide(slot, reached);
            }
        }
    }

    /// The same before a prefill batch takes its slots, without a tree, whose checkpoints do it else.
    /// With the overlap schedule the chunk before still runs.
    pub(super) fn slide_prefills(&mut self) {
        if self.has_tree() {
            return;
        }
        for index in 0..self.chosen.len() {
            let Some(cache) = self.window_cache() else { return };
            let slot = self.chosen[index];
            let (s, used) = (&self.sequences[slot as usize], cache.uses[slot]);
            if self.settings.disable_overlap_schedule {
                self.slide(slot, s.prefix);
            } else if used.prefills >= 2 {
                let chunk = self.settings.chunked_prefill_size.unwrap_or(0);
                self.slide(slot, s.prefix.saturating_sub(chunk));
            }
        }
    }

    /// Gives the first `tokens` tokens of a request to the tree, where it has windows. If KV was cached
    /// further than it could be used, what is shared with others comes first: the request's window slots
    /// make it usable.
    pub(super) fn checkpoint_window(&mut self, slot: u32, tokens: u32, goes_on: bool) {
        let keys = self.cache.keys().count(tokens);
        let Cache::Window(cache) = &mut self.cache else { return };
        let protected = self.sequences[slot as usize].protected;
        let is_ahead = |end: &mut u32| protected < *end && *end <= keys;
        let branch = cache.uses[slot].branch.take_if(is_ahead);
        let end = branch.unwrap_or(keys);
        if goes_on {
            self.slide(slot, end.saturating_sub(1));
        }
        let Cache::Window(cache) = &mut self.cache else { return };
        let s = &mut self.sequences[slot as usize];
        let share = WindowShare { protected, dropped: cache.uses[slot].dropped };
        let inserted = cache.tree.insert_window(s.namespace, &s.tokens, end, share);
        cache.free += inserted.window_freed;
        self.available += inserted.tokens_freed;
        cache.tree.unlock(s.lock);
        s.lock = cache.tree.lock(inserted.node);
        s.protected = end - end % self.settings.page_size;
        if goes_on && branch.is_some() {
            self.slide(slot, keys.saturating_sub(1));
        }
    }

    /// A request has left: so are its window slots.
    pub(super) fn free_window(&mut self, slot: u32, slots: u32) {
        let Cache::Window(cache) = &mut self.cache else { return };
        let used = std::mem::take(&mut cache.uses[slot]);
        cache.free += used.held(slots, self.sequences[slot as usize].protected);
    }

    /// Window slots of all requests.
    pub(super) fn window_held(&self, cache: &WindowCache) -> u32 {
        let held = |(slot, used): (u32, &WindowUse)| {
            let s = &self.sequences[slot as usize];
            if s.has_row { used.held(self.ceil(s.slots()), s.protected) } else { 0 }
        };
        cache.uses.iter().map(held).sum()
    }
}
