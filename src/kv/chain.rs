//! Names the blocks of one sequence.
//!
//! Tokens are known by stream and position ([`Segment`]), so a block is hashed by its runs, in
//! O(runs) whatever the block size. Names are 64 bits: among a million blocks an accidental match
//! has a chance of 5·10⁻¹⁴ per lookup.

use super::BlockHash;
use super::name_runs::Names;
use super::names::{BlockRuns, Chain, NameRun};
use super::token_runs::{Cursor, TokenRuns};
use crate::ids::{AdapterId, RequestId};
use crate::request::{Content, Segment};

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
    /// The last block named, and the first token behind it.
    chain: Chain,
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
            chain: Chain::behind(namespace),
            named: 0,
        }
    }

    /// The same by what a sequence is made of, without tokens ahead.
    pub(super) fn over(tokens: TokenRuns, namespace: BlockHash, block_size: u32) -> Self {
        let (next, lookahead) = (tokens.start(), Lookahead::None);
        let chain = Chain::behind(namespace);
        Self { tokens, block_size, lookahead, namespace, chain, next, named: 0 }
    }

    /// The same, as this block is the last before a token, and so many tokens stand before that.
    pub(super) fn behind(self, chain: Chain, next: Cursor, tokens: u32) -> Self {
        Self { chain, next, named: tokens / self.block_size, ..self }
    }

    /// The block before a token, if that is the last one named.
    pub(super) fn chain_to(&self, at: Cursor) -> Option<Chain> {
        let is_next = || self.tokens.position(at) == self.named * self.block_size;
        (self.named > 0 && is_next()).then_some(self.chain)
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
        names.reserve(self.nameable(tokens).saturating_sub(self.named) as usize);
        self.name(tokens, |run| names.extend(run.each()));
    }

    /// The same by runs. Names of blocks before may be left out.
    pub fn extend_by_runs(&mut self, tokens: u32, names: &mut Names) {
        self.name(tokens, |run| names.push_run(run));
    }

    fn name(&mut self, tokens: u32, mut tell: impl FnMut(NameRun)) {
        let nameable = self.nameable(tokens);
        while self.named < nameable {
            let run = self.tokens.piece(self.next, u32::MAX);
            let whole = run.len.saturating_sub(self.ahead()) / self.block_size;
            if whole == 0 {
                let block = self.block(self.chain.last(), self.next);
                tell(NameRun::of(self.chain.push(block, self.block_size)));
                self.next = self.tokens.skip(self.next, self.block_size);
                self.named += 1;
                continue;
            }
            // All of one segment.
            let whole = whole.min(nameable - self.named);
            let first = Segment { len: self.block_size + self.ahead(), ..run };
            tell(self.chain.push_run(first, self.block_size, whole));
            self.next = self.tokens.skip(self.next, whole * self.block_size);
            self.named += whole;
        }
    }

    /// A name for the block that begins at a place, whatever is before it.
    pub(super) fn own_name(&self, at: Cursor) -> BlockHash {
        self.block(self.namespace, at).name()
    }

    /// The block that begins at a place, behind one of the name `before`.
    fn block(&self, before: BlockHash, mut at: Cursor) -> BlockRuns {
        let mut block = BlockRuns::behind(before);
        let mut left = self.block_size + self.ahead();
        while left > 0 {
            let piece = self.tokens.piece(at, left);
            block.add(piece);
            left -= piece.len;
            at = self.tokens.skip(at, piece.len);
        }
        block
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
            let (mut chain, mut at, mut each) = (hasher.chain, hasher.next, Vec::new());
            for _ in 0..hasher.nameable(prompt + 9) {
                each.push(chain.push(hasher.block(chain.last(), at), 4));
                at = hasher.tokens.skip(at, 4);
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
