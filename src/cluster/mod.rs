//! Instances behind a router: passive machines, driven by `sim`.

mod gateway;
pub mod router;
mod view;

use crate::engine::Instance;

pub use gateway::Gateway;
pub use router::{Needs, Route, Router};
pub use view::{ClusterView, Outstanding};

/// The instances of a run and the policy that chooses among them.
#[derive(Debug)]
pub struct Cluster {
    /// The replicas, indexed by [`InstanceId`](crate::ids::InstanceId).
    pub instances: Vec<Instance>,
    /// Which replica gets the next request.
    pub router: Router,
}
