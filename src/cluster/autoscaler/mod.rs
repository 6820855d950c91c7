//! Autoscaling: how many replicas serve, from what the gateway and the engines report.
//!
//! A passive machine: [`Autoscaler::next_change`] says when something is to happen,
//! [`Autoscaler::advance`] lets replicas come up, and at its interval [`Autoscaler::look`] decides.
//! Weights are on the [`Wires`]; whoever drives both tells by [`Autoscaler::weights_landed`] when they have come.
//! The rule is that of Kubernetes' horizontal pod autoscaler (`pkg/controller/podautoscaler`,
//! `autoscaling/v2`): the replicas that would bring the signal to its target (`ratio`), held over
//! windows (`stabilisation`), limited, and kept within the bounds. Requests of draining replicas do not
//! count: they leave by themselves.
//!
//! * `ratio.rs`: the replicas that a signal asks for
//! * `slo.rs`: the same where there are SLOs
//! * `custom.rs`: a rule of one's own
//! * `dynamo/`: Dynamo's planner
//! * `busy.rs`: the share of time in which replicas work
//! * `stabilisation.rs`: recommendations over time
//! * `fleet.rs`: what each replica does, and which ones start and stop
//! * `weights.rs`: which way weights take, from one place to many replicas
//!
//! Where requests wait at the gateway there may be no replica at all: the first one comes when somebody
//! waits, and the last one goes when nobody does and no request is under way.
//!
//! Left out: machines that never come, predictions of the load.

mod busy;
mod custom;
pub mod dynamo;
mod fleet;
mod ratio;
mod slo;
mod stabilisation;
pub(super) mod weights;

#[cfg(test)]
mod tests;

pub use custom::{Scale, ScaleView};
pub use fleet::Stage;
pub use slo::SloMeter;

use super::wires::Wires;
use crate::engine::scheduler::Load;
use crate::ids::InstanceId;
use crate::scenario::{AutoscalerConfig, SignalConfig};
use crate::units::{SimDuration, SimTime};

use busy::BusyMeter;
use fleet::Fleet;
use stabilisation::Stabilisation;
use weights::Weights;

/// What a controller sees of a replica when it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Requests that were sent to it and have not left.
    pub outstanding: u32,
    /// Queues and memory, as its engine reports them.
    pub load: Load,
    /// Whether the gateway knows that it is down.
    pub is_down: bool,
}

/// What it made of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// The signal: of a replica on average, or the share of requests; nothing where no request
    /// ended.
    pub value: Option<f64>,
    /// Replicas that served or started.
    pub replicas: u32,
    /// Replicas that the signal asks for.
    pub recommended: u32,
    /// Replicas that serve or start from now on.
    pub decided: u32,
}

/// A controller of replicas.
#[derive(Debug)]
pub struct Autoscaler {
    config: AutoscalerConfig,
    fleet: Fleet,
    weights: Weights,
    busy: BusyMeter,
    slo: Option<SloMeter>,
    /// In place of the signal.
    rule: Option<Box<dyn Scale>>,
    /// Replicas that a planner of several pools asks for.
    asked: Option<u32>,
    stabilisation: Stabilisation,
    next_look: SimTime,
}

impl Autoscaler {
    /// A controller of [`AutoscalerConfig::max_replicas`], which are numbered from `first` on, and of which
    /// each loads so many bytes.
    ///
    /// # Panics
    /// When a rate or a number is out of range, which validation refuses.
    pub fn new(
        wires: &mut Wires,
        config: &AutoscalerConfig,
        (first, weight_bytes): (InstanceId, u64),
    ) -> Self {
        let config = &config.paced();
        Self {
            config: *config,
            fleet: Fleet::new(config),
            weights: Weights::new(wires, config, (first, weight_bytes)),
            busy: BusyMeter::new(config.max_replicas),
            slo: SloMeter::of(&config.signal),
            rule: None,
            asked: None,
            stabilisation: Stabilisation::new(config),
            next_look: SimTime::ZERO + SimDuration::from_secs_f64(config.interval_s),
        }
    }

