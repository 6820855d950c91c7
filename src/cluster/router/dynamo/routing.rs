//! The router among those of the simulation: requests and signals of the loop in, instances out.
//!
//! Every instance is a worker of one rank. Prompts are chains of the names of the engine's blocks; those that share
//! nothing with any other have none, and are only counted. What is left to chance is drawn from the seed's stream `router`.
//!
//! A pool of instances that prefill what others decode tracks no active blocks; the pool of those that decode looks at
//! its load alone, without prefill tokens, and shares no blocks. Where those that decode compute some prompts themselves,
//! [`conditional`] has what differs.

mod conditional;

use std::sync::Arc;

use super::knowledge::Tier;
use super::on_the_way::OnTheWay;
use super::{Ask, KvRouter, Member, Options, Outcome, Pool, Prompt, Rank, Rejection, RequestKey};
use crate::cluster::ClusterView;
use crate::cluster::router::{Needs, Route, Routed, Signal};
use crate::ids::{InstanceId, RequestId};
use crate::kv::{BlockHash, CacheEvent, ChainHasher, Lookahead, Names};
use crate::request::RequestView;
use crate::rng::{Seed, Stream};
use crate::scenario::DynamoConfig;
use crate::units::{SimDuration, SimTime};

/// Tokens of a block of engines that do not say.
const BLOCK_SIZE: u32 = 16;

/// Dynamo's KV router.
#[derive(Debug)]
pub struct Dynamo {
    router: KvRouter,
    config: DynamoConfig,
    stream: Stream,
    block_size: u32,
    lag: SimDuration,
    /// Whether its instances decode, and compute some prompts themselves.
    computes_some: bool,
    instances: u32,
    /// Of those, the ones that were down as it looked last.
    down: Vec<InstanceId>,
    clock: Clock,
    on_the_way: OnTheWay,
    outcomes: Vec<Outcome>,
}

/// Time that goes on where runs begin anew.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    before: SimDuration,
    last: SimTime,
}

impl Clock {
    fn at(&mut self, now: SimTime) -> SimTime {
        if now < self.last {
            self.before = (self.last + self.before).since(SimTime::ZERO);
        }
        self.last = now;
        now + self.before
    }
}

impl Dynamo {
    /// The router of a pool of instances.
    pub fn new(config: &DynamoConfig, pool: Pool, seed: Seed) -> Self {
        let config = match pool {
            Pool::Aggregated => config.clone(),
            Pool::Prefill => DynamoConfig { router_track_active_blocks: false, ..config.clone() },
            Pool::Decode => conditional::of_decodes(config),
        };
        let block_size = config.kv_cache_block_size.unwrap_or(BLOCK_SIZE);
        Self {
            router: KvRouter::new(&config, pool, block_size),
            stream: seed.stream("router", 0),
            block_size,
            lag: SimDuration::from_secs_f64(config.kv_event_lag_ms / 1e3),
            computes_some: pool == Pool::Decode && config.conditional_disagg.is_some(),
            config,
            instances: 0,
            down: Vec::new(),
            clock: Clock::default(),
            on_the_way: OnTheWay::default(),
            outcomes: Vec::new(),
        }
    }

    /// Asks for an instance at a moment.
    pub fn offer(
        &mut self,
        now: SimTime,
        request: RequestView<'_>,
        view: &ClusterView<'_>,
    ) -> Routed {
        let options = self.options(request);
        self.offer_with(now, request, options, view)
    }

    fn offer_with(
        &mut self,
        now: SimTime,
        request: RequestView<'_>,
        options: Option<Options>,
        view: &ClusterView<'_>,
    ) -> Routed {
        let now = self.clock.at(now);
        self.see_fleet(now, view);
        self.take_in(now);
        let (key, ask) = (RequestKey(u64::from(request.id.0)), self.ask(request, options));
        self.router.arrive(now, ask, &mut self.stream, &mut self.outcomes);
        let own = self.outcomes.iter().position(|outcome| outcome.key() == key);
        own.map_or(Routed::Waits, |own| offered(&self.outcomes.remove(own)).1)
    }

    /// Something happens to a request.
    pub fn tell(&mut self, now: SimTime, signal: Signal) {
        let now = self.clock.at(now);
        self.take_in(now);
        let key = |id: RequestId| RequestKey(u64::from(id.0));
        let Self { router, stream, outcomes, .. } = self;
        match signal {
            Signal::Prefilled(id) => router.prefill_done(now, key(id), stream, outcomes),
            Signal::Left(id) => router.free(now, key(id), stream, outcomes),
        }
    }

    /// It is told at `now` that the cache of an instance changes at these moments.
    pub fn hear(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        events: impl IntoIterator<Item = (SimTime, CacheEvent)>,
    ) {
        let (rank, now) = (Rank(instance.0), now + self.clock.before);
        self.take_in(now);
        for (at, event) in events {
            let at = at + self.clock.before + self.lag;
            // What comes by now comes after all that was told before and has come.
            if at <= now {
                self.learn(rank, &event);
            } else {
                self.on_the_way.add(at, rank, event);
            }
        }
    }

