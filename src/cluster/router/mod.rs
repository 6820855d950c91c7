//! Routers: which instance gets a request. One policy, one file.
//!
//! A router of one's own implements [`Route`] and goes into [`Router::Custom`]:
//!
//! ```
//! use servecast::cluster::{Cluster, ClusterView, Needs, Route, Router};
//! use servecast::ids::InstanceId;
//! use servecast::request::RequestView;
//!
//! /// Short prompts go to the first instance, long ones to the last.
//! #[derive(Debug)]
//! struct ByLength;
//!
//! impl Route for ByLength {
//!     fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
//!         InstanceId(if request.prompt_tokens < 1000 { 0 } else { view.instances - 1 })
//!     }
//!
//!     fn needs(&self) -> Needs {
//!         Needs::NOTHING
//!     }
//! }
//!
//! let cluster = Cluster::new(Vec::new(), Router::Custom(Box::new(ByLength)));
//! assert!(!cluster.router.goes_in_turn());
//! ```
//!
//! Some routers are also told what happens to requests and caches, and may have requests wait (`told.rs`).

mod adapter_affinity;
mod block_index;
mod cold_order;
mod dlora_dispatch;
pub mod dynamo;
mod latency_predicting;
mod least_outstanding_requests;
mod least_outstanding_tokens;
mod power_of_two_choices;
mod prefix_aware;
mod prefix_exact;
mod prefix_index;
mod random;
mod rank_aware;
mod round_robin;
mod session_sticky;
pub(crate) mod sglang;
mod told;
pub(crate) mod vllm_router;
mod weighted;

#[cfg(test)]
mod tests;

use std::fmt;

use self::dynamo::Pool;
use super::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::rng::{Seed, mix};
use crate::scenario::{PrefixExactConfig, RouterConfig};
use crate::units::SimDuration;
use sglang::Serves;

pub use adapter_affinity::AdapterAffinity;
pub use dlora_dispatch::DloraDispatch;
pub use dynamo::Dynamo;
pub use latency_predicting::LatencyPredicting;
pub use least_outstanding_requests::LeastOutstandingRequests;
pub use least_outstanding_tokens::LeastOutstandingTokens;
pub use power_of_two_choices::PowerOfTwoChoices;
pub use prefix_aware::PrefixAware;
pub use prefix_exact::PrefixExact;
pub use random::Random;
pub use rank_aware::RankAware;
pub use round_robin::RoundRobin;
pub use session_sticky::SessionSticky;
pub use sglang::SglangFrame;
pub use told::{Routed, Signal};
pub use weighted::Weighted;

/// Chooses an instance for a request, of which it never learns the length of the answer.
pub trait Route: fmt::Debug + Send {
    /// One of the instances of `view`.
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId;

    /// What of the view it reads; asked once, before the first request. What it does not ask for is not kept
    /// for it: reports of engines cost a look at each of them, and caches more than that.
    fn needs(&self) -> Needs;
}

/// What of a [`ClusterView`] a router reads. The rest is not kept for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for on its own")]
pub struct Needs {
    /// Whether it reads what is outstanding.
    pub outstanding: bool,
    /// How old the reports of engines may grow before new ones are taken with the next request;
    /// zero for reports of the moment, `None` if it reads none.
    pub signals: Option<SimDuration>,
    /// The same of what the caches of engines hold.
    pub caches: Option<SimDuration>,
    /// Whether it reads how many outstanding requests use each adapter.
    pub by_adapter: bool,
    /// Whether it reads how many conversations have outstanding requests; it then reads what is outstanding too.
    pub by_session: bool,
    /// As signals, of which adapters engines hold and run.
    pub adapters: Option<SimDuration>,
    /// Whether it is told when the prompt of a request is computed, and when a request leaves.
    pub lifecycle: bool,
    /// Whether it is told what the caches of engines come to hold and forget.
    pub cache_events: bool,
    /// Whether it finds out by itself which instances are down: none is kept from it for that, and it is told what
    /// becomes of what it sends.
    pub finds_out: bool,
    /// Whether what is outstanding where prompts are prefilled is so until the answer is read, wherever it is
    /// decoded; until the prompt is computed if not.
    pub until_answered: bool,
}

