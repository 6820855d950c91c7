//! The laws where something fails: an attempt is given up once, an instance drops it once.

use super::blocks::check;
use super::{Place, Progress, Watch};
use crate::engine::scheduler::Load;
use crate::engine::{Finish, Life};
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl Watch {
    /// A client waits no longer.
    pub(super) fn gave_up(&mut self, id: RequestId, finish: Finish, tries_again: bool) {
        let request = self.request(id);
        request.tries_again = tries_again;
        request.place = match request.place {
            Place::Inside(instance) => Place::Abandoned(instance),
            Place::AtClient
            | Place::AtGateway
            | Place::OnItsWay(_)
            | Place::HandedOver
            | Place::Lost => Place::Left,
            place => panic!("L1: request {id} is given up twice, it is {place:?}"),
        };
        if !tries_again {
            self.count(finish);
        }
    }

    /// An instance forgets a request that has no answer.
    pub(super) fn dropped(&mut self, at: SimTime, instance: InstanceId, life: &Life) {
        let request = self.request(life.id);
        request.place = match request.place {
            Place::Inside(there) if there == instance => Place::Lost,
            Place::Abandoned(there) if there == instance => Place::Left,
            place => panic!("L1: request {} is dropped by {instance}, it is {place:?}", life.id),
        };
        self.served(at, life);
    }

    /// All that was in flight on an instance, and all that it held, is gone.
    pub(super) fn crashed(&mut self, at: SimTime, instance: InstanceId, load: Load) {
        let device = self.device(instance);
        (device.stepped, device.free, device.handed_over) = (device.planned, at, 0);
        check(instance, load);
    }

    /// A request that was given up is sent again.
    pub(super) fn retried(&mut self, retry: RequestId, of: RequestId) {
        let Progress { place, tries_again, .. } = *self.request(of);
        let is_over = matches!(place, Place::Left | Place::Abandoned(_)) && tries_again;
        assert!(is_over, "L1: request {of} is sent again as {retry}, it is {place:?}");
        self.seen.arrived -= 1;
        self.seen.retried += 1;
    }
}
