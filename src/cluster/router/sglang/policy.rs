//! What policies are asked, what they see, and which there are.

use super::bucket::Bucket;
use super::cache_aware::CacheAware;
use super::consistent_hashing::ConsistentHashing;
use super::draw::Draw;
use super::manual::Manual;
use super::power_of_two::PowerOfTwo;
use super::prefix_hash::PrefixHash;
use super::random::Random;
use super::round_robin::RoundRobin;
use super::text::Text;
use crate::cluster::router::vllm_router;
use crate::ids::InstanceId;
use crate::units::SimTime;

/// A replica as the router knows it.
pub(crate) type Worker = InstanceId;

/// What of a request a policy may look at.
#[derive(Debug)]
pub(crate) struct Asked<'a, T> {
    /// When it came.
    pub(crate) now: SimTime,
    /// Its prompt, where the router reads one.
    pub(crate) text: Option<&'a T>,
    /// Its headers, with names in lower case.
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

impl<T> Asked<'_, T> {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| *of == name).map(|(_, value)| *value)
    }
}

/// The workers that a policy may choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workers<'a> {
    /// Those that are healthy with a breaker that is not open, in the router's order.
    pub(crate) available: &'a [Worker],
    /// By worker, its requests in flight, as far as they are counted.
    pub(crate) loads: &'a [u32],
    /// By worker, its keys that have requests in flight.
    pub(crate) keys: &'a [u32],
}

impl Workers<'_> {
    /// The requests of a worker.
    pub(crate) fn load(&self, worker: Worker) -> u32 {
        self.loads[worker.index()]
    }

    /// The first with the least load.
    pub(crate) fn least_loaded(&self) -> Option<Worker> {
        self.available.iter().copied().min_by_key(|worker| self.load(*worker))
    }

    /// The least and the most load.
    pub(crate) fn loads_between(&self) -> (u32, u32) {
        let loads = self.available.iter().map(|worker| self.load(*worker));
        loads.fold((u32::MAX, 0), |(least, most), load| (least.min(load), most.max(load)))
    }

    /// Whether a worker may be chosen.
    pub(crate) fn has(&self, worker: Worker) -> bool {
        self.available.contains(&worker)
    }

    /// Any of them.
    pub(crate) fn any(&self, draw: &mut impl Draw) -> Option<Worker> {
        let count = self.available.len();
        (count > 0).then(|| self.available[draw.below(count)])
    }

    /// Any of those with the least of something.
    pub(crate) fn any_least(&self, counts: &[u32], draw: &mut impl Draw) -> Option<Worker> {
        let of = |worker: &Worker| counts[worker.index()];
        let least = self.available.iter().map(of).min()?;
        let ties: Vec<_> =
            self.available.iter().copied().filter(|worker| of(worker) == least).collect();
        Some(ties[draw.below(ties.len())])
    }
}

/// The policies of both routers.
#[derive(Debug, Clone)]
pub(crate) enum Policy<T: Text> {
    /// Each in turn.
    RoundRobin(RoundRobin),
    /// Any.
    Random(Random),
    /// The better of two.
    PowerOfTwo(PowerOfTwo),
    /// Where the beginning of the prompt was sent.
    CacheAware(Box<CacheAware<T>>),
    /// By key, remembered.
    Manual(Manual),
    /// By a hash of the key.
    ConsistentHashing(ConsistentHashing),
    /// By a hash of tokens.
    PrefixHash(PrefixHash),
    /// By length.
    Bucket(Bucket),
    /// vLLM's: where the most of the prompt was sent.
    VllmCacheAware(Box<vllm_router::cache_aware::CacheAware<T>>),
    /// vLLM's: by a hash of the session.
    ConsistentHash(vllm_router::consistent_hash::ConsistentHash),
    /// vLLM's: by session, remembered.
    StickyLeastLoaded(vllm_router::sticky_least_loaded::StickyLeastLoaded),
}

impl<T: Text> Policy<T> {
    /// The worker that gets a request; none if no worker can be found.
    pub(crate) fn choose(
        &mut self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        match self {
            Self::RoundRobin(policy) => policy.choose(workers),
            Self::Random(policy) => policy.choose(workers, draw),
            Self::PowerOfTwo(policy) => policy.choose(workers, draw),
            Self::CacheAware(policy) => policy.choose(asked, workers, draw),
            Self::Manual(policy) => policy.choose(asked, workers, draw),
            Self::ConsistentHashing(policy) => policy.choose(asked, workers, draw),
            Self::PrefixHash(policy) => policy.choose(),
            Self::Bucket(policy) => policy.choose(asked, draw),
            Self::VllmCacheAware(policy) => policy.choose(asked, workers),
            Self::ConsistentHash(policy) => policy.choose(asked, workers, draw),
            Self::StickyLeastLoaded(policy) => policy.choose(asked, workers, draw),
        }
    }

    /// Whether a choice may draw; a policy that says no does not.
    pub(crate) fn may_draw(&self) -> bool {
        match self {
            Self::CacheAware(policy) => policy.may_draw(),
            Self::RoundRobin(_) | Self::PrefixHash(_) | Self::VllmCacheAware(_) => false,
            _ => true,
        }
    }

    /// A worker came: all there are now are told to the policy again.
    pub(crate) fn register(&mut self, workers: &[Worker]) {
        match self {
            Self::CacheAware(policy) => policy.register(workers),
            Self::ConsistentHashing(policy) => policy.register(workers),
            Self::Bucket(policy) => policy.register(workers),
            Self::ConsistentHash(policy) => policy.register(workers),
            _ => {}
        }
    }

    /// A worker went.
    pub(crate) fn remove(&mut self, worker: Worker, left: &[Worker]) {
        match self {
            Self::CacheAware(policy) => policy.remove(worker),
            Self::ConsistentHashing(policy) => policy.register(left),
            Self::ConsistentHash(policy) => policy.register(left),
            _ => {}
        }
    }
}
