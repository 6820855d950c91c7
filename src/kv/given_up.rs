//! What a block pool forgets, by chunk, for a tier that is written back to.

use std::ops::Range;

use super::names::Chain;
use super::token_runs::{Cursor, TokenRuns};
use super::{BlockHash, ChainHasher};

/// Chunks that have lost a block. The end of a sequence is forgotten first, so a chunk is given up with
/// its last block, while the others are still there.
#[derive(Debug, Clone)]
pub(super) struct GivenUp {
    chunk_tokens: u32,
    /// In the order in which they were given up.
    names: Vec<BlockHash>,
    /// The sequence that was looked at last, and its chunks, of which so many first ones are not known.
    latest: Option<(ChainHasher, Vec<BlockHash>, usize)>,
}

impl GivenUp {
    pub(super) fn new(chunk_tokens: u32) -> Self {
        Self { chunk_tokens, names: Vec::new(), latest: None }
    }

    /// How many tokens a chunk has.
    pub(super) fn chunk_tokens(&self) -> u32 {
        self.chunk_tokens
    }

    /// These tokens of a sequence are forgotten, whole blocks. They begin at the token of `begin` or behind it, where
    /// the chunk before that is given, and how many tokens stand before it.
    pub(super) fn add(
        &mut self,
        (sequence, namespace): (&TokenRuns, BlockHash),
        begin: Option<(Chain, Cursor, u32)>,
        lost: Range<u32>,
    ) {
        let chunks =
            (lost.start / self.chunk_tokens) as usize..(lost.end / self.chunk_tokens) as usize;
        if chunks.is_empty() {
            return;
        }
        let is_latest = |latest: &(ChainHasher, _, usize)| {
            latest.0.tokens.is_same_sequence(sequence) && latest.2 <= chunks.start
        };
        if !self.latest.as_ref().is_some_and(is_latest) {
            let mut hasher = ChainHasher::over(sequence.clone(), namespace, self.chunk_tokens);
            let mut unknown = 0;
            if let Some((chain, next, tokens)) = begin {
                hasher = hasher.behind(chain, next, tokens);
                unknown = (tokens / self.chunk_tokens) as usize;
            }
            let mut known = self.latest.take().map(|(_, known, _)| known).unwrap_or_default();
            known.clear();
            known.resize(unknown, namespace);
            self.latest = Some((hasher, known, unknown));
        }
        if let Some((hasher, known, _)) = &mut self.latest {
            hasher.extend(lost.end, known);
            self.names.extend(known[chunks].iter().rev());
        }
    }

    /// All until now, in the order in which they were given up.
    pub(super) fn take_in_order(&mut self) -> Vec<BlockHash> {
        std::mem::take(&mut self.names)
    }

    /// All until now, so that of each sequence the first comes first; what was given up first comes last.
    pub(super) fn take(&mut self) -> Vec<BlockHash> {
        let mut names = std::mem::take(&mut self.names);
        names.reverse();
        names
    }
}
