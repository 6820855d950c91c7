//! The share of time in which each replica has a step under way, its host's part of it included.

use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// A replica since the controller looked last, or since it serves.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    since: SimTime,
    busy: SimDuration,
    /// Since when it has a step under way.
    working: Option<SimTime>,
}

/// The replicas by id.
#[derive(Debug)]
pub(super) struct BusyMeter(Vec<Meter>);

impl BusyMeter {
    /// So many, at the start of a run.
    pub(super) fn new(replicas: u32) -> Self {
        Self(vec![Meter::default(); replicas as usize])
    }

    /// A replica begins to serve.
    pub(super) fn begin(&mut self, now: SimTime, instance: InstanceId) {
        self.0[instance.index()] = Meter { since: now, ..Meter::default() };
    }

    /// From now on it has a step under way, or none.
    pub(super) fn set(&mut self, now: SimTime, instance: InstanceId, is_busy: bool) {
        let meter = &mut self.0[instance.index()];
        match (meter.working, is_busy) {
            (None, true) => meter.working = Some(now),
            (Some(from), false) => {
                meter.busy += now - from;
                meter.working = None;
            }
            _ => {}
        }
    }

    /// The share of each since it was asked last.
    pub(super) fn take(&mut self, now: SimTime) -> Vec<f64> {
        let share = |meter: &mut Meter| {
            if let Some(from) = &mut meter.working {
                meter.busy += now - *from;
                *from = now;
            }
            let whole = now - meter.since;
            let busy = std::mem::take(&mut meter.busy);
            meter.since = now;
            busy.as_nanos() as f64 / whole.as_nanos().max(1) as f64
        };
        self.0.iter_mut().map(share).collect()
    }
}
