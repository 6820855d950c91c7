//! Names for the content of full blocks, chained: equal names mean equal content from the first
//! token of the sequence on (vLLM 0.33.0, `vllm/v1/core/kv_cache_utils.py`,
//! `hash_block_tokens`).
//!
//! Tokens are known by stream and position ([`Segment`]), so a block is hashed by its runs, in
//! O(runs) whatever the block size. Names are 64 bits: among a million blocks an accidental match
//! has a chance of 5·10⁻¹⁴ per lookup.

use super::token_runs::{Cursor, TokenRuns};
use crate::ids::{AdapterId, RequestId};
use crate::request::{Content, Segment};
use crate::rng::mix;

/// The name of a block's content and of everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockHash(u64);

impl BlockHash {
    /// A name of its own for a number.
    pub const fn of(name: u64) -> Self {
        Self(mix(name))
    }

    /// The name as a number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// What stands before the first block of a sequence: sequences of other adapters or salts share no name.
    pub fn namespace(salt: u64, adapter: Option<AdapterId>) -> Self {
        Self::of(salt).then(adapter.map_or(0, |adapter| 1 + u64::from(adapter.0)))
    }

    /// The name that is this number.
    pub(super) const fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// The name is turned, so that no value cancels the one that it was made of.
    const fn then(self, value: u64) -> Self {
        Self(mix(self.0.rotate_left(32) ^ mix(value)))
    }

    /// The same with tokens of a stream, which is mixed already, at a place. Stream and place are
    /// mixed without the name before; only the last mix waits for that.
    const fn then_run(self, stream: u64, place: u64) -> Self {
        Self(mix(self.0.rotate_left(32) ^ stream.rotate_left(16) ^ mix(place)))
    }

    /// The name of the same content in the blocks of a group of layers.
    pub(super) const fn in_group(self, group: usize) -> Self {
        self.then(group as u64)
    }

    pub(super) fn absorb(self, run: Segment) -> Self {
        self.then_run(mix(run.stream), place(run.start, run.len))
    }
}

/// Tokens of a stream: the first one, and how many there are.
fn place(start: u32, len: u32) -> u64 {
    u64::from(start) << 32 | u64::from(len)
}

/// Whether a block's name also covers the first token of the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookahead {
    /// A block is named by its own tokens.
    None,
    /// Draft heads of the EAGLE type read one token ahead: a block is named once that exists.
    OneToken,
}

/// Names the blocks of one sequence, prompt first, then answer.
#[derive(Debug, Clone)]
pub struct ChainHasher {
    pub(super) tokens: TokenRuns,
    pub(super) block_size: u32,
    lookahead: Lookahead,
    /// What sets sequences of other adapters or salts apart.
    pub(super) namespace: BlockHash,
    /// The name of the last block named, and the first token behind it.
    parent: BlockHash,
    next: Cursor,
    named: u32,
}

impl ChainHasher {
    /// The hasher of a sequence that starts with a prompt of `prompt_tokens`. Sequences of other
    /// adapters or salts share no name with it.
    pub fn new(
        request: RequestId,
        content: &Content,
        prompt_tokens: u32,
        adapter: Option<AdapterId>,
        block_size: u32,
        lookahead: Lookahead,
    ) -> Self {
        let namespace = BlockHash::namespace(content.salt, adapter);
        let tokens = TokenRuns::new(request, content, prompt_tokens);
        Self {
            next: tokens.start(),
            tokens,
            block_size,
            lookahead,
            namespace,
            parent: namespace,
            named: 0,
        }
    }

    /// The same by what a sequence is made of, without tokens ahead.
    pub(super) fn over(tokens: TokenRuns, namespace: BlockHash, block_size: u32) -> Self {
        let (next, lookahead) = (tokens.start(), Lookahead::None);
        Self { tokens, block_size, lookahead, namespace, parent: namespace, next, named: 0 }
    }

    /// The same, as the block of this name is the last before a token, and so many tokens stand before that.
    pub(super) fn behind(self, parent: BlockHash, next: Cursor, tokens: u32) -> Self {
        Self { parent, next, named: tokens / self.block_size, ..self }
    }

    /// The name of the block before a token, if that is the last one named.
    pub(super) fn parent_of(&self, at: Cursor) -> Option<BlockHash> {
        let is_next = || self.tokens.position(at) == self.named * self.block_size;
        (self.named > 0 && is_next()).then_some(self.parent)
    }

    /// The runs of the prompt, where it shares with others.
    pub fn segments(&self) -> Option<&[Segment]> {
        self.tokens.segments.as_deref()
    }

    /// The number of blocks that can be named once `tokens` tokens of the sequence are known.
    pub fn nameable(&self, tokens: u32) -> u32 {
        tokens.saturating_sub(self.ahead()) / self.block_size
    }

    /// Tokens of the next block that a block's name covers.
    pub(super) fn ahead(&self) -> u32 {
        u32::from(self.lookahead == Lookahead::OneToken)
    }

    /// Appends the names of all blocks nameable with `tokens` known tokens to `names`, which holds
    /// the names of the blocks before.
    pub fn extend(&mut self, tokens: u32, names: &mut Vec<BlockHash>) {
        debug_assert_eq!(names.len(), self.named as usize, "names are appended in order");
        let nameable = self.nameable(tokens);
        names.reserve(nameable.saturating_sub(self.named) as usize);
        while self.named < nameable {
            let run = self.tokens.piece(self.next, u32::MAX);
            let whole = run.len.saturating_sub(self.ahead()) / self.block_size;
            if whole == 0 {
                self.parent = self.name(self.parent, self.next);
                self.next = self.tokens.skip(self.next, self.block_size);
                self.named += 1;
                names.push(self.parent);
                continue;
            }
            // All of one segment.
            let whole = whole.min(nameable - self.named);
            let len = self.block_size + self.ahead();
            let (stream, mut parent) = (mix(run.stream), self.parent);
            let (mut at, block) = (place(run.start, len), place(self.block_size, 0));
            names.extend((0..whole).map(|_| {
                parent = parent.then_run(stream, at);
                at = at.wrapping_add(block);
                parent
            }));
            self.parent = parent;
            self.next = self.tokens.skip(self.next, whole * self.block_size);
            self.named += whole;
        }
    }

