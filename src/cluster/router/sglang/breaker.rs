//! The circuit breaker of a worker.

use crate::units::{SimDuration, SimTime};

/// When a breaker opens and closes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Failures in a row that open it.
    pub(crate) failures: u32,
    /// Successes in a row that close it.
    pub(crate) successes: u32,
    /// How long it stays open.
    pub(crate) timeout: SimDuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    Open(SimTime),
    HalfOpen,
}

/// Whether a worker gets requests, by how the last ones ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Breaker {
    state: State,
    failures: u32,
    successes: u32,
}

impl Breaker {
    /// Whether it lets requests pass until some fail.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether requests pass now. After its time an open breaker lets all pass, until one fails.
    pub(crate) fn lets_pass(&mut self, rules: Rules, now: SimTime) -> bool {
        if let State::Open(since) = self.state
            && now.saturating_since(since) >= rules.timeout
        {
            *self = Self { state: State::HalfOpen, failures: 0, successes: 0 };
        }
        !matches!(self.state, State::Open(_))
    }

    /// A request ended.
    pub(crate) fn record(&mut self, rules: Rules, is_success: bool, now: SimTime) {
        if is_success {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            if self.state == State::HalfOpen && self.successes >= rules.successes {
                self.state = State::Closed;
            }
            return;
        }
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            State::Closed => self.failures >= rules.failures,
            State::HalfOpen => true,
            State::Open(_) => false,
        };
        if opens {
            self.state = State::Open(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breaker_opens_lets_all_try_again_and_closes() {
        let rules = Rules { failures: 3, successes: 2, timeout: SimDuration::from_millis(2000) };
        let at = |ms| SimTime::ZERO + SimDuration::from_millis(ms);
        let mut breaker = Breaker::default();
        for is_success in [false, false, true, false, false] {
            breaker.record(rules, is_success, at(0));
            assert!(breaker.lets_pass(rules, at(0)), "a success begins the count anew");
        }
        breaker.record(rules, false, at(10));
        assert!(!breaker.lets_pass(rules, at(2009)));
        assert!(breaker.lets_pass(rules, at(2010)));
        breaker.record(rules, false, at(2020));
        assert!(!breaker.lets_pass(rules, at(4019)), "one failure opens it again");
        assert!(breaker.lets_pass(rules, at(4020)));
        breaker.record(rules, true, at(4020));
        breaker.record(rules, true, at(4021));
        breaker.record(rules, false, at(4022));
        assert!(breaker.lets_pass(rules, at(4022)), "closed: one failure is not enough");
    }
}
