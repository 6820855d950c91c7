//! First come, first sent.

use std::collections::BTreeMap;

use super::ticket::Ticket;

/// Requests in the order in which they came.
#[derive(Debug, Default)]
pub struct Fcfs {
    waiting: BTreeMap<u64, Ticket>,
}

impl Fcfs {
    pub(super) fn push(&mut self, ticket: Ticket) {
        self.waiting.insert(ticket.number, ticket);
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiting.first_key_value().map(|(_, ticket)| *ticket)
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) {
        self.waiting.remove(&ticket.number);
    }
}
