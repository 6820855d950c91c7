//! Both pools: examples by hand, and random histories side by side.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ids::RequestId;
use crate::kv::events::Listener;
use crate::kv::{CacheEvent, ChainHasher, KvPool, Lookahead, NumberedPool, Order};
use crate::request::{Content, Segment};
use crate::rng::mix;

const BLOCK_SIZE: u32 = 4;

fn pools(blocks: u32) -> [KvPool; 2] {
    [KvPool::Counted(BlockPool::new(blocks)), KvPool::Numbered(NumberedPool::new(blocks))]
}

fn table(request: u32, runs: &[(u64, u32)], ahead: Lookahead) -> BlockTable {
    let mut segments: Vec<Segment> = Vec::new();
    for &(stream, len) in runs {
        let before = segments.iter().filter(|s| s.stream == stream).map(|s| s.len).sum();
        segments.push(Segment { stream, start: before, len });
    }
    let prompt = runs.iter().map(|run| run.1).sum();
    let content = Content { salt: 0, segments: Some(Arc::from(segments)) };
    let id = RequestId(request);
    let hasher = ChainHasher::new(id, &content, prompt, None, BLOCK_SIZE, ahead);
    BlockTable::new(hasher, false)
}

/// Takes and caches all blocks of a sequence of one stream.
fn cached(pool: &mut KvPool, request: u32, stream: u64, blocks: u32) -> BlockTable {
    let mut table = table(request, &[(stream, blocks * BLOCK_SIZE)], Lookahead::None);
    pool.take(&mut table, blocks);
    pool.cache(&mut table, blocks * BLOCK_SIZE, blocks);
    table
}

/// How many blocks of a stream are found, and how many of them nobody holds.
fn found(pool: &KvPool, stream: u64) -> (u32, u32) {
    let mut hits = Hits::default();
    let mut table = table(999, &[(stream, 1000)], Lookahead::None);
    pool.find(&mut table, 1000, 250, &mut hits);
    (hits.blocks, hits.free)
}

#[test]
fn the_null_block_is_never_taken() {
    for mut pool in pools(4) {
        assert_eq!((pool.free(), pool.usable()), (3, 3));
        let mut held = table(0, &[(1, 16)], Lookahead::None);
        pool.take(&mut held, 3);
        assert_eq!(pool.free(), 0);
        if pool.is_numbered() {
            assert_eq!(held.numbers(), [1, 2, 3]);
        }
        assert!(pool.is_balanced());
    }
}

#[test]
fn unnamed_blocks_return_to_the_front_and_named_ones_to_the_back() {
    let [_, mut pool] = pools(7);
    let mut held = table(0, &[(1, 16)], Lookahead::None);
    pool.take(&mut held, 4);
    pool.cache(&mut held, 16, 2);
    pool.release(&mut held);
    // unnamed 4, 3 to the front (tail-most first), then the untouched 5, 6, then named 2, 1
    pool.take(&mut held, 6);
    assert_eq!(held.numbers(), [4, 3, 5, 6, 2, 1]);
}

#[test]
fn the_end_of_a_sequence_is_forgotten_first() {
    for mut pool in pools(9) {
        let mut held = cached(&mut pool, 0, 1, 5);
        pool.release(&mut held);
        assert_eq!(found(&pool, 1), (5, 5));
        let mut other = table(1, &[(2, 40)], Lookahead::None);
        pool.take(&mut other, 3);
        assert_eq!(found(&pool, 1), (5, 5));
        pool.take(&mut other, 2);
        assert_eq!(found(&pool, 1), (3, 3));
    }
}

