//! The cache-aware policy of SGLang's model gateway (0.3.2,
//! `sgl-model-gateway/src/policies/cache_aware.rs` and `tree.rs`).
//!
//! The gateway remembers the prompts that it sent to each instance, in a bounded tree. While the load
//! is balanced, a prompt goes where most of its beginning was sent before, if that is more than
//! `cache_threshold` of it, and otherwise to the shortest queue. While it is not, every request goes to
//! the shortest queue. The load is imbalanced when the most and the fewest outstanding requests of an
//! instance differ by more than `balance_abs_threshold` and by more than the factor
//! `balance_rel_threshold`.
//!
//! Otherwise than there: prompts are compared token by token, not letter by letter; trees are cut back
//! with every request, not every minute; of instances with equal matches that with the fewest
//! outstanding requests is taken, then that with the lowest id, where the gateway takes the one that
//! its tree names first.

use std::cmp::Reverse;

use super::prefix_index::PrefixIndex;
use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::{PrefixAwareConfig, PrefixMiss};

/// Where the beginning of the prompt was sent before, as long as the load is balanced.
#[derive(Debug, Clone)]
pub struct PrefixAware {
    config: PrefixAwareConfig,
    sent: PrefixIndex,
}

impl PrefixAware {
    /// A gateway that has sent nothing.
    pub fn new(config: PrefixAwareConfig) -> Self {
        Self { config, sent: PrefixIndex::new(config.max_tree_tokens) }
    }

    fn is_imbalanced(&self, view: &ClusterView<'_>) -> bool {
        let (mut most, mut fewest) = (0, u32::MAX);
        for id in view.up() {
            let requests = view.outstanding[id.index()].requests;
            (most, fewest) = (most.max(requests), fewest.min(requests));
        }
        most.saturating_sub(fewest) > self.config.balance_abs_threshold
            && f64::from(most) > f64::from(fewest) * self.config.balance_rel_threshold
    }

    fn balanced(&self, view: &ClusterView<'_>) -> InstanceId {
        let requests = |id: InstanceId| view.outstanding[id.index()].requests;
        let best = view.least(|id| (Reverse(self.sent.matched(id)), requests(id)));
        if self.sent.match_rate(best) > self.config.cache_threshold {
            return best;
        }
        match self.config.on_miss {
            PrefixMiss::ShortestQueue => view.least_requests(),
            PrefixMiss::SmallestTree => view.least(|id| (self.sent.tree_tokens(id), requests(id))),
        }
    }
}

impl Route for PrefixAware {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        self.sent.read(request, view.instances);
        let chosen =
            if self.is_imbalanced(view) { view.least_requests() } else { self.balanced(view) };
        self.sent.insert(chosen);
        chosen
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
