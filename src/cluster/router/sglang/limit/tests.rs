//! The limit beside a bucket that is filled millisecond by millisecond.

use proptest::prelude::*;

use super::*;
use crate::scenario::SglangRouterConfig;

const CAPACITY: u64 = 3;

fn limit(per_s: u64, queue_size: u64, timeout: u64) -> Limit {
    let config = SglangRouterConfig {
        max_concurrent_requests: CAPACITY.cast_signed(),
        rate_limit_tokens_per_second: Some(per_s),
        queue_size,
        queue_timeout_secs: timeout,
        ..SglangRouterConfig::default()
    };
    let router = RouterConfig::Makers(MakersRouter::Sglang(Box::new(config)));
    Limit::of(&router, Seed(1), 0).expect("it has a limit")
}

fn at(ms: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(ms)
}

/// Tokens in thousandths, filled each millisecond; whole numbers.
struct Slow {
    now_ms: u64,
    milli: u64,
    per_s: u64,
    running: u64,
    waiting: Vec<(u64, RequestId)>,
}

impl Slow {
    /// Time passes; who is given up meanwhile.
    fn pass(&mut self, until_ms: u64) -> Vec<RequestId> {
        let mut given_up = Vec::new();
        while self.now_ms < until_ms {
            self.now_ms += 1;
            self.milli = (self.milli + self.per_s).min(CAPACITY * 1000);
            let now = self.now_ms;
            given_up.extend(self.waiting.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id));
            self.waiting.retain(|(at, _)| *at > now);
        }
        given_up
    }

    fn take(&mut self) -> bool {
        let has_one = self.milli >= 1000;
        self.milli -= if has_one { 1000 } else { 0 };
        self.running += u64::from(has_one);
        has_one
    }
}

proptest! {
    #[test]
    fn it_is_a_bucket_with_a_room(
        // Eighths of seconds, in which tokens are whole numbers of eighths: both reckon without rounding.
        steps in proptest::collection::vec((0_u64..6, 0_u32..3), 1..80),
        per_s in prop_oneof![Just(1_u64), Just(2), Just(4)],
        has_queue: bool,
        timeout in 1_u64..3,
    ) {
        let mut limit = limit(per_s, u64::from(has_queue), timeout);
        let mut slow = Slow { now_ms: 0, milli: CAPACITY * 1000, per_s, running: 0, waiting: Vec::new() };
        let mut running = Vec::new();
        let mut now_ms = 0;
        for (number, (later, what)) in (0..).zip(steps) {
            now_ms += later * 125;
            for id in slow.pass(now_ms) {
                prop_assert!(limit.stop_waiting(id));
            }
            if what > 0 {
                let id = RequestId(number);
                let entry = limit.come(at(now_ms), id);
                if slow.take() {
                    prop_assert_eq!(entry, Entry::Runs);
                    running.push(id);
                } else if has_queue {
                    let wait = ((1000 - slow.milli) / per_s).min(timeout * 1000);
                    let Entry::Waits(waits) = entry else { panic!("{entry:?}") };
                    let off = waits.as_secs_f64() - wait as f64 / 1e3;
                    prop_assert!(off.abs() < 1e-3, "{} ms: {:?}", wait, entry);
                    slow.waiting.push((now_ms + wait, id));
                } else {
                    prop_assert_eq!(entry, Entry::Refused);
                }
            } else if let Some(id) = running.pop() {
                slow.milli = (slow.milli + 1000).min(CAPACITY * 1000);
                slow.running -= 1;
                let admitted = limit.end(at(now_ms), id);
                while !slow.waiting.is_empty() && slow.take() {
                    let next = admitted.iter().find(|id| slow.waiting.iter().any(|(_, of)| of == *id));
                    let next = *next.expect("one of those that wait is let in");
                    slow.waiting.retain(|(_, id)| *id != next);
                    running.push(next);
                }
                prop_assert_eq!(slow.running as usize, running.len());
                prop_assert!(limit.end(at(now_ms), id).is_empty(), "a token comes back once");
            }
            prop_assert!(running.iter().all(|id| limit.has_token(*id)));
            prop_assert_eq!(limit.running.len(), running.len());
            prop_assert_eq!(limit.waiting.len(), slow.waiting.len());
        }
    }
}

#[test]
fn one_in_a_second_is_let_in_when_nothing_ends() {
    // As recorded of 4 held requests and a token in a second.
    let mut limit = limit(1, 100, 60);
    let runs = |id| limit.come(at(1000 * u64::from(id)), RequestId(id)) == Entry::Runs;
    assert!((0..20).all(runs));
    assert_eq!(limit.running.len(), 20);
}

#[test]
fn whoever_waits_is_let_in_in_any_order() {
    let order = |seed| {
        let mut limit = Limit { stream: Seed(seed).stream("router-limit", 0), ..limit(1, 100, 60) };
        let waits = (0..8).filter(|id| limit.come(at(0), RequestId(*id)) != Entry::Runs).count();
        assert_eq!(waits, 5);
        let ends = (0..3).flat_map(|id| limit.end(at(1), RequestId(id)));
        ends.collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    let in_order = (0..200).filter(|seed| order(*seed).is_sorted()).count();
    // One in six: 33 ± 5 of 200.
    assert!((10..60).contains(&in_order), "{in_order}");
}