#[test]
fn a_hit_on_a_part_saves_that_part_from_eviction() {
    for mut pool in pools(6) {
        let mut held = cached(&mut pool, 0, 1, 5);
        pool.release(&mut held);
        let mut part = table(1, &[(1, 8), (2, 12)], Lookahead::None);
        let mut hits = Hits::default();
        pool.find(&mut part, 20, 4, &mut hits);
        assert_eq!((hits.blocks, hits.free), (2, 2));
        pool.hold(&mut part, &hits);
        assert_eq!(found(&pool, 1), (5, 3));
        pool.take(&mut part, 3);
        assert_eq!(found(&pool, 1), (2, 0));
        pool.release(&mut part);
        assert!(pool.is_balanced());
    }
}

#[test]
fn of_equal_blocks_those_cached_first_are_found() {
    for mut pool in pools(9) {
        let mut first = cached(&mut pool, 0, 1, 2);
        let mut second = cached(&mut pool, 1, 1, 4);
        pool.release(&mut second);
        // the first two in the first copy, which is held; the others in the only one
        assert_eq!(found(&pool, 1), (4, 2));
        pool.release(&mut first);
        assert_eq!(found(&pool, 1), (4, 4));
    }
}

#[test]
fn a_block_held_twice_stays_until_both_let_go() {
    for mut pool in pools(3) {
        let mut first = cached(&mut pool, 0, 1, 2);
        let mut second = table(1, &[(1, 8)], Lookahead::None);
        let mut hits = Hits::default();
        pool.find(&mut second, 8, 1, &mut hits);
        pool.hold(&mut second, &hits);
        pool.release(&mut first);
        assert_eq!(pool.free(), 1);
        pool.release(&mut second);
        assert_eq!(pool.free(), 2);
        assert!(pool.is_balanced());
    }
}

#[test]
fn what_is_forgotten_is_what_nobody_holds() {
    for mut pool in pools(9) {
        let mut gone = cached(&mut pool, 0, 1, 3);
        let mut held = cached(&mut pool, 1, 2, 3);
        pool.release(&mut gone);
        pool.forget_cached();
        assert_eq!((found(&pool, 1), found(&pool, 2)), ((0, 0), (3, 0)));
        assert_eq!(pool.free(), 5);
        pool.release(&mut held);
        assert_eq!((found(&pool, 2), pool.free()), ((3, 3), 8));
        assert!(pool.is_balanced());
    }
}

/// Requests that share beginnings, on one pool of each kind.
struct Pair {
    pools: [KvPool; 2],
    lives: Vec<Life>,
    ahead: Lookahead,
}

struct Life {
    tables: [BlockTable; 2],
    request: u32,
    runs: Vec<(u64, u32)>,
    computed: u32,
    known: u32,
}

/// Draws numbers below a limit.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = mix(self.0);
        (self.0 >> 33) as u32 % limit
    }
}

impl Pair {
    fn new(blocks: u32, ahead: Lookahead) -> Self {
        Self { pools: pools(blocks), lives: Vec::new(), ahead }
    }

    /// A prompt that forks from others at some depth, cut into runs somewhere.
    fn prompt(&self, draw: &mut Draw) -> Vec<(u64, u32)> {
        let mut runs: Vec<(u64, u32)> = Vec::new();
        for depth in 0..=draw.below(4) {
            let stream = 10 * u64::from(depth) + u64::from(draw.below(2));
            let len = [1 + draw.below(30), 8, 12][draw.below(3) as usize];
            let cut = draw.below(len);
            runs.extend([(stream, cut), (stream, len - cut)]);
        }
        if let (1, Some(life)) = (draw.below(4), self.lives.first()) {
            // A later turn: the prompt of another one, what it answered, and more.
            let answer = Segment::answer_stream(RequestId(life.request));
            runs.clone_from(&life.runs);
            runs.extend([(answer, 1 + draw.below(12)), (77, 1 + draw.below(9))]);
        }
        runs.retain(|run| run.1 > 0);
        runs
    }

    fn find(&self, tables: &mut [BlockTable; 2], known: u32, place: &str) -> [Hits; 2] {
        let mut hits = [Hits::default(), Hits::default()];
        for ((pool, table), hits) in self.pools.iter().zip(tables).zip(&mut hits) {
            pool.find(table, known, (known - 1) / BLOCK_SIZE, hits);
        }
        assert_eq!(hits[0].blocks, hits[1].blocks, "{place}: blocks found");
        assert_eq!(hits[0].free, hits[1].free, "{place}: of them free");
        hits
    }

