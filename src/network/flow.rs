//! One flow: how much of it is left, at which rate it runs, where it stands.

use crate::ids::RouteId;
use crate::network::quantity::{self, Rate, Work};

/// Where a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// The slot is free.
    #[default]
    Free,
    /// The latency of its route is not over yet.
    Latent,
    /// On its links.
    Flowing,
    /// Everything that was fed has flown, and more is to come.
    Dry,
}

/// A flow. Times are nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub stage: Stage,
    pub route: RouteId,
    /// Fed and not yet carried, as of `settled_at`.
    pub left: Work,
    /// Carried since it joined its links, as of `settled_at`.
    pub carried: Work,
    /// Payload that is to be fed.
    pub unfed_bytes: u64,
    pub rate: Rate,
    pub settled_at: u64,
}

impl Flow {
    pub(super) const FREE: Self = Self {
        stage: Stage::Free,
        route: RouteId(0),
        left: 0,
        carried: 0,
        unfed_bytes: 0,
        rate: 0,
        settled_at: 0,
    };

    /// Moves what flows until `now`. Whole numbers: in how many pieces this is done does not matter.
    pub(super) fn settle(&mut self, now: u64) {
        let moved = quantity::moved(self.rate, now - self.settled_at).min(self.left);
        self.left -= moved;
        self.carried += moved;
        self.settled_at = now;
    }

    /// When what was fed will have flown at the present rate.
    pub(super) fn ends_at(&self) -> Option<u64> {
        quantity::nanos_to_move(self.left, self.rate)?.checked_add(self.settled_at)
    }

    /// What is carried by `now` since it joined its links.
    pub(super) fn carried_by(&self, now: u64) -> Work {
        self.carried + quantity::moved(self.rate, now - self.settled_at).min(self.left)
    }
}
