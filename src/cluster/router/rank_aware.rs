//! Rank-aware scheduling of Toppings (`CaraServe`, arXiv 2401.11240, algorithm 1), with the laws of
//! WILLIAM-qmul/SGLang-dLoRA, `python/sglang/srt/instances/rank_aware_scheduler.py`.
//!
//! A decode step of a set S of requests takes DecPerf(S) = α · f(S) + β, where f is √(n · r) or n · r of their
//! number n and the largest of their ranks r; its prefill PrePerf(S) = DecPerf(S) · the longest prompt in S. A
//! request costs an instance what it adds to the prefill of its queue, by the length of an answer, and to its decode:
//!
//! (PrePerf(queue + it) − PrePerf(queue)) / mean answer + DecPerf(all + it) − DecPerf(all)
//!
//! times the number of requests there, at least 1; without bound where DecPerf(all + it) is beyond the limit.
//! The least cost wins, and where all are without bound the fewest requests.
//!
//! The recorded runs of that project knew no ranks, because its engines reported 0 for all; here ranks are the
//! true ones. Who runs is what engines reported, of some age; the others that were sent there form the
//! queue. Its longest prompt is the one reported, or the one sent there last.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::{RankAwareConfig, RankKernel};
use crate::units::SimDuration;

/// Some requests: how many, and the largest of their ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Set {
    requests: u32,
    rank: u32,
}

impl Set {
    fn with(self, rank: u32) -> Self {
        Self { requests: self.requests + 1, rank: self.rank.max(rank) }
    }
}

/// The least cost of a request by ranks.
#[derive(Debug, Clone)]
pub struct RankAware {
    config: RankAwareConfig,
    /// By instance, the prompt that was sent there last, in tokens.
    sent_last: Vec<u32>,
}

impl RankAware {
    /// A router that has sent nothing.
    pub fn new(config: RankAwareConfig) -> Self {
        Self { config, sent_last: Vec::new() }
    }

    /// How long a decode step of these requests takes, in ms.
    fn decode_ms(&self, set: Set) -> f64 {
        let work = f64::from(set.requests) * f64::from(set.rank);
        let work = match self.config.kernel {
            RankKernel::Csgmv => work.sqrt(),
            RankKernel::Triton => work,
        };
        self.config.alpha_ms() * work + self.config.beta_ms()
    }

    /// What a request of this rank and prompt costs an instance, in ms; `None` beyond the limit.
    fn cost(
        &self,
        (rank, prompt): (u32, u32),
        (queue, longest): (Set, u32),
        all: Set,
    ) -> Option<f64> {
        let after = self.decode_ms(all.with(rank));
        if after > self.config.slo_ms {
            return None;
        }
        let before = self.decode_ms(queue) * f64::from(longest);
        let prefill = self.decode_ms(queue.with(rank)) * f64::from(longest.max(prompt)) - before;
        let added = prefill / self.config.mean_output_tokens + after - self.decode_ms(all);
        Some(added * f64::from(all.requests.max(1)))
    }

    /// Of the requests that were sent to an instance: those that do not run as far as is known, the longest
    /// prompt among them, and all.
    fn sets(&self, id: InstanceId, view: &ClusterView<'_>) -> (Set, u32, Set) {
        let (mut queue, mut all) = (Set::default(), Set::default());
        for (adapter, sent) in view.adapters.counts(id) {
            let rank = view.adapters.rank(adapter);
            let waiting = sent - view.adapters.running(id, adapter).min(sent);
            for (set, count) in [(&mut queue, waiting), (&mut all, sent)] {
                if count > 0 {
                    *set = Set { requests: set.requests + count, rank: set.rank.max(rank) };
                }
            }
        }
        let sent_last = self.sent_last.get(id.index()).copied().unwrap_or(0);
        let longest = view.adapters.longest_waiting(id).max(sent_last);
        (queue, if queue.requests > 0 { longest } else { 0 }, all)
    }
}

impl Route for RankAware {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let own = (view.adapters.rank(request.adapter), request.prompt_tokens);
        let costs = view.up().filter_map(|id| {
            let (queue, longest, all) = self.sets(id, view);
            Some((self.cost(own, (queue, longest), all)?, id))
        });
        let least = costs.min_by(|a, b| a.0.total_cmp(&b.0));
        let chosen = least.map_or_else(|| view.least_requests(), |(_, id)| id);
        if self.sent_last.len() <= chosen.index() {
            self.sent_last.resize(chosen.index() + 1, 0);
        }
        self.sent_last[chosen.index()] = request.prompt_tokens;
        chosen
    }

    fn needs(&self) -> Needs {
        let interval = SimDuration::from_secs_f64(self.config.signal_interval_ms / 1e3);
        Needs { by_adapter: true, adapters: Some(interval), ..Needs::OUTSTANDING }
    }
}
