//! What the loop does where replicas are started and drained.
//!
//! Pools of replicas are scaled apart. One event of the last class is valid: the next time that the
//! autoscaler of a pool looks, or that a replica comes up. When no request will come, nothing else is in the
//! queue and nobody waits at the gateway for a replica, nothing can change any more, and it is not put there
//! again.

mod planned;
mod pool;

use std::ops::Range;

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::autoscaler::SloMeter;
use crate::cluster::{Autoscaler, Health, Report, Role, Stage};
use crate::des::Class;
use crate::engine::Finish;
use crate::ids::{InstanceId, RequestId};
use crate::scenario::AutoscalerConfig;
use crate::units::{SimDuration, SimTime};
use pool::Pool;
pub(super) use pool::Scaling;

impl<W: Source> Simulation<W> {
    /// The same run, in which an autoscaler starts and drains these replicas, identical ones which load so
    /// many bytes of weights each. Others may be given autoscalers of their own.
    ///
    /// # Panics
    /// When there are other than `max_replicas`, or they have different roles.
    #[must_use]
    pub fn with_autoscaler(
        mut self,
        replicas: Range<u32>,
        config: &AutoscalerConfig,
        weight_bytes: u64,
    ) -> Self {
        assert_eq!(replicas.len() as u32, config.max_replicas, "as many replicas as there may be");
        let first = InstanceId(replicas.start);
        let role = self.cluster.role(first);
        assert!(
            replicas.clone().all(|id| self.cluster.role(InstanceId(id)) == role),
            "replicas of a pool do the same of a request"
        );
        match &mut self.cluster.disaggregation {
            Some(parts) if role == Role::Decode => parts.count_outstanding(),
            _ => self.gateway.count_outstanding(self.cluster.entrances()),
        }
        let wires = &mut self.cluster.wires;
        let mut autoscaler = Autoscaler::new(wires, config, (first, weight_bytes));
        if let Some(rule) = &self.cluster.scale {
            autoscaler = autoscaler.by(&**rule);
        }
        let fresh = self.cluster.instances[first.index()].clone();
        let pool = Pool { replicas, role, autoscaler, fresh };
        for (instance, stage) in pool.stages() {
            if stage != Stage::Serving {
                self.shut_out(instance);
            }
        }
        self.scaling.get_or_insert_default().pools.push(pool);
        let keeps_lives = self.slos().next().is_some();
        self.outcome.keeps_lives = keeps_lives;
        self
    }

    /// The run begins.
    pub(super) fn begin_scaling(&mut self, observer: &mut impl Observer) {
        let Some(scaling) = &self.scaling else { return };
        for (instance, stage) in scaling.pools.iter().flat_map(Pool::stages) {
            observer.on(SimTime::ZERO, Occurrence::Scaled(instance, stage));
        }
        self.await_scaling();
    }

    fn await_scaling(&mut self) {
        let scaling = self.scaling.as_ref().expect("there is an autoscaler");
        let next = scaling.pools.iter().map(|pool| pool.autoscaler.next_change()).min();
        let next = next.expect("there is a pool");
        let wires = &mut self.cluster.wires;
        let landing = if wires.carries_only_weights() { wires.next_change() } else { None };
        self.push_scaling(landing.map_or(next, |landing| landing.min(next)));
    }

    fn push_scaling(&mut self, at: SimTime) {
        let scaling = self.scaling.as_mut().expect("there is an autoscaler");
        scaling.epoch = scaling.epoch.wrapping_add(1);
        scaling.next = at;
        self.queue.push(at, Class::Control, Event::Scale { epoch: scaling.epoch });
    }

    /// Weights may land at this moment.
    pub(super) fn scale_by(&mut self, at: SimTime) {
        let scaling = self.scaling.as_mut().expect("an autoscaler has weights loaded");
        if at < scaling.next {
            scaling.stale += 1;
            self.push_scaling(at);
        }
    }

