//! What engines have cached and what they have to do, weighed against each other, in the manner of Dynamo's
//! KV router (0.4, `components/router`, cost function) and of llm-d's precise prefix scorer. It is not that router:
//! [`dynamo`](super::dynamo) is, in a later version.
//!
//! Engines tell what they cache and evict, so that the router knows what of a prompt each would find. A
//! request goes where this is least:
//!
//! `overlap_score_weight` · prompt tokens that are not cached + prompt tokens of outstanding requests
//!
//! The first is what its own prefill costs, the second stands for the KV that is read in every step. Of
//! equal instances that with the fewest outstanding requests is taken, then that with the lowest id.
//!
//! Otherwise than there: of outstanding requests every prompt counts whole, where blocks that they share count
//! once, so that a larger weight stands for the same; prompts that are being prefilled do not count twice; nothing is drawn at random
//! (`router_temperature` is 0). What caches hold is as old as `event_interval_ms` allows, for all instances
//! alike: what they hold at a moment is taken with the first request that finds the last such picture
//! too old, where events come one by one.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::PrefixExactConfig;
use crate::units::SimDuration;

/// The least cost of what is not cached and of what is outstanding.
#[derive(Debug, Clone, Copy)]
pub struct PrefixExact {
    config: PrefixExactConfig,
}

impl PrefixExact {
    /// A router that keeps nothing itself.
    pub fn new(config: PrefixExactConfig) -> Self {
        Self { config }
    }
}

impl Route for PrefixExact {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let cost = |id: InstanceId| {
            let cached = view.caches.tokens(id, request);
            let uncached = f64::from(request.prompt_tokens - cached.min(request.prompt_tokens));
            let outstanding = view.outstanding[id.index()];
            let sum =
                self.config.overlap_score_weight * uncached + outstanding.prompt_tokens as f64;
            (sum, outstanding.requests)
        };
        let costs = view.up().map(|id| (cost(id), id));
        let least = costs.min_by(|((a, requests_a), _), ((b, requests_b), _)| {
            a.total_cmp(b).then(requests_a.cmp(requests_b))
        });
        least.expect("an instance is up").1
    }

    fn needs(&self) -> Needs {
        let reads_caches = self.config.overlap_score_weight > 0.0;
        let interval = SimDuration::from_secs_f64(self.config.event_interval_ms / 1e3);
        Needs { caches: reads_caches.then_some(interval), ..Needs::OUTSTANDING }
    }
}
