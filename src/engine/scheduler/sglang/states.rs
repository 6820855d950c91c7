//! Models with states: layers with state-space models or linear attention keep what they know of a sequence in a
//! slot of a pool (SGLang 0.5.23, `sglang/srt/mem_cache/mamba_radix_cache.py`,
//! `sglang/srt/managers/schedule_batch.py`).
//!
//! A running request has a slot of its own, which each token overwrites. The tree keeps states behind some
//! tokens, from which others go on. With `no_buffer` they are copied where a step ends. With `extra_buffer` a
//! request has further slots, in which steps leave the state behind a token on a grid: the last such token is
//! what it gives to the tree.

use super::Sglang;
use super::cache::{Cache, Uses};
use super::hybrid::{SglangStatePool, StateStrategy};
use super::memory::Keep;
use super::settings::SglangSettings;
use crate::ids::RequestId;
use crate::kv::{HybridTree, PathLock, States};

/// The tree, and the pool of states.
#[derive(Debug, Clone)]
pub(super) struct StateCache {
    pub(super) tree: HybridTree,
    /// States, and slots that hold nothing.
    slots: u32,
    pub(super) free: u32,
    /// Slots of a request beside its own.
    tracking: u32,
    grid: Option<Grid>,
    pub(super) uses: Uses<StateUse>,
    /// Inserts of the tree since the last step was decided, and before it.
    stored: Vec<Stored>,
    told: Vec<Stored>,
}

/// Behind which tokens steps leave a state.
#[derive(Debug, Clone, Copy)]
struct Grid {
    /// Prefills: multiples of this from where they begin.
    prefill: u32,
    /// Decodes: multiples of this.
    decode: u32,
}

/// A request gave tokens to the tree, with the state behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Which request.
    pub request: RequestId,
    /// How many tokens, in whole pages.
    pub tokens: u32,
    /// Whether the tree took the state: it had none behind them.
    pub is_new: bool,
}

/// What a request has of states.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StateUse {
    /// Whether it has a slot of its own, and how many beside.
    has_own: bool,
    tracking: u32,
    /// Tokens behind which it has left a state that is not in the tree, and those before.
    tracked: Option<u32>,
    tracked_before: Option<u32>,
    /// On the grid, how far KV was cached when it was looked up, if that is further than a state was.
    branch: Option<u32>,
}

impl StateUse {
    fn slots(self) -> u32 {
        u32::from(self.has_own) + self.tracking
    }

    fn track(&mut self, tokens: u32) {
        self.tracked_before = self.tracked.replace(tokens);
    }
}

impl StateCache {
    pub(super) fn new(settings: &SglangSettings, pool: SglangStatePool) -> Self {
        let grid = match pool.strategy {
            StateStrategy::ExtraBuffer { chunk, track_interval }
                if !settings.disable_radix_cache =>
            {
                let prefill = chunk.max(settings.page_size);
                Some(Grid { prefill, decode: least_common_multiple(prefill, track_interval) })
            }
            _ => None,
        };
        Self {
            tree: HybridTree::of_states(settings.page_size),
            slots: pool.slots,
            free: pool.slots,
            tracking: pool.tracking(settings),
            grid,
            uses: Uses::default(),
            stored: Vec::new(),
            told: Vec::new(),
        }
    }

    pub(super) fn evictable(&self) -> u32 {
        self.tree.states().map_or(0, States::evictable)
    }

    /// Evicts from the tree until `tokens` tokens of KV are free. Returns how many come free.
    pub(super) fn evict_until(&mut self, available: u32, tokens: u32) -> u32 {
        if available >= tokens {
            return 0;
        }
        let gone = self.tree.evict(tokens - available);
        self.free += gone.states;
        gone.tokens
    }

    /// Evicts states until so many slots are free. Returns the tokens of KV that go with them.
    fn evict_states_until(&mut self, slots: u32) -> u32 {
        if self.free >= slots {
            return 0;
        }
        let gone = self.tree.evict_states(slots - self.free);
        self.free += gone.states;
        gone.tokens
    }

    /// Takes slots that are free.
    fn take(&mut self, slots: u32) {
        assert!(slots <= self.free, "{slots} states are needed, {} are free", self.free);
        self.free -= slots;
    }

    /// Whether every slot is free, cached or held by a request.
    pub(super) fn is_balanced(&self) -> bool {
        let held: u32 = self.uses.iter().map(|(_, used)| used.slots()).sum();
        let locked = self.tree.states().map_or(0, States::locked);
        self.free + self.evictable() + locked + held == self.slots
    }

    /// What was inserted between the decisions of the last step and the one before.
    pub(super) fn told(&self) -> &[Stored] {
        &self.told
    }

    /// A step was decided.
    pub(super) fn tell(&mut self) {
        self.told.clear();
        std::mem::swap(&mut self.told, &mut self.stored);
    }
}

fn least_common_multiple(a: u32, b: u32) -> u32 {
    let (mut left, mut right) = (a, b);
    while right > 0 {
        (left, right) = (right, left % right);
    }
    a / left * b
}

