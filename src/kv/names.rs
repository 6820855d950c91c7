//! Names for the content of blocks, chained: equal names mean equal content from the first token of the sequence on
//! (vLLM 0.33.0, `vllm/v1/core/kv_cache_utils.py`, `hash_block_tokens`).
//!
//! Blocks that lie in one run of tokens, one behind the other, have names that are a step apart: the first is named by
//! what is before it and by the run, so that none waits for the name of the one before, and a run of them is known by
//! its first name and its length. All others are named by the name of the one before and their runs.

use crate::ids::AdapterId;
use crate::request::Segment;
use crate::rng::mix;

/// The name of a block's content and of everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockHash(u64);

impl BlockHash {
    /// A name of its own for a number.
    #[inline]
    pub const fn of(name: u64) -> Self {
        Self(mix(name))
    }

    /// The name as a number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// What stands before the first block of a sequence: sequences of other adapters or salts share no name.
    pub fn namespace(salt: u64, adapter: Option<AdapterId>) -> Self {
        Self::of(salt).then(adapter.map_or(0, |adapter| 1 + u64::from(adapter.0)))
    }

    /// The name that is this number.
    #[inline]
    pub(super) const fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// The name of a block of the same run of tokens, so many blocks behind.
    #[inline]
    pub(super) const fn after(self, blocks: u32) -> Self {
        Self(self.0.wrapping_add(STEP.wrapping_mul(blocks as u64)))
    }

    /// The name is turned, so that no value cancels the one that it was made of.
    const fn then(self, value: u64) -> Self {
        Self(mix(self.0.rotate_left(32) ^ mix(value)))
    }

    /// The name of the same content in the blocks of a group of layers.
    pub(super) const fn in_group(self, group: usize) -> Self {
        self.then(group as u64)
    }

    /// The same with a run of tokens behind it.
    const fn absorb(self, run: Segment) -> Self {
        let place = (run.start as u64) << 32 | run.len as u64;
        Self(mix(self.0.rotate_left(32) ^ mix(run.stream).rotate_left(16) ^ mix(place)))
    }
}

/// The tokens of a block, run by run, behind what has a name. Runs that continue one another are joined, so that equal
/// tokens have equal names however the workload cut them into segments.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRuns {
    /// The name with all runs but the last.
    before: BlockHash,
    last: Option<Segment>,
    is_one: bool,
}

impl BlockRuns {
    pub(super) fn behind(before: BlockHash) -> Self {
        Self { before, last: None, is_one: true }
    }

    pub(super) fn add(&mut self, run: Segment) {
        match &mut self.last {
            Some(last) if last.is_continued_by(&run) => last.len += run.len,
            Some(last) => {
                self.before = self.before.absorb(std::mem::replace(last, run));
                self.is_one = false;
            }
            None => self.last = Some(run),
        }
    }

    /// The name with all of them.
    pub(super) fn name(self) -> BlockHash {
        self.last.map_or(self.before, |run| self.before.absorb(run))
    }
}

/// The last block of a sequence that has a name, as blocks behind it are named.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    last: BlockHash,
    /// The blocks at the end that lie in one run.
    run: Option<BlocksOfRun>,
}

/// Blocks of one run of tokens, one behind the other.
#[derive(Debug, Clone, Copy)]
struct BlocksOfRun {
    /// The name of the next one.
    name: BlockHash,
    /// The token behind them.
    stream: u64,
    next: u32,
}

/// From the name of a block to that of the next one in its run of tokens: a step of splitmix64.
pub(super) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names of blocks of one run of tokens, one behind the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRun {
    pub(super) first: BlockHash,
    pub(super) blocks: u32,
}

impl NameRun {
    /// A single name.
    #[inline]
    pub(super) fn of(first: BlockHash) -> Self {
        Self { first, blocks: 1 }
    }

    #[inline]
    pub(super) fn each(self) -> impl DoubleEndedIterator<Item = BlockHash> {
        let Self { first, blocks } = self;
        (0..blocks).map(move |at| first.after(at))
    }

    /// The last name. There is one.
    #[inline]
    pub(super) fn last(self) -> BlockHash {
        self.first.after(self.blocks - 1)
    }

    /// What is left without the first so many, if anything is.
    #[inline]
    pub(super) fn behind(self, blocks: u32) -> Option<Self> {
        let left = self.blocks - blocks;
        (left > 0).then(|| Self { first: self.first.after(blocks), blocks: left })
    }

    /// What is left without the last so many, if anything is.
    #[inline]
    pub(super) fn before(self, blocks: u32) -> Option<Self> {
        let left = self.blocks - blocks;
        (left > 0).then_some(Self { blocks: left, ..self })
    }
}

impl Chain {
    /// Behind a name of which nothing else is known.
    pub(super) fn behind(last: BlockHash) -> Self {
        Self { last, run: None }
    }

    pub(super) fn last(self) -> BlockHash {
        self.last
    }

    /// A block follows, and behind its first token so many later the next one.
    pub(super) fn push(&mut self, block: BlockRuns, step: u32) -> BlockHash {
        match block.last {
            Some(run) if block.is_one => {
                self.push_run(run, step, 1);
            }
            _ => *self = Self::behind(block.name()),
        }
        self.last
    }

    /// Blocks follow that lie in one run of tokens: one of these tokens, and others behind it, each so many tokens later;
    /// one at least. Returns their names.
    #[inline]
    pub(super) fn push_run(&mut self, first: Segment, step: u32, blocks: u32) -> NameRun {
        let goes_on = |run: &BlocksOfRun| (run.stream, run.next) == (first.stream, first.start);
        let before = self.run.filter(goes_on).map(|run| run.name);
        let run = NameRun { first: before.unwrap_or_else(|| self.last.absorb(first)), blocks };
        let next = first.start.wrapping_add(blocks * step);
        self.last = run.last();
        self.run = Some(BlocksOfRun { name: run.first.after(blocks), stream: first.stream, next });
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_run_are_named_alike_one_by_one_and_at_once() {
        let run = |start: u32| Segment { stream: 3, start, len: 4 };
        let begin = Chain::behind(BlockHash::of(1));
        let (mut each, mut all) = (begin, begin);
        let singly: Vec<_> =
            (0..9).flat_map(|block| each.push_run(run(4 * block), 4, 1).each()).collect();
        let at_once: Vec<_> =
            all.push_run(run(0), 4, 5).each().chain(all.push_run(run(20), 4, 4).each()).collect();
        assert_eq!(singly, at_once);
        assert_eq!(all.last(), at_once[8]);
    }

    #[test]
    fn a_run_that_begins_elsewhere_has_other_names() {
        let run = |start: u32| Segment { stream: 3, start, len: 4 };
        let names = |from: u32| {
            Chain::behind(BlockHash::of(1)).push_run(run(from), 4, 8).each().collect::<Vec<_>>()
        };
        let (one, other) = (names(0), names(4));
        assert!(one.iter().all(|name| !other.contains(name)), "what is before them differs");
    }
}
