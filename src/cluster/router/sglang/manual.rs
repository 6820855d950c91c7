//! `manual`: a key stays with the worker it had before.

use rustc_hash::FxHashMap;

use super::draw::Draw;
use super::policy::{Asked, Worker, Workers};
use crate::scenario::AssignmentMode;
use crate::units::{SimDuration, SimTime};

/// The header with the key of a request.
pub(crate) const ROUTING_KEY: &str = "x-smg-routing-key";

/// How many workers of a key are remembered.
const REMEMBERED: usize = 2;

#[derive(Debug, Clone)]
struct Known {
    /// The oldest first.
    workers: Vec<Worker>,
    asked: SimTime,
}

/// Which workers keys had.
#[derive(Debug, Clone)]
pub(crate) struct Manual {
    mode: AssignmentMode,
    keys: FxHashMap<Box<str>, Known>,
}

impl Manual {
    /// Nothing is known.
    pub(crate) fn new(mode: AssignmentMode) -> Self {
        Self { mode, keys: FxHashMap::default() }
    }

    /// The first of the workers that the key had, as far as they are available, or a new one.
    pub(crate) fn choose<T>(
        &mut self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        let Some(key) = asked.header(ROUTING_KEY) else {
            return self.assign(workers, draw);
        };
        if let Some(known) = self.keys.get_mut(key) {
            known.asked = asked.now;
            if let Some(worker) = known.workers.iter().find(|worker| workers.has(**worker)) {
                return Some(*worker);
            }
        }
        let worker = self.assign(workers, draw)?;
        let new = || Known { workers: Vec::new(), asked: asked.now };
        let known = self.keys.entry(key.into()).or_insert_with(new);
        known.workers.push(worker);
        if known.workers.len() > REMEMBERED {
            known.workers.remove(0);
        }
        Some(worker)
    }

    fn assign(&self, workers: Workers<'_>, draw: &mut impl Draw) -> Option<Worker> {
        match self.mode {
            AssignmentMode::Random => workers.any(draw),
            AssignmentMode::MinLoad => workers.any_least(workers.loads, draw),
            AssignmentMode::MinGroup => workers.any_least(workers.keys, draw),
        }
    }

    /// Keys that did not come for so long are forgotten.
    pub(crate) fn forget(&mut self, now: SimTime, idle: SimDuration) {
        self.keys.retain(|_, known| now.saturating_since(known.asked) <= idle);
    }
}
