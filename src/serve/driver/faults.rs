//! Faults that are told to the driver.

use super::{Driver, Submission};
use crate::ids::InstanceId;
use crate::scenario::FaultConfig;
use crate::units::SimTime;

/// Faults that are kept for who replays the run. A scenario with more of them would be longer than one may be.
const MOST_KEPT: usize = 100_000;

impl Driver {
    /// Plans a fault, now or when it says: as it is planned, or why it is not.
    pub(super) fn plan(&mut self, fault: FaultConfig) -> Result<FaultConfig, String> {
        let now = self.present();
        let fault = from(fault, now);
        self.windows.add(&fault, now)?;
        self.inject(fault.clone());
        Ok(fault)
    }

    /// Empties caches, unless a request is there; whether they could be. Those that nothing has come to since they were
    /// emptied are empty.
    pub(super) fn flush(&mut self, only: Option<InstanceId>) -> bool {
        let now = self.present();
        let is_its = |it: &Submission| only.is_none() || it.replica == only;
        let is_idle = self.relay.inside(only).is_empty()
            && !self.pending.iter().any(|(_, submission)| is_its(submission));
        let all = 0..self.live.instances().len() as u32;
        for replica in all.filter(|id| is_idle && only.is_none_or(|only| only.0 == *id)) {
            let at_s = now.as_secs_f64();
            if self.emptied.insert(replica) {
                self.inject(from(FaultConfig::LostCache { replica, at_s }, now));
            }
        }
        is_idle
    }

    /// A fault happens when it says.
    fn inject(&mut self, fault: FaultConfig) {
        self.live.inject(&fault);
        let Some(told) = &mut self.told else { return };
        told.push(fault);
        if told.len() > MOST_KEPT {
            self.told = None;
            (self.hear)(&format!(
                "warning: more than {MOST_KEPT} faults and flushes: there will be no replay.toml"
            ));
        }
    }
}

/// A fault whose time counts from `now` on.
fn from(mut fault: FaultConfig, now: SimTime) -> FaultConfig {
    let mut earliest = now.as_secs_f64();
    // After weeks the floats before and after a nanosecond lie apart, and what is over cannot happen.
    while SimTime::from_secs_f64(earliest) < now {
        earliest = earliest.next_up();
    }
    if let Some((at_s, _)) = fault.times_mut() {
        *at_s = at_s.max(earliest);
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_moment_is_never_before_it() {
        for bits in 40..64 {
            for odd in 0..1000_u64 {
                let now = SimTime::from_nanos((1 << bits) - 1 - odd * odd);
                let fault = from(FaultConfig::LostCache { replica: 0, at_s: 0.0 }, now);
                let FaultConfig::LostCache { at_s, .. } = fault else { unreachable!() };
                assert!(SimTime::from_secs_f64(at_s) >= now, "{now}: {at_s}");
            }
        }
    }
}
