//! What the router knows of each worker: whether it answers, and what is in flight there.

use rustc_hash::FxHashMap;

use super::policy::{Worker, Workers};
use super::{breaker, health};
use crate::units::SimTime;

#[derive(Debug, Clone, Default)]
struct State {
    health: health::Health,
    breaker: breaker::Breaker,
    /// By key, its requests in flight.
    keys: FxHashMap<Box<str>, u32>,
}

impl State {
    fn is_available(&mut self, rules: breaker::Rules, now: SimTime) -> bool {
        self.health.is_healthy() && self.breaker.lets_pass(rules, now)
    }
}

/// The workers of a router.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    breaker: breaker::Rules,
    health: health::Rules,
    /// Whether the policy has requests in flight counted.
    counts: bool,
    states: Vec<State>,
    loads: Vec<u32>,
    keys: Vec<u32>,
    /// The available ones, as they were asked for last.
    available: Vec<Worker>,
}

impl Registry {
    /// So many workers, all of them well and without requests, which are counted or not.
    pub(crate) fn new(
        workers: usize,
        breaker: breaker::Rules,
        health: health::Rules,
        counts: bool,
    ) -> Self {
        Self {
            breaker,
            health,
            counts,
            states: vec![State::default(); workers],
            loads: vec![0; workers],
            keys: vec![0; workers],
            available: Vec::new(),
        }
    }

    /// There are so many workers at least; new ones are well.
    pub(crate) fn grow(&mut self, workers: usize) {
        if self.states.len() < workers {
            self.states.resize_with(workers, State::default);
            self.loads.resize(workers, 0);
            self.keys.resize(workers, 0);
        }
    }

    /// Those of an order that are healthy and whose breaker is not open.
    pub(crate) fn workers(&mut self, order: &[Worker], now: SimTime) -> Workers<'_> {
        self.available.clear();
        for worker in order {
            if self.states[worker.index()].is_available(self.breaker, now) {
                self.available.push(*worker);
            }
        }
        Workers { available: &self.available, loads: &self.loads, keys: &self.keys }
    }

    /// Whether a worker is healthy and its breaker is not open.
    pub(crate) fn is_available(&mut self, worker: Worker, now: SimTime) -> bool {
        self.states[worker.index()].is_available(self.breaker, now)
    }

    /// Whether all are available until requests or checks fail.
    pub(crate) fn is_calm(&self) -> bool {
        self.states.iter().all(|state| state.health.is_calm() && state.breaker.is_closed())
    }

    /// A request goes to a worker.
    pub(crate) fn begin(&mut self, worker: Worker, key: Option<&str>) {
        self.loads[worker.index()] += u32::from(self.counts);
        if let Some(key) = key {
            let keys = &mut self.states[worker.index()].keys;
            *keys.entry(key.into()).or_default() += 1;
            self.keys[worker.index()] = keys.len() as u32;
        }
    }

    /// Its response has been read, or its client is gone.
    ///
    /// # Panics
    /// When no such request is there.
    pub(crate) fn end(&mut self, worker: Worker, key: Option<&str>) {
        self.loads[worker.index()] -= u32::from(self.counts);
        if let Some(key) = key {
            let keys = &mut self.states[worker.index()].keys;
            let count = keys.get_mut(key).expect("a request with this key is in flight");
            *count -= 1;
            if *count == 0 {
                keys.remove(key);
            }
            self.keys[worker.index()] = keys.len() as u32;
        }
    }

    /// How a request ended, for the breaker.
    pub(crate) fn record(&mut self, worker: Worker, is_success: bool, now: SimTime) {
        self.states[worker.index()].breaker.record(self.breaker, is_success, now);
    }

    /// A check of a worker's health.
    pub(crate) fn check(&mut self, worker: Worker, is_success: bool) {
        self.states[worker.index()].health.check(self.health, is_success);
    }

    /// Whether a worker is thought to be healthy.
    pub(crate) fn is_healthy(&self, worker: Worker) -> bool {
        self.states[worker.index()].health.is_healthy()
    }

    /// A worker begins as a new one.
    pub(crate) fn renew(&mut self, worker: Worker) {
        self.states[worker.index()] = State::default();
        self.loads[worker.index()] = 0;
        self.keys[worker.index()] = 0;
    }

    /// The requests of a worker.
    pub(crate) fn load(&self, worker: Worker) -> u32 {
        self.loads[worker.index()]
    }
}
