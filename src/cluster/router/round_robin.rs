//! Each instance in turn.

use super::Route;
use crate::ids::InstanceId;
use crate::request::RequestView;

/// Each instance in turn, whatever its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundRobin {
    next: u32,
}

impl Route for RoundRobin {
    fn route(&mut self, _: RequestView<'_>, instances: u32) -> InstanceId {
        let chosen = self.next;
        self.next = (self.next + 1) % instances;
        InstanceId(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::request::Request;
    use crate::units::SimTime;

    #[test]
    fn every_instance_gets_its_turn() {
        let request = Request::new(SimTime::ZERO, 1, 1);
        let mut router = RoundRobin::default();
        let chosen: Vec<u32> =
            (0..5).map(|i| router.route(request.view(RequestId(i)), 3).0).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1]);
    }
}
