//! Health checks: one loop asks all workers, the first time as the router starts and then after every interval.

use std::collections::VecDeque;

use super::policy::Worker;
use super::registry::Registry;
use crate::cluster::Health;
use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// The questions of the loop, and what becomes of them.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    interval: SimDuration,
    /// How long the answer to a question may take.
    timeout: SimDuration,
    next: SimTime,
    /// By worker, what becomes of what is sent there.
    healths: Vec<Health>,
    /// Questions to workers that do not answer, and when they fail, in that order.
    open: VecDeque<(SimTime, Worker)>,
}

impl Checks {
    /// A loop that begins with the run and has no workers yet.
    pub(crate) fn new(interval: SimDuration, timeout: SimDuration) -> Self {
        Self {
            interval: interval.max(SimDuration::from_nanos(1)),
            timeout,
            next: SimTime::ZERO,
            healths: Vec::new(),
            open: VecDeque::new(),
        }
    }

    /// There are so many workers at least; new ones answer.
    pub(crate) fn grow(&mut self, workers: usize) {
        self.healths.resize(self.healths.len().max(workers), Health::Up);
    }

    /// What is sent to a worker fares so from now on. Connections that break do so for questions too.
    pub(crate) fn set(&mut self, registry: &mut Registry, worker: Worker, health: Health) {
        self.healths[worker.index()] = health;
        if health == Health::Unnoticed {
            return;
        }
        let open = self.open.len();
        self.open.retain(|(_, asked)| *asked != worker);
        (self.open.len()..open).for_each(|_| registry.check(worker, false));
    }

    /// A new worker is in the place of another: it has not been asked.
    pub(crate) fn renew(&mut self, worker: Worker) {
        self.healths[worker.index()] = Health::Up;
        self.open.retain(|(_, asked)| *asked != worker);
    }

    /// Whether questions are only answered as they have been.
    pub(crate) fn is_calm(&self) -> bool {
        self.open.is_empty() && self.healths.iter().all(|health| *health == Health::Up)
    }

    /// All that came of questions until `now`.
    pub(crate) fn pass(&mut self, registry: &mut Registry, now: SimTime) {
        loop {
            let is_due = |open: &&(SimTime, Worker)| open.0 <= now.min(self.next);
            if let Some((_, worker)) = self.open.front().filter(is_due).copied() {
                self.open.pop_front();
                registry.check(worker, false);
            } else if self.next > now {
                return;
            } else {
                self.ask(registry);
            }
        }
    }

    fn ask(&mut self, registry: &mut Registry) {
        let at = self.next;
        self.next = at + self.interval;
        for (worker, health) in (0..).map(InstanceId).zip(&self.healths) {
            match health {
                Health::Up => registry.check(worker, true),
                Health::Down => registry.check(worker, false),
                Health::Unnoticed => self.open.push_back((at + self.timeout, worker)),
            }
        }
    }

    /// Questions up to `now` that all workers answer, which changes nothing.
    pub(crate) fn skip(&mut self, now: SimTime) {
        if self.next <= now {
            let interval = self.interval.as_nanos();
            let last = now.as_nanos() - now.as_nanos() % interval;
            self.next = SimTime::from_nanos(last.saturating_add(interval));
        }
    }
}
