//! Layers with a state in place of keys and values (`MambaManager`).
//!
//! In mode `align` a list has a place for every block of tokens, but only the last states are blocks: that of
//! the running step, and one for each draft token after it, whose states are kept until it is known which were
//! accepted. As the sequence grows into a new block those for drafts move on with it.

use super::table::{GroupTable, NULL};

/// Whether a share from token `total` to token `main` passes a block boundary, at which its kernel gives a state,
/// too.
pub(super) fn checkpoints((total, main): (u32, u32), block_size: u32) -> u32 {
    let boundary = main - main % block_size;
    u32::from(boundary < main && boundary > total)
}

/// New blocks that an aligned state needs with so many `main` tokens and `found` blocks found before, and so
/// many states inside the share.
pub(super) fn lacking(
    table: &GroupTable,
    (main, found): (u32, u32),
    (drafts, inside): (u32, u32),
    block_size: u32,
) -> u32 {
    let places = main.div_ceil(block_size) + drafts;
    let most = inside + if table.has_taken { 1 } else { 1 + drafts };
    places.saturating_sub(found + table.len()).min(most)
}

/// Makes place for so many `main` tokens and states inside the share; returns how many new blocks are to be put at the end.
pub(super) fn grow(
    table: &mut GroupTable,
    main: u32,
    (drafts, inside): (u32, u32),
    block_size: u32,
) -> u32 {
    let places = main.div_ceil(block_size) + drafts;
    let before = table.len();
    if places > before {
        if table.has_taken {
            table.last_state = (before - 1).checked_sub(drafts);
        } else {
            table.last_state = before.checked_sub(1);
        }
        let passed = places - drafts - 1 - inside;
        if before < passed {
            table.blocks.resize(passed as usize, NULL);
        }
        if table.has_taken {
            for index in before - drafts..before.min(passed) {
                let moved = std::mem::replace(&mut table.blocks[index as usize], NULL);
                table.blocks.push(moved);
            }
        }
    }
    table.has_taken = true;
    places.saturating_sub(table.len())
}

/// The blocks of an aligned state that are needed no more once `computed` tokens are computed, of which the
/// first `passed` blocks are passed.
pub(super) fn retire(
    table: &mut GroupTable,
    (computed, passed): (u32, u32),
    block_size: u32,
    retired: &mut Vec<u32>,
) {
    for index in (table.retired..passed).rev() {
        retired.extend(table.take(index));
    }
    table.retired = table.retired.max(passed);
    if let Some(last) = table.last_state
        && last + 1 < computed.div_ceil(block_size)
    {
        retired.extend(table.take(last));
    }
}

/// The last block within `limit` tokens that is found.
pub(super) fn found(limit: u32, block_size: u32, is_cached: impl Fn(u32) -> bool) -> Option<u32> {
    (0..limit / block_size).rev().find(|block| is_cached(*block))
}

/// Whether a state can be found from its publication on: where the interval of states is given, every such
/// one; else those at one of the `ends`.
pub(super) fn is_kept(block: u32, interval: Option<u32>, ends: &[u32]) -> bool {
    interval.is_some_and(|interval| (block + 1).is_multiple_of(interval))
        || ends.contains(&(block + 1))
}
