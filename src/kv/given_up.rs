//! What a block pool forgets, by chunk, for a tier that is written back to.

use std::ops::Range;

use super::token_runs::TokenRuns;
use super::{BlockHash, ChainHasher};

/// Chunks that have lost a block. The end of a sequence is forgotten first, so a chunk is given up with
/// its last block, while the others are still there.
#[derive(Debug, Clone)]
pub(super) struct GivenUp {
    chunk_tokens: u32,
    /// In the order in which they were given up.
    names: Vec<BlockHash>,
    /// The sequence that was looked at last, and its chunks.
    latest: Option<(ChainHasher, Vec<BlockHash>)>,
}

impl GivenUp {
    pub(super) fn new(chunk_tokens: u32) -> Self {
        Self { chunk_tokens, names: Vec::new(), latest: None }
    }

    /// These tokens of a sequence are forgotten, whole blocks.
    pub(super) fn add(&mut self, (sequence, namespace): (&TokenRuns, BlockHash), lost: Range<u32>) {
        let chunks =
            (lost.start / self.chunk_tokens) as usize..(lost.end / self.chunk_tokens) as usize;
        if chunks.is_empty() {
            return;
        }
        let is_latest = |latest: &(ChainHasher, _)| latest.0.tokens.is_same_sequence(sequence);
        if !self.latest.as_ref().is_some_and(is_latest) {
            let hasher = ChainHasher::over(sequence.clone(), namespace, self.chunk_tokens);
            self.latest = Some((hasher, Vec::new()));
        }
        if let Some((hasher, known)) = &mut self.latest {
            hasher.extend(lost.end, known);
            self.names.extend(known[chunks].iter().rev());
        }
    }

    /// All until now, so that of each sequence the first comes first; what was given up first comes last.
    pub(super) fn take(&mut self) -> Vec<BlockHash> {
        let mut names = std::mem::take(&mut self.names);
        names.reverse();
        names
    }
}
