//! The gateway: asks the router, counts what is outstanding, and keeps what engines reported. Where
//! replicas get so many requests at a time and no more, the others wait in its [`Room`].
//!
//! * `room.rs`: who waits, and who is turned away
//! * `queue.rs` and a file for each order: who is sent first
//! * `bucket.rs`: how fast requests may come

mod bucket;
mod drr;
mod fcfs;
mod priority;
mod queue;
mod room;
mod ticket;
mod vtc;

use super::placement::{self, Placement};
use super::router::{Needs, Route, Router};
use super::{Caches, ClusterView, Outstanding, Steps};
use crate::engine::Instance;
use crate::engine::scheduler::Load;
use crate::ids::{InstanceId, RequestId};
use crate::kv::CacheContent;
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};

pub use queue::Queue;
pub use room::{Next, Ranks, Refusal, Room};
pub use ticket::Ticket;
pub use vtc::Vtc;

/// Where a request was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    instance: u32,
    prompt_tokens: u32,
}

/// What stands between clients and instances. It keeps what the router needs and nothing else;
/// every request costs O(1) beside the router's own work and the reports of engines.
#[derive(Debug)]
pub struct Gateway {
    /// What the router needs; what is outstanding also where there is a limit to it.
    needs: Needs,
    /// How many requests may be outstanding at an instance.
    limit: u32,
    entrances: usize,
    outstanding: Vec<Outstanding>,
    /// By request.
    sent: Vec<Sent>,
    signals: Vec<Load>,
    signals_at: Option<SimTime>,
    /// What caches held when they were looked at last, where the router knows them with an age.
    caches: Vec<CacheContent>,
    caches_at: Option<SimTime>,
    /// The instances known to be down, by id.
    down: Vec<InstanceId>,
    /// Those that get no requests now, by id: they are down, or as full as they may be.
    closed: Vec<InstanceId>,
    placement: Option<Placement>,
    /// Those that get no requests now, or do not hold the adapter of the one at hand.
    unfit: Vec<InstanceId>,
}

impl Gateway {
    /// The gateway of so many idle instances behind a router.
    pub fn new(router: &Router, instances: u32) -> Self {
        let needs = router.needs();
        let counted = if needs.outstanding { instances as usize } else { 0 };
        Self {
            needs,
            limit: u32::MAX,
            entrances: instances as usize,
            outstanding: vec![Outstanding::default(); counted],
            sent: Vec::new(),
            signals: Vec::new(),
            signals_at: None,
            caches: Vec::new(),
            caches_at: None,
            down: Vec::new(),
            closed: Vec::new(),
            placement: None,
            unfit: Vec::new(),
        }
    }

    /// The same gateway, which sends requests to holders of their adapter only.
    #[must_use]
    pub fn with_placement(mut self, placement: Option<Placement>) -> Self {
        self.placement = placement;
        self
    }