impl Needs {
    /// It looks at the request alone.
    pub const NOTHING: Self = Self {
        outstanding: false,
        signals: None,
        caches: None,
        by_adapter: false,
        by_session: false,
        adapters: None,
        lifecycle: false,
        cache_events: false,
        finds_out: false,
        until_answered: false,
    };
    /// It reads what is outstanding.
    pub const OUTSTANDING: Self = Self { outstanding: true, ..Self::NOTHING };
    /// It reads all there is, reports of the moment.
    pub const EVERYTHING: Self = Self {
        outstanding: true,
        signals: Some(SimDuration::ZERO),
        caches: Some(SimDuration::ZERO),
        by_adapter: true,
        by_session: true,
        adapters: Some(SimDuration::ZERO),
        ..Self::NOTHING
    };
}

/// The routers of the project.
#[derive(Debug)]
pub enum Router {
    /// Each instance in turn.
    RoundRobin(RoundRobin),
    /// Any instance.
    Random(Random),
    /// The fewest outstanding requests.
    LeastOutstandingRequests(LeastOutstandingRequests),
    /// The fewest outstanding prompt tokens.
    LeastOutstandingTokens(LeastOutstandingTokens),
    /// The better of two random instances.
    PowerOfTwoChoices(PowerOfTwoChoices),
    /// A session stays where it began.
    SessionSticky(SessionSticky),
    /// Where the beginning of the prompt was sent before.
    PrefixAware(PrefixAware),
    /// The least cost of what is not cached and of what is outstanding.
    PrefixExact(PrefixExact),
    /// The least predicted latency.
    LatencyPredicting(LatencyPredicting),
    /// The highest weighted sum of scores.
    Weighted(Box<Weighted>),
    /// Where the adapter is.
    AdapterAffinity(AdapterAffinity),
    /// The least cost by ranks of adapters.
    RankAware(RankAware),
    /// The least cost of batches of one adapter and of several.
    DloraDispatch(DloraDispatch),
    /// Dynamo's KV router.
    Dynamo(Box<Dynamo>),
    /// A maker's router, decision by decision.
    Makers(Box<SglangFrame>),
    /// A router for each model, of those that serve it.
    PerModel(Vec<Router>),
    /// A router of the library's user.
    Custom(Box<dyn Route>),
}

impl Route for Router {
    #[inline]
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        match self {
            Self::RoundRobin(router) => router.route(request, view),
            Self::Random(router) => router.route(request, view),
            Self::LeastOutstandingRequests(router) => router.route(request, view),
            Self::LeastOutstandingTokens(router) => router.route(request, view),
            Self::PowerOfTwoChoices(router) => router.route(request, view),
            Self::SessionSticky(router) => router.route(request, view),
            Self::PrefixAware(router) => router.route(request, view),
            Self::PrefixExact(router) => router.route(request, view),
            Self::LatencyPredicting(router) => router.route(request, view),
            Self::Weighted(router) => router.route(request, view),
            Self::AdapterAffinity(router) => router.route(request, view),
            Self::RankAware(router) => router.route(request, view),
            Self::DloraDispatch(router) => router.route(request, view),
            Self::Dynamo(router) => router.route(request, view),
            Self::Makers(router) => router.route(request, view),
            Self::PerModel(routers) => routers[request.model.index()].route(request, view),
            Self::Custom(router) => router.route(request, view),
        }
    }

    fn needs(&self) -> Needs {
        match self {
            Self::RoundRobin(router) => router.needs(),
            Self::Random(router) => router.needs(),
            Self::LeastOutstandingRequests(router) => router.needs(),
            Self::LeastOutstandingTokens(router) => router.needs(),
            Self::PowerOfTwoChoices(router) => router.needs(),
            Self::SessionSticky(router) => router.needs(),
            Self::PrefixAware(router) => router.needs(),
            Self::PrefixExact(router) => router.needs(),
            Self::LatencyPredicting(router) => router.needs(),
            Self::Weighted(router) => router.needs(),
            Self::AdapterAffinity(router) => router.needs(),
            Self::RankAware(router) => router.needs(),
            Self::DloraDispatch(router) => router.needs(),
            Self::Dynamo(router) => router.needs(),
            Self::Makers(router) => router.needs(),
            Self::PerModel(routers) => routers.first().map_or(Needs::NOTHING, Route::needs),
            Self::Custom(router) => router.needs(),
        }
    }
}

