//! The frame of both routers in a simulation: the order of workers, what they have in flight, and when the router
//! looks after its memory.
//!
//! A prompt is runs of tokens of four characters each. A request of a conversation brings its session as the key that
//! policies read (`x-smg-routing-key`, `x-session-id`).
//!
//! Which workers are dead the router finds out by itself: by requests that are not taken, with breakers, and by health
//! checks. Answers are streams: a request counts as a success when it is taken, whatever becomes of it then. Of a pair, in
//! which each worker has a router of its own here, both have to take it.

use rand::seq::SliceRandom;

use super::backoff::Backoff;
use super::build::{self, Site, seconds};
use super::draw::Draw;
use super::known::Known;
use super::manual::ROUTING_KEY;
use super::policy::{Asked, Policy, Worker, Workers};
use super::text::Tokens;
use crate::cluster::router::vllm_router::consistent_hash::SESSIONS;
use crate::cluster::router::{Needs, Route, Routed};
use crate::cluster::{ClusterView, Health, Reply};
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::rng::{Seed, Stream};
use crate::scenario::{
    AssignmentMode, MakersRouter, SglangRouterConfig, SglangRouterPolicy, VllmRouterPolicy,
};
use crate::units::{SimDuration, SimTime};

/// Characters of a token.
const CHARACTERS: u32 = 4;

/// What vLLM's router keeps in its tree for each worker: 2^25 characters at 8 to a token.
const VLLM_TREE_TOKENS: u64 = (1 << 25) / 8;

/// How often it evicts.
const VLLM_EVICTION_SECS: u64 = 120;

/// How uses are counted when the first request comes: modulo this, which is how far a match reads the number.
const PHASES: usize = 8;

/// What its instances do of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// All of it.
    Whole,
    /// The prompt.
    Prefills,
    /// The answer.
    Decodes,
}

/// A router of `SGLang` or vLLM.
#[derive(Debug, Clone)]
pub struct SglangFrame {
    router: MakersRouter,
    serves: Serves,
    stream: Stream,
    backoff: Backoff,
    /// Where waits between attempts are drawn.
    waits: Stream,
    /// In the router's order; empty before the first request.
    order: Vec<Worker>,
    policy: Option<Policy<Tokens>>,
    known: Known,
    loads: Vec<u32>,
    /// When it was asked last.
    asked_at: SimTime,
    /// When its memory is looked after next, and the ranges of lengths.
    evicts_at: SimTime,
    adjusts_at: SimTime,
}

impl SglangFrame {
    /// A router that knows no instances yet; what it draws comes from the seed's streams `router` and
    /// `router-retries`.
    pub(crate) fn new(router: &MakersRouter, serves: Serves, seed: Seed) -> Self {
        Self {
            known: known(router),
            router: router.clone(),
            serves,
            stream: seed.stream("router", 0),
            backoff: match router {
                MakersRouter::Sglang(config) => build::backoff(config),
                MakersRouter::VllmRouter(config) => build::vllm_backoff(config),
            },
            waits: seed.stream("router-retries", 0),
            order: Vec::new(),
            policy: None,
            loads: Vec::new(),
            asked_at: SimTime::ZERO,
            evicts_at: SimTime::ZERO,
            adjusts_at: SimTime::ZERO,
        }
    }

    fn sglang_policy(&self, config: &SglangRouterConfig) -> SglangRouterPolicy {
        match self.serves {
            Serves::Whole => config.policy,
            Serves::Prefills => config.of_prefills(),
            Serves::Decodes => config.of_decodes(),
        }
    }

    /// The order of workers is drawn, and they register.
    fn start(&mut self, workers: u32) -> Policy<Tokens> {
        let mut order: Vec<_> = (0..workers).map(InstanceId).collect();
        order.shuffle(&mut self.stream);
        let site = Site {
            urls: (0..workers).map(|worker| format!("http://replica-{worker}:8000")).collect(),
            has_names: true,
            is_apart: self.serves != Serves::Whole,
            label: CHARACTERS,
            uses: self.stream.below(PHASES) as u64,
        };
        let mut policy = match &self.router {
            MakersRouter::Sglang(config) => {
                build::sglang(self.sglang_policy(config), config, &site)
            }
            MakersRouter::VllmRouter(config) => build::vllm(config, &site),
        };
        // All are told again with every one that comes: what is divided is so for the last time.
        policy.register(&order);
        policy.register(&order);
        self.begin_clock();
        self.known.arrange(&order);
        self.order = order;
        self.loads = vec![0; workers as usize];
        policy
    }

