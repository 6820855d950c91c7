//! Token buckets: how fast requests may come, or be sent.
//!
//! A bucket is kept as the moment at which it will be full again (the generic cell rate algorithm), so
//! that nothing is done while nobody asks. What asks for more than a full bucket holds passes when the
//! bucket is full, and the bucket is in debt afterwards.

use crate::scenario::RateLimitConfig;
use crate::units::{SimDuration, SimTime};

/// One bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    per_s: f64,
    /// How long it takes to fill when it is empty.
    fills_in: SimDuration,
    full_at: SimTime,
}

impl Bucket {
    fn new(per_s: f64, burst: u32) -> Self {
        let fills_in = span(per_s, burst);
        Self { per_s, fills_in, full_at: SimTime::ZERO }
    }

    /// How long the bucket takes to win so much.
    fn span(&self, amount: u32) -> SimDuration {
        span(self.per_s, amount)
    }

    /// When it holds so much, if nobody takes any of it.
    fn ready_at(&self, amount: u32) -> SimTime {
        let fills_in = self.fills_in.as_nanos();
        let lacks = fills_in - self.span(amount).as_nanos().min(fills_in);
        SimTime::from_nanos(self.full_at.as_nanos().saturating_sub(lacks))
    }

    fn take(&mut self, now: SimTime, amount: u32) {
        let full_at = self.full_at.max(now).as_nanos().saturating_add(self.span(amount).as_nanos());
        self.full_at = SimTime::from_nanos(full_at);
    }
}

/// How long `amount` takes to come at a rate, rounded down: the spans of parts are then no longer than
/// that of the whole, and a full bucket lets all of its burst through.
fn span(per_s: f64, amount: u32) -> SimDuration {
    SimDuration::from_nanos((f64::from(amount) / per_s * 1e9) as u64)
}

/// The buckets that a request has to pass.
#[derive(Debug, Clone)]
pub(super) struct RateLimit {
    requests: Option<Bucket>,
    prompt_tokens: Option<Bucket>,
}

impl RateLimit {
    /// Full buckets.
    pub(super) fn new(config: &RateLimitConfig) -> Self {
        let bucket = |per_s: Option<f64>, burst: Option<u32>| {
            per_s.zip(burst).map(|(per_s, burst)| Bucket::new(per_s, burst))
        };
        Self {
            requests: bucket(config.requests_per_s, config.burst),
            prompt_tokens: bucket(config.prompt_tokens_per_s, config.burst_prompt_tokens),
        }
    }

    /// When a request with such a prompt passes, if no other does before.
    pub(super) fn ready_at(&self, prompt_tokens: u32) -> SimTime {
        let requests = self.requests.map(|bucket| bucket.ready_at(1));
        let tokens = self.prompt_tokens.map(|bucket| bucket.ready_at(prompt_tokens));
        requests.into_iter().chain(tokens).max().unwrap_or(SimTime::ZERO)
    }

    /// A request passes.
    pub(super) fn take(&mut self, now: SimTime, prompt_tokens: u32) {
        if let Some(bucket) = &mut self.requests {
            bucket.take(now, 1);
        }
        if let Some(bucket) = &mut self.prompt_tokens {
            bucket.take(now, prompt_tokens);
        }
    }
}
