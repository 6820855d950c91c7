//! Which replicas hold which adapters. A router chooses among the holders of a request's adapter only;
//! who holds what is decided before, and does not change.

use crate::ids::{AdapterId, InstanceId};

/// The instances that hold each adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// By adapter, the instances that do not hold it, by id.
    without: Vec<Vec<InstanceId>>,
}

impl Placement {
    /// Of these holders of each adapter, among so many instances.
    pub fn new(holders: &[Vec<u32>], instances: u32) -> Self {
        let without = |holders: &Vec<u32>| {
            (0..instances).filter(|id| !holders.contains(id)).map(InstanceId).collect()
        };
        Self { without: holders.iter().map(without).collect() }
    }

    /// The instances that do not hold an adapter, by id; none for requests that use none.
    pub fn without(&self, adapter: Option<AdapterId>) -> &[InstanceId] {
        adapter.and_then(|adapter| self.without.get(adapter.index())).map_or(&[], Vec::as_slice)
    }
}

/// Both lists in one, by id.
pub(super) fn union(a: &[InstanceId], b: &[InstanceId], into: &mut Vec<InstanceId>) {
    into.clear();
    into.extend_from_slice(a);
    into.extend(b.iter().filter(|id| a.binary_search(id).is_err()));
    into.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_hold_an_adapter_is_everybody_else() {
        let placement = Placement::new(&[vec![0], vec![2, 1]], 3);
        let ids = |ids: &[u32]| ids.iter().map(|id| InstanceId(*id)).collect::<Vec<_>>();
        assert_eq!(placement.without(Some(AdapterId(0))), ids(&[1, 2]));
        assert_eq!(placement.without(Some(AdapterId(1))), ids(&[0]));
        assert_eq!(placement.without(None), []);
        let mut all = Vec::new();
        union(&ids(&[1, 4]), &ids(&[0, 1, 2]), &mut all);
        assert_eq!(all, ids(&[0, 1, 2, 4]));
    }
}
