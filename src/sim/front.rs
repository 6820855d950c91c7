//! The way of a request from its client to the scheduler of a replica.

use super::run::{Event, Simulation};
use super::source::Source;
use crate::des::Class;
use crate::frontend::{Accepted, FrontEndTimes};
use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// The client's thread that sends requests, one after the other, where it takes time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sender {
    /// For each request.
    each: SimDuration,
    /// More for the first one after it had none to send.
    wake: SimDuration,
    /// From the end of an answer to the request that takes its place.
    pub(super) turnaround: SimDuration,
    /// On the way to a server.
    network: SimDuration,
    free: SimTime,
}

impl Sender {
    /// When a request that is sent at `now` comes to a server.
    fn send(&mut self, now: SimTime) -> SimTime {
        let begin = if now > self.free { now + self.wake } else { self.free };
        self.free = begin + self.each;
        self.free + self.network
    }
}

impl<W: Source> Simulation<W> {
    /// The same run with the client that its front ends are measured with.
    #[must_use]
    pub(super) fn with_sender(mut self, times: Option<&FrontEndTimes>) -> Self {
        if let Some(times) = times {
            let FrontEndTimes { client_send: each, client_wake: wake, network, .. } = *times;
            let turnaround = times.client_turnaround;
            self.sender = Sender { each, wake, turnaround, network, free: SimTime::ZERO };
        }
        self
    }

    /// A request comes to an instance, through its front end; `event` happens when it is in the queue there.
    pub(super) fn pass_front_end(&mut self, now: SimTime, instance: InstanceId, event: Event) {
        let has_front_end = self.cluster.instances[instance.index()].has_front_end();
        let at = match event {
            Event::Enqueue { transit, .. } if has_front_end => {
                let at = self.sender.send(now);
                let event = Event::Connect { instance, transit };
                return self.queue.push(at, Class::Input, event);
            }
            Event::Expect { transit, .. } => self.through_front_end(now, instance, transit),
            _ => self.through_plain_front_end(now, instance),
        };
        self.queue.push(at, Class::Input, event);
    }

    /// When a request that comes to an instance now is through its front end.
    pub(super) fn through_front_end(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        transit: u32,
    ) -> SimTime {
        if !self.cluster.instances[instance.index()].has_front_end() {
            return self.through_plain_front_end(now, instance);
        }
        let at = self.sender.send(now);
        let (id, request) = self.transit.get(transit);
        let engine = &mut self.cluster.instances[instance.index()];
        let front = engine.front_end(now).expect("the instance has a front end");
        front.pass(at, id, request.prompt_tokens) + self.api_delay
    }

    fn through_plain_front_end(&mut self, now: SimTime, instance: InstanceId) -> SimTime {
        let free = &mut self.api_free[instance.index()];
        *free = now.max(*free) + self.api_per_request;
        *free + self.api_delay
    }

    /// A request has come to the server of an instance.
    pub(super) fn connect(&mut self, now: SimTime, instance: InstanceId, transit: u32) {
        let (id, request) = self.transit.get(transit);
        let engine = &mut self.cluster.instances[instance.index()];
        let front = engine.front_end(now).expect("the instance has a front end");
        match front.accept(now, id, request.prompt_tokens) {
            Accepted::Tokenizing(at) => {
                self.queue.push(at, Class::Input, Event::Tokenized { instance, transit });
            }
            Accepted::Submitted(at) => self.submitted(at, instance, transit),
        }
    }

    /// A request is tokenised: it goes on to the scheduler.
    pub(super) fn submit(&mut self, now: SimTime, instance: InstanceId, transit: u32) {
        let (id, _) = self.transit.get(transit);
        let engine = &mut self.cluster.instances[instance.index()];
        let submitted = engine.front_end(now).and_then(|front| front.submit(now, id));
        // A server that crashed meanwhile has lost it, and tells so when it is asked.
        self.submitted(submitted.unwrap_or(now), instance, transit);
    }

    fn submitted(&mut self, at: SimTime, instance: InstanceId, transit: u32) {
        let event = Event::Enqueue { instance, transit };
        self.queue.push(at + self.api_delay, Class::Input, event);
    }
}