    fn admit(
        &mut self,
        request: u32,
        runs: Vec<(u64, u32)>,
        private: bool,
        known: u32,
        place: &str,
    ) {
        let mut tables = [0, 1].map(|_| {
            let mut table = table(request, &runs, self.ahead);
            table.is_private = private;
            table
        });
        let hits = self.find(&mut tables, known, place);
        if known.div_ceil(BLOCK_SIZE) - hits[0].blocks + hits[0].free > self.pools[0].free() {
            return;
        }
        for index in 0..2 {
            if hits[index].blocks > 0 {
                self.pools[index].hold(&mut tables[index], &hits[index]);
            }
        }
        let computed = hits[0].blocks * BLOCK_SIZE;
        self.lives.push(Life { tables, request, runs, computed, known });
    }

    /// Computes some tokens of a request, as far as there is memory.
    fn compute(&mut self, at: usize, tokens: u32, delay: u32) {
        let life = &mut self.lives[at];
        let to = life.computed + tokens;
        let lacking = to.div_ceil(BLOCK_SIZE).saturating_sub(life.tables[0].len());
        if lacking > self.pools[0].free() {
            return;
        }
        life.computed = to;
        life.known = life.known.max(to);
        let full = to.saturating_sub(delay) / BLOCK_SIZE;
        for (pool, table) in self.pools.iter_mut().zip(&mut life.tables) {
            pool.take(table, lacking);
            pool.cache(table, life.known, full);
        }
    }

    fn release(&mut self, at: usize, reveals: bool) -> Life {
        let mut life = self.lives.swap_remove(at);
        for (pool, table) in self.pools.iter_mut().zip(&mut life.tables) {
            if reveals {
                pool.reveal(table, life.known);
            }
            pool.release(table);
        }
        life
    }

    fn step(&mut self, step: u32, draw: &mut Draw, place: &str) {
        if draw.below(40) == 0 {
            self.pools.iter_mut().for_each(KvPool::forget_cached);
        }
        let at = (!self.lives.is_empty()).then(|| draw.below(self.lives.len() as u32) as usize);
        match (draw.below(8), at) {
            (0..3, _) | (_, None) => {
                let runs = self.prompt(draw);
                let known = runs.iter().map(|run| run.1).sum();
                self.admit(step, runs, draw.below(6) == 0, known, place);
            }
            (3..6, Some(at)) => {
                let tokens = 1 + draw.below(25);
                self.compute(at, tokens, draw.below(3) * draw.below(6));
            }
            (6, Some(at)) => drop(self.release(at, false)),
            (_, Some(at)) => {
                let life = self.release(at, true);
                self.admit(life.request, life.runs, false, life.known, place);
            }
        }
        let mut probe = [0, 1].map(|_| table(step, &self.prompt(&mut Draw(draw.0)), self.ahead));
        let known = self.prompt(&mut Draw(draw.0)).iter().map(|run| run.1).sum();
        self.find(&mut probe, known, place);
        assert_eq!(self.pools[0].free(), self.pools[1].free(), "{place}: free blocks");
        assert!(self.pools.iter().all(KvPool::is_balanced), "{place}: balance");
    }
}

/// The names of the blocks of a prompt.
fn names(runs: &[(u64, u32)], ahead: Lookahead) -> Vec<BlockHash> {
    let mut of = table(9999, runs, ahead);
    of.hasher.extend(runs.iter().map(|run| run.1).sum(), &mut of.names);
    of.names
}

