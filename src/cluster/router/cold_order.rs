//! Where requests without a known beginning went: llm-d's `no-hit-lru-scorer`.
//!
//! Such a request leaves a new prompt in the cache of whom it is sent to. Who never got one comes first, in the order of their ids, then who
//! got one longest ago.

use crate::ids::InstanceId;

/// When each instance got the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct ColdOrder {
    turn: u64,
    /// 0 for never.
    last: Vec<u64>,
    /// Of the request at hand, instances by their place.
    places: Vec<InstanceId>,
    /// Whether somebody knows its beginning.
    is_known: bool,
}

impl ColdOrder {
    /// Takes a request at hand, whose beginning somebody knows or not.
    pub(super) fn read(
        &mut self,
        candidates: impl Iterator<Item = InstanceId>,
        instances: u32,
        is_known: bool,
    ) {
        self.last.resize(instances as usize, 0);
        self.is_known = is_known;
        self.places.clear();
        self.places.extend(candidates);
        let last = &self.last;
        self.places.sort_by_key(|id| (last[id.index()], *id));
    }

    /// 0.5 for all where somebody knows the beginning; otherwise 1 for the first and 0 for the last.
    pub(super) fn score(&self, instance: InstanceId) -> f64 {
        if self.is_known {
            return 0.5;
        }
        let place = self.places.iter().position(|id| *id == instance).unwrap_or_default();
        let behind = self.places.len().saturating_sub(1);
        if behind == 0 { 1.0 } else { 1.0 - place as f64 / behind as f64 }
    }

    /// The request at hand is sent to an instance.
    pub(super) fn send(&mut self, instance: InstanceId) {
        if !self.is_known {
            self.turn += 1;
            self.last[instance.index()] = self.turn;
        }
    }
}
