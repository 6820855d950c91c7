//! What links have carried, for reports.

use crate::ids::LinkId;
use crate::network::fair::Shares;
use crate::network::quantity::{self, Rate, Work};
use crate::network::topology::Link;
use crate::units::SimDuration;

/// What a link has carried since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkUse {
    /// Bytes with the overhead of protocols.
    pub carried_bytes: f64,
    /// Flows whose latency was over.
    pub flows: u64,
    /// How long at least one flow was on the link.
    pub busy: SimDuration,
    /// The integral of the utilisation: how long the link would have taken at its whole capacity.
    pub full_s: f64,
}

#[derive(Debug, Clone, Default)]
struct Count {
    capacity: Rate,
    carried: Work,
    flows: u64,
    busy: u64,
    busy_since: u64,
}

/// Counts of every link. What flows carry is added when they leave their links.
#[derive(Debug)]
pub(super) struct Usage(Vec<Count>);

impl Usage {
    pub(super) fn new(links: &[Link]) -> Self {
        let count = |link: &Link| Count { capacity: link.capacity(), ..Count::default() };
        Self(links.iter().map(count).collect())
    }

    /// What a link carries at most while nothing is wrong with it.
    pub(super) fn capacity(&self, link: LinkId) -> Rate {
        self.0[link.index()].capacity
    }

    /// Counts a flow.
    pub(super) fn begin(&mut self, links: &[LinkId]) {
        for link in links {
            self.0[link.index()].flows += 1;
        }
    }

    /// A flow is about to join its links.
    pub(super) fn join(&mut self, links: &[LinkId], shares: &Shares, now: u64) {
        for link in links.iter().filter(|link| shares.on_link(**link).len() == 0) {
            self.0[link.index()].busy_since = now;
        }
    }

    /// A flow has left its links, having carried so much since it joined them.
    pub(super) fn leave(&mut self, links: &[LinkId], carried: Work, shares: &Shares, now: u64) {
        for link in links {
            let count = &mut self.0[link.index()];
            count.carried += carried;
            if shares.on_link(*link).len() == 0 {
                count.busy += now - count.busy_since;
            }
        }
    }

    /// A link's counts, with what each flow on it has carried since it joined its links.
    pub(super) fn of(
        &self,
        link: LinkId,
        carried: impl ExactSizeIterator<Item = Work>,
        now: u64,
    ) -> LinkUse {
        let count = &self.0[link.index()];
        let running = if carried.len() > 0 { now - count.busy_since } else { 0 };
        let carried = count.carried + carried.sum::<Work>();
        let carried_bytes = quantity::bytes(carried);
        LinkUse {
            carried_bytes,
            flows: count.flows,
            busy: SimDuration::from_nanos(count.busy + running),
            full_s: carried_bytes / quantity::bytes_per_s(count.capacity),
        }
    }
}
