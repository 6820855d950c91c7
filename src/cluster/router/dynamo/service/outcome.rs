//! What the router tells of requests.

use super::super::{Overlap, Rank, Rejection, RequestKey};

/// Where a request was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Which request.
    pub key: RequestKey,
    /// To which rank.
    pub rank: Rank,
    /// What the rank cost.
    pub cost: f64,
    /// Tokens of the prompt that were not cached there as it came.
    pub prefill_tokens: u64,
    /// The rank's active blocks with those of the prompt.
    pub blocks: u64,
    /// What was cached there of it as it came.
    pub overlap: Overlap,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was sent.
    Sent(Decision),
    /// It was not.
    Rejected(RequestKey, Rejection),
}

impl Outcome {
    /// The request.
    pub fn key(&self) -> RequestKey {
        match self {
            Self::Sent(decision) => decision.key,
            Self::Rejected(key, _) => *key,
        }
    }
}

/// What a rank would have to do with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Potential {
    /// Which rank.
    pub rank: Rank,
    /// Prefill tokens booked, with those of the prompt that are not cached.
    pub prefill_tokens: u64,
    /// Active blocks, with those of the prompt.
    pub blocks: u64,
    /// Live requests, without it.
    pub requests: u32,
}
