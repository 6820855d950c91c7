//! Health checks: one loop asks all workers, the first time as the router starts and then after every interval.
//!
//! `SGLang`'s router asks them together. vLLM's (vllm-router 0.1.17, `src/core/worker_registry.rs`) asks one after the other
//! and waits for each: a worker that does not answer keeps it from those behind it, and from the next round, which begins late
//! then.

use std::collections::VecDeque;

use super::policy::Worker;
use super::registry::Registry;
use crate::cluster::Health;
use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// Whether the loop waits for an answer before it asks the next worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// It asks all at once.
    Together,
    /// It waits.
    InTurn,
}

/// The questions of the loop, and what becomes of them.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    asks: Asks,
    interval: SimDuration,
    /// How long the answer to a question may take.
    timeout: SimDuration,
    /// When the next round is due.
    next: SimTime,
    /// When the last question of those that are asked in turn was answered.
    free_at: SimTime,
    /// By worker, what becomes of what is sent there.
    healths: Vec<Health>,
    /// The order in which workers are asked; those that it lacks come last, by number.
    order: Vec<Worker>,
    /// Who is left to be asked in this round, the next one last.
    left: Vec<Worker>,
    /// Questions to workers that do not answer, and when they fail, in that order. Nobody learns from a question to a worker
    /// that was replaced.
    open: VecDeque<(SimTime, Option<Worker>)>,
}

impl Checks {
    /// A loop that begins with the run and has no workers yet.
    pub(crate) fn new(asks: Asks, interval: SimDuration, timeout: SimDuration) -> Self {
        Self {
            asks,
            interval: interval.max(SimDuration::from_nanos(1)),
            timeout,
            next: SimTime::ZERO,
            free_at: SimTime::ZERO,
            healths: Vec::new(),
            order: Vec::new(),
            left: Vec::new(),
            open: VecDeque::new(),
        }
    }

    /// Workers are asked in this order.
    pub(crate) fn arrange(&mut self, order: &[Worker]) {
        self.order = order.to_vec();
    }

    /// There are so many workers at least; new ones answer.
    pub(crate) fn grow(&mut self, workers: usize) {
        self.healths.resize(self.healths.len().max(workers), Health::Up);
    }

    /// What is sent to a worker fares so from now on. Connections that break do so for questions too.
    pub(crate) fn set(
        &mut self,
        registry: &mut Registry,
        worker: Worker,
        now: SimTime,
        health: Health,
    ) {
        self.healths[worker.index()] = health;
        if health == Health::Unnoticed {
            return;
        }
        let open = self.open.len();
        self.open.retain(|(_, asked)| *asked != Some(worker));
        let broken = open - self.open.len();
        (0..broken).for_each(|_| registry.check(worker, false));
        if broken > 0 && self.asks == Asks::InTurn {
            self.go_on(registry, now);
        }
    }

    /// A new worker is in the place of another: it has not been asked.
    pub(crate) fn renew(&mut self, worker: Worker) {
        self.healths[worker.index()] = Health::Up;
        for (_, asked) in &mut self.open {
            *asked = asked.filter(|asked| *asked != worker);
        }
    }

    /// Whether questions are only answered as they have been.
    pub(crate) fn is_calm(&self) -> bool {
        self.open.is_empty() && self.healths.iter().all(|health| *health == Health::Up)
    }

    /// All that came of questions until `now`.
    pub(crate) fn pass(&mut self, registry: &mut Registry, now: SimTime) {
        loop {
            // A round that is due waits for those before it where workers are asked in turn.
            let is_in_turn = self.asks == Asks::InTurn;
            let until = if is_in_turn { now } else { now.min(self.next) };
            let is_due = |open: &&(SimTime, Option<Worker>)| open.0 <= until;
            if let Some((at, worker)) = self.open.front().filter(is_due).copied() {
                self.open.pop_front();
                if let Some(worker) = worker {
                    registry.check(worker, false);
                }
                if is_in_turn {
                    self.go_on(registry, at);
                }
            } else if self.next > now || is_in_turn && !self.open.is_empty() {
                return;
            } else {
                let at = self.next.max(self.free_at);
                self.next += self.interval;
                let rest = (0..self.healths.len() as u32).map(InstanceId);
                self.left = rest.filter(|worker| !self.order.contains(worker)).collect();
                let known = self.order.iter().filter(|worker| worker.index() < self.healths.len());
                self.left.splice(0..0, known.copied());
                self.left.reverse();
                self.go_on(registry, at);
            }
        }
    }

    /// The workers that are left in this round are asked at a moment, or up to one that does not answer.
    fn go_on(&mut self, registry: &mut Registry, at: SimTime) {
        self.free_at = at;
        while let Some(worker) = self.left.pop() {
            match self.healths[worker.index()] {
                Health::Up => registry.check(worker, true),
                Health::Down => registry.check(worker, false),
                Health::Unnoticed => {
                    self.open.push_back((at + self.timeout, Some(worker)));
                    if self.asks == Asks::InTurn {
                        return;
                    }
                }
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
