//! Any instance, each as likely as the others.

use rand::RngExt;

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::rng::Stream;

/// Any instance, each as likely as the others.
#[derive(Debug, Clone)]
pub struct Random {
    stream: Stream,
}

impl Random {
    /// Draws from a stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream }
    }
}

impl Route for Random {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        view.nth_up(self.stream.random_range(0..view.count_up()))
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}
