//! Which instances serve which model.

use std::ops::Range;

use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::ReplicaRole;

/// By model, the instances that requests for it are sent to first; nothing where there is one model.
pub(super) fn entrances(scenario: &Scenario) -> Vec<Range<u32>> {
    pools(scenario, |group| group.role != ReplicaRole::Decode)
}

/// By model, the instances that decode its requests, by their places among all that decode.
pub(super) fn decodes(scenario: &Scenario) -> Vec<Range<u32>> {
    pools(scenario, |group| group.role == ReplicaRole::Decode)
}

/// Replicas of one model follow each other among those of these groups, as a resolved scenario has them.
fn pools(scenario: &Scenario, is_meant: impl Fn(&ReplicaGroup) -> bool) -> Vec<Range<u32>> {
    if scenario.models.len() < 2 {
        return Vec::new();
    }
    let mut pools = vec![0..0; scenario.models.len()];
    let mut next = 0;
    for group in scenario.groups.iter().filter(|group| is_meant(group)) {
        let pool: &mut Range<u32> = &mut pools[group.serves.index()];
        if pool.end == 0 {
            pool.start = next;
        }
        next += group.replicas();
        pool.end = next;
    }
    pools
}