    /// It is this time. An earlier one than before is the beginning of another run, on the same instances; of one instant
    /// some see the steps that end then, which is a nanosecond later.
    fn reach(&mut self, now: SimTime) {
        if now + SimDuration::from_nanos(1) < self.asked_at {
            self.begin_clock();
            self.known = known(&self.router);
            self.known.arrange(&self.order);
        }
        self.asked_at = now;
    }

    /// The clock begins: its memory is looked after an interval later.
    fn begin_clock(&mut self) {
        self.evicts_at = SimTime::ZERO + self.eviction_interval();
        if let MakersRouter::Sglang(config) = &self.router {
            self.adjusts_at = SimTime::ZERO + seconds(config.bucket_adjust_interval_secs);
        }
    }

    /// Memory is looked after at its times; what no request saw between them happens once.
    fn pass_time(&mut self, policy: &mut Policy<Tokens>, now: SimTime) {
        let interval = self.eviction_interval();
        if let Some(at) = due(&mut self.evicts_at, now, interval) {
            match (policy, &self.router) {
                (Policy::CacheAware(policy), MakersRouter::Sglang(config)) => {
                    policy.tree().evict(config.max_tree_size / u64::from(CHARACTERS));
                }
                (Policy::VllmCacheAware(policy), _) => policy.tree().evict(VLLM_TREE_TOKENS),
                (Policy::Manual(policy), MakersRouter::Sglang(config)) => {
                    policy.forget(at, seconds(config.max_idle_secs));
                }
                _ => {}
            }
        }
    }

    fn adjust(&mut self, policy: &mut Policy<Tokens>, now: SimTime) {
        if let (Policy::Bucket(bucket), MakersRouter::Sglang(config)) = (policy, &self.router) {
            let interval = seconds(config.bucket_adjust_interval_secs);
            if due(&mut self.adjusts_at, now, interval).is_some() {
                bucket.adjust();
            }
        }
    }

    fn eviction_interval(&self) -> SimDuration {
        match &self.router {
            MakersRouter::Sglang(config) => seconds(config.eviction_interval_secs),
            MakersRouter::VllmRouter(_) => seconds(VLLM_EVICTION_SECS),
        }
    }

    fn counts_loads(&self) -> bool {
        match &self.router {
            MakersRouter::Sglang(config) => {
                build::counts_loads(self.sglang_policy(config), self.serves != Serves::Whole)
            }
            MakersRouter::VllmRouter(config) => build::vllm_counts_loads(config.policy),
        }
    }

    /// Whether requests are told apart by the key that they bring.
    fn reads_keys(&self) -> bool {
        match &self.router {
            MakersRouter::Sglang(config) => matches!(
                self.sglang_policy(config),
                SglangRouterPolicy::Manual | SglangRouterPolicy::ConsistentHashing
            ),
            MakersRouter::VllmRouter(config) => matches!(
                config.policy,
                VllmRouterPolicy::ConsistentHash | VllmRouterPolicy::StickyLeastLoaded
            ),
        }
    }

    /// Whether keys in flight decide.
    fn counts_keys(&self) -> bool {
        let MakersRouter::Sglang(config) = &self.router else { return false };
        self.sglang_policy(config) == SglangRouterPolicy::Manual
            && config.assignment_mode == AssignmentMode::MinGroup
    }

    /// How often engines are asked for the tokens that they hold.
    fn polls(&self) -> Option<SimDuration> {
        match &self.router {
            MakersRouter::Sglang(config) => {
                let polls = self.sglang_policy(config) == SglangRouterPolicy::PowerOfTwo;
                polls.then(|| seconds(config.worker_startup_check_interval))
            }
            // Engines of vLLM do not answer.
            MakersRouter::VllmRouter(_) => None,
        }
    }
}