    /// The weights of a replica have come.
    pub(super) fn land_weights(&mut self, now: SimTime, instance: InstanceId) {
        let scaling = self.scaling.as_mut().expect("an autoscaler has weights loaded");
        let pool = scaling.pool_mut(instance).expect("an autoscaler starts it");
        pool.autoscaler.weights_landed(pool.place(instance));
        self.scale_by(now);
    }

    /// Autoscalers look, or replicas come up.
    pub(super) fn scale(&mut self, now: SimTime, epoch: u32, observer: &mut impl Observer) {
        let scaling = self.scaling.as_mut().expect("there is an autoscaler");
        if epoch != scaling.epoch {
            scaling.stale -= 1;
            return;
        }
        let stale = scaling.stale;
        let gate = self.gate.as_ref();
        if gate.is_some_and(|gate| gate.opens_now()) {
            // Who is sent at this instant does not wait.
            return self.push_scaling(now);
        }
        let at_gateway = gate.map_or(0, |gate| gate.room.len() as u32);
        self.take_in(now, observer);
        let mut scaling = self.scaling.take().expect("there is an autoscaler");
        if self.all_arrived && self.queue.len() == stale {
            let since = *scaling.quiet_since.get_or_insert(now);
            let has_settled = |pool: &Pool| pool.autoscaler.has_settled(since, now);
            if at_gateway == 0 || scaling.pools.iter().all(has_settled) {
                self.scaling = Some(scaling);
                return;
            }
        } else {
            scaling.quiet_since = None;
        }
        let mut changed = std::mem::take(&mut scaling.changed);
        self.ask_planner(now, &mut scaling, &mut changed);
        for (index, pool) in (0..).zip(&mut scaling.pools) {
            let of_pool = changed.len();
            pool.autoscaler.advance(&mut self.cluster.wires, now, &mut changed);
            if pool.autoscaler.looks(now) {
                let reports = self.reports(now, pool);
                let at_gateway = if pool.role == Role::Decode { 0 } else { at_gateway };
                let wires = &mut self.cluster.wires;
                let seen = (&reports[..], at_gateway);
                let look = pool.autoscaler.look(wires, now, seen, &mut changed);
                observer.on(now, Occurrence::Looked(index, look));
            }
            for (place, _) in &mut changed[of_pool..] {
                place.0 += pool.replicas.start;
            }
        }
        if !changed.is_empty() {
            scaling.quiet_since = None;
        }
        self.scaling = Some(scaling);
        for (instance, stage) in changed.drain(..) {
            self.enter(now, instance, stage, observer);
        }
        self.scaling.as_mut().expect("it was put there").changed = changed;
        self.await_scaling();
        self.await_changed_wires();
    }

    /// What the autoscaler of a pool sees. It looks when the steps that end now have ended.
    fn reports(&self, now: SimTime, pool: &Pool) -> Vec<Report> {
        let after = now + SimDuration::from_nanos(1);
        let report = |instance| Report {
            outstanding: self.outstanding(instance),
            load: self.cluster.instances[instance.index()].load_at(after),
            is_down: self.is_known_down(instance),
        };
        pool.replicas.clone().map(InstanceId).map(report).collect()
    }

    /// Requests that were sent to an instance and have not left it.
    fn outstanding(&self, instance: InstanceId) -> u32 {
        match (self.cluster.role(instance), &self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.outstanding(instance),
            _ => self.gateway.outstanding(instance),
        }
    }

    /// An instance gets no requests from now on.
    pub(super) fn shut_out(&mut self, instance: InstanceId) {
        match (self.cluster.role(instance), &mut self.cluster.disaggregation) {
            (Role::Decode, Some(parts)) => parts.lose(instance),
            _ => self.gateway.lose(instance),
        }
    }

