//! The way of a request from its client to the scheduler of a replica.

use super::event::Event;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Role;
use crate::des::Class;
use crate::frontend::{FrontEndTimes, Progress, Server};
use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// The client's thread that sends requests, one after the other, where it takes time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sender {
    /// To connect for a request, and to send it.
    each: [SimDuration; 2],
    /// More for the first one after it had none to send.
    wake: SimDuration,
    /// From the end of an answer to the request that takes its place.
    pub(super) turnaround: SimDuration,
    /// On the way to a server.
    network: SimDuration,
    server: Server,
}

impl Sender {
    /// When it has connected for a request that is sent at `now`.
    fn connect(&mut self, now: SimTime) -> SimTime {
        self.server.serve(now, self.each[0], self.wake)
    }

    /// When a request for which it has connected comes to a server.
    fn send(&mut self, now: SimTime) -> SimTime {
        self.server.serve(now, self.each[1], self.wake) + self.network
    }
}

impl<W: Source> Simulation<W> {
    /// The same run with the client that its front ends are measured with.
    #[must_use]
    pub(super) fn with_sender(mut self, times: Option<&FrontEndTimes>) -> Self {
        if let Some(times) = times {
            let FrontEndTimes { client_send: each, client_wake: wake, network, .. } = *times;
            let turnaround = times.client_turnaround;
            self.sender = Sender { each, wake, turnaround, network, server: Server::default() };
        }
        self
    }

    /// A request comes to an instance, through its front end; `event` happens when it is in the queue there.
    pub(super) fn pass_front_end(&mut self, now: SimTime, instance: InstanceId, event: Event) {
        let has_front_end = self.cluster.instances[instance.index()].has_front_end();
        let at = match event {
            // What is sent on comes from another server.
            Event::Enqueue { transit, .. } if has_front_end && self.is_forwarded(instance) => {
                let event = Event::Accept { instance, transit };
                return self.queue.push(now + self.sender.network, Class::Input, event);
            }
            Event::Enqueue { transit, .. } if has_front_end => {
                let at = self.sender.connect(now);
                let event = Event::Connect { instance, transit };
                return self.queue.push(at, Class::Input, event);
            }
            Event::Expect { transit, .. } => self.through_front_end(now, instance, transit),
            _ => self.through_plain_front_end(now, instance),
        };
        self.queue.push(at, Class::Input, event);
    }

    fn is_forwarded(&self, instance: InstanceId) -> bool {
        self.cluster.role(instance) == Role::Decode
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
        let connected = self.sender.connect(now);
        let at = self.sender.send(connected);
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

    /// The client has connected to the server of an instance for a request.
    pub(super) fn connected(&mut self, now: SimTime, instance: InstanceId, transit: u32) {
        let at = self.sender.send(now);
        self.queue.push(at, Class::Input, Event::Accept { instance, transit });
    }

    /// A request has come to the server of an instance.
    pub(super) fn accept(&mut self, now: SimTime, instance: InstanceId, transit: u32) {
        let (id, request) = self.transit.get(transit);
        let engine = &mut self.cluster.instances[instance.index()];
        let front = engine.front_end(now).expect("the instance has a front end");
        let progress = front.accept(now, id, request.prompt_tokens);
        self.progress(progress, instance, transit);
    }

    /// It has its next turn there.
    pub(super) fn go_on(&mut self, now: SimTime, instance: InstanceId, transit: u32) {
        let (id, _) = self.transit.get(transit);
        let engine = &mut self.cluster.instances[instance.index()];
        let progress = engine.front_end(now).and_then(|front| front.go_on(now, id));
        // A server that crashed meanwhile has lost it, and tells so when it is asked.
        self.progress(progress.unwrap_or(Progress::Submitted(now)), instance, transit);
    }

    fn progress(&mut self, progress: Progress, instance: InstanceId, transit: u32) {
        let (at, event) = match progress {
            Progress::Waits(at) => (at, Event::GoOn { instance, transit }),
            Progress::Submitted(at) => (at + self.api_delay, Event::Enqueue { instance, transit }),
        };
        self.queue.push(at, Class::Input, event);
    }
}
