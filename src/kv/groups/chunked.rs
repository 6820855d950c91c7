//! Layers that see the chunk of the context that a token is in (`ChunkedLocalAttentionManager`): blocks of
//! chunks before it are given back, and nothing of them is needed to go on from a prefix.

use std::ops::Range;

pub(super) fn passed(computed: u32, chunk: u32) -> u32 {
    computed / chunk * chunk
}

/// The most blocks that a request has at once while so many tokens are in flight.
pub(super) fn most(chunk: u32, in_flight: u32, max_model_len: u32, block_size: u32) -> u32 {
    chunk.saturating_add(in_flight).min(max_model_len).div_ceil(block_size)
}

/// The blocks found one after the other from the begin of the chunk on that token `limit` is in.
pub(super) fn found(
    limit: u32,
    chunk: u32,
    block_size: u32,
    is_cached: impl Fn(u32) -> bool,
) -> Range<u32> {
    let first = passed(limit, chunk) / block_size;
    let mut end = first;
    while end < limit / block_size && is_cached(end) {
        end += 1;
    }
    first..end
}
