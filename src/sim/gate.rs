//! What the loop does where requests may have to wait at the gateway.
//!
//! The gateway decides last at an instant: all requests that come then are seen together, all steps that
//! end then have ended. It looks whenever a request comes, one goes away, one leaves a replica, a replica
//! serves again, or its bucket has filled, so that every request that waits has somebody to wake it.

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Disaggregation, Next, Queue, Ranks, Refusal, Room, Routed};
use crate::des::Class;
use crate::ids::{InstanceId, ModelId, RequestId};
use crate::scenario::{ClassConfig, GatewayConfig};
use crate::units::SimTime;

/// The waiting room of the gateway, and when it is looked into.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) room: Room,
    /// Whether it is going to be looked into at this instant.
    opens_now: bool,
    /// When the bucket has filled for the request that is next, if that is waited for.
    opens_at: Option<SimTime>,
}

impl Gate {
    /// Whether it is going to be looked into at this instant.
    pub(super) fn opens_now(&self) -> bool {
        self.opens_now
    }
}

impl<W: Source> Simulation<W> {
    /// The same run behind a gateway that holds requests back, of these classes.
    #[must_use]
    pub fn with_gateway(
        mut self,
        config: &GatewayConfig,
        classes: &[ClassConfig],
        ranks: Ranks,
    ) -> Self {
        if let Some(limit) = config.max_outstanding_per_replica {
            self.gateway = self.gateway.with_limit(limit);
        }
        let room =
            Room::new(config, classes, ranks).of_models(self.cluster.models.len(), &config.order);
        self.gate = Some(Box::new(Gate { room, opens_now: false, opens_at: None }));
        self
    }

    /// A request comes to the gateway.
    pub(super) fn reach(&mut self, now: SimTime, transit: u32, observer: &mut impl Observer) {
        let Some(gate) = &mut self.gate else { return };
        let (id, request) = self.transit.get(transit);
        observer.on(now, Occurrence::Reached(id));
        if let Err(why) = gate.room.admit(now, request) {
            return self.turn_away(now, transit, why, observer);
        }
        let deadline = gate.room.enter(id, request, transit);
        self.wake_gate(now);
        self.begin_to_wait(now, id);
        if let Some(deadline) = deadline {
            self.queue.push(now + deadline, Class::Control, Event::Expire { request: id });
        }
    }

    /// The gateway looks whether a request can be sent, at the end of this instant.
    pub(super) fn wake_gate(&mut self, now: SimTime) {
        let Some(gate) = &mut self.gate else { return };
        if !gate.room.is_empty() && !std::mem::replace(&mut gate.opens_now, true) {
            self.queue.push(now, Class::Control, Event::Open);
        }
    }

    /// The gateway sends what can be sent, and turns away who came when too many waited.
    pub(super) fn open(&mut self, now: SimTime, observer: &mut impl Observer) {
        self.count_answers(now, observer);
        let Some(gate) = &mut self.gate else { return };
        gate.opens_now = false;
        gate.opens_at = gate.opens_at.filter(|at| *at > now);
        gate.room.sort();
        let parts = self.cluster.disaggregation.as_ref();
        let is_any_up =
            self.gateway.is_any_up() && parts.is_none_or(Disaggregation::is_any_destination_up);
        let is_full = gate.room.holds_requests() || is_any_up;
        let why = if is_full { Refusal::Full } else { Refusal::NoReplica };
        for model in gate.room.models() {
            while self.may_send(model) && self.send_next(now, model, observer) {}
        }
        while let Some(id) = self.gate.as_mut().and_then(|gate| gate.room.overflow()) {
            self.refuse_waiting(now, id, why, observer);
        }
    }

    /// Whether a replica may have a place: those that compute prompts beside what they decode always have one.
    fn may_send(&self, model: ModelId) -> bool {
        let parts = self.cluster.disaggregation.as_ref();
        let computes_beside = parts.is_some_and(Disaggregation::computes_prompts);
        computes_beside || self.gateway.has_place(model)
    }

    /// The request for a model that is next is sent, if it may be; whether it is.
    fn send_next(&mut self, now: SimTime, model: ModelId, observer: &mut impl Observer) -> bool {
        let Some(gate) = &mut self.gate else { return false };
        let id = match gate.room.next(now, model) {
            Next::Send(id) => id,
            Next::Nobody => return false,
            Next::NotBefore(at) => {
                if gate.opens_at != Some(at) {
                    gate.opens_at = Some(at);
                    self.queue.push(at, Class::Control, Event::Open);
                }
                return false;
            }
        };
        let Some(transit) = gate.room.transit(id) else { return false };
        let past = self.send_past_prefill(now, transit, observer);
        let offer = past.unwrap_or_else(|| self.dispatch(now, transit, observer));
        if offer == Routed::Unavailable && !self.gateway.waits_for_place(model) {
            if let Some(gate) = &mut self.gate {
                gate.room.leave(id);
            }
            self.find_none(now, transit, observer);
            return true;
        }
        let Routed::To(instance) = offer else { return false };
        if let Some(gate) = &mut self.gate {
            gate.room.sent(now, id, instance);
        }
        true
    }

    /// A request may have waited as long as it may.
    pub(super) fn expire(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        self.refuse_waiting(now, id, Refusal::Deadline, observer);
        self.expire_limited(now, id, observer);
    }

    /// A request that waits is turned away; nothing happens if it waits no longer.
    fn refuse_waiting(
        &mut self,
        now: SimTime,
        id: RequestId,
        why: Refusal,
        observer: &mut impl Observer,
    ) {
        let transit = self.gate.as_mut().and_then(|gate| gate.room.leave(id));
        if let Some(transit) = transit {
            self.turn_away(now, transit, why, observer);
            self.wake_gate(now);
        }
    }

    /// A request waits at the gateway no longer, because its client does not.
    pub(super) fn leave_gate(&mut self, now: SimTime, id: RequestId) {
        if let Some(transit) = self.at_router.remove(&id) {
            self.gateway.stopped_waiting(id);
            self.transit.take(transit);
        }
        let limited = self.limits.as_mut().and_then(|limits| limits.stop_waiting(id));
        let undecided = self.router_time.as_mut().and_then(|time| time.stop(id));
        if let Some(transit) = self.tries.stop(id).or(limited).or(undecided) {
            self.transit.take(transit);
        }
        let transit = self.gate.as_mut().and_then(|gate| gate.room.leave(id));
        if let Some(transit) = transit {
            self.transit.take(transit);
            self.wake_gate(now);
        }
    }

    /// Where the order hangs on it: what has come out of the requests in flight until now.
    fn count_answers(&mut self, now: SimTime, observer: &mut impl Observer) {
        let Some(gate) = &mut self.gate else { return };
        let Queue::Vtc(vtc) = gate.room.queue() else { return };
        let mut serving: Vec<InstanceId> = vtc.serving().collect();
        serving.sort_unstable();
        serving.dedup();
        for instance in serving {
            self.catch_up(now, instance, observer);
        }
        let instances = &self.cluster.instances;
        if let Some(gate) = &mut self.gate
            && let Queue::Vtc(vtc) = gate.room.queue()
        {
            let life = |id, instance: InstanceId| {
                instances[instance.index()].scheduler().life(id).map(|life| life.generated)
            };
            vtc.count(life);
        }
    }
}