    /// The name of the block that begins at a place, behind one of the name `parent`.
    pub(super) fn name(&self, parent: BlockHash, mut at: Cursor) -> BlockHash {
        let mut name = parent;
        let mut left = self.block_size + self.ahead();
        let mut run = Segment { len: 0, ..self.tokens.piece(at, left) };
        while left > 0 {
            let piece = self.tokens.piece(at, left);
            // Runs that continue one another are joined, so that equal tokens have equal names
            // however the workload cut them into segments.
            if run.is_continued_by(&piece) {
                run.len += piece.len;
            } else {
                name = name.absorb(std::mem::replace(&mut run, piece));
            }
            left -= piece.len;
            at = self.tokens.skip(at, piece.len);
        }
        name.absorb(run)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn names(segments: &[(u64, u32, u32)], tokens: u32, lookahead: Lookahead) -> Vec<BlockHash> {
        let segments: Arc<[Segment]> =
            segments.iter().map(|&(stream, start, len)| Segment { stream, start, len }).collect();
        let prompt = segments.iter().map(|s| s.len).sum();
        let content = Content { salt: 0, segments: Some(segments) };
        let mut hasher = ChainHasher::new(RequestId(0), &content, prompt, None, 16, lookahead);
        let mut names = Vec::new();
        hasher.extend(tokens, &mut names);
        names
    }

    #[test]
    fn equal_tokens_have_equal_names_however_they_are_cut() {
        let whole = names(&[(1, 0, 40)], 40, Lookahead::None);
        let cut = names(&[(1, 0, 3), (1, 3, 20), (1, 23, 17)], 40, Lookahead::None);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole, cut);
    }

    #[test]
    fn blocks_of_one_segment_are_named_as_each_on_its_own() {
        let cuts = (1..8).flat_map(|first| (1..40).map(move |second| [first, second, 90]));
        for (lens, ahead) in
            cuts.flat_map(|lens| [(lens, Lookahead::None), (lens, Lookahead::OneToken)])
        {
            let segments = lens.map(|len| Segment { stream: u64::from(len % 3), start: 0, len });
            let content = Content { salt: 0, segments: Some(segments.into()) };
            let prompt = lens.iter().sum();
            let mut hasher = ChainHasher::new(RequestId(0), &content, prompt, None, 4, ahead);
            let (mut name, mut at, mut each) = (hasher.parent, hasher.next, Vec::new());
            for _ in 0..hasher.nameable(prompt + 9) {
                name = hasher.name(name, at);
                at = hasher.tokens.skip(at, 4);
                each.push(name);
            }
            let mut names = Vec::new();
            hasher.extend(prompt / 2, &mut names);
            hasher.extend(prompt + 9, &mut names);
            assert_eq!(names, each, "{lens:?}");
        }
    }

    #[test]
    fn a_name_covers_everything_before_it() {
        let a = names(&[(1, 0, 16), (2, 0, 32)], 48, Lookahead::None);
        let b = names(&[(3, 0, 16), (2, 0, 32)], 48, Lookahead::None);
        assert!(a.iter().zip(&b).all(|(a, b)| a != b));
    }

    #[test]
    fn answers_continue_the_prompt() {
        let turn = names(&[(1, 0, 20)], 48, Lookahead::None);
        let answer = Segment::answer_stream(RequestId(0));
        let quoted = names(&[(1, 0, 20), (answer, 0, 28)], 48, Lookahead::None);
        assert_eq!(turn, quoted);
    }

    #[test]
    fn one_token_ahead_names_a_block_later_and_by_more() {
        let ahead = |next: u64| names(&[(1, 0, 16), (next, 0, 16)], 32, Lookahead::OneToken);
        assert_eq!(ahead(2).len(), 1, "the last full block waits for its next token");
        assert_ne!(ahead(2), ahead(3));
    }

    #[test]
    fn an_adapter_is_no_block_before_the_first_one() {
        let content = |segments: &[Segment]| Content { salt: 0, segments: Some(segments.into()) };
        let run = |stream| Segment { stream, start: 0, len: 16 };
        let name = |content, adapter: Option<u32>, tokens| {
            let adapter = adapter.map(AdapterId);
            let mut names = Vec::new();
            ChainHasher::new(RequestId(0), &content, tokens, adapter, 16, Lookahead::None)
                .extend(tokens, &mut names);
            names[names.len() - 1]
        };
        for (stream, adapter) in (0..40).flat_map(|stream| (0..40).map(move |id| (stream, id))) {
            let behind = name(content(&[run(stream), run(99)]), None, 32);
            assert_ne!(behind, name(content(&[run(99)]), Some(adapter), 16), "{stream} {adapter}");
        }
    }

    #[test]
    fn salts_and_adapters_separate() {
        let name = |salt, adapter| {
            let content =
                Content { salt, segments: Some([Segment { stream: 1, start: 0, len: 16 }].into()) };
            let mut names = Vec::new();
            ChainHasher::new(RequestId(0), &content, 16, adapter, 16, Lookahead::None)
                .extend(16, &mut names);
            names[0]
        };
        let plain = name(0, None);
        assert_ne!(plain, name(1, None));
        assert_ne!(plain, name(0, Some(AdapterId(0))));
        assert_eq!(plain, name(0, None));
    }
}