impl Router {
    /// Whether instances get requests in turn, whatever happens.
    pub fn goes_in_turn(&self) -> bool {
        matches!(self, Self::RoundRobin(_))
    }

    /// A router for each of so many models, which draw from seeds of their own.
    pub fn per_model(count: usize, seed: Seed, router: impl Fn(Seed) -> Self) -> Self {
        let own = |model| if model == 0 { seed } else { Seed(mix(seed.0 ^ mix(model))) };
        match count {
            0 | 1 => router(seed),
            _ => Self::PerModel((0..count as u64).map(|model| router(own(model))).collect()),
        }
    }

    /// The router of instances that decode what others prefilled, beside a router with this configuration. As
    /// Dynamo's, it looks for no cached prefixes: KV caches come from elsewhere.
    pub fn of_decodes(config: &RouterConfig, seed: Seed) -> Self {
        match config {
            RouterConfig::PrefixExact(config) => {
                let config = PrefixExactConfig { overlap_score_weight: 0.0, ..*config };
                Self::PrefixExact(PrefixExact::new(config))
            }
            RouterConfig::Dynamo(config) => {
                Self::Dynamo(Box::new(Dynamo::new(config, Pool::Decode, seed)))
            }
            RouterConfig::Makers(config) => {
                Self::Makers(Box::new(SglangFrame::new(config, Serves::Decodes, seed)))
            }
            config => Self::new(config, seed),
        }
    }

    /// The router of instances that prefill what others decode, beside those.
    pub fn of_prefills(config: &RouterConfig, seed: Seed) -> Self {
        match config {
            RouterConfig::Dynamo(config) => {
                Self::Dynamo(Box::new(Dynamo::new(config, Pool::Prefill, seed)))
            }
            RouterConfig::Makers(config) => {
                Self::Makers(Box::new(SglangFrame::new(config, Serves::Prefills, seed)))
            }
            config => Self::new(config, seed),
        }
    }

    /// The router of a configuration; what it draws comes from the seed's stream `router`.
    pub fn new(config: &RouterConfig, seed: Seed) -> Self {
        let stream = || seed.stream("router", 0);
        match config {
            RouterConfig::RoundRobin {} => Self::RoundRobin(RoundRobin::default()),
            RouterConfig::Random {} => Self::Random(Random::new(stream())),
            RouterConfig::LeastOutstandingRequests {} => {
                Self::LeastOutstandingRequests(LeastOutstandingRequests)
            }
            RouterConfig::LeastOutstandingTokens {} => {
                Self::LeastOutstandingTokens(LeastOutstandingTokens)
            }
            RouterConfig::PowerOfTwoChoices {} => {
                Self::PowerOfTwoChoices(PowerOfTwoChoices::new(stream()))
            }
            RouterConfig::SessionSticky {} => Self::SessionSticky(SessionSticky::default()),
            RouterConfig::PrefixAware(config) => Self::PrefixAware(PrefixAware::new(*config)),
            RouterConfig::PrefixExact(config) => Self::PrefixExact(PrefixExact::new(*config)),
            RouterConfig::LatencyPredicting(config) => {
                Self::LatencyPredicting(LatencyPredicting::new(*config))
            }
            RouterConfig::Weighted(config) => {
                Self::Weighted(Box::new(Weighted::new(*config, stream())))
            }
            RouterConfig::AdapterAffinity(config) => {
                Self::AdapterAffinity(AdapterAffinity::new(*config))
            }
            RouterConfig::RankAware(config) => Self::RankAware(RankAware::new(*config)),
            RouterConfig::DloraDispatch(config) => Self::DloraDispatch(DloraDispatch::new(*config)),
            RouterConfig::Dynamo(config) => {
                Self::Dynamo(Box::new(Dynamo::new(config, Pool::Aggregated, seed)))
            }
            RouterConfig::Makers(config) => {
                Self::Makers(Box::new(SglangFrame::new(config, Serves::Whole, seed)))
            }
        }
    }
}
