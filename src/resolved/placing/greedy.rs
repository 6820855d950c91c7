//! dLoRA's initial placement (LLMServe/dLoRA-artifact, `vllm/engine/engine_manager.py`,
//! `find_best_lora_weight_schedule`; room by free slots as in WILLIAM-qmul/SGLang-dLoRA,
//! `instances/instance_manager.py`).
//!
//! The next copy is of the first adapter that is nowhere; once all are somewhere, of that whose share of
//! copies is farthest below its share of requests. It goes to the replica with the most room. That goes on
//! until the room or the copies asked for are used up.
//!
//! Otherwise than there: adapters come into slots that have their memory in any case, so that a copy takes
//! nothing from KV caches and none is refused for that; and copies beyond those asked for are not added.

use super::{ToPlace, sorted};

/// The holders of each adapter.
pub(in crate::resolved) fn greedy(of: &ToPlace<'_>) -> Vec<Vec<u32>> {
    let adapters = of.shares.len();
    let mut holders = vec![Vec::new(); adapters];
    let mut room = of.room.to_vec();
    let most = of.copies_max();
    for copies in 0..of.copies.unwrap_or(most).clamp(adapters as u32, most) {
        // Below 0 where an adapter has fewer copies than requests.
        let excess =
            |held: &Vec<u32>, share: f64| held.len() as f64 / f64::from(copies.max(1)) - share;
        let takers = |held: &Vec<u32>, room: &[u32]| {
            let free = (0..room.len() as u32).filter(|id| !held.contains(id));
            free.filter(|id| room[*id as usize] > 0)
                .max_by_key(|id| (room[*id as usize], std::cmp::Reverse(*id)))
        };
        let unplaced = holders.iter().position(Vec::is_empty);
        let least = || {
            let open = (0..adapters).filter(|id| takers(&holders[*id], &room).is_some());
            open.min_by(|a, b| {
                let of = |id: usize| excess(&holders[id], of.shares[id]);
                of(*a).total_cmp(&of(*b))
            })
        };
        let Some(adapter) = unplaced.or_else(least) else { break };
        let Some(replica) = takers(&holders[adapter], &room) else { break };
        holders[adapter].push(replica);
        room[replica as usize] -= 1;
    }
    sorted(holders)
}
