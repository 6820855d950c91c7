//! What the loop does where replicas and links fail, and clients do not wait for ever.
//!
//! Every sending of a request is an *attempt* with an id of its own, so that nothing confuses a retry
//! with what an engine still does for the attempt before. Faults and the ends of waits are of the
//! class that comes last at an instant: what ends then has ended.
//!
//! * `plan.rs`: what fails when
//! * `client.rs`: how long clients wait, and whether they try again
//! * `attempts.rs`: where each attempt stands
//! * `give_up.rs`: attempts without an answer
//! * `led.rs`: requests that somebody outside leads from one instance to the other
//! * `replicas.rs`: crashes, slow replicas, lost caches
//! * `transfers.rs`: lost KV on its way, slow links
//! * `reserved.rs`: requests with a destination before they are prefilled

mod attempts;
mod client;
mod give_up;
mod led;
mod plan;
mod replicas;
mod reserved;
mod transfers;

use std::collections::BTreeMap;

use super::drive;
use super::event::Event;
use super::observe::{Observer, Occurrence, Slowness};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Cluster, Health, Healths};
use crate::des::Class;
use crate::engine::Instance;
use crate::ids::{InstanceId, RequestId};
use crate::rng::Seed;
use crate::scenario::{ClientConfig, FaultConfig};
use crate::units::SimTime;

use attempts::{Again, Attempt};
use client::Patience;
pub(super) use client::Reason;
use plan::{Change, Planned};

/// What a run with faults, or with clients that give up, keeps beside its machines.
#[derive(Debug)]
pub(super) struct Faults {
    plan: Vec<Planned>,
    /// Of the plan, what has happened.
    happened: usize,
    patience: Patience,
    healths: Healths,
    /// Replicas that are going to crash, as they start again.
    fresh: BTreeMap<InstanceId, Instance>,
    /// Attempts that arrived and are not over, or that an instance or the way to one still holds.
    attempts: BTreeMap<RequestId, Attempt>,
    /// Retries to come, by their place in the transit.
    retries: BTreeMap<u32, Again>,
}

impl Faults {
    fn new(faults: &[FaultConfig], client: &ClientConfig, seed: Seed, cluster: &Cluster) -> Self {
        let plan = plan::plan(faults, cluster.instances.len() as u32, seed);
        let crashes = plan.iter().filter(|planned| planned.change == Change::Crash);
        let fresh = crashes.map(|Planned { instance, .. }| {
            (*instance, cluster.instances[instance.index()].clone())
        });
        Self {
            fresh: fresh.collect(),
            plan,
            happened: 0,
            patience: Patience::new(client, seed),
            healths: Healths::new(cluster.instances.len()),
            attempts: BTreeMap::new(),
            retries: BTreeMap::new(),
        }
    }

    /// Whether an instance serves.
    pub(super) fn health(&self, instance: InstanceId) -> Health {
        self.healths.of(instance)
    }

    /// Another machine takes the place of an instance, whatever has become of that.
    pub(super) fn replace(&mut self, instance: InstanceId) {
        self.healths.set(instance, Health::Up);
    }

    /// Requests that have neither an answer nor will be given up, at the end of a run.
    pub(super) fn unresolved(&self) -> u64 {
        let open = self.attempts.values().filter(|attempt| !attempt.gave_up).count();
        (open + self.retries.len()) as u64
    }
}

impl<W: Source> Simulation<W> {
    /// The same run, in which these faults happen and clients are as patient as this; what is drawn
    /// comes from the seed's streams `faults` and `cancellations`.
    ///
    /// # Panics
    /// When a fault names an instance or a network that is not there, which validation refuses.
    #[must_use]
    pub fn with_faults(
        mut self,
        faults: &[FaultConfig],
        client: &ClientConfig,
        seed: Seed,
    ) -> Self {
        if !faults.is_empty() || client.may_give_up() {
            self.faults = Some(Box::new(Faults::new(faults, client, seed, &self.cluster)));
        }
        self
    }

