//! Attempts that end without an answer.

use super::attempts::{Again, History, Place};
use super::client::Reason;
use crate::cluster::{Refusal, Role};
use crate::des::Class;
use crate::engine::{Finish, Life};
use crate::ids::RequestId;
use crate::request::Request;
use crate::sim::event::Event;
use crate::sim::observe::{Observer, Occurrence};
use crate::sim::run::Simulation;
use crate::sim::source::Source;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// The gateway refuses a request that comes to it, or waits there.
    pub(in crate::sim) fn turn_away(
        &mut self,
        now: SimTime,
        transit: u32,
        why: Refusal,
        observer: &mut impl Observer,
    ) {
        let (id, _) = self.transit.take(transit);
        observer.on(now, Occurrence::TurnedAway(id, why));
        let finish = match why {
            Refusal::NoReplica => Finish::Failed,
            Refusal::Full | Refusal::RateLimit | Refusal::Deadline => Finish::Rejected,
        };
        let Some(faults) = &mut self.faults else {
            let over = Occurrence::GaveUp { request: id, life: None, finish, tries_again: false };
            observer.on(now, over);
            return self.leave(now, id, finish);
        };
        if matches!(why, Refusal::NoReplica | Refusal::RateLimit) {
            faults.sent(id, now);
        }
        self.give_up(now, id, finish, observer);
    }

    /// No instance is known to be up that could decode a request whose prompt is computed.
    pub(in crate::sim) fn strand(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        self.trouble().attempt(id).place = Place::Nowhere;
        self.release(now, id, observer);
        self.give_up(now, id, Finish::Failed, observer);
    }

    /// A client has waited as long as it wanted to.
    pub(in crate::sim) fn hang_up(
        &mut self,
        now: SimTime,
        id: RequestId,
        reason: Reason,
        observer: &mut impl Observer,
    ) {
        let attempt = self.trouble().attempts.get(&id).filter(|attempt| !attempt.gave_up);
        let Some(place) = attempt.map(|attempt| attempt.place) else { return };
        if let Place::Inside(instance) = place {
            self.catch_up(now, instance, observer);
        }
        let has_token = || self.life(id, place).is_some_and(|life| life.first_token.is_some());
        if reason == Reason::NoFirstToken && has_token() {
            return;
        }
        let finish = match reason {
            Reason::Cancelled => Finish::Aborted,
            Reason::TimeOver | Reason::NoFirstToken => Finish::TimedOut,
        };
        self.abandon(now, id, finish, observer);
    }

    /// The same with what instances have of it.
    pub(in crate::sim) fn abandon(
        &mut self,
        now: SimTime,
        id: RequestId,
        finish: Finish,
        observer: &mut impl Observer,
    ) {
        let place = self.trouble().attempt(id).place;
        if let Place::Inside(instance) = place {
            self.catch_up(now, instance, observer);
        }
        self.give_up(now, id, finish, observer);
        let decodes = |instance| self.cluster.role(instance) == Role::Decode;
        match place {
            Place::Inside(instance) => {
                // Steps that wait for it read that their client left when they have ended.
                if decodes(instance) && !self.cluster.instances[instance.index()].fetches(id) {
                    self.drop_kv(now, id, instance, observer);
                }
                self.cluster.instances[instance.index()].abort(id);
                self.rouse(now, instance);
            }
            Place::OnItsWay(instance) if decodes(instance) => self.release(now, id, observer),
            Place::Nowhere => {
                self.leave_gate(now, id);
                self.leave_between(now, id, observer);
            }
            Place::OnItsWay(_) | Place::Lost(..) => {}
        }
    }

    /// The client of an attempt waits for it no longer, and nothing is set aside for it: it tries again, or is
    /// content with none. Until instances have read that, they go on with it.
    pub(in crate::sim) fn give_up(
        &mut self,
        now: SimTime,
        id: RequestId,
        finish: Finish,
        observer: &mut impl Observer,
    ) {
        let place = self.trouble().attempt(id).place;
        let life = self.life(id, place);
        self.tries.end(id);
        self.pairs.end(id);
        match finish {
            Finish::TimedOut | Finish::Aborted => self.hang_up_limited(now, id),
            Finish::Done | Finish::Rejected | Finish::Failed => self.end_limited(now, id),
        }
        let destination = self.unreserve(now, id, observer);
        let faults = self.trouble();
        let attempt = faults.attempt(id);
        attempt.gave_up = true;
        let (history, request) = (attempt.history, attempt.request.clone());
        let again = faults.patience.retries_after(finish, history.retries).map(|wait| now + wait);
        // Who goes away while waiting for the retry never sends it.
        let again = again.filter(|at| history.leaves_at.is_none_or(|leaves| leaves > *at));
        let is_awaited = matches!(place, Place::OnItsWay(_)) && destination.is_none();
        if !is_awaited && !matches!(place, Place::Inside(_)) {
            faults.left(id);
        }
        let tries_again = again.is_some();
        if let Some(gate) = &mut self.gate {
            gate.room.queue().left(id, life.map_or(0, |life| life.generated));
        }
        let life = life.as_ref();
        observer.on(now, Occurrence::GaveUp { request: id, life, finish, tries_again });
        if let Some(instance) = place.instance() {
            match (self.cluster.role(instance), &mut self.cluster.disaggregation) {
                (Role::Decode, Some(parts)) => {
                    parts.left(id);
                    if self.gateway.counts_until_answered() {
                        self.gateway.left(id);
                    }
                }
                _ => self.gateway.left(id),
            }
            self.wake_gate(now);
        }
        match again {
            Some(at) => self.await_retry(at, id, request, history),
            None => self.leave(now, id, finish),
        }
        for instance in place.instance().into_iter().chain(destination) {
            self.end_drain(now, instance, observer);
        }
    }

    fn await_retry(&mut self, at: SimTime, id: RequestId, request: Request, history: History) {
        self.turns.remove(&id);
        let transit = self.transit.put(id, Request { arrival: at, ..request });
        let history = History { retries: history.retries + 1, ..history };
        self.trouble().retries.insert(transit, Again(history));
        self.queue.push(at, Class::Input, Event::Retry { transit });
    }

    /// What an attempt has come to on its instance.
    fn life(&self, id: RequestId, place: Place) -> Option<Life> {
        match place {
            Place::Inside(instance) => {
                let life = self.cluster.instances[instance.index()].scheduler().life(id);
                let is_unseen = self.cluster.role(instance) == Role::Prefill;
                life.map(|life| if is_unseen { life.unseen() } else { life })
            }
            Place::Lost(_, life) => life,
            Place::Nowhere | Place::OnItsWay(_) => None,
        }
    }
}
