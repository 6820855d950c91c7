//! What the loop does where the router's own process takes time for each request: it waits for a thread that is free, and is
//! decided when that is done with it. A request that is tried again takes that time again.

use std::collections::BTreeMap;

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::des::Class;
use crate::ids::RequestId;
use crate::scenario::RouterTimeConfig;
use crate::units::{SimDuration, SimTime};

/// The processes of routers, and the requests in them.
#[derive(Debug)]
pub(super) struct RouterTime {
    per_request: SimDuration,
    /// By model, when each thread of its router is free.
    free: Vec<Vec<SimTime>>,
    /// Requests that are not decided yet, by their places in the transit.
    inside: BTreeMap<RequestId, u32>,
}

impl RouterTime {
    /// A request is not decided any more; its place in the transit if it was to be.
    pub(super) fn stop(&mut self, id: RequestId) -> Option<u32> {
        self.inside.remove(&id)
    }
}

impl<W: Source> Simulation<W> {
    /// The same run in which routers take time; each model has one of its own.
    #[must_use]
    pub(super) fn with_router_time(mut self, config: Option<RouterTimeConfig>) -> Self {
        self.router_time = config.map(|config| {
            let threads = vec![SimTime::ZERO; config.threads as usize];
            Box::new(RouterTime {
                per_request: SimDuration::from_secs_f64(config.per_request_us / 1e6),
                free: vec![threads; self.cluster.models.len().max(1)],
                inside: BTreeMap::new(),
            })
        });
        self
    }

    /// A request comes to the process of its router; whether it is not turned away at once.
    pub(super) fn reach_router(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> bool {
        let Some(time) = &mut self.router_time else { return self.offer(now, transit, observer) };
        let (id, request) = self.transit.get(transit);
        let thread = time.free[request.model.index()].iter_mut().min().expect("it has a thread");
        *thread = now.max(*thread) + time.per_request;
        time.inside.insert(id, transit);
        observer.on(now, Occurrence::CameBack(id, None));
        self.queue.push(*thread, Class::Input, Event::Decide { request: id });
        true
    }

    /// The process of a router is done with a request; nothing if that is not there any more.
    pub(super) fn decide(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        let transit = self.router_time.as_mut().and_then(|time| time.stop(id));
        if let Some(transit) = transit {
            self.offer(now, transit, observer);
        }
    }
}
