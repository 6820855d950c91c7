//! The waiting queue under either policy.

use std::collections::{BTreeMap, VecDeque};

use super::lanes::{Lanes, Place};
use super::sequence::Order;
use super::settings::VllmV1Settings;
use crate::ids::AdapterId;
use crate::scenario::Policy;

/// Slots of waiting requests, next to be admitted first.
#[derive(Debug, Clone)]
pub(super) enum Queue {
    Fcfs(VecDeque<u32>),
    /// First come, first served, among those whose adapter has a slot.
    Lanes(Lanes),
    Priority(BTreeMap<Order, u32>),
}

/// Who a waiting request is, as far as its place depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) order: Order,
    pub(super) adapter: Option<AdapterId>,
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        match policy {
            Policy::Fcfs => Self::Fcfs(VecDeque::new()),
            Policy::Priority => Self::Priority(BTreeMap::new()),
        }
    }

    /// The queue of an engine. Where prefill is held, it counts who was passed over: it looks at each.
    pub(super) fn of(settings: &VllmV1Settings) -> Self {
        let looks_at_each = settings.prefill_schedule_interval > 1;
        match (settings.policy, settings.max_loras) {
            (Policy::Fcfs, Some(_)) if !looks_at_each => Self::Lanes(Lanes::default()),
            (policy, _) => Self::new(policy),
        }
    }

    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Fcfs(queue) => queue.len() as u32,
            Self::Lanes(lanes) => lanes.len(),
            Self::Priority(queue) => queue.len() as u32,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn head(&self) -> Option<u32> {
        match self {
            Self::Fcfs(queue) => queue.front().copied(),
            Self::Lanes(lanes) => lanes.head(|_| true).map(|place| place.1),
            Self::Priority(queue) => queue.values().next().copied(),
        }
    }

    /// Whether nobody in it can be admitted, whatever else holds.
    #[inline]
    pub(super) fn has_nobody(&self, is_served: impl Fn(Option<AdapterId>) -> bool) -> bool {
        match self {
            Self::Lanes(lanes) => lanes.head(is_served).is_none(),
            _ => self.is_empty(),
        }
    }

    /// Takes out the request that is next; one whose adapter is not served may be, and is then to be
    /// passed over.
    #[inline]
    pub(super) fn pop(&mut self, is_served: impl Fn(Option<AdapterId>) -> bool) -> Option<Place> {
        match self {
            Self::Fcfs(queue) => queue.pop_front().map(|slot| (0, slot)),
            Self::Lanes(lanes) => lanes.pop(is_served),
            Self::Priority(queue) => queue.pop_first().map(|(_, slot)| (0, slot)),
        }
    }

    /// Puts back what was taken out; of several, the last first.
    pub(super) fn put_back(&mut self, place: Place, key: Key) {
        match self {
            Self::Lanes(lanes) => lanes.put_back(place, key.adapter),
            _ => self.push_front(place.1, key),
        }
    }

    #[inline]
    pub(super) fn push_back(&mut self, slot: u32, key: Key) {
        match self {
            Self::Fcfs(queue) => queue.push_back(slot),
            Self::Lanes(lanes) => lanes.push_back(slot, key.adapter),
            Self::Priority(queue) => {
                queue.insert(key.order, slot);
            }
        }
    }

    /// Puts a request before all others, as far as the policy allows.
    pub(super) fn push_front(&mut self, slot: u32, key: Key) {
        match self {
            Self::Fcfs(queue) => queue.push_front(slot),
            Self::Lanes(lanes) => lanes.push_front(slot, key.adapter),
            Self::Priority(queue) => {
                queue.insert(key.order, slot);
            }
        }
    }

    /// Takes a request out wherever it stands, if it is here.
    pub(super) fn remove(&mut self, slot: u32, key: Key) {
        match self {
            Self::Fcfs(queue) => queue.retain(|&other| other != slot),
            Self::Lanes(lanes) => lanes.remove(slot),
            Self::Priority(queue) => {
                queue.remove(&key.order);
            }
        }
    }
}
