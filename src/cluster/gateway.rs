//! The gateway: asks the router, counts what is outstanding, and keeps what engines reported. Where
//! replicas get so many requests at a time and no more, the others wait in its [`Room`].
//!
//! * `room.rs`: who waits, and who is turned away
//! * `queue.rs` and a file for each order: who is sent first
//! * `pool.rs`: the instances that serve one model
//! * `sessions.rs`: which conversations have requests where
//! * `prospect.rs`: where Dynamo's router would send a request
//! * `bucket.rs`: how fast requests may come

mod bucket;
mod drr;
mod fcfs;
mod pool;
mod priority;
mod prospect;
mod queue;
mod room;
mod sessions;
mod ticket;
mod vtc;

use std::ops::Range;

use super::adapter_view::{AdapterView, Swap};
use super::placement::{self, Placement};
use super::router::{Needs, Route as _, Routed, Router, Signal};
use super::{Caches, ClusterView, Health, Outstanding, Reply, Steps};
use crate::engine::Instance;
use crate::ids::{AdapterId, InstanceId, ModelId, RequestId};
use crate::kv::CacheEvent;
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};
use pool::Pool;
use sessions::Sessions;

pub use queue::Queue;
pub use room::{Next, Ranks, Refusal, Room};
pub use ticket::Ticket;
pub use vtc::Vtc;

