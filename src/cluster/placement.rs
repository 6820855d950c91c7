//! Which replicas hold which adapters. A router chooses among the holders of a request's adapter only;
//! who holds what is decided before the run, and changes where adapters migrate.

use crate::ids::{AdapterId, InstanceId};

/// The instances that hold each adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// By adapter, the instances that do not hold it, by id.
    without: Vec<Vec<InstanceId>>,
    /// By instance, the adapters that it holds, by id.
    held: Vec<Vec<AdapterId>>,
}

impl Placement {
    /// Of these holders of each adapter, among so many instances.
    pub fn new(holders: &[Vec<u32>], instances: u32) -> Self {
        let without = |holders: &Vec<u32>| {
            (0..instances).filter(|id| !holders.contains(id)).map(InstanceId).collect()
        };
        let held = |id: u32| {
            let of = (0..).map(AdapterId).zip(holders);
            of.filter(|(_, holders)| holders.contains(&id)).map(|(adapter, _)| adapter).collect()
        };
        Self {
            without: holders.iter().map(without).collect(),
            held: (0..instances).map(held).collect(),
        }
    }

    /// How many adapters there are.
    pub fn adapters(&self) -> usize {
        self.without.len()
    }

    /// Whether an instance holds an adapter.
    pub fn holds(&self, instance: InstanceId, adapter: AdapterId) -> bool {
        self.without[adapter.index()].binary_search(&instance).is_err()
    }

    /// The adapters that an instance holds, by id.
    pub fn held(&self, instance: InstanceId) -> &[AdapterId] {
        &self.held[instance.index()]
    }

    /// How many instances hold an adapter.
    pub fn holders(&self, adapter: AdapterId) -> usize {
        self.held.len() - self.without[adapter.index()].len()
    }

    /// An instance holds an adapter from now on.
    pub fn add(&mut self, instance: InstanceId, adapter: AdapterId) {
        let without = &mut self.without[adapter.index()];
        if let Ok(place) = without.binary_search(&instance) {
            without.remove(place);
            let held = &mut self.held[instance.index()];
            held.insert(held.partition_point(|id| *id < adapter), adapter);
        }
    }

    /// An instance holds an adapter no longer.
    pub fn remove(&mut self, instance: InstanceId, adapter: AdapterId) {
        let without = &mut self.without[adapter.index()];
        if let Err(place) = without.binary_search(&instance) {
            without.insert(place, instance);
            self.held[instance.index()].retain(|id| *id != adapter);
        }
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
    fn who_does_not_hold_an_adapter_is_everybody_else_also_where_that_changes() {
        let placement = Placement::new(&[vec![0], vec![2, 1]], 3);
        let ids = |ids: &[u32]| ids.iter().map(|id| InstanceId(*id)).collect::<Vec<_>>();
        assert_eq!(placement.without(Some(AdapterId(0))), ids(&[1, 2]));
        assert_eq!(placement.without(Some(AdapterId(1))), ids(&[0]));
        assert_eq!(placement.without(None), []);
        let mut placement = placement;
        placement.add(InstanceId(0), AdapterId(1));
        placement.add(InstanceId(0), AdapterId(1));
        assert_eq!((placement.holders(AdapterId(1)), placement.holders(AdapterId(0))), (3, 1));
        assert_eq!(placement.held(InstanceId(0)), [AdapterId(0), AdapterId(1)]);
        placement.remove(InstanceId(0), AdapterId(0));
        assert_eq!(placement.held(InstanceId(0)), [AdapterId(1)]);
        assert_eq!(placement.without(Some(AdapterId(0))), ids(&[0, 1, 2]));
        assert!(placement.holds(InstanceId(2), AdapterId(1)));
        let mut all = Vec::new();
        union(&ids(&[1, 4]), &ids(&[0, 1, 2]), &mut all);
        assert_eq!(all, ids(&[0, 1, 2, 4]));
    }
}