/// The last of the times that have come since the one that was to come next; that is the next one after `now`.
fn due(next: &mut SimTime, now: SimTime, interval: SimDuration) -> Option<SimTime> {
    if *next > now {
        return None;
    }
    let interval = interval.as_nanos().max(1);
    let last = now.as_nanos() - now.as_nanos() % interval;
    *next = SimTime::from_nanos(last.saturating_add(interval));
    Some(SimTime::from_nanos(last))
}

/// What a router knows of its workers before there are any.
fn known(router: &MakersRouter) -> Known {
    match router {
        MakersRouter::Sglang(config) => build::known(config),
        MakersRouter::VllmRouter(config) => build::vllm_known(config),
    }
}

impl SglangFrame {
    /// What is sent to a worker fares so from now on.
    pub(crate) fn connects(&mut self, worker: Worker, now: SimTime, health: Health) {
        self.reach(now);
        self.known.connects(worker, now, health);
    }

    /// A new worker is in the place of another.
    pub(crate) fn renew(&mut self, worker: Worker) {
        self.known.renew(worker);
    }

    /// A worker has replied to a request. Of client errors `SGLang`'s router thinks ill in regular mode alone, and vLLM's
    /// never (vllm-router 0.1.17, `src/routers/http/router.rs`).
    pub(crate) fn answered(&mut self, worker: Worker, now: SimTime, reply: Reply) {
        let minds = matches!(self.router, MakersRouter::Sglang(_)) && self.serves == Serves::Whole;
        let is_success = match reply {
            Reply::Taken => true,
            Reply::Rejected => !minds,
            Reply::Dead => false,
        };
        self.reach(now);
        self.known.answered(worker, now, is_success);
    }

    /// How long until a request is tried again of which so many attempts have failed, if it is.
    pub(crate) fn waits_after(&mut self, failed: u32) -> Option<SimDuration> {
        self.backoff.draw(failed, &mut self.waits)
    }

    /// The worker that gets a request, if there is one.
    pub(crate) fn offer(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> Routed {
        self.choose(request, view).map_or(Routed::Unavailable, Routed::To)
    }

    fn choose(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> Option<Worker> {
        let mut policy = match self.policy.take() {
            Some(policy) => policy,
            None => self.start(view.instances),
        };
        self.reach(view.now);
        self.pass_time(&mut policy, view.now);
        self.adjust(&mut policy, view.now);
        if self.counts_loads() {
            for (load, outstanding) in self.loads.iter_mut().zip(view.outstanding) {
                *load = outstanding.requests;
            }
        }
        if let Policy::PowerOfTwo(policy) = &mut policy
            && self.polls().is_some()
            && view.signals_age == SimDuration::ZERO
        {
            let held = view.signals.iter().map(|load| Some(i64::from(load.kv_blocks_held())));
            policy.polled(held.collect());
        }
        let session = request.session.filter(|_| self.reads_keys());
        let session = session.map(|session| session.to_string());
        let headers = session.as_deref().map(|key| [(ROUTING_KEY, key), (SESSIONS[0], key)]);
        let text = Tokens::new(request.id, request.content, request.prompt_tokens);
        let asked = Asked {
            now: view.now,
            text: Some(&text),
            headers: headers.as_ref().map_or(&[], |headers| &headers[..]),
        };
        let available = self.known.available(&self.order, view.down, view.now);
        let first = available.first().copied();
        let workers = Workers { available, loads: &self.loads, keys: view.sessions };
        let chosen = first.and_then(|_| policy.choose(&asked, workers, &mut self.stream));
        self.policy = Some(policy);
        // Ranges of lengths are not checked for health: nobody is there, and another one gets the prompt.
        chosen.filter(|worker| view.is_up(*worker)).or(first)
    }
}

impl Route for SglangFrame {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let chosen = self.choose(request, view);
        chosen.unwrap_or_else(|| view.up().next().unwrap_or(InstanceId(0)))
    }

    fn needs(&self) -> Needs {
        Needs {
            outstanding: self.counts_loads(),
            signals: self.polls(),
            by_session: self.counts_keys(),
            until_answered: self.serves == Serves::Prefills,
            finds_out: true,
            ..Needs::NOTHING
        }
    }
}
