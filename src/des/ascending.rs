//! A queue of entries that come nearly in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Entries, the least first. One that is not below those before it stays in a list, at no cost; the
/// others go through a heap. Of equal ones any may come first.
#[derive(Debug, Clone)]
pub struct Ascending<T> {
    list: VecDeque<T>,
    others: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Default for Ascending<T> {
    fn default() -> Self {
        Self { list: VecDeque::new(), others: BinaryHeap::new() }
    }
}

impl<T: Ord> Ascending<T> {
    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, entry: T) {
        if self.list.back().is_none_or(|last| last.cmp(&entry).is_le()) {
            self.list.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    /// The least entry.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        if self.is_listed() { self.list.front() } else { self.others.peek().map(|other| &other.0) }
    }

    /// Removes the least entry.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_listed() {
            self.list.pop_front()
        } else {
            self.others.pop().map(|other| other.0)
        }
    }

    /// Whether the least entry is the first of the list.
    #[inline]
    fn is_listed(&self) -> bool {
        match (self.list.front(), self.others.peek()) {
            // `<=` of tuples is a call for each of their fields.
            (Some(first), Some(Reverse(other))) => first.cmp(other).is_le(),
            (first, _) => first.is_some(),
        }
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() + self.others.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.list.iter().chain(self.others.iter().map(|other| &other.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_come_out_in_order_whatever_the_order_they_came_in(
            moves in proptest::collection::vec(proptest::option::of((0_u64..50, 0_u32..4)), 0..200),
        ) {
            let (mut queue, mut plain) = (Ascending::default(), BinaryHeap::new());
            for entry in moves {
                if let Some(entry) = entry {
                    queue.push(entry);
                    plain.push(Reverse(entry));
                } else {
                    prop_assert_eq!(queue.peek(), plain.peek().map(|other| &other.0));
                    prop_assert_eq!(queue.pop(), plain.pop().map(|other| other.0));
                }
                prop_assert_eq!(queue.len(), plain.len());
                prop_assert_eq!(queue.iter().count(), plain.len());
            }
        }
    }
}
