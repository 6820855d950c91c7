//! What each replica does, and which ones start and stop.
//!
//! Where more are wanted, those that drain are taken back first: their weights are there, and what they
//! answer goes on. (A pod of Kubernetes that terminates does not come back.) Then those that are off, the
//! lowest number first. Where fewer are wanted, those that start stop first, then those that are down,
//! then those that have served for the shortest time, as a `ReplicaSet` does.

use std::cmp::Reverse;

use crate::ids::InstanceId;
use crate::scenario::AutoscalerConfig;
use crate::units::{SimDuration, SimTime};

/// What a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It is not there.
    Off,
    /// A machine is being made ready.
    Provisioning,
    /// It loads weights.
    Loading,
    /// It gets requests, unless it is down.
    Serving,
    /// It gets no requests, and ends with those that it has.
    Draining,
}

#[derive(Debug, Clone, Copy)]
struct Replica {
    stage: Stage,
    since: SimTime,
}

/// The replicas, by id.
#[derive(Debug)]
pub(super) struct Fleet {
    replicas: Vec<Replica>,
    provisioning: SimDuration,
}

impl Fleet {
    pub(super) fn new(config: &AutoscalerConfig) -> Self {
        let replica = |id| {
            let stage = if id < config.initial() { Stage::Serving } else { Stage::Off };
            Replica { stage, since: SimTime::ZERO }
        };
        Self {
            replicas: (0..config.max_replicas).map(replica).collect(),
            provisioning: SimDuration::from_secs_f64(config.provisioning_s),
        }
    }

    pub(super) fn stage(&self, instance: InstanceId) -> Stage {
        self.replicas[instance.index()].stage
    }

    pub(super) fn set(&mut self, now: SimTime, instance: InstanceId, stage: Stage) {
        self.replicas[instance.index()] = Replica { stage, since: now };
    }

    pub(super) fn stages(&self) -> impl Iterator<Item = (InstanceId, Stage)> + '_ {
        let replicas = self.replicas.iter().enumerate();
        replicas.map(|(index, replica)| (InstanceId::from_index(index), replica.stage))
    }

    pub(super) fn with_stage(&self, stage: Stage) -> impl Iterator<Item = InstanceId> + '_ {
        self.stages().filter(move |(_, of)| *of == stage).map(|(instance, _)| instance)
    }

    /// Replicas that start.
    pub(super) fn starting(&self) -> u32 {
        let starts =
            |(_, stage): &(_, Stage)| matches!(stage, Stage::Provisioning | Stage::Loading);
        self.stages().filter(starts).count() as u32
    }

    /// Replicas that serve or start.
    pub(super) fn count(&self) -> u32 {
        self.starting() + self.with_stage(Stage::Serving).count() as u32
    }

    /// When the next machine is ready.
    pub(super) fn next_provisioned(&self) -> Option<SimTime> {
        let ready = |id: InstanceId| self.replicas[id.index()].since + self.provisioning;
        self.with_stage(Stage::Provisioning).map(ready).min()
    }

    /// The machines that are ready, and not in use yet.
    pub(super) fn provisioned(&self, now: SimTime) -> impl Iterator<Item = InstanceId> + '_ {
        self.with_stage(Stage::Provisioning).filter(move |id| self.is_provisioned(now, *id))
    }

    /// Whether the machine of a replica is ready.
    pub(super) fn is_provisioned(&self, now: SimTime, instance: InstanceId) -> bool {
        self.replicas[instance.index()].since + self.provisioning <= now
    }

    /// So many that start, or serve again.
    pub(super) fn to_start(&self, count: u32) -> Vec<InstanceId> {
        let draining = self.with_stage(Stage::Draining);
        draining.chain(self.with_stage(Stage::Off)).take(count as usize).collect()
    }

    /// So many that stop.
    pub(super) fn to_stop(
        &self,
        count: u32,
        is_down: impl Fn(InstanceId) -> bool,
    ) -> Vec<InstanceId> {
        let order = |(instance, stage): (InstanceId, Stage)| {
            let class = match stage {
                Stage::Provisioning => 0,
                Stage::Loading => 1,
                Stage::Serving if is_down(instance) => 2,
                Stage::Serving => 3,
                Stage::Off | Stage::Draining => return None,
            };
            Some((class, Reverse(self.replicas[instance.index()].since), Reverse(instance)))
        };
        let mut all: Vec<_> = self.stages().filter_map(order).collect();
        all.sort_unstable();
        all.into_iter().take(count as usize).map(|(_, _, instance)| instance.0).collect()
    }
}
