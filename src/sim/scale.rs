//! What the loop does where replicas are started and drained.
//!
//! One event of the last class is in the queue: the next time that the autoscaler looks, or that a replica
//! comes up. When no request will come and nothing else is in the queue, nothing can change any more, and
//! it is not put there again.

use super::observe::{Observer, Occurrence};
use super::run::{Event, Simulation};
use super::source::Source;
use crate::cluster::autoscaler::SloMeter;
use crate::cluster::{Autoscaler, Health, Report, Stage};
use crate::des::Class;
use crate::engine::{Finish, Instance};
use crate::ids::InstanceId;
use crate::scenario::AutoscalerConfig;
use crate::units::{SimDuration, SimTime};

/// What a run with an autoscaler keeps beside its machines.
#[derive(Debug)]
pub(super) struct Scaling {
    autoscaler: Autoscaler,
    /// A replica as it starts.
    fresh: Instance,
    changed: Vec<(InstanceId, Stage)>,
    /// Whether all requests of the workload have arrived.
    all_arrived: bool,
}

impl<W: Source> Simulation<W> {
    /// The same run, in which an autoscaler starts and drains the replicas of the cluster, identical
    /// ones which load so many bytes of weights each.
    ///
    /// # Panics
    /// When there are other than `max_replicas`, or some prefill or decode only.
    #[must_use]
    pub fn with_autoscaler(mut self, config: &AutoscalerConfig, weight_bytes: u64) -> Self {
        let instances = self.cluster.instances.len() as u32;
        assert_eq!(instances, config.max_replicas, "as many replicas as there may be");
        assert!(self.cluster.disaggregation.is_none(), "replicas do all of a request");
        self.gateway.count_outstanding(instances);
        let autoscaler = Autoscaler::new(config, weight_bytes);
        for (instance, stage) in autoscaler.stages() {
            if stage != Stage::Serving {
                self.gateway.lose(instance);
            }
        }
        let mut scaling = Scaling {
            autoscaler,
            fresh: self.cluster.instances[0].clone(),
            changed: Vec::new(),
            all_arrived: false,
        };
        self.outcome.keeps_lives = scaling.autoscaler.slo().is_some();
        self.scaling = Some(Box::new(scaling));
        self
    }

    /// The run begins.
    pub(super) fn begin_scaling(&mut self, observer: &mut impl Observer) {
        let Some(scaling) = &self.scaling else { return };
        for (instance, stage) in scaling.autoscaler.stages() {
            observer.on(SimTime::ZERO, Occurrence::Scaled(instance, stage));
        }
        self.await_scaling();
    }

    /// No request of the workload will arrive any more.
    pub(super) fn all_arrived(&mut self) {
        if let Some(scaling) = &mut self.scaling {
            scaling.all_arrived = true;
        }
    }

    fn await_scaling(&mut self) {
        let scaling = self.scaling.as_mut().expect("there is an autoscaler");
        self.queue.push(scaling.autoscaler.next_change(), Class::Control, Event::Scale);
    }

    /// The autoscaler looks, or replicas come up.
    pub(super) fn scale(&mut self, now: SimTime, observer: &mut impl Observer) {
        let mut scaling = self.scaling.take().expect("there is an autoscaler");
        let is_over = scaling.all_arrived && self.queue.is_empty();
        if !is_over {
            let mut changed = std::mem::take(&mut scaling.changed);
            scaling.autoscaler.advance(now, &mut changed);
            if scaling.autoscaler.looks(now) {
                let reports = self.reports(now);
                let look = scaling.autoscaler.look(now, &reports, &mut changed);
                observer.on(now, Occurrence::Looked(look));
            }
            self.scaling = Some(scaling);
            for (instance, stage) in changed.drain(..) {
                self.enter(now, instance, stage, observer);
            }
            scaling = self.scaling.take().expect("it was put there");
            scaling.changed = changed;
        }
        self.scaling = Some(scaling);
        if !is_over {
            self.await_scaling();
        }
    }

    /// What the autoscaler sees. It looks when the steps that end now have ended.
    fn reports(&self, now: SimTime) -> Vec<Report> {
        let after = now + SimDuration::from_nanos(1);
        let report = |(index, engine): (usize, &Instance)| {
            let instance = InstanceId::from_index(index);
            let health = self.faults.as_ref().map(|faults| faults.health(instance));
            Report {
                outstanding: self.gateway.outstanding(instance),
                load: engine.load_at(after),
                is_down: health == Some(Health::Down),
            }
        };
        self.cluster.instances.iter().enumerate().map(report).collect()
    }

    fn enter(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        stage: Stage,
        observer: &mut impl Observer,
    ) {
        observer.on(now, Occurrence::Scaled(instance, stage));
        match stage {
            Stage::Serving if !self.is_known_down(instance) => self.gateway.regain(instance),
            Stage::Draining => {
                self.gateway.lose(instance);
                self.end_drain(now, instance, observer);
            }
            Stage::Off | Stage::Provisioning | Stage::Loading | Stage::Serving => {}
        }
    }

    fn is_known_down(&self, instance: InstanceId) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.health(instance) == Health::Down)
    }

    /// Whether a replica is on, so that it can fail.
    pub(super) fn is_on(&self, instance: InstanceId) -> bool {
        self.scaling.as_ref().is_none_or(|scaling| {
            matches!(scaling.autoscaler.stage(instance), Stage::Serving | Stage::Draining)
        })
    }

    /// Whether a replica gets requests when it is up.
    pub(super) fn is_wanted(&self, instance: InstanceId) -> bool {
        let stage = |scaling: &Scaling| scaling.autoscaler.stage(instance);
        self.scaling.as_deref().is_none_or(|scaling| stage(scaling) == Stage::Serving)
    }

    /// Where the latencies of requests are told, if the autoscaler goes by them.
    pub(super) fn slo(&mut self) -> Option<&mut SloMeter> {
        self.scaling.as_mut().and_then(|scaling| scaling.autoscaler.slo())
    }

    /// An instance went on, or forgot what it had: it may have begun or ended to work, and requests may
    /// have left it.
    pub(super) fn see_load(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let Some(scaling) = &mut self.scaling else { return };
        let is_busy = !self.cluster.instances[instance.index()].is_idle();
        scaling.autoscaler.set_busy(now, instance, is_busy);
        for life in self.outcome.lives.drain(..) {
            if let Some(slo) = scaling.autoscaler.slo() {
                slo.answered(&life);
            }
        }
        self.end_drain(now, instance, observer);
    }

    /// A request ended without an answer.
    pub(super) fn see_failure(&mut self, finish: Finish) {
        if matches!(finish, Finish::Failed | Finish::TimedOut)
            && let Some(slo) = self.slo()
        {
            slo.failed();
        }
    }

    /// A draining replica is off once it has nothing left: its machine, broken or not, is given back.
    pub(super) fn end_drain(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let Some(scaling) = &mut self.scaling else { return };
        let engine = &mut self.cluster.instances[instance.index()];
        let load = engine.scheduler().load();
        let is_empty = engine.is_idle() && load.waiting + load.running == 0;
        let is_draining = scaling.autoscaler.stage(instance) == Stage::Draining;
        if !is_draining || !is_empty || self.gateway.outstanding(instance) > 0 {
            return;
        }
        scaling.autoscaler.drained(now, instance);
        engine.restart(scaling.fresh.clone());
        engine.slow_down(None);
        if let Some(faults) = &mut self.faults {
            faults.replace(instance);
        }
        self.put_to_sleep(now, instance);
        observer.on(now, Occurrence::Scaled(instance, Stage::Off));
    }
}