/// Where a request was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    instance: u32,
    prompt_tokens: u32,
    /// The place of its adapter among the counts of the instance.
    adapter: u32,
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
    /// By instance, outstanding requests without an adapter, then those of each.
    by_adapter: Vec<Vec<u32>>,
    /// The conversations of those, where the router counts them.
    sessions: Option<Sessions>,
    /// By request.
    sent: Vec<Sent>,
    /// The instances known to be down, by id.
    down: Vec<InstanceId>,
    /// By model, the instances that serve it.
    pools: Vec<Pool>,
    placement: Option<Placement>,
    /// What it costs that a replica takes an adapter in for a request, where it may.
    swap_cost: Option<f64>,
    /// Replicas that may for the request at hand.
    swaps: Vec<Swap>,
    swapped: Option<Swap>,
    /// Those that get no requests now, or do not hold the adapter of the one at hand.
    unfit: Vec<InstanceId>,
    /// What the router is going to be told of requests.
    signals: Vec<Signal>,
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
            by_adapter: vec![Vec::new(); if needs.by_adapter { counted } else { 0 }],
            sessions: needs.by_session.then(|| Sessions::new(instances)),
            sent: Vec::new(),
            down: Vec::new(),
            pools: vec![Pool::of(0..instances)],
            placement: None,
            swap_cost: None,
            swaps: Vec::new(),
            swapped: None,
            unfit: Vec::new(),
            signals: Vec::new(),
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

    /// The same gateway, where a request may go to an instance that takes its adapter in for one that none of its
    /// requests use and that others hold; at such a cost.
    #[must_use]
    pub fn with_swaps(mut self, cost: f64) -> Self {
        self.swap_cost = Some(cost);
        self.needs.by_adapter = true;
        self.by_adapter = vec![Vec::new(); self.entrances];
        self
    }

    /// The adapters that an instance exchanged for the request that was routed last, if one did.
    pub fn take_swap(&mut self) -> Option<Swap> {
        self.swapped.take()
    }

    /// Lists the instances that would take an adapter in.
    fn find_swaps(&mut self, adapter: AdapterId, closed: &[InstanceId]) {
        self.swaps.clear();
        let Some(placement) = self.placement.as_ref().filter(|_| self.swap_cost.is_some()) else {
            return;
        };
        let is_up = |id: &&InstanceId| closed.binary_search(id).is_err();
        for &instance in placement.without(Some(adapter)).iter().filter(is_up) {
            let counts = &self.by_adapter[instance.index()];
            let is_idle = |id: AdapterId| {
                counts.get(AdapterId::place(Some(id))).is_none_or(|count| *count == 0)
                    && placement.holders(id) > 1
            };
            let mut ids = placement.held(instance).iter().copied();
            if let Some(given_up) = ids.find(|id| is_idle(*id)) {
                self.swaps.push(Swap { instance, given_up, taken_in: adapter });
            }
        }
    }

    /// Which instances hold which adapters, where not all hold all.
    pub fn placement(&mut self) -> Option<&mut Placement> {
        self.placement.as_mut()
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

    /// Whether an instance is full that a request for a model can be sent to later.
    pub fn waits_for_place(&self, model: ModelId) -> bool {
        let pool = &self.pools[model.index()];
        let mut closed = pool.closed().iter().map(|id| InstanceId(pool.instances().start + id.0));
        closed.any(|instance| self.is_up(instance))
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

    /// Whether nothing is outstanding anywhere, as far as that is counted.
    pub fn is_at_rest(&self) -> bool {
        self.outstanding.iter().all(|outstanding| *outstanding == Outstanding::default())
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

    /// The one of `instances` that gets a request at `now`, by its place among them; none where all
    /// that serve its model are known to be down or full, or the router has it wait.
    ///
    /// # Panics
    /// When the router names an instance that does not exist.
    pub fn route(
        &mut self,
        router: &mut Router,
        instances: &[Instance],
        now: SimTime,
        request: RequestView<'_>,
    ) -> Routed {
        let keeps_caches = self.keeps_caches();
        let model = request.model.index();
        self.pass_signals(router, now);
        if !self.pools[model].has_place() {
            return Routed::Nowhere;
        }
        if let Some(adapter) = request.adapter.filter(|_| self.swap_cost.is_some()) {
            let closed = self.pools[model].closed().to_vec();
            self.find_swaps(adapter, &closed);
        }
        let pool = &mut self.pools[model];
        let without = self.placement.as_ref().map_or(&[][..], |of| of.without(request.adapter));
        if !without.is_empty() {
            placement::union(pool.closed(), without, &mut self.unfit);
            self.unfit.retain(|id| !self.swaps.iter().any(|swap| swap.instance == *id));
            if self.unfit.len() == self.entrances {
                return Routed::Nowhere;
            }
        }
        let is_placed = !without.is_empty();
        let of_model = pool.instances();
        let of_model = of_model.start as usize..of_model.end as usize;
        let instances = &instances[of_model.clone()];
        pool.refresh(&self.needs, keeps_caches, instances, now);
        let view = ClusterView {
            now,
            instances: instances.len() as u32,
            outstanding: self.outstanding.get(of_model.clone()).unwrap_or_default(),
            sessions: self.sessions.as_ref().map_or(&[], |of| &of.counts()[of_model.clone()]),
            signals: &pool.signals,
            signals_age: pool.signals_at.map_or(SimDuration::ZERO, |at| now - at),
            caches: match self.needs.caches {
                None => Caches::UNKNOWN,
                Some(SimDuration::ZERO) => Caches::live(instances),
                Some(_) => Caches::known(&pool.caches),
            },
            adapters: AdapterView::new(
                instances[0].scheduler().adapters().map_or(&[], |adapters| adapters.held().ranks()),
                &pool.adapters,
                self.by_adapter.get(of_model).unwrap_or_default(),
            )
            .with_swaps(&self.swaps, self.swap_cost.unwrap_or(0.0)),
            steps: Steps::of(instances),
            down: if is_placed { &self.unfit } else { pool.closed() },
        };
        let chosen = match router.offer(now, request, &view) {
            Routed::To(chosen) => chosen,
            other => return other,
        };
        let (count, id) = (view.instances, request.id);
        assert!(chosen.0 < count, "request {id} is sent to instance {chosen} of {count}");
        let chosen = InstanceId(pool.instances().start + chosen.0);
        let swap = self.swaps.iter().find(|swap| swap.instance == chosen).copied();
        if let (Some(swap), Some(placement)) = (swap, &mut self.placement) {
            placement.remove(chosen, swap.given_up);
            placement.add(chosen, swap.taken_in);
        }
        self.swapped = swap;
        self.swaps.clear();
        if self.needs.outstanding {
            self.count(request, chosen);
        }
        Routed::To(chosen)
    }

    /// Whether the router finds out by itself which instances are down.
    pub fn finds_out(&self) -> bool {
        self.needs.finds_out
    }

    /// What is sent to an instance fares so from now on, of which the router finds out.
    pub fn connects(
        &self,
        router: &mut Router,
        now: SimTime,
        instance: InstanceId,
        health: Health,
    ) {
        if let Some(place) = self.place(instance).filter(|_| self.finds_out()) {
            router.connects(place, now, health);
        }
    }

    /// Another machine is in the place of an instance.
    pub fn renew(&self, router: &mut Router, instance: InstanceId) {
        if let Some(place) = self.place(instance).filter(|_| self.finds_out()) {
            router.renew(place);
        }
    }

    /// An instance is gone with all that it had cached.
    pub fn gone(&self, router: &mut Router, instance: InstanceId) {
        if let Some(place) = self.place(instance) {
            router.gone(place);
        }
    }

    /// The router sees how an instance replies to a request.
    pub fn answered(&self, router: &mut Router, now: SimTime, instance: InstanceId, reply: Reply) {
        if let Some(place) = self.place(instance).filter(|_| self.finds_out()) {
            router.answered(place, now, reply);
        }
    }

    /// The model that an instance serves, and its number among those that do.
    fn place(&self, instance: InstanceId) -> Option<(usize, InstanceId)> {
        let model = self.pools.iter().position(|pool| pool.has(instance))?;
        Some((model, InstanceId(instance.0 - self.pools[model].instances().start)))
    }

    /// What has become of requests that waited at the router, as it has heard of all that happened until now; with
    /// the instances by their numbers.
    pub fn released(&mut self, router: &mut Router, now: SimTime) -> Vec<(RequestId, Routed)> {
        self.pass_signals(router, now);
        match &self.pools[..] {
            [only] => router.released(now, only.closed()),
            _ => Vec::new(),
        }
    }

    /// A request that waited at the router is given up.
    pub fn stopped_waiting(&mut self, id: RequestId) {
        self.signals.push(Signal::Left(id));
    }

    /// The prompt of a request is computed.
    pub fn prefilled(&mut self, id: RequestId) {
        if self.needs.lifecycle {
            self.signals.push(Signal::Prefilled(id));
        }
    }

    fn pass_signals(&mut self, router: &mut Router, now: SimTime) {
        for signal in self.signals.drain(..) {
            router.tell(now, signal);
        }
    }

    /// Whether the router is told of the caches of engines.
    pub fn hears_caches(&self) -> bool {
        self.needs.cache_events
    }

    /// Whether the router is told what happens to requests.
    pub fn tells_lifecycle(&self) -> bool {
        self.needs.lifecycle
    }

    /// The cache of an instance has changed by `now`, or is going to, at these moments.
    pub fn hear(
        &mut self,
        router: &mut Router,
        now: SimTime,
        instance: InstanceId,
        events: impl IntoIterator<Item = (SimTime, CacheEvent)>,
    ) {
        if let Some(place) = self.place(instance) {
            router.hear(now, place, events);
        }
    }

    /// Whether requests count where they are prefilled until they are answered, wherever they are decoded.
    pub fn counts_until_answered(&self) -> bool {
        self.needs.until_answered
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
        if self.needs.lifecycle {
            self.signals.push(Signal::Left(id));
        }
        if self.needs.outstanding {
            let Sent { instance, prompt_tokens, adapter } = self.sent[id.index()];
            if let Some(sessions) = &mut self.sessions {
                sessions.end(id);
            }
            let outstanding = &mut self.outstanding[instance as usize];
            outstanding.requests -= 1;
            outstanding.prompt_tokens -= u64::from(prompt_tokens);
            if let Some(counts) = self.by_adapter.get_mut(instance as usize) {
                counts[adapter as usize] -= 1;
            }
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
        let adapter = AdapterId::place(request.adapter);
        self.sent[place] = Sent { instance: chosen.0, prompt_tokens, adapter: adapter as u32 };
        if let (Some(sessions), Some(session)) = (&mut self.sessions, request.session) {
            sessions.begin(request.id, chosen, session);
        }
        if let Some(counts) = self.by_adapter.get_mut(chosen.index()) {
            if counts.len() <= adapter {
                counts.resize(adapter + 1, 0);
            }
            counts[adapter] += 1;
        }
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
