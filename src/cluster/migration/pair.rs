//! Which two replicas share out their requests anew.

use crate::ids::InstanceId;

/// What is known of a replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplicaLoad {
    /// Requests that wait or run there.
    pub requests: u32,
    /// The share of its KV blocks that they hold.
    pub kv_share: f64,
}

/// The replica with the largest share of its KV memory in use and that with the least, where the first is at
/// or above `kv_threshold` and the second below; else the one with the most requests and the one with the
/// fewest, where the first has at least `request_threshold` more than the mean. Of equal ones the lowest
/// number.
pub fn pair(
    loads: &[ReplicaLoad],
    request_threshold: f64,
    kv_threshold: f64,
) -> Option<[InstanceId; 2]> {
    let ends = |of: &dyn Fn(&ReplicaLoad) -> f64| {
        let places = || 0..loads.len();
        let by = |a: &usize, b: &usize| of(&loads[*a]).total_cmp(&of(&loads[*b]));
        let most = places().max_by(|a, b| by(a, b).then(b.cmp(a)))?;
        let least = places().min_by(by)?;
        (of(&loads[most]) > of(&loads[least])).then_some((most, least))
    };
    let named = |(most, least)| [InstanceId::from_index(most), InstanceId::from_index(least)];
    let by_memory = ends(&|load| load.kv_share).filter(|(most, least)| {
        loads[*most].kv_share >= kv_threshold && loads[*least].kv_share < kv_threshold
    });
    let by_requests = || {
        let sum: u32 = loads.iter().map(|load| load.requests).sum();
        let mean = f64::from(sum) / loads.len() as f64;
        ends(&|load| f64::from(load.requests))
            .filter(|(most, _)| f64::from(loads[*most].requests) - mean >= request_threshold)
    };
    by_memory.or_else(by_requests).map(named)
}
