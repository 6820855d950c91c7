//! Sets of ranks, as bits; those of fleets of up to 64 ranks take no memory of their own.

use super::Rank;

/// A set of ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RankSet {
    first: u64,
    more: Vec<u64>,
}

impl RankSet {
    pub(super) fn of(rank: Rank) -> Self {
        let mut set = Self::default();
        set.insert(rank);
        set
    }

    pub(super) fn insert(&mut self, rank: Rank) {
        let (word, bit) = place(rank);
        match word.checked_sub(1) {
            None => self.first |= bit,
            Some(word) => {
                if self.more.len() <= word {
                    self.more.resize(word + 1, 0);
                }
                self.more[word] |= bit;
            }
        }
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        let (word, bit) = place(rank);
        match word.checked_sub(1) {
            None => self.first &= !bit,
            Some(word) if word < self.more.len() => self.more[word] &= !bit,
            Some(_) => {}
        }
    }

    pub(super) fn contains(&self, rank: Rank) -> bool {
        let (word, bit) = place(rank);
        match word.checked_sub(1) {
            None => self.first & bit != 0,
            Some(word) => self.more.get(word).is_some_and(|bits| bits & bit != 0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == 0 && self.more.iter().all(|bits| *bits == 0)
    }

    pub(super) fn len(&self) -> u32 {
        self.first.count_ones() + self.more.iter().map(|bits| bits.count_ones()).sum::<u32>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Rank> {
        let words = std::iter::once(self.first).chain(self.more.iter().copied());
        words.enumerate().flat_map(|(word, bits)| {
            let start = word as u32 * 64;
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|bits| *bits != 0)
                .map(move |bits| Rank(start + bits.trailing_zeros()))
        })
    }
}

fn place(rank: Rank) -> (usize, u64) {
    ((rank.0 / 64) as usize, 1 << (rank.0 % 64))
}