impl Sglang {
    /// A request was looked up: how far others have come on its way, and its own slot if it goes on from a state.
    /// Returns whether it just got that.
    pub(super) fn find_state(&mut self, slot: u32, usable: u32, kv_tokens: u32) -> bool {
        let Cache::State(cache) = &mut self.cache else { return false };
        if let Some(grid) = cache.grid {
            let branch = kv_tokens - kv_tokens % grid.prefill;
            cache.uses[slot].branch = (branch > usable).then_some(branch);
        }
        if usable == 0 || cache.uses[slot].has_own {
            return false;
        }
        self.available += cache.evict_states_until(1);
        cache.take(1);
        cache.uses[slot].has_own = true;
        true
    }

    /// A request that was not admitted gives its slot back.
    pub(super) fn give_state_back(&mut self, slot: u32) {
        if let Cache::State(cache) = &mut self.cache {
            cache.free += 1;
            cache.uses[slot].has_own = false;
        }
    }

    /// Takes the slots of the chosen requests, and says where their steps leave states.
    pub(super) fn take_states(&mut self) {
        let Cache::State(cache) = &mut self.cache else { return };
        let each = 1 + cache.tracking;
        let lacks = |&slot: &u32| each - cache.uses[slot].slots();
        let need = self.chosen.iter().map(lacks).sum();
        self.available += cache.evict_states_until(need);
        cache.take(need);
        for &slot in &self.chosen {
            let s = &self.sequences[slot as usize];
            let used = &mut cache.uses[slot];
            used.has_own = true;
            used.tracking = cache.tracking;
            if let Some(grid) = cache.grid {
                let share = s.extend_end - s.prefix;
                let last = s.prefix + share / grid.prefill * grid.prefill;
                let is_on_way = |branch: &u32| {
                    let is_ahead = s.prefix < *branch && *branch <= last;
                    is_ahead && (*branch - s.prefix).is_multiple_of(grid.prefill)
                };
                if last > s.prefix {
                    used.tracked = Some(used.branch.filter(is_on_way).unwrap_or(last));
                }
            }
        }
    }

    /// A decode step has computed tokens of a request, from `from` to `to`.
    pub(super) fn track_decode(&mut self, slot: u32, from: u32, to: u32) {
        let Cache::State(cache) = &mut self.cache else { return };
        let Some(Grid { decode, .. }) = cache.grid else { return };
        if from / decode < to / decode {
            cache.uses[slot].track(to / decode * decode);
        }
    }

    /// Gives tokens of a request that goes on to the tree, `tokens` of which are computed.
    pub(super) fn checkpoint_state(&mut self, slot: u32, tokens: u32) {
        let Cache::State(cache) = &mut self.cache else { return };
        let tracked = cache.uses[slot].tracked.take();
        cache.uses[slot].tracked_before = None;
        let end = if cache.grid.is_some() { tracked } else { Some(tokens) };
        if let Some(end) = end {
            self.available += cache.evict_states_until(1);
            cache.take(1);
            let is_kept = self.insert_state(slot, end);
            if !is_kept && let Cache::State(cache) = &mut self.cache {
                cache.free += 1;
            }
        }
    }

    /// A request leaves, with its slots; `tokens` of it are computed. One of them may stay in the tree.
    pub(super) fn free_state(&mut self, slot: u32, tokens: u32, keep: Keep) {
        let Cache::State(cache) = &self.cache else { return };
        let (s, used) = (&self.sequences[slot as usize], cache.uses[slot]);
        let fits = |end: &u32| *end <= tokens;
        // Where drafts were accepted past its end, its own state is too.
        let is_past = self.settings.speculative_num_steps > 0 && s.kv > tokens;
        let end = match cache.grid {
            _ if keep == Keep::Nothing || !self.has_tree() => None,
            None => (!is_past).then_some(tokens),
            Some(_) => used
                .tracked
                .filter(fits)
                .or_else(|| used.tracked_before.filter(|end| cache.tracking > 1 && fits(end))),
        };
        let is_kept = end.is_some_and(|end| self.insert_state(slot, end));
        let Cache::State(cache) = &mut self.cache else { return };
        cache.uses[slot] = StateUse::default();
        cache.free += used.slots() - u32::from(is_kept);
    }

    /// Gives the first `tokens` tokens of a request to the tree, and the state behind them; whether it takes that.
    fn insert_state(&mut self, slot: u32, tokens: u32) -> bool {
        let Cache::State(cache) = &mut self.cache else { return false };
        let s = &mut self.sequences[slot as usize];
        let inserted = cache.tree.insert_state(s.namespace, &s.tokens, tokens);
        let kept = tokens - tokens % self.settings.page_size;
        self.available += inserted.prefix.tokens.saturating_sub(s.protected);
        cache.tree.unlock(std::mem::replace(&mut s.lock, PathLock::NONE));
        s.lock = cache.tree.lock(inserted.prefix.node);
        s.protected = kept;
        let is_new = inserted.is_stored;
        if self.records_entries && cache.grid.is_some() {
            cache.stored.push(Stored { request: s.life.id, tokens: kept, is_new });
        }
        is_new
    }
}
