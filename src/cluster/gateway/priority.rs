//! By priority, then first come, first sent. Nothing ages: requests of a late priority wait as long as
//! others come.

use std::collections::BTreeMap;

use super::ticket::Ticket;

/// Requests by rank, and of one rank in the order in which they came.
#[derive(Debug, Default)]
pub struct ByPriority {
    waiting: BTreeMap<(i64, u64), Ticket>,
}

impl ByPriority {
    pub(super) fn push(&mut self, ticket: Ticket) {
        self.waiting.insert((ticket.rank, ticket.number), ticket);
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiting.first_key_value().map(|(_, ticket)| *ticket)
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) {
        self.waiting.remove(&(ticket.rank, ticket.number));
    }
}
