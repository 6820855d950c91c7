//! The event queue: a total order over `(time, class, sequence)`.
//!
//! Events at one instant are handled by class (inputs before transfers before steps before
//! control), and within a class in the order they were pushed. No two runs of one scenario can
//! disagree about what comes first.
//!
//! The queue stays small (one step per instance, flows in flight, a few ticks) because arrivals
//! are merged from their sorted stream and never loaded into the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::SimTime;

/// What kind of event; at one instant lower classes are handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A request, abort or client action enters.
    Input = 0,
    /// A transfer ends.
    Transfer = 1,
    /// A step ends, or an idle instance starts one.
    Step = 2,
    /// A controller looks at the settled cluster.
    Control = 3,
}

/// The order of an event: time, then class, then sequence, in one comparable number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

const SEQ_BITS: u32 = 56;

impl Key {
    fn new(at: SimTime, class: Class, seq: u64) -> Self {
        debug_assert!(seq < 1 << SEQ_BITS, "sequence numbers are exhausted");
        Self(
            u128::from(at.as_nanos()) << 64 | u128::from(class as u8) << SEQ_BITS | u128::from(seq),
        )
    }

    fn time(self) -> SimTime {
        SimTime::from_nanos((self.0 >> 64) as u64)
    }
}

#[derive(Debug)]
struct Entry<E> {
    key: Reverse<Key>,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Pending events, earliest first.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    next_seq: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), next_seq: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event. O(log n).
    pub fn push(&mut self, at: SimTime, class: Class, event: E) {
        let key = Key::new(at, class, self.next_seq);
        self.next_seq += 1;
        self.heap.push(Entry { key: Reverse(key), event });
    }

    /// Removes the earliest event. O(log n).
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        self.heap.pop().map(|entry| (entry.key.0.time(), entry.event))
    }

    /// Removes the earliest event if it comes before an input at `at`, which is how a sorted
    /// stream of inputs is merged without entering the heap: inputs of the stream come before
    /// every queued event of their instant.
    pub fn pop_before_input(&mut self, at: SimTime) -> Option<(SimTime, E)> {
        let earliest = self.heap.peek()?.key.0.time();
        if earliest < at { self.pop() } else { None }
    }

    /// The number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_class_then_order_of_push() {
        let mut queue = EventQueue::default();
        let at = SimTime::from_nanos;
        queue.push(at(5), Class::Step, "step");
        queue.push(at(5), Class::Control, "control");
        queue.push(at(5), Class::Input, "first input");
        queue.push(at(3), Class::Control, "earlier");
        queue.push(at(5), Class::Input, "second input");
        queue.push(at(5), Class::Transfer, "transfer");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
        assert_eq!(
            order,
            ["earlier", "first input", "second input", "transfer", "step", "control"]
        );
    }

    #[test]
    fn a_streamed_input_precedes_queued_events_of_its_instant() {
        let mut queue = EventQueue::default();
        queue.push(SimTime::from_nanos(4), Class::Step, 4);
        queue.push(SimTime::from_nanos(5), Class::Input, 5);
        assert_eq!(queue.pop_before_input(SimTime::from_nanos(5)).map(|(_, e)| e), Some(4));
        assert_eq!(queue.pop_before_input(SimTime::from_nanos(5)), None);
    }
}
