//! Routers: which instance gets a request. One policy, one file.

mod round_robin;

use serde::{Deserialize, Serialize};

use crate::ids::InstanceId;
use crate::request::RequestView;

pub use round_robin::RoundRobin;

/// Chooses an instance for a request, of which it never learns the length of the answer.
pub trait Route {
    /// One of `instances` identical instances.
    fn route(&mut self, request: RequestView<'_>, instances: u32) -> InstanceId;
}

/// The routers of the project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
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
