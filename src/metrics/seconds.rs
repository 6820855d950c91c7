//! Counts by the second, however far seconds lie apart: memory grows with those that have any.

/// Seconds that are kept together.
const PAGE: usize = 1024;

/// How many came in each second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountsBySecond {
    /// In order; only those with something in them, so that equal counts are equal.
    pages: Vec<(usize, Box<[u64; PAGE]>)>,
}

impl CountsBySecond {
    /// So many come in a second.
    #[inline]
    pub(super) fn add(&mut self, second: usize, count: u64) {
        if count == 0 {
            return;
        }
        let page = second / PAGE;
        // Nearly all come in the page of those before.
        let place = match self.pages.last() {
            Some((last, _)) if *last == page => self.pages.len() - 1,
            _ => self.turn_to(page),
        };
        self.pages[place].1[second % PAGE] += count;
    }

    #[cold]
    fn turn_to(&mut self, page: usize) -> usize {
        self.pages.binary_search_by_key(&page, |(page, _)| *page).unwrap_or_else(|place| {
            self.pages.insert(place, (page, Box::new([0; PAGE])));
            place
        })
    }

    /// Those of others come to it.
    pub(super) fn join(&mut self, others: &Self) {
        for (second, count) in others.entries() {
            self.add(second, count);
        }
    }

    /// The seconds that have any, in order, and how many.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, u64)> {
        let seconds = self.pages.iter().flat_map(|(page, counts)| {
            counts.iter().enumerate().map(move |(second, count)| (page * PAGE + second, *count))
        });
        seconds.filter(|(_, count)| *count > 0)
    }

    /// The most inside in one second, of those who come in a second and are gone in another, which is no
    /// earlier.
    pub(super) fn peak_inside(come: &Self, gone: &Self) -> u64 {
        let mut gone = gone.entries().peekable();
        let (mut inside, mut most) = (0, 0);
        for (second, begun) in come.entries() {
            while let Some((_, ended)) = gone.next_if(|(end, _)| *end <= second) {
                inside -= ended;
            }
            inside += begun;
            most = most.max(inside);
        }
        most
    }

    /// The most in one second.
    pub fn peak(&self) -> u64 {
        self.entries().map(|(_, count)| count).max().unwrap_or(0)
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.entries().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_whatever_lies_between() {
        let (mut some, mut more) = (CountsBySecond::default(), CountsBySecond::default());
        for (second, count) in [(0, 3), (usize::MAX, 2), (1, 0), (0, 1)] {
            some.add(second, count);
        }
        more.add(PAGE, 5);
        more.add(0, 2);
        more.join(&some);
        assert_eq!((some.peak(), some.total()), (4, 6));
        assert_eq!((more.peak(), more.total()), (6, 13));
        assert!(more.entries().eq([(0, 6), (PAGE, 5), (usize::MAX, 2)]));
    }

    #[test]
    fn nothing_leaves_no_trace() {
        let mut none = CountsBySecond::default();
        none.add(7, 0);
        assert_eq!(none, CountsBySecond::default());
    }
}