    /// An instance is gone, and with it all that is known to be cached there and what it told last. Another one in its
    /// place is a worker that nothing is known of.
    pub fn gone(&mut self, instance: InstanceId) {
        let rank = Rank(instance.0);
        self.on_the_way.forget(rank);
        self.router.forget(rank);
    }

    /// Whether requests may wait here.
    pub fn holds_requests(&self) -> bool {
        self.config.holds_requests()
    }

    /// Whether nothing waits and nothing is booked.
    pub fn is_at_rest(&self) -> bool {
        let booked = |id| self.router.booked(Rank(id)) == (0, 0, 0);
        self.router.waiting() == 0 && (0..self.instances).all(booked)
    }

    /// What has become of requests that waited, in order.
    pub fn released(&mut self, now: SimTime, down: &[InstanceId]) -> Vec<(RequestId, Routed)> {
        let now = self.clock.at(now);
        if self.down != down {
            self.set_down(down);
            self.router.drain(now, &mut self.stream, &mut self.outcomes);
        }
        self.outcomes.drain(..).map(|outcome| offered(&outcome)).collect()
    }

    fn see_fleet(&mut self, now: SimTime, view: &ClusterView<'_>) {
        for id in self.instances..view.instances {
            let instance = InstanceId(id);
            let member = Member {
                max_num_batched_tokens: Some(u64::from(view.steps.token_budget(instance))),
                total_kv_blocks: view.steps.kv_blocks(instance).map(u64::from),
                ..Member::of(id)
            };
            self.router.add(now, Rank(id), member, &mut self.stream, &mut self.outcomes);
        }
        self.instances = self.instances.max(view.instances);
        if self.down != view.down {
            self.set_down(view.down);
        }
    }

    fn set_down(&mut self, down: &[InstanceId]) {
        for id in self.down.drain(..) {
            self.router.set_up(Rank(id.0), true);
        }
        for &id in down {
            self.router.set_up(Rank(id.0), false);
        }
        self.down.extend_from_slice(down);
    }

    fn take_in(&mut self, now: SimTime) {
        while let Some((rank, event)) = self.on_the_way.next(now) {
            self.learn(rank, &event);
        }
    }

    fn learn(&mut self, rank: Rank, event: &CacheEvent) {
        match event {
            CacheEvent::Stored { parent, names, .. } => {
                let parent = parent.map(BlockHash::number);
                self.router.stored(rank, Tier::Device, parent, names);
            }
            CacheEvent::Removed { names, order } => {
                self.router.removed(rank, Tier::Device, names, *order);
            }
            CacheEvent::Cleared => self.router.cleared(rank),
        }
    }

    /// What a request asks for that is sent as all are.
    fn options(&self, request: RequestView<'_>) -> Option<Options> {
        let own = self.session(request);
        if self.computes_some { Some(conditional::prefilled_elsewhere(own)) } else { own }
    }

    fn session(&self, request: RequestView<'_>) -> Option<Options> {
        let session = request.session.filter(|_| self.config.session_affinity_ttl_secs.is_some());
        let session = session.map(|session| u64::from(session.0));
        session.map(|session| Options { session: Some(session), ..Options::default() })
    }

    fn ask(&self, request: RequestView<'_>, options: Option<Options>) -> Ask {
        let blocks = request.prompt_tokens / self.block_size;
        let mut named = Names::default();
        let looks_for_names = self.config.router_assume_kv_reuse || self.computes_some;
        if request.content.segments.is_some() && looks_for_names {
            let RequestView { id, content, prompt_tokens, adapter, .. } = request;
            let (size, ahead) = (self.block_size, Lookahead::None);
            let mut hasher = ChainHasher::new(id, content, prompt_tokens, adapter, size, ahead);
            hasher.extend_by_runs(prompt_tokens, &mut named);
        }
        Ask {
            key: RequestKey(u64::from(request.id.0)),
            prompt_tokens: u64::from(request.prompt_tokens),
            prompt: Prompt { named: Arc::new(named), blocks },
            options: options.map(Arc::new),
        }
    }
}

fn offered(outcome: &Outcome) -> (RequestId, Routed) {
    let offer = match outcome {
        Outcome::Sent(decision) => Routed::To(InstanceId(decision.rank.0)),
        Outcome::Rejected(_, Rejection::NoEndpoints) => Routed::Nowhere,
        Outcome::Rejected(_, Rejection::QueueFull { .. }) => Routed::Full,
    };
    (RequestId(outcome.key().0 as u32), offer)
}

impl Route for Dynamo {
    /// # Panics
    /// When the request waits; [`offer`](Self::offer) tells that.
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        match self.offer(self.clock.last, request, view) {
            Routed::To(instance) => instance,
            other => panic!("request {} is not sent: {other:?}", request.id),
        }
    }

    fn needs(&self) -> Needs {
        // A pool that looks at its load alone needs no caches.
        let looks = self.config.overlap_score_credit > 0.0 || self.computes_some;
        let cache_events = looks && self.config.use_kv_events;
        Needs { lifecycle: true, cache_events, ..Needs::NOTHING }
    }
}

#[cfg(test)]
mod tests;
