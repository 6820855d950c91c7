//! Tokens by the second, however long a run lasts: memory grows with the seconds in which some came.

/// Seconds that are kept together.
const PAGE: usize = 1024;

/// How many tokens came out in each second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokensBySecond {
    /// Nothing where none came, so that equal counts are equal.
    pages: Vec<Option<Box<[u64; PAGE]>>>,
}

impl TokensBySecond {
    /// Tokens came out in a second.
    #[inline]
    pub(super) fn add(&mut self, second: usize, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let page = second / PAGE;
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]))[second % PAGE] += tokens;
    }

    /// Those of other instances come to it.
    pub(super) fn join(&mut self, others: &Self) {
        for (page, seconds) in others.pages.iter().enumerate() {
            for (second, tokens) in seconds.iter().flat_map(|page| page.iter()).enumerate() {
                self.add(page * PAGE + second, *tokens);
            }
        }
    }

    fn seconds(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().flatten().flat_map(|page| page.iter().copied())
    }

    /// The most in one second.
    pub fn peak(&self) -> u64 {
        self.seconds().max().unwrap_or(0)
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.seconds().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_whatever_lies_between() {
        let (mut some, mut more) = (TokensBySecond::default(), TokensBySecond::default());
        for (second, tokens) in [(0, 3), (1_000_000_000, 2), (1, 0), (0, 1)] {
            some.add(second, tokens);
        }
        more.add(PAGE, 5);
        more.add(0, 2);
        more.join(&some);
        assert_eq!((some.peak(), some.total()), (4, 6));
        assert_eq!((more.peak(), more.total()), (6, 13));
        assert_eq!(some.pages.iter().flatten().count(), 2);
    }

    #[test]
    fn no_tokens_leave_no_trace() {
        let mut none = TokensBySecond::default();
        none.add(7, 0);
        assert_eq!(none, TokensBySecond::default());
    }
}
