//! How patient clients are.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};

use crate::engine::Finish;
use crate::rng::Seed;
use crate::scenario::{CancellationConfig, ClientConfig, RetryConfig};
use crate::units::{SimDuration, SimTime};

/// Why a client gives a request up by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Reason {
    /// Its user went away.
    Cancelled,
    /// It is not answered in time.
    TimeOver,
    /// Its first token has not come in time.
    NoFirstToken,
}

/// What clients do while they wait, and when they get no answer.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    pub(super) timeout: Option<SimDuration>,
    pub(super) first_token_timeout: Option<SimDuration>,
    retries: Option<RetryConfig>,
    cancellations: Option<CancellationConfig>,
    seed: Seed,
}

/// A span that was drawn, cut to what the clock can count on from any moment of a run.
pub(super) fn drawn(seconds: f64) -> SimDuration {
    SimDuration::from_secs_f64(seconds.min(5e9))
}

impl Patience {
    pub(super) fn new(config: &ClientConfig, seed: Seed) -> Self {
        let span = |seconds: Option<f64>| seconds.map(SimDuration::from_secs_f64);
        Self {
            timeout: span(config.timeout_s),
            first_token_timeout: span(config.first_token_timeout_s),
            retries: config.retries,
            cancellations: config.cancellations,
            seed,
        }
    }

    /// When the user of the request that arrived after so many others goes away, if it is first sent at
    /// `sent`. Each request has a draw of its own, whatever becomes of the others.
    pub(super) fn leaves_at(&self, arrived_before: u64, sent: SimTime) -> Option<SimTime> {
        let cancellations = self.cancellations.as_ref()?;
        let mut stream = self.seed.stream("cancellations", arrived_before);
        let share: f64 = Exp1.sample(&mut stream);
        let leaves = stream.random_bool(cancellations.share);
        leaves.then(|| sent + drawn(share * cancellations.mean_s))
    }

    /// Whether requests may be sent again.
    pub(super) fn retries(&self) -> bool {
        self.retries.is_some_and(|config| config.max_retries > 0)
    }

    /// How long a client waits before it sends a request again that ended so after so many retries;
    /// `None` if it does not.
    pub(super) fn retries_after(&self, finish: Finish, retries: u32) -> Option<SimDuration> {
        let config = self.retries.as_ref()?;
        let is_retried = match finish {
            Finish::Failed => true,
            Finish::TimedOut => config.on_timeout,
            // What engines reject does not come here.
            Finish::Rejected => config.on_refusal,
            Finish::Done | Finish::Aborted => false,
        };
        if !is_retried || retries >= config.max_retries {
            return None;
        }
        let doubled = config.backoff_s * 2.0_f64.powi(retries.min(1000).cast_signed());
        Some(SimDuration::from_secs_f64(doubled.min(config.max_backoff_s)))
    }
}