    /// It gets requests again.
    pub(super) fn let_in(&mut self, now: SimTime, instance: InstanceId) {
        let role = self.cluster.role(instance);
        if let (Role::Decode, Some(parts)) = (role, &mut self.cluster.disaggregation) {
            parts.regain(instance);
        } else {
            self.gateway.regain(instance);
        }
        // Prompts may be computed beside what is decoded.
        self.wake_gate(now);
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
            Stage::Serving if self.gateway.finds_out() || !self.is_known_down(instance) => {
                self.let_in(now, instance);
            }
            Stage::Draining => {
                self.shut_out(instance);
                self.end_drain(now, instance, observer);
            }
            Stage::Off | Stage::Provisioning | Stage::Loading | Stage::Serving => {}
        }
    }

    fn is_known_down(&self, instance: InstanceId) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.health(instance) == Health::Down)
    }

    /// What an autoscaler has an instance do; nothing where it has none.
    fn stage(&self, instance: InstanceId) -> Option<Stage> {
        let pool = self.scaling.as_ref().and_then(|scaling| scaling.pool(instance));
        pool.map(|pool| pool.stage(instance))
    }

    /// Whether a replica is on, so that it can fail.
    pub(super) fn is_on(&self, instance: InstanceId) -> bool {
        let is_on = |stage| matches!(stage, Stage::Serving | Stage::Draining);
        self.stage(instance).is_none_or(is_on)
    }

    /// Whether a replica gets requests when it is up.
    pub(super) fn is_wanted(&self, instance: InstanceId) -> bool {
        self.stage(instance).is_none_or(|stage| stage == Stage::Serving)
    }

    /// Where the latencies of requests are told, for autoscalers that go by them.
    pub(super) fn slos(&mut self) -> impl Iterator<Item = &mut SloMeter> {
        self.scaling.iter_mut().flat_map(|scaling| scaling.slos())
    }

    /// A client sends a request with so many prompt tokens.
    pub(super) fn begin_slo(&mut self, now: SimTime, id: RequestId, prompt_tokens: u32) {
        self.tell_planner(prompt_tokens);
        for slo in self.slos() {
            slo.sent(id, now);
        }
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
        let role = self.cluster.role(instance);
        for life in self.outcome.lives.drain(..) {
            scaling.answered(instance, role, &life);
        }
        let Some(pool) = scaling.pool_mut(instance) else { return };
        let is_busy = !self.cluster.instances[instance.index()].is_idle();
        pool.autoscaler.set_busy(now, pool.place(instance), is_busy);
        self.end_drain(now, instance, observer);
    }

    /// A request ended without an answer.
    pub(super) fn see_failure(&mut self, finish: Finish) {
        if matches!(finish, Finish::Failed | Finish::TimedOut) {
            self.slos().for_each(SloMeter::failed);
        }
    }

    /// A draining replica is off once it has nothing left, nor a KV cache that others will fetch: its
    /// machine, broken or not, is given back.
    pub(super) fn end_drain(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        if self.stage(instance) != Some(Stage::Draining) || self.outstanding(instance) > 0 {
            return;
        }
        let engine = &self.cluster.instances[instance.index()];
        let load = engine.scheduler().load();
        let is_empty =
            engine.is_idle() && load.waiting + load.running + load.kv_blocks_lingering == 0;
        let parts = self.cluster.disaggregation.as_ref();
        if !is_empty || parts.is_some_and(|parts| parts.holds_kv(instance)) {
            return;
        }
        self.cancel_moves(now, instance);
        let pool = self.scaling.as_mut().and_then(|scaling| scaling.pool_mut(instance));
        let pool = pool.expect("an autoscaler drains it");
        pool.autoscaler.drained(now, pool.place(instance));
        let engine = &mut self.cluster.instances[instance.index()];
        engine.restart(pool.fresh.clone());
        engine.slow_down(None);
        if let Some(faults) = &mut self.faults {
            faults.replace(instance);
            self.set_nics(now, instance, 1.0);
        }
        self.gateway.renew(&mut self.cluster.router, instance);
        self.forget_cache(instance);
        self.put_to_sleep(now, instance);
        observer.on(now, Occurrence::Scaled(instance, Stage::Off));
    }
}
