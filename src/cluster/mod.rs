//! Instances behind a router: passive machines, driven by `sim`.

pub mod router;

use crate::engine::Instance;
use crate::ids::InstanceId;
use crate::request::RequestView;

pub use router::{Route, Router};

/// The instances of a run and the policy that chooses among them.
#[derive(Debug)]
pub struct Cluster {
    /// The replicas, indexed by [`InstanceId`].
    pub instances: Vec<Instance>,
    /// Which replica gets the next request.
    pub router: Router,
}

impl Cluster {
    /// The instance that gets a request.
    pub fn route(&mut self, request: RequestView<'_>) -> InstanceId {
        self.router.route(request, self.instances.len() as u32)
    }
}