    /// The same run, in which faults that nobody knows yet may happen beside those planned, and clients may go
    /// away when they like.
    #[must_use]
    pub(super) fn with_faults_to_come(mut self, faults: &[FaultConfig], seed: Seed) -> Self {
        let client = ClientConfig::default();
        let mut faults = Faults::new(faults, &client, seed, &self.cluster);
        let all = (0..).map(InstanceId).zip(self.cluster.instances.iter().cloned());
        faults.fresh = all.collect();
        self.faults = Some(Box::new(faults));
        self
    }

    /// A fault is added to those that are planned.
    pub(super) fn plan_fault(&mut self, fault: &FaultConfig, seed: Seed) {
        let instances = self.cluster.instances.len() as u32;
        let faults = self.trouble();
        let mut ahead = faults.plan.split_off(faults.happened);
        ahead.extend(plan::plan(std::slice::from_ref(fault), instances, seed));
        // Stable: of one instant, what was planned first comes first.
        ahead.sort_by_key(|planned| planned.at);
        faults.plan = ahead;
        faults.happened = 0;
        self.await_fault();
    }

    /// Whether an instance serves.
    pub(super) fn is_up(&self, instance: InstanceId) -> bool {
        self.faults.as_ref().is_none_or(|faults| faults.health(instance) == Health::Up)
    }

    /// What the run keeps for faults.
    ///
    /// # Panics
    /// When nothing can fail.
    fn trouble(&mut self) -> &mut Faults {
        self.faults.as_mut().expect("something may fail")
    }

    /// Whether nothing is left that a fault could change.
    pub(super) fn is_over(&self) -> bool {
        self.transit.len() == 0
            && self.faults.as_ref().is_some_and(|faults| faults.attempts.is_empty())
    }

    /// The next fault is in the queue. One that was planned later and comes earlier leaves the event of
    /// that one behind, at which nothing is due.
    pub(super) fn await_fault(&mut self) {
        let Some(faults) = &self.faults else { return };
        if let Some(Planned { at, .. }) = faults.plan.get(faults.happened) {
            self.queue.push(*at, Class::Control, Event::Fault);
        }
    }

    /// The next fault of the plan begins or ends.
    pub(super) fn happen(&mut self, now: SimTime, observer: &mut impl Observer) {
        let faults = self.trouble();
        let due = faults.plan.get(faults.happened).filter(|planned| planned.at <= now);
        let Some(&Planned { instance, change, .. }) = due else { return };
        faults.happened += 1;
        self.await_fault();
        let is_up = self.trouble().health(instance) == Health::Up;
        match change {
            // What is off or down cannot fail, and a machine that was given back does not come back.
            Change::Crash if !is_up || !self.is_on(instance) => {}
            Change::Notice | Change::Recover if is_up => {}
            Change::Crash => self.crash(now, instance, observer),
            Change::Notice => self.notice(now, instance, observer),
            Change::Recover => self.recover(now, instance, observer),
            Change::Pace(factor) => {
                self.catch_up(now, instance, observer);
                self.cluster.instances[instance.index()].slow_down(factor);
                let slowed = Occurrence::Slowed(instance, Slowness::Steps, factor.is_some());
                observer.on(now, slowed);
            }
            Change::LoseCache => {
                self.catch_up(now, instance, observer);
                self.cluster.instances[instance.index()].lose_cache();
            }
            Change::Nics(share) => {
                self.set_nics(now, instance, share);
                observer.on(now, Occurrence::Slowed(instance, Slowness::Nics, share < 1.0));
            }
            Change::LoseTransfers => self.lose_transfers(now, instance, observer),
        }
    }

    /// Takes in the steps of an instance that ended until now, this instant included.
    pub(super) fn catch_up(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        if let Some(at) = drive::interrupt_through(place, now, observer) {
            self.awaken(at, instance);
        }
    }

    /// The same where something of the last class has happened at this instant, to whatever instance, or the
    /// step of an instance behind it has ended: what comes from then on comes after its step too.
    pub(super) fn see_steps(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        if self.steps_seen.is_some_and(|(at, until)| at == now && instance < until) {
            self.catch_up(now, instance, observer);
        }
    }

    /// Has an instance that waits for nothing read what came from outside.
    pub(super) fn rouse(&mut self, now: SimTime, instance: InstanceId) {
        if !self.awaited[instance.index()] {
            self.awaken(now, instance);
        }
    }
}
