//! First come, first served, adapters apart from the weights (dLoRA-artifact 72ba0ba,
//! `vllm/core/scheduler.py`, policy `fcfs`).
//!
//! The first whose adapter gets no slot holds back all behind it.

use super::present::{Present, Room};
use crate::engine::Execution;
use crate::ids::AdapterId;

/// The first of all.
pub(super) fn choose(present: &Present, room: Room, chosen: &mut Vec<u32>) -> Execution {
    let mut adapters: Vec<AdapterId> = Vec::new();
    for slot in present.all().take(room.requests) {
        if let Some(adapter) = present.adapter(slot).filter(|of| !adapters.contains(of)) {
            if adapters.len() >= room.adapters {
                break;
            }
            adapters.push(adapter);
        }
        chosen.push(slot);
    }
    Execution::Unmerged
}