    /// The same by a rule of one's own, which it begins anew.
    #[must_use]
    pub fn by(self, rule: &dyn Scale) -> Self {
        Self { rule: Some(rule.fresh()), slo: None, ..self }
    }

    /// At its next look there are to be so many replicas, where [`SignalConfig::DynamoPlanner`] decides; as many as there are, where
    /// nobody asks.
    pub fn ask(&mut self, replicas: Option<u32>) {
        self.asked = replicas;
    }

    /// What a replica does.
    pub fn stage(&self, instance: InstanceId) -> Stage {
        self.fleet.stage(instance)
    }

    /// Every replica with what it does.
    pub fn stages(&self) -> impl Iterator<Item = (InstanceId, Stage)> + '_ {
        self.fleet.stages()
    }

    /// Where the latencies of requests are told, if it has any.
    pub fn slo(&mut self) -> Option<&mut SloMeter> {
        self.slo.as_mut()
    }

    /// From now on a replica has a step under way, or none.
    pub fn set_busy(&mut self, now: SimTime, instance: InstanceId, is_busy: bool) {
        self.busy.set(now, instance, is_busy);
    }

    /// When it looks next, or a machine is ready. Weights land when they do.
    pub fn next_change(&self) -> SimTime {
        self.fleet.next_provisioned().map_or(self.next_look, |ready| ready.min(self.next_look))
    }

    /// The weights of a replica have come: [`advance`](Self::advance) is to be called at this moment.
    pub fn weights_landed(&mut self, instance: InstanceId) {
        self.weights.land(instance);
    }

    /// Whether it looks at this moment.
    pub fn looks(&self, now: SimTime) -> bool {
        self.next_look == now
    }

    /// Replicas come up until now; `changed` has what each of them does from now on.
    pub fn advance(
        &mut self,
        wires: &mut Wires,
        now: SimTime,
        changed: &mut Vec<(InstanceId, Stage)>,
    ) {
        let loaded = self.weights.take_landed();
        let loaded = loaded.into_iter().map(|instance| (instance, Stage::Serving));
        let provisioned: Vec<_> = self.fleet.provisioned(now).collect();
        for (instance, stage) in
            loaded.chain(provisioned.into_iter().map(|instance| (instance, Stage::Loading)))
        {
            self.enter(wires, now, (instance, stage), changed);
        }
    }

    /// It looks at its replicas, one report for each, and at the requests that wait for them at the gateway;
    /// `changed` has what some of them do from now on.
    pub fn look(
        &mut self,
        wires: &mut Wires,
        now: SimTime,
        (reports, at_gateway): (&[Report], u32),
        changed: &mut Vec<(InstanceId, Stage)>,
    ) -> Look {
        self.next_look = now + SimDuration::from_secs_f64(self.config.interval_s);
        let replicas = self.fleet.count();
        let (value, recommended) = self.recommend(now, (reports, at_gateway), replicas);
        let (min, max) = (self.config.min_replicas, self.config.max_replicas);
        let is_needed = at_gateway > 0 || self.outstanding(reports) > 0;
        let recommended = recommended.max(u32::from(is_needed)).clamp(min, max);
        let held = self.stabilisation.hold(now, replicas, recommended);
        let most = replicas.saturating_add(self.config.max_added.unwrap_or(u32::MAX));
        let least = replicas.saturating_sub(self.config.max_removed.unwrap_or(u32::MAX));
        let decided = held.clamp(least, most).clamp(min, max);
        for instance in self.fleet.to_start(decided.saturating_sub(replicas)) {
            let stage = match self.fleet.stage(instance) {
                Stage::Draining => Stage::Serving,
                _ => Stage::Provisioning,
            };
            self.enter(wires, now, (instance, stage), changed);
        }
        let is_down = |instance: InstanceId| reports[instance.index()].is_down;
        for instance in self.fleet.to_stop(replicas.saturating_sub(decided), is_down) {
            let stage = match self.fleet.stage(instance) {
                Stage::Serving => Stage::Draining,
                _ => Stage::Off,
            };
            self.enter(wires, now, (instance, stage), changed);
        }
        debug_assert_eq!(self.fleet.count(), decided, "as many serve or start as were decided");
        Look { value, replicas, recommended, decided }
    }

    /// A draining replica has nothing left: it is off.
    pub fn drained(&mut self, now: SimTime, instance: InstanceId) {
        debug_assert_eq!(self.stage(instance), Stage::Draining);
        self.fleet.set(now, instance, Stage::Off);
    }

    /// A replica does something else from now on, and what follows at once from that.
    fn enter(
        &mut self,
        wires: &mut Wires,
        now: SimTime,
        (instance, stage): (InstanceId, Stage),
        changed: &mut Vec<(InstanceId, Stage)>,
    ) {
        let before = self.stage(instance);
        self.fleet.set(now, instance, stage);
        changed.push((instance, stage));
        match stage {
            Stage::Provisioning if self.fleet.is_provisioned(now, instance) => {
                self.enter(wires, now, (instance, Stage::Loading), changed);
            }
            Stage::Loading if !self.weights.load(wires, now, instance) => {
                self.enter(wires, now, (instance, Stage::Serving), changed);
            }
            Stage::Serving if before == Stage::Loading => self.busy.begin(now, instance),
            Stage::Off if before == Stage::Loading => self.weights.cancel(wires, now, instance),
            _ => {}
        }
    }

    /// The signal, and the replicas that it asks for.
    fn recommend(
        &mut self,
        now: SimTime,
        (reports, at_gateway): (&[Report], u32),
        replicas: u32,
    ) -> (Option<f64>, u32) {
        let busy = self.busy.take(now);
        let is_growing = self.fleet.starting() > 0;
        let serving = || self.fleet.with_stage(Stage::Serving);
        let of = |instance: InstanceId| &reports[instance.index()];
        let outstanding = self.outstanding(reports);
        if let Some(rule) = &mut self.rule {
            let ids: Vec<InstanceId> = serving().collect();
            let reports: Vec<Report> = ids.iter().map(|id| *of(*id)).collect();
            let busy: Vec<f64> = ids.iter().map(|id| busy[id.index()]).collect();
            let starting = self.fleet.starting();
            let view = ScaleView { replicas, starting, at_gateway, serving: &reports, busy: &busy };
            return (None, rule.decide(view, now));
        }
        let Some(target) = self.config.signal.target() else {
            return (None, self.asked.take().unwrap_or(replicas));
        };
        let total = match self.config.signal {
            SignalConfig::OutstandingPerReplica { .. } => outstanding as f64,
            SignalConfig::GatewayQueuePerReplica { .. } => f64::from(at_gateway),
            SignalConfig::ConcurrencyPerReplica { .. } => {
                (outstanding + u64::from(at_gateway)) as f64
            }
            SignalConfig::WaitingPerReplica { .. } => {
                serving().map(|id| f64::from(of(id).load.waiting)).sum()
            }
            SignalConfig::KvUsage { .. } => serving().map(|id| of(id).load.kv_utilization()).sum(),
            SignalConfig::Utilisation { .. } => serving().map(|id| busy[id.index()]).sum(),
            SignalConfig::SloHeadroom { .. } => {
                let is_idle = outstanding == 0 && at_gateway == 0;
                let slo = self.slo.as_mut().expect("it has SLOs");
                return slo.recommend(replicas, is_idle, is_growing);
            }
            SignalConfig::DynamoPlanner(_) => unreachable!("it has no target"),
        };
        let tolerance = self.config.tolerance;
        let value = total / f64::from(serving().count().max(1) as u32);
        (Some(value), ratio::recommend(total, target, tolerance, replicas))
    }

    /// Whether what it controls has come to rest at `now`, if nothing but itself has changed anything since.
    pub fn has_settled(&self, since: SimTime, now: SimTime) -> bool {
        let longest = self.config.stabilisation_up_s.max(self.config.stabilisation_down_s);
        let windows = SimDuration::from_secs_f64(longest + 2.0 * self.config.interval_s);
        self.fleet.starting() == 0 && now - since > windows
    }

    /// Requests at the replicas that serve.
    fn outstanding(&self, reports: &[Report]) -> u64 {
        let serving = self.fleet.with_stage(Stage::Serving);
        serving.map(|id| u64::from(reports[id.index()].outstanding)).sum()
    }
}
