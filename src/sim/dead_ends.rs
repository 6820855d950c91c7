//! What the loop does where the router finds out by itself which instances are dead: requests that go there, and are
//! tried again.
//!
//! A request whose connection is refused, or breaks before its answer begins, comes back to the router, which tries it
//! again after a while or answers that it failed. One whose answer has begun fails with its instance, as its client has
//! read a part of it. To its client all attempts of the router are one: the id stays, and timeouts run on.

use std::collections::BTreeMap;

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Health, Refusal, Reply, Role};
use crate::des::Class;
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

/// Requests that the router tries again.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// How many attempts of each have failed.
    failed: BTreeMap<RequestId, u32>,
    /// Those that wait for their next attempt, by their places in the transit.
    waiting: BTreeMap<RequestId, u32>,
}

impl Tries {
    /// The attempts of a request are over.
    pub(super) fn end(&mut self, id: RequestId) {
        if !self.failed.is_empty() {
            self.failed.remove(&id);
        }
    }

    /// A request is not tried again; its place in the transit if it waited for that.
    pub(super) fn stop(&mut self, id: RequestId) -> Option<u32> {
        self.end(id);
        self.waiting.remove(&id)
    }
}

impl<W: Source> Simulation<W> {
    /// What is sent to an instance fares so from now on: the router is not told and finds it out.
    pub(super) fn connects(&mut self, now: SimTime, instance: InstanceId, health: Health) {
        let seen = self.seen(now);
        match (self.cluster.role(instance), &mut self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.connects(seen, instance, health),
            _ => self.gateway.connects(&mut self.cluster.router, seen, instance, health),
        }
    }

    /// The router sees that an instance begins to answer a request, or rejects it.
    pub(super) fn answered(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        reply: Reply,
    ) {
        if self.gateway.finds_out() && instance.0 < self.cluster.entrances() {
            self.tries.end(id);
            self.record(now, instance, reply);
        }
        self.begin_answer(now, id);
    }

    /// Its breaker records how a request fared at an instance.
    pub(super) fn record(&mut self, now: SimTime, instance: InstanceId, reply: Reply) {
        let seen = self.seen(now);
        match (self.cluster.role(instance), &mut self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.answered(seen, instance, reply),
            _ => self.gateway.answered(&mut self.cluster.router, seen, instance, reply),
        }
    }

    /// A request comes back from a dead instance, which did not take it.
    pub(super) fn come_back_from(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        self.record(now, instance, Reply::Dead);
        self.come_back(now, id, instance, observer);
    }

    /// A request that was sent to an instance comes back, as an instance did not take it.
    pub(super) fn come_back(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let request = self.recall(id);
        self.gateway.left(id);
        if let Some(migrating) = &mut self.migrating {
            migrating.left(id);
        }
        let transit = self.transit.put(id, request);
        if !self.tries_again(now, transit, Some(instance), observer) {
            self.transit.take(transit);
            self.give_up(now, id, Finish::Failed, observer);
        }
        self.wake_gate(now);
        self.end_drain(now, instance, observer);
    }

    /// The router holds all instances for dead; whether it tries the request again.
    pub(super) fn find_none(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> bool {
        let tries_again = self.tries_again(now, transit, None, observer);
        if !tries_again {
            self.turn_away(now, transit, Refusal::NoReplica, observer);
        }
        tries_again
    }

    /// An attempt of a request has failed, at this instance if there was one; whether another one follows.
    fn tries_again(
        &mut self,
        now: SimTime,
        transit: u32,
        at: Option<InstanceId>,
        observer: &mut impl Observer,
    ) -> bool {
        let (id, request) = self.transit.get(transit);
        let failed = self.tries.failed.entry(id).or_default();
        *failed += 1;
        let Some(wait) = self.cluster.router.waits_after(request.model.index(), *failed) else {
            self.tries.end(id);
            return false;
        };
        self.tries.waiting.insert(id, transit);
        observer.on(now, Occurrence::CameBack(id, at));
        self.queue.push(now + wait, Class::Input, Event::TryAgain { request: id });
        true
    }

    /// The next attempt of a request is due; nothing if it does not wait for that any more.
    pub(super) fn try_again(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        let Some(transit) = self.tries.waiting.remove(&id) else { return };
        self.reach_router(now, transit, observer);
    }
}
