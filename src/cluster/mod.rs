//! Instances behind a router: passive machines, driven by `sim`.

pub mod disaggregation;
pub mod router;

use crate::engine::Instance;
use crate::ids::InstanceId;
use crate::request::RequestView;

pub use disaggregation::{Disaggregation, KvBlock, Links, Role, Transfer};
pub use router::{Route, Router};

/// The instances of a run and the policy that chooses among them.
#[derive(Debug)]
pub struct Cluster {
    /// The replicas, indexed by [`InstanceId`].
    pub instances: Vec<Instance>,
    /// Which replica gets the next request.
    pub router: Router,
    /// Where some replicas prefill and others decode.
    pub disaggregation: Option<Disaggregation>,
}

impl Cluster {
    /// Instances that do all of a request, behind a router.
    pub fn new(instances: Vec<Instance>, router: Router) -> Self {
        Self { instances, router, disaggregation: None }
    }

    /// The instance that gets a request first.
    pub fn route(&mut self, request: RequestView<'_>) -> InstanceId {
        let count = match &self.disaggregation {
            Some(parts) => parts.prefills(),
            None => self.instances.len() as u32,
        };
        self.router.route(request, count)
    }

    /// What an instance does of a request.
    pub fn role(&self, instance: InstanceId) -> Role {
        self.disaggregation.as_ref().map_or(Role::Whole, |parts| parts.role(instance))
    }
}
