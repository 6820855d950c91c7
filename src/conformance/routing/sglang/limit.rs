//! Recordings of the limit to requests: who runs at once, who is refused, who waits and how long.
//!
//! Which of the waiting requests gets a token is drawn, and so whether one gets the token that is due when all of them
//! are given up. Waiting requests of which the recording says that they ran get the tokens here.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::{Line, Send, What};
use super::settings::Settings;
use crate::cluster::sglang::build::seconds;
use crate::cluster::sglang::token_bucket::TokenBucket;
use crate::conformance::routing::Tally;
use crate::units::{SimDuration, SimTime};

/// By how much the recorded end of a wait may be later than the rules say: timers are late.
const LATE: SimDuration = SimDuration::from_millis(25);

/// By how much it may be earlier: times of the recording are those of the client.
const EARLY: SimDuration = SimDuration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    AtOnce,
    Refused,
    Waited,
    GivenUp,
}

#[derive(Debug)]
struct Waiting<'a> {
    rid: &'a str,
    /// When it is given up.
    until: SimTime,
    /// Whether it ran, as recorded.
    ran: bool,
}

pub(super) fn replay(settings: &Settings, lines: &[Line]) -> Tally {
    let Some(config) = settings.limit() else {
        return Tally::default();
    };
    let capacity = config.max_concurrent_requests.unsigned_abs();
    let per_s = config.rate_limit_tokens_per_second.filter(|rate| *rate > 0).unwrap_or(capacity);
    let mut limit = Limit {
        tally: Tally { policy: "sglang limit".to_owned(), ..Tally::default() },
        bucket: TokenBucket::new(capacity, per_s),
        queue: config.queue_size,
        timeout: seconds(config.queue_timeout_secs),
        waiting: Vec::new(),
        ends: ends(lines),
        running: BTreeSet::new(),
    };
    for line in lines {
        limit.serve(line.at);
        match &line.what {
            What::Send(send) => limit.send(line, send),
            What::Finish(rid) => limit.finish(rid, line.at),
            _ => {}
        }
    }
    limit.serve(SimTime::MAX);
    limit.tally
}

fn ends(lines: &[Line]) -> BTreeMap<&str, usize> {
    let mut ends = BTreeMap::new();
    for line in lines {
        if let What::Finish(rid) = &line.what {
            ends.insert(rid.as_str(), line.number);
        }
    }
    ends
}

struct Limit<'a> {
    tally: Tally,
    bucket: TokenBucket,
    queue: u64,
    timeout: SimDuration,
    waiting: Vec<Waiting<'a>>,
    /// Which line ends each request: those that end first had their tokens first.
    ends: BTreeMap<&'a str, usize>,
    /// Requests that have a token.
    running: BTreeSet<&'a str>,
}

impl<'a> Limit<'a> {
    fn send(&mut self, line: &Line, send: &'a Send) {
        let recorded = match send.status {
            Some(429) => Outcome::Refused,
            Some(408) => Outcome::GivenUp,
            _ => Outcome::Waited,
        };
        let place = || line.place();
        let wait = match self.bucket.take(line.at) {
            Ok(()) => {
                let recorded = if recorded == Outcome::Waited { Outcome::AtOnce } else { recorded };
                self.tally.count(place, &recorded, &[Outcome::AtOnce]);
                self.running.insert(&send.rid);
                return;
            }
            Err(wait) => wait,
        };
        if self.queue == 0 {
            self.tally.count(place, &recorded, &[Outcome::Refused]);
            return;
        }
        let until = line.at + wait.min(self.timeout);
        let ran = recorded == Outcome::Waited;
        if ran {
            self.tally.count(place, &recorded, &[Outcome::Waited, Outcome::GivenUp]);
        } else {
            let ended = line.at + SimDuration::from_secs_f64(send.ms.unwrap_or_default() / 1000.0);
            let is_then = ended + EARLY >= until && ended <= until + LATE;
            let allowed = if is_then { Outcome::GivenUp } else { Outcome::Waited };
            self.tally.count(place, &recorded, &[allowed]);
        }
        self.waiting.push(Waiting { rid: &send.rid, until, ran });
    }

    fn finish(&mut self, rid: &str, now: SimTime) {
        if self.running.remove(rid) {
            self.bucket.give_back(now);
            self.admit(now);
        }
    }

    /// Waiting requests that ran take tokens that are there.
    fn admit(&mut self, now: SimTime) {
        loop {
            let ran = (0..self.waiting.len()).filter(|place| self.waiting[*place].ran);
            let next = ran.min_by_key(|place| self.ends.get(self.waiting[*place].rid));
            let Some(place) = next.filter(|_| self.bucket.take(now).is_ok()) else {
                return;
            };
            let waiting = self.waiting.remove(place);
            self.running.insert(waiting.rid);
        }
    }

    /// Waits that end up to now do, with a token that is due then.
    fn serve(&mut self, now: SimTime) {
        while let Some(until) = self.waiting.iter().map(|waiting| waiting.until).min() {
            if until > now {
                return;
            }
            self.admit(until + SimDuration::from_nanos(1));
            let mut kept = Vec::new();
            for waiting in std::mem::take(&mut self.waiting) {
                if waiting.until > until {
                    kept.push(waiting);
                } else if waiting.ran {
                    // It ran, as recorded, without a token that it could have had.
                    let place = || format!("request {}", waiting.rid);
                    self.tally.check(place, &Outcome::Waited, &Outcome::GivenUp);
                }
            }
            self.waiting = kept;
        }
    }
}
