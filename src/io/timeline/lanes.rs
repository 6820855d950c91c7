//! Where the requests of an instance are drawn: side by side, in as few rows as overlap.

use std::collections::BTreeSet;

use crate::units::SimTime;

/// The rows of an instance. Spans come in the order of their ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    /// Until when each is taken.
    taken: BTreeSet<(SimTime, u32)>,
}

impl Lanes {
    /// The row for a span that ends no earlier than those before, and whether it is a new one.
    ///
    /// Of the rows that are free it is the one taken last, which leaves those free for longer to spans
    /// that began earlier.
    pub(super) fn place(&mut self, from: SimTime, until: SimTime) -> (u32, bool) {
        let free = self.taken.range(..=(from, u32::MAX)).next_back().copied();
        let lane = match free {
            Some(row) => {
                self.taken.remove(&row);
                row.1
            }
            None => self.taken.len() as u32,
        };
        self.taken.insert((until, lane));
        (lane, free.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SimDuration;

    #[test]
    fn spans_that_overlap_are_drawn_in_rows_of_their_own() {
        let at = |millis| SimTime::ZERO + SimDuration::from_millis(millis);
        let mut lanes = Lanes::default();
        let mut place = |from, until| lanes.place(at(from), at(until));
        assert_eq!(place(0, 10), (0, true));
        assert_eq!(place(5, 12), (1, true));
        // Both rows are free at 13; that taken until 12 leaves the other to what began before.
        assert_eq!(place(13, 14), (1, false));
        assert_eq!(place(11, 15), (0, false));
        assert_eq!(place(0, 15), (2, true));
    }
}
