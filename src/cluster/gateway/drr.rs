//! Deficit round robin over tenants by prompt tokens (Shreedhar and Varghese, "Efficient Fair Queuing
//! Using Deficit Round-Robin", IEEE/ACM Transactions on Networking 4(3), 1996).
//!
//! Tenants with waiting requests take turns. A turn adds the quantum to a tenant's deficit, and it sends
//! requests while the first one's prompt is no longer than that. What is left of the deficit is kept for
//! the next turn unless nothing of the tenant waits. While two tenants wait, the prompt tokens they sent
//! differ by at most the quantum and twice the longest prompt. Answers do not count.

use std::collections::{BTreeMap, VecDeque};

use super::ticket::Ticket;

/// Tenants in turn.
#[derive(Debug)]
pub struct Drr {
    quantum: u64,
    tenants: Vec<Tenant>,
    /// Tenants with waiting requests; it is the turn of the first.
    turns: VecDeque<usize>,
    /// Whether the first has its quantum of this turn.
    has_quantum: bool,
}

#[derive(Debug, Default)]
struct Tenant {
    deficit: u64,
    waiting: BTreeMap<u64, Ticket>,
}

impl Tenant {
    /// Prompt tokens that its first request lacks.
    fn lacks(&self) -> u64 {
        let first = self.waiting.first_key_value();
        first.map_or(0, |(_, ticket)| u64::from(ticket.prompt_tokens).saturating_sub(self.deficit))
    }
}

impl Drr {
    /// So many tenants of which nothing waits.
    pub fn new(tenants: usize, quantum_tokens: u32) -> Self {
        Self {
            quantum: u64::from(quantum_tokens.max(1)),
            tenants: (0..tenants).map(|_| Tenant::default()).collect(),
            turns: VecDeque::new(),
            has_quantum: false,
        }
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        let place = ticket.tenant as usize;
        if self.tenants[place].waiting.is_empty() {
            self.turns.push_back(place);
        }
        self.tenants[place].waiting.insert(ticket.number, ticket);
    }

    /// The next request; the same one until it is sent or removed, or others come.
    pub(super) fn first(&mut self) -> Option<Ticket> {
        let mut passed = 0;
        loop {
            let place = *self.turns.front()?;
            if !std::mem::replace(&mut self.has_quantum, true) {
                self.tenants[place].deficit += self.quantum;
            }
            let tenant = &self.tenants[place];
            if tenant.lacks() == 0 {
                return tenant.waiting.first_key_value().map(|(_, ticket)| *ticket);
            }
            self.end_turn();
            passed += 1;
            if passed == self.turns.len() {
                self.skip_rounds();
                passed = 0;
            }
        }
    }

    fn end_turn(&mut self) {
        self.turns.rotate_left(1);
        self.has_quantum = false;
    }

    /// Rounds in which nobody could send anything, at once.
    fn skip_rounds(&mut self) {
        let rounds = |&place: &usize| self.tenants[place].lacks().div_ceil(self.quantum);
        let skipped = self.turns.iter().map(rounds).min().unwrap_or(1).saturating_sub(1);
        for &place in &self.turns {
            self.tenants[place].deficit += skipped * self.quantum;
        }
    }

    pub(super) fn sent(&mut self, ticket: &Ticket) {
        let tenant = &mut self.tenants[ticket.tenant as usize];
        tenant.deficit = tenant.deficit.saturating_sub(u64::from(ticket.prompt_tokens));
        self.remove(ticket);
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) {
        let place = ticket.tenant as usize;
        let tenant = &mut self.tenants[place];
        let was_there = tenant.waiting.remove(&ticket.number).is_some();
        if was_there && tenant.waiting.is_empty() {
            tenant.deficit = 0;
            if self.turns.front() == Some(&place) {
                self.has_quantum = false;
            }
            self.turns.retain(|other| *other != place);
        }
    }
}
