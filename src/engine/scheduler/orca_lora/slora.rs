//! S-LoRA's adapter clustering (Sheng et al., `MLSys` 2024; S-LoRA 2a2786b,
//! `slora/server/router/cluster_req_queue.py`): batches of few adapters, apart from the weights.
//!
//! Whoever has been admitted stays until the answer is complete. Free places go to those that wait, in order of arrival,
//! until the batch has a number of distinct adapters; from then on to those of its adapters first, and what
//! they leave to the others in order of arrival, or to nobody: then the batch never has more adapters.
//! Requests without an adapter are no other adapter's.
//!
//! Otherwise than there: adapters of those chosen in this step count too, not only of those that run; whoever
//! finds no slot for the adapter is passed over (S-LoRA pages adapters and KV in one memory, and gives what
//! few adapters leave to KV; slots have their memory in any case); requests without an adapter count as none;
//! a request that finds no KV memory holds back all behind it; not to fill is this project's, and lets others wait
//! for as long as one of the batch's adapters is asked for again before its last request ends.

use super::present::{Present, Room};
use crate::engine::Execution;
use crate::ids::AdapterId;
use crate::scenario::SloraClustersConfig;

/// Those that run, then who fits in.
pub(super) fn choose(
    present: &Present,
    room: Room,
    config: SloraClustersConfig,
    runs: impl Fn(u32) -> bool,
    chosen: &mut Vec<u32>,
) -> Execution {
    let (few, slots) = (config.max_adapters as usize, room.adapters);
    let mut adapters: Vec<AdapterId> = Vec::new();
    let mut take = |slot: u32, most: usize| {
        let new = present.adapter(slot).filter(|of| !adapters.contains(of));
        let fits = new.is_none() || adapters.len() < most;
        if fits && chosen.len() < room.requests {
            chosen.push(slot);
            adapters.extend(new);
            return true;
        }
        false
    };
    for slot in present.all().filter(|slot| runs(*slot)) {
        take(slot, slots);
    }
    let mut passed_over: Vec<u32> = Vec::new();
    for slot in present.all().filter(|slot| !runs(*slot)) {
        if !take(slot, few.min(slots)) {
            passed_over.push(slot);
        }
    }
    if config.fills_with_others {
        for slot in passed_over {
            take(slot, slots);
        }
    }
    Execution::Unmerged
}
