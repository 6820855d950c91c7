//! Layers with a sliding window (`SlidingWindowManager`): blocks before the window are given back, and a
//! prefix is found where the blocks of a whole window before its end are.

use std::ops::Range;

pub(super) fn passed(computed: u32, window: u32) -> u32 {
    (computed + 1).saturating_sub(window)
}

/// Blocks before a token that it can see tokens of.
pub(super) fn window_blocks(window: u32, block_size: u32) -> u32 {
    (window - 1).div_ceil(block_size)
}

/// The most blocks that a request has at once while so many tokens are in flight.
pub(super) fn most(window: u32, in_flight: u32, max_model_len: u32, block_size: u32) -> u32 {
    let reach = (window - 1).saturating_add(in_flight).min(max_model_len);
    reach.div_ceil(block_size) + 1
}

/// The last blocks within `limit` tokens, as many as a window needs, that are found one after the other; else
/// those found from the first one on.
pub(super) fn found(
    limit: u32,
    window: u32,
    block_size: u32,
    is_cached: impl Fn(u32) -> bool,
) -> Range<u32> {
    let needed = window_blocks(window, block_size);
    let mut run = 0;
    for block in (0..limit / block_size).rev() {
        run = if is_cached(block) { run + 1 } else { 0 };
        if run > 0 && run >= needed {
            return block..block + run;
        }
    }
    0..run
}

/// Whether a full block can be found from its publication on: where none of the `ends` is given, if a window
/// that ends every `segment` blocks has it; else if a window before one of the ends has it.
pub(super) fn is_kept(block: u32, needed: u32, segment: Option<u32>, ends: &[u32]) -> bool {
    let of_segment = |length: u32| block % length >= length.saturating_sub(needed);
    segment.is_some_and(of_segment) || ends.iter().any(|&end| block < end && block + needed >= end)
}
