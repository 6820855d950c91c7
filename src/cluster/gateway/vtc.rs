//! Virtual Token Counter (Sheng, Cao, Li, Zhu, Li, Zhuo, Gonzalez, Stoica: "Fairness in Serving Large
//! Language Models", OSDI 2024, algorithm 2), at the gateway instead of in an engine.
//!
//! Each tenant has a counter of what it was served: `input_weight` for every prompt token when a request
//! is sent, `output_weight` for every token of its answer when it comes out. The first request of the
//! tenant with the least counter is sent; of equal ones the request that came first. A tenant that
//! comes back after none of its requests waited has its counter lifted to the least of those that wait,
//! or, if nobody waits, to that of the tenant that was last to wait: what it did not ask for is lost.
//!
//! The gateway passes answers on, so it knows the tokens that have come out and not those to come.
//! While two tenants wait, what each was served differs from the other by at most
//! 2 · (`input_weight` · longest prompt + `output_weight` · tokens that come out of requests in flight).

use std::collections::BTreeMap;

use super::ticket::Ticket;
use crate::ids::{InstanceId, RequestId};

/// Tenants with what they were served and what of theirs waits.
#[derive(Debug)]
pub struct Vtc {
    input_weight: f64,
    output_weight: f64,
    tenants: Vec<Tenant>,
    /// The tenant whose last waiting request left last.
    last_to_wait: Option<usize>,
    in_flight: BTreeMap<RequestId, InFlight>,
}

#[derive(Debug, Default)]
struct Tenant {
    counter: f64,
    waiting: BTreeMap<u64, Ticket>,
}

/// A request that was sent and has not left.
#[derive(Debug)]
struct InFlight {
    tenant: usize,
    instance: InstanceId,
    /// Tokens of its answer that are counted.
    counted: u32,
}

impl Vtc {
    /// So many tenants, served nothing yet.
    pub fn new(tenants: usize, input_weight: f64, output_weight: f64) -> Self {
        Self {
            input_weight,
            output_weight,
            tenants: (0..tenants).map(|_| Tenant::default()).collect(),
            last_to_wait: None,
            in_flight: BTreeMap::new(),
        }
    }

    /// What a tenant was served, lifts included.
    pub fn counter(&self, tenant: u32) -> f64 {
        self.tenants[tenant as usize].counter
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        let place = ticket.tenant as usize;
        if self.tenants[place].waiting.is_empty() {
            let waiting = self.tenants.iter().filter(|tenant| !tenant.waiting.is_empty());
            let least = waiting.map(|tenant| tenant.counter).min_by(f64::total_cmp);
            let last = self.last_to_wait.map(|last| self.tenants[last].counter);
            let counter = &mut self.tenants[place].counter;
            *counter = counter.max(least.or(last).unwrap_or(0.0));
        }
        self.tenants[place].waiting.insert(ticket.number, ticket);
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        let first = |tenant: &Tenant| {
            let (_, ticket) = tenant.waiting.first_key_value()?;
            Some((tenant.counter, *ticket))
        };
        let firsts = self.tenants.iter().filter_map(first);
        let least = firsts.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
        least.map(|(_, ticket)| ticket)
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) {
        let tenant = &mut self.tenants[ticket.tenant as usize];
        let was_there = tenant.waiting.remove(&ticket.number).is_some();
        if was_there && tenant.waiting.is_empty() {
            self.last_to_wait = Some(ticket.tenant as usize);
        }
    }

    pub(super) fn sent(&mut self, ticket: &Ticket, instance: InstanceId) {
        self.remove(ticket);
        let tenant = ticket.tenant as usize;
        self.tenants[tenant].counter += self.input_weight * f64::from(ticket.prompt_tokens);
        self.in_flight.insert(ticket.request, InFlight { tenant, instance, counted: 0 });
    }

    /// The instances that requests were sent to, once for each request.
    pub fn serving(&self) -> impl Iterator<Item = InstanceId> {
        self.in_flight.values().map(|flight| flight.instance)
    }

    /// Counts the tokens that have come out, of each request as `generated` knows it.
    pub fn count(&mut self, generated: impl Fn(RequestId, InstanceId) -> Option<u32>) {
        for (id, flight) in &mut self.in_flight {
            if let Some(tokens) = generated(*id, flight.instance) {
                let tenant = &mut self.tenants[flight.tenant];
                tenant.counter += self.output_weight * flight.take(tokens);
            }
        }
    }

    /// A request has left with an answer of so many tokens.
    pub(super) fn left(&mut self, id: RequestId, tokens: u32) {
        if let Some(mut flight) = self.in_flight.remove(&id) {
            self.tenants[flight.tenant].counter += self.output_weight * flight.take(tokens);
        }
    }
}

impl InFlight {
    /// The tokens that are not counted yet. An instance that crashed may know of fewer than came out.
    fn take(&mut self, tokens: u32) -> f64 {
        let more = tokens.saturating_sub(self.counted);
        self.counted += more;
        f64::from(more)
    }
}
