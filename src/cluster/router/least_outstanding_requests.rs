//! The instance with the fewest requests that were sent to it and have not left.
//!
//! The gateway counts them itself, so they are exact whatever engines report. Of equal instances
//! that with the lowest id is taken.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;

/// The instance with the fewest outstanding requests; of equal ones that with the lowest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeastOutstandingRequests;

impl Route for LeastOutstandingRequests {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        view.least_requests()
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
