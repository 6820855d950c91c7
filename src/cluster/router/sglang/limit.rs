//! The limit to requests in a simulation: who runs, who waits for a token and how long, who is refused. vLLM's router has the
//! same one (vllm-router 0.1.17, `src/middleware.rs` and `src/core/token_bucket.rs`) but for when a token comes back.
//!
//! A passive machine: the loop tells who comes, who has an answer and whose wait is over. The router's queue hands
//! requests on at once, so that its length hardly matters: without one a request that finds no token is refused (429);
//! otherwise it waits until the next token is due, and is given up then (408). A token that comes back before goes to any
//! of those that wait. Who might win the token that is due as all of them are given up is nobody here: it stays in the
//! bucket.
//!
//! `SGLang`'s router gives a token back when an answer has been read, or its client is gone. vLLM's gives it back when the
//! answer begins, as answers are streams, and not at all if the client goes away before.
//! Left out: a request of vLLM's router whose client went away while it waited may still get a token, which is lost.

use rustc_hash::FxHashSet;

use super::build::seconds;
use super::draw::Draw;
use super::token_bucket::TokenBucket;
use crate::ids::RequestId;
use crate::rng::{Seed, Stream};
use crate::scenario::{MakersRouter, RouterConfig};
use crate::units::{SimDuration, SimTime};

/// What becomes of a request that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has a token.
    Runs,
    /// It waits for one, at most so long.
    Waits(SimDuration),
    /// It is refused.
    Refused,
}

/// The limit of a router.
#[derive(Debug)]
pub(crate) struct Limit {
    bucket: TokenBucket,
    has_queue: bool,
    timeout: SimDuration,
    /// In the order in which they came.
    waiting: Vec<RequestId>,
    /// Those that have a token.
    running: FxHashSet<RequestId>,
    /// Whether it comes back when the answer begins.
    is_brief: bool,
    /// Who of those that wait gets a token is drawn.
    stream: Stream,
}

impl Limit {
    /// The limit of a router, if it has one; what it draws comes from the seed's stream `router-limit`, of the router
    /// with this number.
    pub(crate) fn of(router: &RouterConfig, seed: Seed, number: u64) -> Option<Self> {
        let RouterConfig::Makers(router) = router else { return None };
        let (capacity, per_s, queue_size, timeout_secs) = match router {
            MakersRouter::Sglang(config) => (
                u64::try_from(config.max_concurrent_requests).ok().filter(|most| *most > 0)?,
                config.rate_limit_tokens_per_second,
                config.queue_size,
                config.queue_timeout_secs,
            ),
            MakersRouter::VllmRouter(config) if config.limits_requests() => (
                config.max_concurrent_requests,
                config.rate_limit_tokens_per_second,
                config.queue_size,
                config.queue_timeout_secs,
            ),
            MakersRouter::VllmRouter(_) => return None,
        };
        Some(Self {
            bucket: TokenBucket::new(capacity, per_s.unwrap_or(capacity)),
            has_queue: queue_size > 0,
            timeout: seconds(timeout_secs),
            waiting: Vec::new(),
            running: FxHashSet::default(),
            is_brief: matches!(router, MakersRouter::VllmRouter(_)),
            stream: seed.stream("router-limit", number),
        })
    }

    /// A request comes.
    pub(crate) fn come(&mut self, now: SimTime, id: RequestId) -> Entry {
        match self.bucket.take(now) {
            Ok(()) => {
                self.running.insert(id);
                Entry::Runs
            }
            Err(_) if !self.has_queue => Entry::Refused,
            Err(wait) => {
                self.waiting.push(id);
                Entry::Waits(wait.min(self.timeout))
            }
        }
    }

    /// A request has its answer, or nobody waits for one: those that get tokens now, if it had one.
    pub(crate) fn end(&mut self, now: SimTime, id: RequestId) -> Vec<RequestId> {
        let mut admitted = Vec::new();
        if !self.running.remove(&id) {
            return admitted;
        }
        self.bucket.give_back(now);
        while !self.waiting.is_empty() && self.bucket.take(now).is_ok() {
            let next = self.waiting.remove(self.stream.below(self.waiting.len()));
            self.running.insert(next);
            admitted.push(next);
        }
        admitted
    }

    /// A request does not wait any more; whether it did.
    pub(crate) fn stop_waiting(&mut self, id: RequestId) -> bool {
        let place = self.waiting.iter().position(|waiting| *waiting == id);
        place.map(|place| self.waiting.remove(place)).is_some()
    }

    /// The client of a request goes away before its answer has begun, and its token is lost; whether that is so.
    pub(crate) fn loses(&mut self, id: RequestId) -> bool {
        self.is_brief && self.running.remove(&id)
    }

    /// Whether tokens come back when answers begin.
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Whether a request has a token.
    pub(crate) fn has_token(&self, id: RequestId) -> bool {
        self.running.contains(&id)
    }
}

#[cfg(test)]
mod tests;
