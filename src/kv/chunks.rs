//! The names of a sequence's chunks: whole runs of blocks that tiers below the GPU keep.

use super::{BlockHash, ChainHasher, Lookahead};
use crate::ids::RequestId;
use crate::request::Request;

/// Names the chunks of one sequence, and remembers which of them have been offered to tiers.
#[derive(Debug, Clone)]
pub struct ChunkNames {
    hasher: ChainHasher,
    names: Vec<BlockHash>,
    offered: usize,
}

impl ChunkNames {
    /// Of a request, in chunks of so many tokens.
    pub fn new(id: RequestId, request: &Request, chunk_tokens: u32) -> Self {
        let Request { ref content, prompt_tokens, adapter, .. } = *request;
        let ahead = Lookahead::None;
        let hasher = ChainHasher::new(id, content, prompt_tokens, adapter, chunk_tokens, ahead);
        Self { hasher, names: Vec::new(), offered: 0 }
    }

    /// The whole chunks among the first `tokens` tokens, first to last.
    pub fn of(&mut self, tokens: u32) -> &[BlockHash] {
        self.hasher.extend(tokens, &mut self.names);
        let whole = self.hasher.nameable(tokens) as usize;
        &self.names[..whole]
    }

    /// How many of the first chunks have been offered.
    pub fn offered(&self) -> usize {
        self.offered
    }

    /// So many of the first chunks have been offered.
    pub fn set_offered(&mut self, chunks: usize) {
        self.offered = chunks;
    }

    /// The whole chunks among the first `tokens` tokens that have not been offered yet; now they have.
    pub fn offer(&mut self, tokens: u32) -> &[BlockHash] {
        let before = self.offered;
        let whole = self.of(tokens).len();
        self.offered = before.max(whole);
        &self.names[before..self.offered]
    }
}
