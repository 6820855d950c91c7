//! What is known of workers, beside a reckoning from nothing at every look.

use proptest::prelude::*;

use super::*;
use crate::cluster::router::sglang::checks::Asks;
use crate::ids::InstanceId;
use crate::units::SimDuration;

const WORKERS: u32 = 3;
const INTERVAL: u64 = 3;
const BREAKER: breaker::Rules =
    breaker::Rules { failures: 2, successes: 2, timeout: SimDuration::from_millis(5000) };

#[derive(Debug, Clone, Copy)]
enum What {
    Connects(u32, Health),
    Answered(u32, bool),
    Look,
}

fn known(asks: Asks, timeout: u64) -> Known {
    let seconds = |secs: u64| SimDuration::from_millis(secs * 1000);
    let rules = health::Rules { failures: 2, successes: 2 };
    let mut known =
        Known::new(BREAKER, rules, Checks::new(asks, seconds(INTERVAL), seconds(timeout)));
    known.arrange(&order());
    known
}

fn order() -> Vec<InstanceId> {
    (0..WORKERS).rev().map(InstanceId).collect()
}

fn at(secs: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(secs * 1000)
}

/// All that happened, by second.
struct Log(Vec<(u64, What)>);

impl Log {
    fn changes(&self, worker: u32) -> impl DoubleEndedIterator<Item = (u64, Health)> {
        self.0.iter().filter_map(move |(at, what)| match *what {
            What::Connects(of, health) if of == worker => Some((*at, health)),
            _ => None,
        })
    }

    /// The checks of a worker until then, in order, where all are asked together.
    fn together(&self, worker: u32, now: u64, timeout: u64) -> Vec<bool> {
        let mut results = Vec::new();
        for asked in (0..=now).step_by(INTERVAL as usize) {
            let then = self.changes(worker).rfind(|(at, _)| *at < asked);
            let result = match then.map_or(Health::Up, |(_, health)| health) {
                Health::Up => (asked, 1, true),
                Health::Down => (asked, 1, false),
                Health::Unnoticed => {
                    let mut after = self.changes(worker).filter(|(at, _)| *at >= asked);
                    let breaks = after.find(|(_, health)| *health != Health::Unnoticed);
                    let due = (asked + timeout, 0, false);
                    breaks.map_or(due, |(at, _)| due.min((at, 2, false)))
                }
            };
            results.push(result);
        }
        results.retain(|(at, ..)| *at <= now);
        results.sort_by_key(|(at, order, _)| (*at, *order));
        results.into_iter().map(|(.., succeeds)| succeeds).collect()
    }

    /// The same where each is asked when the one before has answered: question by question, by the second and how much had
    /// happened then.
    fn in_turn(&self, worker: u32, now: u64, timeout: u64) -> Vec<bool> {
        let before = |time: u64| self.0.iter().take_while(|(at, _)| *at < time).count();
        let change = |of: u32, what: &What| match *what {
            What::Connects(worker, health) if worker == of => Some(health),
            _ => None,
        };
        let mut results = Vec::new();
        let mut at = (0, 0);
        for due in (0..=now).step_by(INTERVAL as usize) {
            at = at.max((due, before(due)));
            for InstanceId(asked) in order() {
                if at.0 > now {
                    return results;
                }
                let mut until_then = self.0[..at.1].iter().rev();
                let health = until_then.find_map(|(_, what)| change(asked, what));
                let health = health.unwrap_or(Health::Up);
                if health == Health::Unnoticed {
                    let end = at.0 + timeout;
                    let mut after = self.0.iter().enumerate().skip(at.1);
                    let breaks = after.find(|(_, (_, what))| {
                        change(asked, what).is_some_and(|health| health != Health::Unnoticed)
                    });
                    let breaks = breaks.map(|(place, (at, _))| (*at, place + 1));
                    let in_time = breaks.filter(|(at, _)| *at < end);
                    at = in_time.unwrap_or_else(|| (end, before(end)));
                }
                if at.0 <= now && asked == worker {
                    results.push(health == Health::Up);
                }
            }
        }
        results
    }

    /// Whether a worker is thought to be healthy.
    fn is_healthy(&self, worker: u32, now: u64, (asks, timeout): (Asks, u64)) -> bool {
        let results = match asks {
            Asks::Together => self.together(worker, now, timeout),
            Asks::InTurn => self.in_turn(worker, now, timeout),
        };
        let mut is_healthy = true;
        for end in 2..=results.len() {
            if results[end - 2..end].iter().all(|succeeds| *succeeds != is_healthy) {
                is_healthy = !is_healthy;
            }
        }
        is_healthy
    }

