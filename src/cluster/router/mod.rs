//! Routers: which instance gets a request. One policy, one file.

mod round_robin;

use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::RouterConfig;

pub use round_robin::RoundRobin;

/// Chooses an instance for a request, of which it never learns the length of the answer.
pub trait Route {
    /// One of `instances` identical instances.
    fn route(&mut self, request: RequestView<'_>, instances: u32) -> InstanceId;
}

/// The routers of the project.
#[derive(Debug, Clone)]
pub enum Router {
    /// Each instance in turn.
    RoundRobin(RoundRobin),
}

impl Route for Router {
    fn route(&mut self, request: RequestView<'_>, instances: u32) -> InstanceId {
        match self {
            Self::RoundRobin(router) => router.route(request, instances),
        }
    }
}

impl Router {
    /// Whether instances get requests in turn, whatever happens.
    pub fn goes_in_turn(&self) -> bool {
        match self {
            Self::RoundRobin(_) => true,
        }
    }

    /// The router of a configuration.
    pub fn new(config: &RouterConfig) -> Self {
        match config {
            RouterConfig::RoundRobin {} => Self::RoundRobin(RoundRobin::default()),
        }
    }
}
