//! What the loop does where the router finds out by itself which instances are dead: requests that go there.
//!
//! A request whose connection is refused, or breaks before its answer begins, comes back to the router. One whose answer
//! has begun fails with its instance, as its client has read a part of it.

use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Health, Refusal};
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// What is sent to an instance fares so from now on: the router is not told and finds it out.
    pub(super) fn connects(&mut self, now: SimTime, instance: InstanceId, health: Health) {
        let seen = self.seen(now);
        self.gateway.connects(&mut self.cluster.router, seen, instance, health);
    }

    /// The router sees that an instance begins to answer a request, or refuses it.
    pub(super) fn answered(&mut self, now: SimTime, instance: InstanceId, is_success: bool) {
        if self.gateway.finds_out() && instance.0 < self.cluster.entrances() {
            let seen = self.seen(now);
            self.gateway.answered(&mut self.cluster.router, seen, instance, is_success);
        }
    }

    /// A request comes back from a dead instance, which did not take it.
    pub(super) fn come_back(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.answered(now, instance, false);
        self.give_up(now, id, Finish::Failed, observer);
    }

    /// The router holds all instances for dead.
    pub(super) fn find_none(&mut self, now: SimTime, transit: u32, observer: &mut impl Observer) {
        self.turn_away(now, transit, Refusal::NoReplica, observer);
    }
}
