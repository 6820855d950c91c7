//! Layers that see the whole context (`FullAttentionManager`): every block is kept and can be found.

/// How many of the first blocks are found one after the other: at most those within `limit` tokens, and so
/// many that they end with a block of the scheduler.
pub(super) fn found(
    limit: u32,
    block_size: u32,
    scheduler_block: u32,
    is_cached: impl Fn(u32) -> bool,
) -> u32 {
    let mut blocks = 0;
    while blocks < limit / block_size && is_cached(blocks) {
        blocks += 1;
    }
    blocks - blocks % (scheduler_block / block_size)
}
