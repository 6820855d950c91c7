//! Replicas that are scaled together, and what a run keeps of them.

use std::ops::Range;

use crate::cluster::autoscaler::SloMeter;
use crate::cluster::autoscaler::dynamo::Pilot;
use crate::cluster::{Autoscaler, Role, Stage};
use crate::engine::{Instance, Life};
use crate::ids::InstanceId;
use crate::units::SimTime;

/// What a run with autoscalers keeps beside its machines.
#[derive(Debug, Default)]
pub(in crate::sim) struct Scaling {
    pub(super) pools: Vec<Pool>,
    /// Who decides for all of them together, where somebody does.
    pub(super) pilot: Option<Box<Pilot>>,
    pub(super) changed: Vec<(InstanceId, Stage)>,
    /// Since when nothing but autoscalers could change anything, and none has.
    pub(super) quiet_since: Option<SimTime>,
    /// Which event is the valid one, and when it comes.
    pub(super) epoch: u32,
    pub(super) next: SimTime,
    /// Those in the queue that are not valid any more.
    pub(super) stale: usize,
}

/// Replicas of one kind, which are scaled together.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) replicas: Range<u32>,
    pub(super) role: Role,
    /// Knows its replicas by their place in the pool.
    pub(super) autoscaler: Autoscaler,
    /// A replica as it starts.
    pub(super) fresh: Instance,
}

impl Pool {
    pub(super) fn place(&self, instance: InstanceId) -> InstanceId {
        InstanceId(instance.0 - self.replicas.start)
    }

    pub(super) fn stage(&self, instance: InstanceId) -> Stage {
        self.autoscaler.stage(self.place(instance))
    }

    pub(super) fn stages(&self) -> impl Iterator<Item = (InstanceId, Stage)> + '_ {
        let first = self.replicas.start;
        self.autoscaler.stages().map(move |(place, stage)| (InstanceId(first + place.0), stage))
    }
}

impl Scaling {
    pub(super) fn pool(&self, instance: InstanceId) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.replicas.contains(&instance.0))
    }

    pub(super) fn pool_mut(&mut self, instance: InstanceId) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.replicas.contains(&instance.0))
    }

    pub(super) fn slos(&mut self) -> impl Iterator<Item = &mut SloMeter> {
        self.pools.iter_mut().filter_map(|pool| pool.autoscaler.slo())
    }

    /// A request was answered on an instance: it tells of that, and of all that prefill.
    pub(super) fn answered(&mut self, instance: InstanceId, role: Role, life: &Life) {
        if let Some(pilot) = self.pilot.as_mut().filter(|_| role != Role::Prefill) {
            pilot.answered(life);
        }
        for pool in &mut self.pools {
            let had_part = pool.replicas.contains(&instance.0)
                || (pool.role, role) == (Role::Prefill, Role::Decode);
            if let Some(slo) = pool.autoscaler.slo().filter(|_| had_part) {
                slo.answered(life);
            }
        }
    }
}
