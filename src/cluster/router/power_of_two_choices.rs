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
        let count = view.count_up();
        if count == 1 {
            return view.nth_up(0);
        }
        let first = self.stream.random_range(0..count);
        let further = self.stream.random_range(1..count);
        let second = ((u64::from(first) + u64::from(further)) % u64::from(count)) as u32;
        let (first, second) = (view.nth_up(first), view.nth_up(second));
        let requests = |id: InstanceId| view.outstanding[id.index()].requests;
        if requests(first) <= requests(second) { first } else { second }
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}
