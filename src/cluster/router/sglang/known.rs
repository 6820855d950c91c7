//! What the router of a simulation knows of its workers: what its requests met there, and what health checks say.
//!
//! Nobody tells it that a worker is dead. Requests go there until its breaker opens or its checks have failed, and a
//! worker that is back gets some when the router knows.

use super::breaker;
use super::checks::Checks;
use super::health;
use super::policy::Worker;
use super::registry::Registry;
use crate::cluster::Health;
use crate::units::SimTime;

/// The knowledge of a router.
#[derive(Debug, Clone)]
pub(super) struct Known {
    registry: Registry,
    checks: Checks,
    /// Whether all are available until something fails.
    is_calm: bool,
    available: Vec<Worker>,
}

impl Known {
    /// Of no workers yet.
    pub(super) fn new(breaker: breaker::Rules, health: health::Rules, checks: Checks) -> Self {
        Self {
            registry: Registry::new(0, breaker, health, false),
            checks,
            is_calm: true,
            available: Vec::new(),
        }
    }

    /// Workers are asked how they are in this order.
    pub(super) fn arrange(&mut self, order: &[Worker]) {
        self.checks.arrange(order);
    }

    /// There are so many workers at least.
    fn grow(&mut self, workers: usize) {
        self.registry.grow(workers);
        self.checks.grow(workers);
    }

    /// What is sent to a worker fares so from now on.
    pub(super) fn connects(&mut self, worker: Worker, now: SimTime, health: Health) {
        self.pass(now);
        self.grow(worker.index() + 1);
        self.checks.set(&mut self.registry, worker, now, health);
        self.is_calm = false;
    }

    /// A new worker is in the place of another.
    pub(super) fn renew(&mut self, worker: Worker) {
        self.grow(worker.index() + 1);
        self.registry.renew(worker);
        self.checks.renew(worker);
    }

    /// A worker has begun to answer a request, or not taken it.
    pub(super) fn answered(&mut self, worker: Worker, now: SimTime, is_success: bool) {
        self.grow(worker.index() + 1);
        self.registry.record(worker, is_success, now);
        self.is_calm &= is_success;
    }

    /// Those of an order that requests may be sent to, without these, to whom the gateway sends none.
    pub(super) fn available<'a>(
        &'a mut self,
        order: &'a [Worker],
        down: &[Worker],
        now: SimTime,
    ) -> &'a [Worker] {
        self.pass(now);
        if self.is_calm && down.is_empty() {
            return order;
        }
        self.grow(order.len());
        self.available.clear();
        for worker in order.iter().copied().filter(|id| down.binary_search(id).is_err()) {
            if self.is_calm || self.registry.is_available(worker, now) {
                self.available.push(worker);
            }
        }
        &self.available
    }

    /// Takes in all that came of health checks until now.
    fn pass(&mut self, now: SimTime) {
        if self.is_calm {
            return self.checks.skip(now);
        }
        self.checks.pass(&mut self.registry, now);
        self.is_calm = self.checks.is_calm() && self.registry.is_calm();
    }
}

#[cfg(test)]
mod tests;
