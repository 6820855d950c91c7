//! Adapters that requests use, as vLLM's front end knows of them.
//!
//! vLLM 0.33.0, `vllm/v1/metrics/stats.py` (`LoRARequestStates`): what a scheduler does with a request is told with the
//! request's outputs, so that its adapter is known from its first output on, until no request of it is left.

use std::collections::BTreeMap;

use crate::ids::AdapterId;

/// Of one replica.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct AdaptersInUse(BTreeMap<AdapterId, Use>);

#[derive(Debug, Clone, Copy)]
struct Use {
    requests: u32,
    /// When it began, in the order of all that happened.
    since: u64,
}

impl AdaptersInUse {
    /// A request has its first output, as what happens at `order`.
    pub(super) fn begin(&mut self, adapter: AdapterId, order: u64) {
        self.0.entry(adapter).or_insert(Use { requests: 0, since: order }).requests += 1;
    }

    /// Such a request is over.
    pub(super) fn end(&mut self, adapter: AdapterId) {
        let Some(it) = self.0.get_mut(&adapter) else { return };
        it.requests -= 1;
        if it.requests == 0 {
            self.0.remove(&adapter);
        }
    }

    /// Those of several replicas, in the order in which they came into use.
    pub(in crate::serve) fn in_order<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<AdapterId> {
        let mut first = BTreeMap::new();
        for (adapter, it) in all.flat_map(|one| &one.0) {
            let since = first.entry(*adapter).or_insert(it.since);
            *since = it.since.min(*since);
        }
        let mut adapters: Vec<AdapterId> = first.keys().copied().collect();
        adapters.sort_by_key(|adapter| first[adapter]);
        adapters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_in_use_from_its_first_request_to_its_last() {
        let mut replicas = [(); 2].map(|()| AdaptersInUse::default());
        let told = |replicas: &[AdaptersInUse]| {
            AdaptersInUse::in_order(replicas.iter()).iter().map(|id| id.0).collect::<Vec<u32>>()
        };
        replicas[1].begin(AdapterId(7), 1);
        replicas[0].begin(AdapterId(3), 2);
        replicas[0].begin(AdapterId(7), 3);
        replicas[0].begin(AdapterId(3), 4);
        assert_eq!(told(&replicas), [7, 3]);
        replicas[0].end(AdapterId(3));
        replicas[1].end(AdapterId(7));
        assert_eq!(told(&replicas), [3, 7], "that of the other replica began later");
        replicas[0].end(AdapterId(3));
        replicas[0].end(AdapterId(3));
        assert_eq!(told(&replicas), [7]);
    }
}