    /// Whether its breaker lets requests pass, looked at when it is thought to be healthy.
    fn passes(&self, worker: u32, checks: (Asks, u64)) -> bool {
        let (mut open_since, mut is_half, mut outcomes) = (None, false, Vec::new());
        for (now, what) in &self.0 {
            match *what {
                What::Look
                    if self.is_healthy(worker, *now, checks)
                        && open_since.is_some_and(|since| now - since >= 5) =>
                {
                    (open_since, is_half) = (None, true);
                    outcomes.clear();
                }
                What::Answered(of, is_success) if of == worker => {
                    outcomes.push(is_success);
                    let row = outcomes.iter().rev().take_while(|one| **one == is_success).count();
                    if open_since.is_none() && !is_success && (is_half || row >= 2) {
                        (open_since, is_half) = (Some(*now), false);
                    }
                    is_half &= !is_success || row < 2;
                }
                _ => {}
            }
        }
        open_since.is_none()
    }
}

fn what() -> impl Strategy<Value = What> {
    let health = prop_oneof![Just(Health::Up), Just(Health::Unnoticed), Just(Health::Down)];
    prop_oneof![
        (0..WORKERS, health).prop_map(|(worker, health)| What::Connects(worker, health)),
        (0..WORKERS, any::<bool>())
            .prop_map(|(worker, is_success)| What::Answered(worker, is_success)),
        Just(What::Look),
    ]
}

proptest! {
    #[test]
    fn it_is_what_checks_and_breakers_say(
        steps in proptest::collection::vec((0_u64..4, what()), 0..60),
        asks in prop_oneof![Just(Asks::Together), Just(Asks::InTurn)],
        timeout in 1_u64..5,
    ) {
        let mut known = known(asks, timeout);
        let order = order();
        let mut log = Log(Vec::new());
        let mut now = 0;
        for (later, what) in steps {
            now += later;
            log.0.push((now, what));
            match what {
                What::Connects(worker, health) => {
                    known.connects(InstanceId(worker), at(now), health);
                }
                What::Answered(worker, is_success) => {
                    known.answered(InstanceId(worker), at(now), is_success);
                }
                What::Look => {
                    let available = known.available(&order, &[], at(now)).to_vec();
                    let is_known = |worker: &&InstanceId| {
                        let checks = (asks, timeout);
                        log.is_healthy(worker.0, now, checks) && log.passes(worker.0, checks)
                    };
                    let expected: Vec<_> = order.iter().filter(is_known).copied().collect();
                    prop_assert_eq!(available, expected, "at {} s: {:?}", now, &log.0);
                }
            }
        }
    }
}

#[test]
fn a_worker_that_is_back_gets_requests_when_checks_say_so() {
    let mut known = known(Asks::Together, 2);
    let order = [InstanceId(0), InstanceId(1)];
    known.connects(InstanceId(0), at(4), Health::Down);
    // Checks at 6 and 9 s fail, those at 15 and 18 s succeed.
    let expected = [(8, 2), (9, 1), (14, 1), (17, 1), (18, 2)];
    for (now, count) in expected {
        if now == 14 {
            known.connects(InstanceId(0), at(13), Health::Up);
        }
        assert_eq!(known.available(&order, &[], at(now)).len(), count, "at {now} s");
    }
    assert_eq!(known.available(&order, &[InstanceId(1)], at(20)), [InstanceId(0)]);
}

#[test]
fn a_new_worker_in_its_place_is_well() {
    let mut known = known(Asks::Together, 2);
    let order = [InstanceId(0), InstanceId(1)];
    known.connects(InstanceId(0), at(1), Health::Down);
    (0..2).for_each(|_| known.answered(InstanceId(0), at(1), false));
    assert_eq!(known.available(&order, &[], at(2)), [InstanceId(1)]);
    known.renew(InstanceId(0));
    assert_eq!(known.available(&order, &[], at(2)), order);
}

#[test]
fn a_worker_that_hangs_keeps_those_behind_it_from_being_asked() {
    // Asked in turn, 2 first: it hangs from 4 s on, and each question to it takes 4 s, up to 10 and 14 s. The round of 9 s
    // begins at 10 s, and that of 12 s at 14 s, so that 0, dead since 4 s, is found out at 14 s and not at 9 s.
    let order = order();
    for (asks, found_at) in [(Asks::Together, 9), (Asks::InTurn, 14)] {
        let mut known = known(asks, 4);
        known.connects(InstanceId(2), at(4), Health::Unnoticed);
        known.connects(InstanceId(0), at(4), Health::Down);
        let mut has = |now| known.available(&order, &[], at(now)).contains(&InstanceId(0));
        assert!(has(found_at - 1) && !has(found_at), "{asks:?}");
    }
}
