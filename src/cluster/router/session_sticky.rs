//! A session stays on the instance of its first request, which is the one with the fewest
//! outstanding requests then (SGLang model gateway 0.3.2, `sgl-model-gateway/src/policies/manual.rs`
//! with `assignment_mode = min_load`).
//!
//! Of equal instances that with the lowest id is taken. Requests without a session go to the fewest
//! outstanding requests as well. A session whose instance is down or full begins anew on another. The gateway draws in both cases, and forgets a session after four
//! idle hours, which is not done here.

use rustc_hash::FxHashMap;

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::{InstanceId, SessionId};
use crate::request::RequestView;

/// A session stays on the instance of its first request.
#[derive(Debug, Clone, Default)]
pub struct SessionSticky {
    homes: FxHashMap<SessionId, InstanceId>,
}

impl Route for SessionSticky {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        match request.session {
            Some(session) => {
                let home = self.homes.entry(session).or_insert_with(|| view.least_requests());
                if !view.is_up(*home) {
                    *home = view.least_requests();
                }
                *home
            }
            None => view.least_requests(),
        }
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
