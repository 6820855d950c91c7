//! What fails when: the faults of a scenario, scheduled or drawn, in order of time.

use rand_distr::{Distribution, Exp1};

use super::client::drawn;
use crate::ids::InstanceId;
use crate::rng::{Seed, Stream};
use crate::scenario::{FaultConfig, RandomFault, RandomFaultConfig};
use crate::units::{SimDuration, SimTime};

/// The beginning or the end of a fault of an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// It serves again.
    Recover,
    /// It works at this pace.
    Pace(Option<f64>),
    /// Its NICs carry this share of their rate.
    Nics(f64),
    /// It stops.
    Crash,
    /// The gateway notices that it has stopped.
    Notice,
    LoseCache,
    LoseTransfers,
}

/// A change that is going to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Planned {
    pub(super) at: SimTime,
    pub(super) instance: InstanceId,
    pub(super) change: Change,
}

/// All faults of a scenario, in order of time. What ends at an instant comes before what begins then.
pub(super) fn plan(faults: &[FaultConfig], instances: u32, seed: Seed) -> Vec<Planned> {
    let mut plan = Plan::default();
    for (index, fault) in (0_u64..).zip(faults) {
        let (replica, kind, at_s, lasts_s) = match *fault {
            FaultConfig::Crash { replica, at_s, down_s, detection_s } => {
                (replica, RandomFault::Crash { detection_s }, at_s, down_s)
            }
            FaultConfig::Straggler { replica, at_s, for_s, factor } => {
                (replica, RandomFault::Straggler { factor }, at_s, for_s)
            }
            FaultConfig::SlowLink { replica, at_s, for_s, share } => {
                (replica, RandomFault::SlowLink { share }, at_s, for_s)
            }
            FaultConfig::LostCache { replica, at_s } => {
                (replica, RandomFault::LostCache {}, at_s, 0.0)
            }
            FaultConfig::LostTransfers { replica, at_s } => {
                (replica, RandomFault::LostTransfers {}, at_s, 0.0)
            }
            FaultConfig::Random(ref random) => {
                let all = || (0..instances).collect();
                for replica in random.replicas.clone().unwrap_or_else(all) {
                    let stream = seed.stream("faults", index << 32 | u64::from(replica));
                    plan.draw(random, InstanceId(replica), stream);
                }
                continue;
            }
        };
        let lasts = SimDuration::from_secs_f64(lasts_s);
        plan.add(InstanceId(replica), kind, SimTime::from_secs_f64(at_s), lasts);
    }
    plan.in_order()
}

#[derive(Debug, Default)]
struct Plan {
    ends: Vec<Planned>,
    begins: Vec<Planned>,
}

impl Plan {
    fn add(&mut self, instance: InstanceId, fault: RandomFault, at: SimTime, lasts: SimDuration) {
        let planned = |at, change| Planned { at, instance, change };
        let until = at + lasts;
        let (begin, end) = match fault {
            RandomFault::Crash { detection_s } => {
                // A replica that answers again shows that it had stopped.
                let notice = (at + SimDuration::from_secs_f64(detection_s)).min(until);
                self.begins.push(planned(at, Change::Crash));
                // A crash that is noticed at once is still noticed after it has happened.
                let notices = if notice == at { &mut self.begins } else { &mut self.ends };
                notices.push(planned(notice, Change::Notice));
                return self.ends.push(planned(until, Change::Recover));
            }
            RandomFault::Straggler { factor } => {
                (Change::Pace(Some(factor)), Some(Change::Pace(None)))
            }
            RandomFault::SlowLink { share } => (Change::Nics(share), Some(Change::Nics(1.0))),
            RandomFault::LostCache {} => (Change::LoseCache, None),
            RandomFault::LostTransfers {} => (Change::LoseTransfers, None),
        };
        self.begins.push(planned(at, begin));
        self.ends.extend(end.map(|change| planned(until, change)));
    }

    fn draw(&mut self, random: &RandomFaultConfig, instance: InstanceId, mut stream: Stream) {
        let until = SimTime::from_secs_f64(random.until_s);
        let mut span = |mean_s: f64| -> SimDuration {
            let share: f64 = Exp1.sample(&mut stream);
            // Something happens, at another instant than what came before.
            drawn(share * mean_s).max(SimDuration::from_nanos(1))
        };
        let mut at = SimTime::ZERO;
        loop {
            at += span(random.mean_time_between_s);
            if at > until {
                return;
            }
            let lasts = random.mean_duration_s.map_or(SimDuration::ZERO, &mut span);
            self.add(instance, random.fault, at, lasts);
            at += lasts;
        }
    }

    /// The sort is stable: of one instant, ends come first, then in the order of the scenario.
    fn in_order(self) -> Vec<Planned> {
        let mut all = self.ends;
        all.extend(self.begins);
        all.sort_by_key(|planned| planned.at);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(fault: RandomFault, mean_duration_s: Option<f64>) -> FaultConfig {
        FaultConfig::Random(RandomFaultConfig {
            fault,
            replicas: None,
            mean_time_between_s: 100.0,
            mean_duration_s,
            until_s: 100_000.0,
        })
    }

    fn of(plan: &[Planned], instance: u32) -> Vec<(f64, Change)> {
        let of_it = plan.iter().filter(|planned| planned.instance == InstanceId(instance));
        of_it.map(|planned| (planned.at.as_secs_f64(), planned.change)).collect()
    }

    #[test]
    fn what_ends_at_an_instant_comes_before_what_begins_then() {
        let crash =
            |at_s, detection_s| FaultConfig::Crash { replica: 0, at_s, down_s: 5.0, detection_s };
        let plan = plan(&[crash(15.0, 0.0), crash(10.0, 5.0)], 1, Seed(0));
        let expected = [
            (10.0, Change::Crash),
            (15.0, Change::Notice),
            (15.0, Change::Recover),
            (15.0, Change::Crash),
            (15.0, Change::Notice),
            (20.0, Change::Recover),
        ];
        assert_eq!(of(&plan, 0), expected);
    }

    #[test]
    fn a_replica_is_up_and_down_in_turn_for_as_long_as_the_means_say() {
        let plan = plan(&[random(RandomFault::Crash { detection_s: 1.0 }, Some(25.0))], 3, Seed(7));
        for instance in 0..3 {
            let changes = of(&plan, instance);
            let (mut down, mut since, mut crashes) = (0.0, None, 0.0);
            for (at, change) in changes {
                match change {
                    Change::Crash => {
                        assert_eq!(since.replace(at), None, "a replica crashes once at a time");
                        crashes += 1.0;
                    }
                    Change::Recover => down += at - since.take().expect("it was down"),
                    _ => assert!(since.is_some(), "a crash is noticed while it lasts"),
                }
            }
            // 800 of them: five standard deviations of a mean are 18 %.
            assert!((down / crashes / 25.0 - 1.0).abs() < 0.18, "{}", down / crashes);
            assert!((crashes / 800.0 - 1.0).abs() < 0.18, "{crashes}");
        }
        assert_ne!(of(&plan, 0), of(&plan, 1), "each replica draws on its own");
    }

    #[test]
    fn further_faults_leave_those_before_as_they_were() {
        let one = [random(RandomFault::Straggler { factor: 2.0 }, Some(9.0))];
        let two = [one[0].clone(), random(RandomFault::LostCache {}, None)];
        let kept = |plan: Vec<Planned>| -> Vec<Planned> {
            plan.into_iter().filter(|planned| planned.change != Change::LoseCache).collect()
        };
        assert_eq!(kept(plan(&two, 2, Seed(3))), plan(&one, 2, Seed(3)));
    }
}
