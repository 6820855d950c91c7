//! One adapter at a time, merged into the weights: that of the request that came first
//! (dLoRA-artifact 72ba0ba, `vllm/core/scheduler.py`, the policy that always merges).
//!
//! It changes as soon as that request has left and the next one uses another.

use super::present::{Present, Room};
use crate::engine::Execution;

/// The first of the adapter of the first.
pub(super) fn choose(present: &Present, room: Room, chosen: &mut Vec<u32>) -> Execution {
    let first = present.all().next().expect("somebody is there");
    let key = present.key(first);
    chosen.extend(present.of(key).take(room.requests));
    Execution::Merged(present.adapter_of(key))
}
