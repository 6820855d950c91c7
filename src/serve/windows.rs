//! Faults that were told over HTTP: of one kind a replica has one at a time, as in scenarios, and there is a bound
//! on how many are planned.

use crate::scenario::FaultConfig;
use crate::units::{SimDuration, SimTime};

/// Faults that may be planned or under way at once.
const MOST: usize = 1000;

/// Faults that are planned or under way.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Window>);

#[derive(Debug, Clone, Copy)]
struct Window {
    kind: &'static str,
    /// All where none is named.
    replica: Option<u32>,
    from: SimTime,
    until: SimTime,
}

impl Window {
    /// Of a fault that is no random one.
    fn of(fault: &FaultConfig) -> Option<Self> {
        let (kind, replica, at_s, lasts_s) = match *fault {
            FaultConfig::Crash { replica, at_s, down_s, .. } => ("crash", replica, at_s, down_s),
            FaultConfig::Straggler { replica, at_s, for_s, .. } => {
                ("straggler", replica, at_s, for_s)
            }
            FaultConfig::SlowLink { replica, at_s, for_s, .. } => {
                ("slow_link", replica, at_s, for_s)
            }
            FaultConfig::LostCache { replica, at_s } => ("lost_cache", replica, at_s, 0.0),
            FaultConfig::LostTransfers { replica, at_s } => ("lost_transfers", replica, at_s, 0.0),
            FaultConfig::Random(_) => return None,
        };
        let from = SimTime::from_secs_f64(at_s);
        let until = from + SimDuration::from_secs_f64(lasts_s);
        Some(Self { kind, replica: Some(replica), from, until })
    }

    /// Those of a fault of a scenario. Random ones may begin at any time.
    fn all_of(fault: &FaultConfig) -> Vec<Self> {
        let FaultConfig::Random(random) = fault else {
            return Self::of(fault).into_iter().collect();
        };
        if !random.fault.lasts() {
            return Vec::new();
        }
        let kind = random.fault.name();
        let window = |replica| Self { kind, replica, from: SimTime::ZERO, until: SimTime::MAX };
        match &random.replicas {
            None => vec![window(None)],
            Some(replicas) => replicas.iter().map(|replica| window(Some(*replica))).collect(),
        }
    }

    /// Whether another one that is told later cannot be beside this one. What ends at an instant comes before what
    /// begins then only where it was told before.
    fn excludes(&self, later: &Self) -> bool {
        let is_same = self.kind == later.kind
            && (self.replica.is_none() || self.replica == later.replica)
            && self.until > self.from
            && later.until > later.from;
        is_same && later.from < self.until && self.from <= later.until
    }
}

impl Windows {
    /// Those of a scenario.
    pub(super) fn of(faults: &[FaultConfig]) -> Self {
        Self(faults.iter().flat_map(Window::all_of).collect())
    }

    /// A fault that is told at `now` is planned.
    ///
    /// # Errors
    /// Why it cannot be beside those that are.
    pub(super) fn add(&mut self, fault: &FaultConfig, now: SimTime) -> Result<(), String> {
        self.0.retain(|window| window.until >= now);
        let Some(later) = Window::of(fault) else { return Ok(()) };
        if let Some(window) = self.0.iter().find(|window| window.excludes(&later)) {
            let Window { kind, from, until, .. } = *window;
            let replica = later.replica.unwrap_or_default();
            let span = if until == SimTime::MAX {
                "at random times of the scenario".to_owned()
            } else {
                format!("from {:.3} s to {:.3} s", from.as_secs_f64(), until.as_secs_f64())
            };
            return Err(format!(
                "overlaps with the {kind} of replica {replica} {span}; a replica has one at a time"
            ));
        }
        if self.0.len() >= MOST {
            return Err(format!("{MOST} faults are planned already"));
        }
        self.0.push(later);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(replica: u32, at_s: f64, down_s: f64) -> FaultConfig {
        FaultConfig::Crash { replica, at_s, down_s, detection_s: 0.0 }
    }

    #[test]
    fn a_replica_has_one_fault_of_a_kind_at_a_time() {
        let mut windows = Windows::of(&[crash(0, 10.0, 5.0)]);
        let mut add = |fault: &FaultConfig| windows.add(fault, SimTime::ZERO).is_ok();
        assert!(!add(&crash(0, 12.0, 1.0)));
        assert!(!add(&crash(0, 8.0, 3.0)));
        assert!(!add(&crash(0, 5.0, 20.0)));
        assert!(
            !add(&crash(0, 8.0, 2.0)),
            "its end would come after the begin that was planned before"
        );
        assert!(add(&crash(0, 15.0, 1.0)), "the one before has ended then");
        assert!(add(&crash(1, 12.0, 1.0)), "another replica");
        let slow = FaultConfig::Straggler { replica: 0, at_s: 12.0, for_s: 1.0, factor: 2.0 };
        assert!(add(&slow), "another kind");
        assert!(!add(&slow));
        let lost = FaultConfig::LostCache { replica: 0, at_s: 12.0 };
        assert!(add(&lost) && add(&lost), "a cache is lost as often as it is told");
    }

    #[test]
    fn what_is_over_is_forgotten_and_what_is_planned_is_bounded() {
        let mut windows = Windows::default();
        for place in 0..MOST {
            let fault = crash(0, place as f64 * 10.0, 5.0);
            assert_eq!(windows.add(&fault, SimTime::ZERO), Ok(()));
        }
        let more = FaultConfig::LostCache { replica: 0, at_s: 1.0 };
        assert!(windows.add(&more, SimTime::from_secs_f64(5.0)).is_err());
        assert_eq!(windows.add(&more, SimTime::from_secs_f64(6.0)), Ok(()));
    }
}
