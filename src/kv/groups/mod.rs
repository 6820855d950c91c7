//! KV memory of models whose layers keep different things: groups of layers with blocks of their own, all out
//! of one pool (vLLM 0.33.0, `vllm/v1/core/kv_cache_coordinator.py`, `single_type_kv_cache_manager.py`).
//!
//! A request has a list of blocks in every group, by position in its sequence. Blocks that a group needs no
//! more are given back, and the null block (number 0) stands in their place. A prefix is found only where
//! every group has what it needs to go on from its end.
//!
//! * `full.rs`: layers that see the whole context
//! * `sliding.rs`: layers with a sliding window
//! * `chunked.rs`: layers that see the chunk of the context that a token is in
//! * `state.rs`: layers with a state in place of keys and values (Mamba, linear attention)
//! * `table.rs`: the blocks of a request
//! * `pool.rs`: need, allocate, publish, free
//! * `lookup.rs`: the longest prefix that all groups hold
//!
//! Left out: hits that end inside a block (`prefix_match_unit`), KV of other machines.

mod chunked;
mod full;
mod lookup;
mod pool;
mod sliding;
mod state;
mod table;

use crate::model::{GroupKind, GroupSpec};

pub use pool::{Demand, GroupedPool};
pub(super) use table::GroupTables;

/// The first tokens of a context of `computed` tokens that the next token does not need.
fn passed(spec: &GroupSpec, computed: u32) -> u32 {
    match spec.kind {
        GroupKind::Full => 0,
        GroupKind::Sliding { window } => sliding::passed(computed, window),
        GroupKind::Chunked { chunk } => chunked::passed(computed, chunk),
        GroupKind::State | GroupKind::AlignedState => computed.saturating_sub(1),
    }
}

/// The blocks before those that the next token after `computed` needs.
fn passed_blocks(spec: &GroupSpec, computed: u32) -> u32 {
    passed(spec, computed) / spec.block_size
}

#[cfg(test)]
mod tests;
