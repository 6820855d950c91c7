//! Each instance in turn.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;

/// Each instance in turn, whatever its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundRobin {
    next: u32,
}

impl Route for RoundRobin {
    #[inline]
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        while !view.is_up(InstanceId(self.next)) {
            self.next = (self.next + 1) % view.instances;
        }
        let chosen = self.next;
        self.next = (self.next + 1) % view.instances;
        InstanceId(chosen)
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}
