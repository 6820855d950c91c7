//! Why a request cannot be explained.

use crate::load::LoadError;

/// Why a request cannot be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The scenario, or what is asked of it, breaks rules.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The run has no such request.
    #[error("request {request}: the run has {count} requests, numbered from 0")]
    NoSuchRequest {
        /// Its number.
        request: u32,
        /// How many there are.
        count: usize,
    },
    /// It has no end-to-end time.
    #[error("request {request}: {why}; only requests that were answered can be explained")]
    NotAnswered {
        /// Its number.
        request: u32,
        /// What became of it.
        why: String,
    },
    /// It has no latency of this kind.
    #[error("request {request}: has one token, and no time per output token; take `ttft` or `e2e`")]
    OneToken {
        /// Its number.
        request: u32,
    },
    /// No request has the latency.
    #[error("no request of the run has {0}: there is nothing to explain")]
    NoAnswer(&'static str),
}
