//! Longest processing time first (Graham: Bounds on multiprocessing timing anomalies, 1969), with copies of
//! adapters that are asked for most.
//!
//! The load of an adapter is its share of requests; those with copies share it evenly. Copies are given one by
//! one to the adapter with the largest load per copy: as many as are asked for, or until no copy carries more
//! than an even load of a replica. Then copies go in order of their load to the replica with the least
//! load that has room and does not hold the adapter; one for which there is none is left out.

use super::{ToPlace, sorted};

/// The holders of each adapter.
pub(in crate::resolved) fn load_balanced(of: &ToPlace<'_>) -> Vec<Vec<u32>> {
    let copies = copies(of);
    let mut pieces: Vec<usize> = Vec::new();
    for (adapter, count) in copies.iter().enumerate() {
        pieces.extend((0..*count).map(|_| adapter));
    }
    let load = |adapter: usize| of.shares[adapter] / f64::from(copies[adapter]);
    // The order of equal ones stays that of adapters.
    pieces.sort_by(|a, b| load(*b).total_cmp(&load(*a)));
    let mut holders = vec![Vec::new(); of.shares.len()];
    let (mut room, mut loads) = (of.room.to_vec(), vec![0.0; of.room.len()]);
    for adapter in pieces {
        let held: &Vec<u32> = &holders[adapter];
        let free = (0..room.len()).filter(|id| room[*id] > 0 && !held.contains(&(*id as u32)));
        let least = free.min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b]));
        if let Some(replica) = least {
            holders[adapter].push(replica as u32);
            room[replica] -= 1;
            loads[replica] += load(adapter);
        }
    }
    sorted(holders)
}

/// How many copies each adapter gets.
fn copies(of: &ToPlace<'_>) -> Vec<u32> {
    let (adapters, replicas) = (of.shares.len(), of.room.len() as u32);
    let mut copies = vec![1; adapters];
    let most = of.copies_max();
    let asked = of.copies.map(|asked| asked.clamp(adapters as u32, most));
    for _ in adapters as u32..asked.unwrap_or(most) {
        let load = |id: usize| of.shares[id] / f64::from(copies[id]);
        let open = (0..adapters).filter(|id| copies[*id] < replicas);
        let hottest = open.max_by(|a, b| load(*a).total_cmp(&load(*b)).then(b.cmp(a)));
        let Some(hottest) = hottest else { break };
        if asked.is_none() && load(hottest) * f64::from(replicas) <= 1.0 {
            break;
        }
        copies[hottest] += 1;
    }
    copies
}
