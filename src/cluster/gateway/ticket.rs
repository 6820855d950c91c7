//! What an order knows of a request that waits.

use crate::ids::{ModelId, RequestId};

/// A request that waits at the gateway, as far as its place in the order depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// How many requests came to wait before it.
    pub number: u64,
    /// Which request.
    pub request: RequestId,
    /// The model it asks for.
    pub model: ModelId,
    /// Whose it is, by the place among the tenants.
    pub tenant: u32,
    /// Its priority, smaller first.
    pub rank: i64,
    /// Its prompt's length.
    pub prompt_tokens: u32,
}
