//! Of two random instances that with fewer outstanding requests (SGLang model gateway 0.3.2,
//! `sgl-model-gateway/src/policies/power_of_two.rs`, which compares token loads instead where workers
//! report them).
//!
//! The two differ; of equal ones the one drawn first is taken.

use rand::RngExt;

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::rng::Stream;

/// Of two random instances that with fewer outstanding requests.
#[derive(Debug, Clone)]
pub struct PowerOfTwoChoices {
    stream: Stream,
}

impl PowerOfTwoChoices {
    /// Draws from a stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream }
    }
}

impl Route for PowerOfTwoChoices {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        if view.instances == 1 {
            return InstanceId(0);
        }
        let first = self.stream.random_range(0..view.instances);
        let further = self.stream.random_range(1..view.instances);
        let second = ((u64::from(first) + u64::from(further)) % u64::from(view.instances)) as u32;
        let requests = |instance: u32| view.outstanding[instance as usize].requests;
        InstanceId(if requests(first) <= requests(second) { first } else { second })
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
