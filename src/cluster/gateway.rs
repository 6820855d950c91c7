//! The gateway: asks the router, counts what is outstanding, and keeps what engines reported. Where
//! replicas get so many requests at a time and no more, the others wait in its [`Room`].
//!
//! * `room.rs`: who waits, and who is turned away
//! * `queue.rs` and a file for each order: who is sent first
//! * `pool.rs`: the instances that serve one model
//! * `bucket.rs`: how fast requests may come

mod bucket;
mod drr;
mod fcfs;
mod pool;
mod priority;
mod queue;
mod room;
mod ticket;
mod vtc;

use std::ops::Range;

use super::placement::{self, Placement};
use super::router::{Needs, Route, Router};
use super::{Caches, ClusterView, Outstanding, Steps};
use crate::engine::Instance;
use crate::ids::{InstanceId, ModelId, RequestId};
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};
use pool::Pool;

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
    /// The instances known to be down, by id.
    down: Vec<InstanceId>,
    /// By model, the instances that serve it.
    pools: Vec<Pool>,
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
            down: Vec::new(),
            pools: vec![Pool::of(0..instances)],
            placement: None,
            unfit: Vec::new(),
        }
    }

    /// The same gateway, where these instances serve the models: the first ones the first. The router sees
    /// those that serve the model of a request, numbered from zero.
    #[must_use]
    pub fn serving(mut self, models: &[Range<u32>]) -> Self {
        if !models.is_empty() {
            self.pools = models.iter().cloned().map(Pool::of).collect();
        }
        self
    }

    /// The instances that serve a model.
    pub fn instances_of(&self, model: ModelId) -> Range<u32> {
        self.pools[model.index()].instances()
    }

    /// The same gateway, which sends requests to holders of their adapter only. All serve one model.
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

    /// Whether a request for a model can be sent to an instance, as far as the gateway knows.
    pub fn has_place(&self, model: ModelId) -> bool {
        self.pools[model.index()].has_place()
    }

    /// Whether an instance is up, as far as the gateway knows.
    pub fn is_any_up(&self) -> bool {
        self.down.len() < self.entrances
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
        remove(&mut self.down, instance);
        self.open(instance);
    }

    fn close(&mut self, instance: InstanceId) {
        let pool = self.pools.iter_mut().find(|pool| pool.has(instance));
        pool.expect("every instance serves a model").close(instance);
    }

    /// An instance gets requests again, unless it is down or full.
    fn open(&mut self, instance: InstanceId) {
        let outstanding = self.outstanding.get(instance.index());
        let is_full = outstanding.is_some_and(|outstanding| outstanding.requests >= self.limit);
        if !is_full && self.down.binary_search(&instance).is_err() {
            let pool = self.pools.iter_mut().find(|pool| pool.has(instance));
            pool.expect("every instance serves a model").open(instance);
        }
    }

    /// The one of `instances` that gets a request at `now`, by its place among them; `None` where all
    /// that serve its model are known to be down or full.
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
        let keeps_caches = self.keeps_caches();
        let pool = &mut self.pools[request.model.index()];
        if !pool.has_place() {
            return None;
        }
        let without = self.placement.as_ref().map_or(&[][..], |of| of.without(request.adapter));
        if !without.is_empty() {
            placement::union(pool.closed(), without, &mut self.unfit);
            if self.unfit.len() == self.entrances {
                return None;
            }
        }
        let is_placed = !without.is_empty();
        let of_model = pool.instances();
        let of_model = of_model.start as usize..of_model.end as usize;
        let instances = &instances[of_model.clone()];
        pool.refresh(&self.needs, keeps_caches, instances, now);
        let view = ClusterView {
            instances: instances.len() as u32,
            outstanding: self.outstanding.get(of_model).unwrap_or_default(),
            signals: &pool.signals,
            signals_age: pool.signals_at.map_or(SimDuration::ZERO, |at| now - at),
            caches: match self.needs.caches {
                None => Caches::UNKNOWN,
                Some(SimDuration::ZERO) => Caches::live(instances),
                Some(_) => Caches::known(&pool.caches),
            },
            steps: Steps::of(instances),
            down: if is_placed { &self.unfit } else { pool.closed() },
        };
        let chosen = router.route(request, &view);
        let (count, id) = (view.instances, request.id);
        assert!(chosen.0 < count, "request {id} is sent to instance {chosen} of {count}");
        let chosen = InstanceId(pool.instances().start + chosen.0);
        if self.needs.outstanding {
            self.count(request, chosen);
        }
        Some(chosen)
    }

    /// Whether what caches hold at `now` is looked at to route a request for a model.
    pub fn looks_at_caches(&self, model: ModelId, now: SimTime) -> bool {
        self.pools[model.index()].looks_at_caches(&self.needs, now)
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
}

/// Takes an instance out of a list by id.
fn remove(ids: &mut Vec<InstanceId>, instance: InstanceId) {
    if let Ok(place) = ids.binary_search(&instance) {
        ids.remove(place);
    }
}
