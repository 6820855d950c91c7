//! The waiting queue under either policy.

use std::collections::{BTreeMap, VecDeque};

use super::sequence::Order;
use crate::scenario::Policy;

/// Slots of waiting requests, next to be admitted first.
#[derive(Debug)]
pub(super) enum Queue {
    Fcfs(VecDeque<u32>),
    Priority(BTreeMap<Order, u32>),
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        match policy {
            Policy::Fcfs => Self::Fcfs(VecDeque::new()),
            Policy::Priority => Self::Priority(BTreeMap::new()),
        }
    }

    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Fcfs(queue) => queue.len() as u32,
            Self::Priority(queue) => queue.len() as u32,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn head(&self) -> Option<u32> {
        match self {
            Self::Fcfs(queue) => queue.front().copied(),
            Self::Priority(queue) => queue.values().next().copied(),
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Fcfs(queue) => queue.pop_front(),
            Self::Priority(queue) => queue.pop_first().map(|(_, slot)| slot),
        }
    }

    pub(super) fn push_back(&mut self, slot: u32, order: Order) {
        match self {
            Self::Fcfs(queue) => queue.push_back(slot),
            Self::Priority(queue) => {
                queue.insert(order, slot);
            }
        }
    }

    /// Puts a request before all others, as far as the policy allows.
    pub(super) fn push_front(&mut self, slot: u32, order: Order) {
        match self {
            Self::Fcfs(queue) => queue.push_front(slot),
            Self::Priority(queue) => {
                queue.insert(order, slot);
            }
        }
    }

    /// Takes a request out wherever it stands, if it is here.
    pub(super) fn remove(&mut self, slot: u32, order: Order) {
        match self {
            Self::Fcfs(queue) => queue.retain(|&other| other != slot),
            Self::Priority(queue) => {
                queue.remove(&order);
            }
        }
    }
}
