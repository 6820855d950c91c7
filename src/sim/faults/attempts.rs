//! Where each attempt to have a request answered stands.

use super::Faults;
use super::client::Reason;
use crate::cluster::Health;
use crate::cluster::Role;
use crate::des::Class;
use crate::engine::{Finish, Life};
use crate::ids::{InstanceId, RequestId};
use crate::request::{Request, Segment};
use crate::sim::event::Event;
use crate::sim::observe::{Observer, Occurrence};
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

/// An attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) request: Request,
    pub(super) place: Place,
    /// Whether its client waits no longer.
    pub(super) gave_up: bool,
    pub(super) history: History,
}

/// What an attempt takes over from those before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    /// Requests of the workload before this one.
    pub(super) arrived_before: u64,
    /// Attempts before.
    pub(super) retries: u32,
    /// When its user goes away, once it was sent.
    pub(super) leaves_at: Option<SimTime>,
}

/// A retry to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again(pub(super) History);

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Not sent yet, at the gateway, or between two instances.
    Nowhere,
    OnItsWay(InstanceId),
    Inside(InstanceId),
    /// Its instance has crashed, which nobody has noticed; what it was there, if it came that far.
    Lost(InstanceId, Option<Life>),
}

impl Place {
    /// The instance that the gateway has sent it to.
    pub(super) fn instance(self) -> Option<InstanceId> {
        match self {
            Self::Nowhere => None,
            Self::OnItsWay(instance) | Self::Inside(instance) | Self::Lost(instance, _) => {
                Some(instance)
            }
        }
    }
}

impl Faults {
    /// A request of the workload arrives, after so many others. If it may be sent again its prompt has
    /// a name, under which the next attempt, which has another id, finds what this one leaves in a
    /// cache.
    pub(in crate::sim) fn arrived(&mut self, id: RequestId, request: &mut Request, before: u64) {
        if self.patience.retries() && request.content.segments.is_none() {
            let (stream, len) = (Segment::unique_stream(id), request.prompt_tokens);
            request.content.segments = Some([Segment { stream, start: 0, len }].into());
        }
        let history = History { arrived_before: before, retries: 0, leaves_at: None };
        self.begin(id, request, history);
    }

    fn begin(&mut self, id: RequestId, request: &Request, history: History) {
        let (request, place) = (request.clone(), Place::Nowhere);
        self.attempts.insert(id, Attempt { request, place, gave_up: false, history });
    }

    /// An attempt is back at the router, with its request.
    fn back(&mut self, id: RequestId) -> Request {
        let attempt = self.attempt(id);
        attempt.place = Place::Nowhere;
        attempt.request.clone()
    }

    /// An attempt is on its way to an instance.
    pub(in crate::sim) fn moved(&mut self, id: RequestId, instance: InstanceId) {
        self.attempt(id).place = Place::OnItsWay(instance);
    }

    /// An attempt is sent, whether an instance takes it or not: with the first one its user has begun to
    /// wait.
    pub(super) fn sent(&mut self, id: RequestId, now: SimTime) {
        let history = self.attempt(id).history;
        if history.retries == 0 && history.leaves_at.is_none() {
            let leaves_at = self.patience.leaves_at(history.arrived_before, now);
            self.attempt(id).history.leaves_at = leaves_at;
        }
    }

    /// An attempt has ended as its instance says.
    pub(in crate::sim) fn left(&mut self, id: RequestId) {
        self.attempts.remove(&id);
    }

    pub(super) fn attempt(&mut self, id: RequestId) -> &mut Attempt {
        let attempt = self.attempts.get_mut(&id);
        attempt.unwrap_or_else(|| panic!("request {id} is over"))
    }

    /// The attempts in places, by id.
    pub(super) fn find(&self, is_there: impl Fn(Place) -> bool) -> Vec<RequestId> {
        let there = self.attempts.iter().filter(|(_, attempt)| is_there(attempt.place));
        there.map(|(id, _)| *id).collect()
    }
}

impl<W: Source> Simulation<W> {
    /// An attempt is sent: its client begins to wait.
    pub(in crate::sim) fn begin_to_wait(&mut self, now: SimTime, id: RequestId) {
        let Some(faults) = &mut self.faults else { return };
        let (timeout, first_token) = (faults.patience.timeout, faults.patience.first_token_timeout);
        faults.sent(id, now);
        let history = faults.attempt(id).history;
        let waits = [
            (history.leaves_at, Reason::Cancelled),
            (timeout.map(|timeout| now + timeout), Reason::TimeOver),
            (first_token.map(|timeout| now + timeout), Reason::NoFirstToken),
        ];
        for (at, reason) in waits {
            if let Some(at) = at {
                self.queue.push(at, Class::Control, Event::HangUp { request: id, reason });
            }
        }
    }

    /// A request that was sent, and not taken, is back at the router.
    pub(in crate::sim) fn recall(&mut self, id: RequestId) -> Request {
        self.trouble().back(id)
    }

    /// A retry is due.
    pub(in crate::sim) fn retry(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) {
        let (before, request) = self.transit.take(transit);
        let again = self.trouble().retries.remove(&transit);
        let Again(history) = again.expect("a retry is due");
        let id = self.next_id();
        self.counts.retried += 1;
        observer.on(now, Occurrence::Arrived(id, &request));
        observer.on(now, Occurrence::Retried { retry: id, of: before });
        self.trouble().begin(id, &request, history);
        let transit = self.transit.put(id, request);
        self.send(now, transit, observer);
    }

    /// Whether an attempt that comes to an instance enters its queue: its client still waits, and the
    /// instance is there.
    pub(in crate::sim) fn is_taken_in(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) -> bool {
        let Some(faults) = &mut self.faults else { return true };
        let health = faults.healths.of(instance);
        let attempt = faults.attempt(id);
        if attempt.gave_up {
            faults.left(id);
            return false;
        }
        if health == Health::Up {
            attempt.place = Place::Inside(instance);
            return true;
        }
        attempt.place = Place::Lost(instance, None);
        if self.cluster.role(instance) == Role::Decode {
            self.release(now, id, observer);
        }
        let is_whole = self.cluster.role(instance) == Role::Whole;
        if health == Health::Down && is_whole && self.gateway.finds_out() {
            self.come_back_from(now, id, instance, observer);
        } else if health == Health::Down {
            self.give_up(now, id, Finish::Failed, observer);
        }
        false
    }
}
