//! Which of the waiting requests is sent first: one file per order.

use super::drr::Drr;
use super::fcfs::Fcfs;
use super::priority::ByPriority;
use super::ticket::Ticket;
use super::vtc::Vtc;
use crate::ids::{InstanceId, RequestId};
use crate::scenario::GatewayOrder;

/// Requests that wait, in an order.
#[derive(Debug)]
pub enum Queue {
    /// First come, first sent.
    Fcfs(Fcfs),
    /// By priority.
    Priority(ByPriority),
    /// The tenant that was served least.
    Vtc(Vtc),
    /// Tenants in turn.
    Drr(Drr),
}

impl Queue {
    /// Nobody waits, of so many tenants.
    pub fn new(order: &GatewayOrder, tenants: usize) -> Self {
        match *order {
            GatewayOrder::Fcfs {} => Self::Fcfs(Fcfs::default()),
            GatewayOrder::Priority {} => Self::Priority(ByPriority::default()),
            GatewayOrder::Vtc { input_weight, output_weight } => {
                Self::Vtc(Vtc::new(tenants, input_weight, output_weight))
            }
            GatewayOrder::Drr { quantum_tokens } => Self::Drr(Drr::new(tenants, quantum_tokens)),
        }
    }

    /// A request comes to wait.
    pub fn push(&mut self, ticket: Ticket) {
        match self {
            Self::Fcfs(queue) => queue.push(ticket),
            Self::Priority(queue) => queue.push(ticket),
            Self::Vtc(queue) => queue.push(ticket),
            Self::Drr(queue) => queue.push(ticket),
        }
    }

    /// The request that is to be sent next.
    pub fn first(&mut self) -> Option<Ticket> {
        match self {
            Self::Fcfs(queue) => queue.first(),
            Self::Priority(queue) => queue.first(),
            Self::Vtc(queue) => queue.first(),
            Self::Drr(queue) => queue.first(),
        }
    }

    /// A request waits no longer, and is not sent.
    pub fn remove(&mut self, ticket: &Ticket) {
        match self {
            Self::Fcfs(queue) => queue.remove(ticket),
            Self::Priority(queue) => queue.remove(ticket),
            Self::Vtc(queue) => queue.remove(ticket),
            Self::Drr(queue) => queue.remove(ticket),
        }
    }

    /// A request is sent to an instance.
    pub fn sent(&mut self, ticket: &Ticket, instance: InstanceId) {
        match self {
            Self::Fcfs(queue) => queue.remove(ticket),
            Self::Priority(queue) => queue.remove(ticket),
            Self::Vtc(queue) => queue.sent(ticket, instance),
            Self::Drr(queue) => queue.sent(ticket),
        }
    }

    /// A request that was sent has left with an answer of so many tokens.
    pub fn left(&mut self, id: RequestId, tokens: u32) {
        if let Self::Vtc(queue) = self {
            queue.left(id, tokens);
        }
    }
}
