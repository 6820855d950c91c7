//! What a block pool forgets, by chunk, for a tier that is written back to.

use std::ops::Range;

use super::name_runs::Names;
use super::names::{Chain, NameRun};
use super::token_runs::{Cursor, TokenRuns};
use super::{BlockHash, ChainHasher};

/// Chunks that have lost a block. The end of a sequence is forgotten first, so a chunk is given up with
/// its last block, while the others are still there.
#[derive(Debug, Clone)]
pub(super) struct GivenUp {
    chunk_tokens: u32,
    /// In the order in which they were given up, of each run the last one first.
    runs: Vec<NameRun>,
    /// The sequence that was looked at last, and its chunks behind so many first ones, which are not known.
    latest: Option<(ChainHasher, Names, usize)>,
}

impl GivenUp {
    pub(super) fn new(chunk_tokens: u32) -> Self {
        Self { chunk_tokens, runs: Vec::new(), latest: None }
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
            self.latest = Some((hasher, known, unknown));
        }
        if let Some((hasher, known, unknown)) = &mut self.latest {
            hasher.extend_by_runs(lost.end, known);
            let lost = known.slice(chunks.start - *unknown..chunks.end - *unknown);
            self.runs.extend(lost.runs().rev());
        }
    }

    /// All until now; what was given up first comes last.
    pub(super) fn take_by_runs(&mut self) -> Names {
        let mut names = Names::default();
        self.runs.drain(..).rev().for_each(|run| names.push_run(run));
        names
    }

    /// The same one by one.
    pub(super) fn take(&mut self) -> Vec<BlockHash> {
        self.runs.drain(..).rev().flat_map(NameRun::each).collect()
    }
}
