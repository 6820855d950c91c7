//! The limit to requests in a simulation: who runs, who waits for a token and how long, who is refused.
//!
//! A passive machine: the loop tells who comes, who has an answer and whose wait is over. The router's queue hands
//! requests on at once, so that its length hardly matters: without one a request that finds no token is refused (429);
//! otherwise it waits until the next token is due, and is given up then (408). A token that comes back before goes to any
//! of those that wait. Who might win the token that is due as all of them are given up is nobody here: it stays in the
//! bucket.

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
    /// Who of those that wait gets a token is drawn.
    stream: Stream,
}

impl Limit {
    /// The limit of a router, if it has one; what it draws comes from the seed's stream `router-limit`, of the router
    /// with this number.
    pub(crate) fn of(router: &RouterConfig, seed: Seed, number: u64) -> Option<Self> {
        let RouterConfig::Makers(MakersRouter::Sglang(config)) = router else { return None };
        let capacity =
            u64::try_from(config.max_concurrent_requests).ok().filter(|most| *most > 0)?;
        let per_s = config.rate_limit_tokens_per_second.unwrap_or(capacity);
        Some(Self {
            bucket: TokenBucket::new(capacity, per_s),
            has_queue: config.queue_size > 0,
            timeout: seconds(config.queue_timeout_secs),
            waiting: Vec::new(),
            running: FxHashSet::default(),
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

    /// Whether a request has a token.
    pub(crate) fn has_token(&self, id: RequestId) -> bool {
        self.running.contains(&id)
    }
}

#[cfg(test)]
mod tests;
