//! What the loop does where the router sends a request to a pair of instances at once, and finds out by itself which of
//! them are dead (`SGLang`'s router, sglang-router 0.3.2, prefill/decode mode).
//!
//! The router hears from both before it goes on. If one does not take the request, the attempt has failed: both
//! instances are told from the client's point of view, both breakers record a failure, whichever failed, and the next
//! attempt asks for another pair. What the other one has taken it forgets, as its connection is closed. If both have taken
//! the request, both breakers record a success, and the answer has begun: what breaks from then on fails for its
//! client. A request that an engine rejects (400) was taken by it, as this is no failure of a pair. Nothing is recorded of
//! a request whose client goes away before.
//!
//! Left out: its client reads a rejection only when the other instance has answered too. Here it does so at once.

use std::collections::BTreeMap;

use super::event::Event;
use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Health, Reply};
use crate::des::Class;
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

/// What the router has heard from an instance of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Nothing: the request is on its way there.
    OnItsWay,
    /// Nothing: the instance is dead, and its connections hang.
    Hangs,
    /// That it does not take the request.
    Refused,
    /// That it has taken it.
    Taken,
    /// The same, and then that it is dead.
    Broken,
}

/// A request that was sent to two instances, of which the router has not heard from both.
#[derive(Debug)]
struct Pair {
    halves: [(InstanceId, Half); 2],
    /// Whether its client has its answer already: only breakers wait for the pair.
    is_answered: bool,
}

impl Pair {
    fn half(&mut self, instance: InstanceId) -> Option<&mut Half> {
        let half = self.halves.iter_mut().find(|(of, _)| *of == instance);
        half.map(|(_, half)| half)
    }

    fn has(&self, which: Half) -> bool {
        self.halves.iter().any(|(_, half)| *half == which)
    }
}

/// All such requests.
#[derive(Debug, Default)]
pub(super) struct Pairs(BTreeMap<RequestId, Pair>);

impl Pairs {
    /// Nobody waits for what becomes of a request.
    pub(super) fn end(&mut self, id: RequestId) {
        self.0.remove(&id);
    }

    /// Whether the router waits for an instance that a request was sent to.
    pub(super) fn is_open(&self, id: RequestId) -> bool {
        self.0.contains_key(&id)
    }

    /// Whether a request has not come to an instance yet of which the router waits to hear.
    pub(super) fn is_on_its_way(&self, id: RequestId, instance: InstanceId) -> bool {
        let half = |pair: &Pair| pair.halves.contains(&(instance, Half::OnItsWay));
        self.0.get(&id).is_some_and(half)
    }

    /// The client of a request has its answer.
    pub(super) fn is_answered(&mut self, id: RequestId) {
        if let Some(pair) = self.0.get_mut(&id) {
            pair.is_answered = true;
        }
    }
}

impl<W: Source> Simulation<W> {
    /// A request is sent to two instances. It comes to the one that prefills it at `ready`.
    pub(super) fn begin_pair(
        &mut self,
        id: RequestId,
        (prefill, ready): (InstanceId, SimTime),
        decode: InstanceId,
    ) {
        if self.faults.is_some() && self.gateway.finds_out() {
            let halves = [prefill, decode].map(|instance| (instance, Half::OnItsWay));
            self.pairs.0.insert(id, Pair { halves, is_answered: false });
            self.queue.push(ready, Class::Input, Event::Meet { prefill, request: id });
        }
    }

    /// A request comes to one of the two instances that it was sent to.
    pub(super) fn meet(
        &mut self,
        now: SimTime,
        id: RequestId,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let Some(faults) = &self.faults else { return };
        let half = match faults.health(instance) {
            Health::Up => Half::Taken,
            Health::Unnoticed => Half::Hangs,
            Health::Down => Half::Refused,
        };
        self.hear_half(now, id, (instance, half), observer);
    }

    /// The connections to an instance break.
    pub(super) fn break_pairs(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let is_there = |(of, half): &(InstanceId, Half)| {
            *of == instance && matches!(half, Half::Hangs | Half::Taken)
        };
        let pairs = self.pairs.0.iter().filter(|(_, pair)| pair.halves.iter().any(is_there));
        let ids: Vec<_> = pairs.map(|(id, _)| *id).collect();
        for id in ids {
            let half = self.pairs.0.get_mut(&id).and_then(|pair| pair.half(instance)).copied();
            let half = if half == Some(Half::Hangs) { Half::Refused } else { Half::Broken };
            self.hear_half(now, id, (instance, half), observer);
        }
    }

    fn hear_half(
        &mut self,
        now: SimTime,
        id: RequestId,
        (instance, heard): (InstanceId, Half),
        observer: &mut impl Observer,
    ) {
        let Some(pair) = self.pairs.0.get_mut(&id) else { return };
        if let Some(half) = pair.half(instance) {
            *half = heard;
        }
        if pair.has(Half::OnItsWay) || pair.has(Half::Hangs) {
            return;
        }
        let Some(pair) = self.pairs.0.remove(&id) else { return };
        let is_success = !pair.has(Half::Refused);
        let reply = if is_success { Reply::Taken } else { Reply::Dead };
        for (instance, _) in pair.halves {
            self.record(now, instance, reply);
        }
        if is_success || pair.is_answered {
            self.tries.end(id);
        }
        if pair.is_answered {
            return;
        }
        let [(prefill, _), _] = pair.halves;
        if !is_success {
            self.unreserve(now, id, observer);
            self.come_back(now, id, prefill, observer);
        } else if pair.has(Half::Broken) {
            self.abandon(now, id, Finish::Failed, observer);
        }
    }
}
