//! Leaves to evict, in order of access.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::NodeId;

/// A node by the access that it is due for.
type Entry = (u64, NodeId);

/// A queue, oldest access first. Nearly all entries come in order and stay in a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Due {
    ascending: VecDeque<Entry>,
    others: BinaryHeap<Reverse<Entry>>,
}

impl Due {
    pub(super) fn push(&mut self, entry: Entry) {
        if self.ascending.back().is_none_or(|last| *last < entry) {
            self.ascending.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        match (self.ascending.front(), self.others.peek()) {
            (Some(first), Some(Reverse(other))) if other < first => {}
            (Some(_), _) => return self.ascending.pop_front(),
            (None, _) => {}
        }
        self.others.pop().map(|Reverse(entry)| entry)
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
            let (mut due, mut plain) = (Due::default(), BinaryHeap::new());
            for entry in moves {
                if let Some(entry) = entry {
                    due.push(entry);
                    plain.push(Reverse(entry));
                } else {
                    prop_assert_eq!(due.pop(), plain.pop().map(|Reverse(entry)| entry));
                }
            }
        }
    }
}
