//! `round_robin`: each available worker in turn.

use super::policy::{Worker, Workers};

/// Counts choices: one counter for all of the router, that attempts move too.
#[derive(Debug, Clone, Default)]
pub(crate) struct RoundRobin {
    chosen: usize,
}

impl RoundRobin {
    /// The next one; the counter stands still where none is available.
    pub(crate) fn choose(&mut self, workers: Workers<'_>) -> Option<Worker> {
        let count = workers.available.len();
        let place = self.chosen.checked_rem(count)?;
        self.chosen += 1;
        Some(workers.available[place])
    }
}
