//! How fast requests may come: `--max-concurrent-requests` is a bucket of tokens, not a limit to those in flight.

use crate::units::{SimDuration, SimTime};

/// Tokens that requests take one of, and give back.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_s: f64,
    tokens: f64,
    at: SimTime,
}

impl TokenBucket {
    /// A full bucket, into which so many tokens come each second.
    pub(crate) fn new(capacity: u64, per_s: u64) -> Self {
        let capacity = capacity as f64;
        Self { capacity, per_s: per_s as f64, tokens: capacity, at: SimTime::ZERO }
    }

    /// Takes a token, or says how long until the next one is due.
    pub(crate) fn take(&mut self, now: SimTime) -> Result<(), SimDuration> {
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(SimDuration::from_secs_f64((1.0 - self.tokens) / self.per_s))
    }

    /// A request that has ended gives its token back.
    pub(crate) fn give_back(&mut self, now: SimTime) {
        self.refill(now);
        self.tokens = (self.tokens + 1.0).min(self.capacity);
    }

    fn refill(&mut self, now: SimTime) {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_s).min(self.capacity);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_requests_run_than_the_limit_says() {
        let mut bucket = TokenBucket::new(4, 1);
        let at = |ms| SimTime::ZERO + SimDuration::from_millis(ms);
        assert_eq!((0..6).filter(|_| bucket.take(at(0)).is_ok()).count(), 4);
        // Nothing has ended; one more runs each second.
        assert_eq!(bucket.take(at(250)), Err(SimDuration::from_millis(750)));
        assert_eq!(bucket.take(at(1000)), Ok(()));
        assert!(bucket.take(at(1000)).is_err());
        bucket.give_back(at(1000));
        assert_eq!(bucket.take(at(1000)), Ok(()));
    }
}
