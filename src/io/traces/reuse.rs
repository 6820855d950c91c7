//! What a prefix cache could save on a trace: the longest prefix of each request's blocks that
//! earlier requests had, in a cache without bound and in least-recently-used caches of several
//! sizes. A cache holds a request's blocks as soon as the request has come.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::reader::RawRow;

/// The sizes of the caches, in blocks.
const CAPACITIES: [usize; 6] = [1_000, 5_000, 10_000, 20_000, 50_000, 100_000];

/// How much of a trace's prompts earlier prompts begin with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrefixReuse {
    /// Blocks of all prompts.
    pub blocks: u64,
    /// Different blocks.
    pub distinct_blocks: u64,
    /// The share of different blocks that one request alone has.
    pub used_once_share: f64,
    /// The share of requests whose first block an earlier one had.
    pub hit_requests_share: f64,
    /// The share of blocks found in a cache without bound.
    pub hit_blocks_share: f64,
    /// The share of prompt tokens found in a cache without bound.
    pub hit_tokens_share: f64,
    /// The share of blocks found in a least-recently-used cache, by its size.
    pub lru: Vec<CapacityHits>,
}

/// What a cache of one size finds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CapacityHits {
    /// The size in blocks.
    pub capacity_blocks: u64,
    /// The share of blocks found.
    pub hit_blocks_share: f64,
}

/// Counts reuse row by row. Memory grows with the different blocks.
#[derive(Debug)]
pub(super) struct ReuseCounter {
    seen: FxHashMap<u64, u32>,
    used_once: u64,
    requests: u64,
    hit_requests: u64,
    blocks: u64,
    hit_blocks: u64,
    tokens: u64,
    hit_tokens: u64,
    caches: Vec<(LruCache, u64)>,
}

impl ReuseCounter {
    pub(super) fn new() -> Self {
        Self {
            seen: FxHashMap::default(),
            used_once: 0,
            requests: 0,
            hit_requests: 0,
            blocks: 0,
            hit_blocks: 0,
            tokens: 0,
            hit_tokens: 0,
            caches: CAPACITIES.iter().map(|blocks| (LruCache::new(*blocks), 0)).collect(),
        }
    }

    /// Counts one request.
    pub(super) fn add(&mut self, row: &RawRow) {
        let ids = &row.hash_ids;
        let hit = ids.iter().take_while(|id| self.seen.contains_key(id)).count() as u64;
        self.requests += 1;
        self.hit_requests += u64::from(hit > 0);
        self.blocks += ids.len() as u64;
        self.hit_blocks += hit;
        self.tokens += u64::from(row.prompt_tokens);
        self.hit_tokens += (hit * u64::from(row.block_tokens)).min(u64::from(row.prompt_tokens));
        for id in ids {
            let uses = self.seen.entry(*id).or_default();
            *uses = uses.saturating_add(1);
            match *uses {
                1 => self.used_once += 1,
                2 => self.used_once -= 1,
                _ => {}
            }
        }
        for (cache, found) in &mut self.caches {
            *found += ids.iter().take_while(|id| cache.contains(**id)).count() as u64;
            for id in ids {
                cache.touch(*id);
            }
        }
    }

    /// The summary; `None` when no request had hash ids.
    pub(super) fn finish(self) -> Option<PrefixReuse> {
        let share = |part: u64, whole: u64| part as f64 / whole as f64;
        (self.blocks > 0).then(|| PrefixReuse {
            blocks: self.blocks,
            distinct_blocks: self.seen.len() as u64,
            used_once_share: share(self.used_once, self.seen.len() as u64),
            hit_requests_share: share(self.hit_requests, self.requests),
            hit_blocks_share: share(self.hit_blocks, self.blocks),
            hit_tokens_share: share(self.hit_tokens, self.tokens),
            lru: self
                .caches
                .iter()
                .map(|(cache, found)| CapacityHits {
                    capacity_blocks: cache.capacity as u64,
                    hit_blocks_share: share(*found, self.blocks),
                })
                .collect(),
        })
    }
}

/// Blocks in order of their last use: a list threaded through slots, the map finding a slot.
#[derive(Debug)]
struct LruCache {
    capacity: usize,
    slots: FxHashMap<u64, usize>,
    /// Slot 0 is the list's head: its `next` is the newest, its `before` the oldest.
    list: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u64,
    before: usize,
    next: usize,
}

impl LruCache {
    fn new(capacity: usize) -> Self {
        let head = Slot { id: 0, before: 0, next: 0 };
        Self { capacity, slots: FxHashMap::default(), list: vec![head] }
    }

    fn contains(&self, id: u64) -> bool {
        self.slots.contains_key(&id)
    }

    /// Makes a block the newest; the oldest goes when there is no room for it.
    fn touch(&mut self, id: u64) {
        let slot = if let Some(&slot) = self.slots.get(&id) {
            self.unlink(slot);
            slot
        } else if self.slots.len() < self.capacity {
            self.list.push(Slot { id, before: 0, next: 0 });
            self.list.len() - 1
        } else {
            let oldest = self.list[0].before;
            self.unlink(oldest);
            self.slots.remove(&self.list[oldest].id);
            oldest
        };
        let newest = self.list[0].next;
        self.list[slot] = Slot { id, before: 0, next: newest };
        self.list[newest].before = slot;
        self.list[0].next = slot;
        self.slots.insert(id, slot);
    }

    fn unlink(&mut self, slot: usize) {
        let Slot { before, next, .. } = self.list[slot];
        self.list[before].next = next;
        self.list[next].before = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_used_longest_ago_makes_room() {
        let mut cache = LruCache::new(2);
        for id in [7, 8, 7, 9] {
            cache.touch(id);
        }
        // 8 is the oldest when 9 comes, for 7 was used again
        assert_eq!([7, 8, 9].map(|id| cache.contains(id)), [true, false, true]);
        cache.touch(8);
        assert_eq!([7, 8, 9].map(|id| cache.contains(id)), [false, true, true]);
    }

    #[test]
    fn a_large_cache_finds_what_an_unbounded_one_finds() {
        let mut counter = ReuseCounter::new();
        let mut add = |hash_ids: &[u64], prompt_tokens| {
            let hash_ids = hash_ids.to_vec();
            counter.add(&RawRow { hash_ids, prompt_tokens, block_tokens: 10, ..RawRow::default() });
        };
        add(&[1, 2, 3], 25);
        add(&[1, 2, 4], 30);
        add(&[5, 2], 20);
        add(&[1, 2, 3], 25);
        let reuse = counter.finish().unwrap();
        // of 3 + 3 + 2 + 3 blocks: none, two, none (block 5 is new), three
        assert!((reuse.hit_blocks_share - 5.0 / 11.0).abs() < 1e-12);
        // of 100 tokens: 20, and 25 of the last request's three blocks
        assert!((reuse.hit_tokens_share - 0.45).abs() < 1e-12);
        // 4 and 5 of five different blocks
        assert!((reuse.used_once_share - 0.4).abs() < 1e-12);
        assert!((reuse.hit_requests_share - 0.5).abs() < 1e-12);
        for at in &reuse.lru {
            assert!((at.hit_blocks_share - reuse.hit_blocks_share).abs() < 1e-12);
        }
    }
}