    /// The same gateway, which has so many requests outstanding at an instance at most.
    #[must_use]
    pub fn with_limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self.needs.outstanding = true;
        self.outstanding = vec![Outstanding::default(); self.entrances];
        self
    }

    /// Whether a request can be sent to an instance, as far as the gateway knows.
    pub fn has_place(&self) -> bool {
        self.closed.len() < self.entrances
    }

    /// Counts what is outstanding, whether the router needs it or not.
    pub fn count_outstanding(&mut self, instances: u32) {
        self.needs.outstanding = true;
        self.outstanding.resize(instances as usize, Outstanding::default());
    }

    /// Requests that were sent to an instance and have not left it, where they are counted.
    pub fn outstanding(&self, instance: InstanceId) -> u32 {
        self.outstanding[instance.index()].requests
    }

    /// An instance does not answer: it gets no requests.
    pub fn lose(&mut self, instance: InstanceId) {
        if let Err(place) = self.down.binary_search(&instance) {
            self.down.insert(place, instance);
        }
        self.close(instance);
    }

    /// An instance answers again.
    pub fn regain(&mut self, instance: InstanceId) {
        self.down.retain(|down| *down != instance);
        self.open(instance);
    }

    fn close(&mut self, instance: InstanceId) {
        if let Err(place) = self.closed.binary_search(&instance) {
            self.closed.insert(place, instance);
        }
    }

    /// An instance gets requests again, unless it is down or full.
    fn open(&mut self, instance: InstanceId) {
        let outstanding = self.outstanding.get(instance.index());
        let is_full = outstanding.is_some_and(|outstanding| outstanding.requests >= self.limit);
        if !is_full && self.down.binary_search(&instance).is_err() {
            self.closed.retain(|closed| *closed != instance);
        }
    }

    /// The one of `instances` that gets a request at `now`, by its place among them; `None` where all
    /// are known to be down or full.
    ///
    /// # Panics
    /// When the router names an instance that does not exist.
    pub fn route(
        &mut self,
        router: &mut Router,
        instances: &[Instance],
        now: SimTime,
        request: RequestView<'_>,
    ) -> Option<InstanceId> {
        if !self.has_place() {
            return None;
        }
        let without = self.placement.as_ref().map_or(&[][..], |of| of.without(request.adapter));
        if !without.is_empty() {
            placement::union(&self.closed, without, &mut self.unfit);
            if self.unfit.len() == self.entrances {
                return None;
            }
        }
        let is_placed = !without.is_empty();
        self.refresh(instances, now);
        if self.looks_at_caches(now) && self.keeps_caches() {
            self.caches.clear();
            self.caches.extend(instances.iter().map(|instance| instance.scheduler().cache()));
            self.caches_at = Some(now);
        }
        let view = ClusterView {
            instances: instances.len() as u32,
            outstanding: &self.outstanding,
            signals: &self.signals,
            signals_age: self.signals_at.map_or(SimDuration::ZERO, |at| now - at),
            caches: match self.needs.caches {
                None => Caches::UNKNOWN,
                Some(SimDuration::ZERO) => Caches::live(instances),
                Some(_) => Caches::known(&self.caches),
            },
            steps: Steps::of(instances),
            down: if is_placed { &self.unfit } else { &self.closed },
        };
        let chosen = router.route(request, &view);
        let (count, id) = (view.instances, request.id);
        assert!(chosen.0 < count, "request {id} is sent to instance {chosen} of {count}");
        if self.needs.outstanding {
            self.count(request, chosen);
        }
        Some(chosen)
    }

    /// Whether what caches hold at `now` is looked at to route a request.
    pub fn looks_at_caches(&self, now: SimTime) -> bool {
        self.needs
            .caches
            .is_some_and(|interval| self.caches_at.is_none_or(|at| now.since(at) >= interval))
    }

    /// Whether what it sees of caches is kept, for requests that come later.
    pub fn keeps_caches(&self) -> bool {
        self.needs.caches.is_some_and(|interval| interval > SimDuration::ZERO)
    }

    /// Whether an instance is up, as far as is known.
    pub fn is_up(&self, instance: InstanceId) -> bool {
        self.down.binary_search(&instance).is_err()
    }

    /// A request is sent to an instance without asking the router.
    pub fn send_to(&mut self, request: RequestView<'_>, instance: InstanceId) {
        if self.needs.outstanding {
            self.count(request, instance);
        }
    }

    /// A request that was sent has finished, was refused, or is given up.
    pub fn left(&mut self, id: RequestId) {
        if self.needs.outstanding {
            let Sent { instance, prompt_tokens } = self.sent[id.index()];
            let outstanding = &mut self.outstanding[instance as usize];
            outstanding.requests -= 1;
            outstanding.prompt_tokens -= u64::from(prompt_tokens);
            if outstanding.requests + 1 == self.limit {
                self.open(InstanceId(instance));
            }
        }
    }

    fn count(&mut self, request: RequestView<'_>, chosen: InstanceId) {
        let prompt_tokens = request.prompt_tokens;
        let outstanding = &mut self.outstanding[chosen.index()];
        outstanding.requests += 1;
        outstanding.prompt_tokens += u64::from(prompt_tokens);
        let is_full = outstanding.requests == self.limit;
        let place = request.id.index();
        if place >= self.sent.len() {
            self.sent.resize(place + 1, Sent::default());
        }
        self.sent[place] = Sent { instance: chosen.0, prompt_tokens };
        if is_full {
            self.close(chosen);
        }
    }

    /// Takes new reports of all engines where the last ones are as old as the router
    /// lets them grow.
    fn refresh(&mut self, instances: &[Instance], now: SimTime) {
        let Some(interval) = self.needs.signals else { return };
        if self.signals_at.is_some_and(|at| now - at < interval) {
            return;
        }
        self.signals.clear();
        self.signals.extend(instances.iter().map(|instance| instance.load_at(now)));
        self.signals_at = Some(now);
    }
}
