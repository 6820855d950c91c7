//! The event queue: a total order over `(time, class, sequence)`.
//!
//! Events at one instant are handled by class (inputs before transfers before steps before
//! control), and within a class in the order they were pushed. No two runs of one scenario can
//! disagree about what comes first.
//!
//! The queue stays small (one step per instance, flows in flight, a few ticks) because arrivals
//! are merged from their sorted stream and never loaded into the heap.

mod ascending;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::SimTime;

pub use ascending::Ascending;

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

/// The order of an event: time, then class, then sequence or rank, in one comparable number.
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
    /// Whether the first entry has been handed out. It stays until another one takes its place:
    /// to handle an event is to push one, most often.
    is_first_out: bool,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), next_seq: 0, is_first_out: false }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Adds an event. O(log n).
    #[inline]
    pub fn push(&mut self, at: SimTime, class: Class, event: E) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.push_ranked(at, class, seq, event);
    }

    /// Adds an event that comes in the order of its rank among those of its class and instant, however
    /// early it was added. A class has either ranks or the order in which events were added. O(log n).
    #[inline]
    pub fn push_ranked(&mut self, at: SimTime, class: Class, rank: u64, event: E) {
        let entry = Entry { key: Reverse(Key::new(at, class, rank)), event };
        match self.heap.peek_mut() {
            Some(mut first) if std::mem::take(&mut self.is_first_out) => *first = entry,
            first => {
                drop(first);
                self.heap.push(entry);
            }
        }
    }

    /// Removes the earliest event. O(log n).
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        self.drop_first_out();
        let Entry { key, event } = self.heap.peek()?;
        self.is_first_out = true;
        Some((key.0.time(), *event))
    }

    /// Removes the earliest event if it comes before an input at `at`, which is how a sorted
    /// stream of inputs is merged without entering the heap: inputs of the stream come before
    /// every queued event of their instant.
    pub fn pop_before_input(&mut self, at: SimTime) -> Option<(SimTime, E)> {
        self.drop_first_out();
        let earliest = self.heap.peek()?.key.0.time();
        if earliest < at { self.pop() } else { None }
    }

    /// When the earliest event is due. O(log n) after one was removed, else O(1).
    pub fn next_time(&mut self) -> Option<SimTime> {
        self.drop_first_out();
        self.heap.peek().map(|first| first.key.0.time())
    }

    fn drop_first_out(&mut self) {
        if std::mem::take(&mut self.is_first_out) {
            self.heap.pop();
        }
    }

    /// The number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.is_first_out)
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn events_come_in_order_however_pushes_and_pops_follow_one_another(
            moves in proptest::collection::vec(proptest::option::of(0_u64..20), 0..200),
        ) {
            let (mut queue, mut plain) = (EventQueue::default(), std::collections::BTreeSet::new());
            for (seq, at) in moves.into_iter().enumerate() {
                if let Some(at) = at {
                    queue.push(SimTime::from_nanos(at), Class::Step, seq);
                    plain.insert((SimTime::from_nanos(at), seq));
                } else {
                    prop_assert_eq!(queue.pop(), plain.pop_first());
                }
                prop_assert_eq!(queue.len(), plain.len());
            }
        }
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