#[test]
fn who_hears_of_blocks_knows_what_is_found() {
    let mut pool = KvPool::Counted(BlockPool::new(9));
    assert!(pool.tell_events(BLOCK_SIZE));
    let mut listener = Listener::default();
    let mut held = cached(&mut pool, 0, 1, 5);
    listener.hear(pool.take_events());
    let sequence = names(&[(1, 5 * BLOCK_SIZE)], Lookahead::None);
    assert_eq!((listener.believes(&sequence), listener.heard), (5, 5));
    pool.release(&mut held);
    assert_eq!(pool.take_events(), [], "what is given back is found as before");
    // Three blocks are free; two more are taken from the end of the sequence.
    let mut other = table(1, &[(2, 20)], Lookahead::None);
    pool.take(&mut other, 5);
    let names = sequence[3..].iter().map(|name| name.number()).collect();
    assert_eq!(pool.take_events(), [CacheEvent::Removed { names, order: Order::Backward }]);
    pool.release(&mut other);
    pool.forget_cached();
    assert_eq!(pool.take_events(), [CacheEvent::Cleared]);
}

proptest! {
    #[test]
    fn what_is_foretold_is_told_as_if_it_had_happened(seed: u64, blocks in 8_u32..60) {
        let mut pair = Pair::new(blocks, Lookahead::None);
        assert!(pair.pools[0].tell_events(BLOCK_SIZE));
        let mut draw = Draw(seed);
        for step in 0..100 {
            pair.step(step, &mut draw, &format!("step {step}"));
            pair.pools[0].take_events();
            // The same blocks are taken at once, and told of in three parts before they are.
            let parts = [(); 3].map(|()| draw.below(4));
            let count: u32 = parts.iter().sum();
            if count > pair.pools[0].free() {
                continue;
            }
            let (mut taken, mut foretold) = (pair.pools[0].clone(), pair.pools[0].clone());
            let removed = |events: Vec<CacheEvent>| {
                let names = events.into_iter().flat_map(|event| match event {
                    CacheEvent::Removed { names, .. } => names.all().iter().rev().collect::<Vec<_>>(),
                    other => panic!("{other:?} is no removal"),
                });
                names.collect::<Vec<_>>()
            };
            taken.take_plain(count);
            for part in parts {
                foretold.foretell(part);
            }
            let early = removed(foretold.take_events());
            let left = taken.takes_without_loss();
            prop_assert_eq!(foretold.takes_without_loss(), left, "step {}", step);
            prop_assert_eq!(&early, &removed(taken.take_events()), "step {}", step);
            let more = (foretold.free() - count).min(2);
            foretold.take_plain(count + more);
            taken.take_plain(more);
            prop_assert_eq!(removed(foretold.take_events()), removed(taken.take_events()));
            pair.pools[0].take_events();
        }
    }
}

proptest! {
    #[test]
    fn who_hears_of_blocks_believes_in_none_that_is_not_found(seed: u64, blocks in 4_u32..60) {
        let mut pair = Pair::new(blocks, Lookahead::None);
        assert!(pair.pools[0].tell_events(BLOCK_SIZE));
        let mut listener = Listener::default();
        let mut draw = Draw(seed);
        for step in 0..300 {
            pair.step(step, &mut draw, &format!("step {step}"));
            listener.hear(pair.pools[0].take_events());
            let runs = pair.prompt(&mut Draw(mix(draw.0)));
            let mut hits = Hits::default();
            pair.pools[0].find(&mut table(9999, &runs, Lookahead::None), 10_000, 1000, &mut hits);
            let believed = listener.believes(&names(&runs, Lookahead::None));
            prop_assert!(believed <= hits.blocks, "step {step}: {believed} of {}", hits.blocks);
        }
    }


    #[test]
    fn extents_decide_as_single_blocks(seed: u64, blocks in 4_u32..60, looks_ahead: bool) {
        let ahead = if looks_ahead { Lookahead::OneToken } else { Lookahead::None };
        let mut pair = Pair::new(blocks, ahead);
        let mut draw = Draw(seed);
        for step in 0..300 {
            pair.step(step, &mut draw, &format!("step {step}"));
        }
    }
}
