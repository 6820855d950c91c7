//! The instance with the fewest prompt tokens among its outstanding requests.
//!
//! Answers do not count: how long they will be nobody knows, and how much of them is out a gateway
//! that passes streams on does not count. Of instances with equal tokens that with fewer requests is
//! taken, then that with the lower id.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;

/// The instance with the fewest outstanding prompt tokens; of equal ones that with fewer
/// outstanding requests, then that with the lowest id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeastOutstandingTokens;

impl Route for LeastOutstandingTokens {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        view.least(|id| {
            let outstanding = view.outstanding[id.index()];
            (outstanding.prompt_tokens, outstanding.requests)
        })
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
