//! Sets of ranks, as bits; those of fleets of up to 64 ranks take no memory of their own.

use super::Rank;

/// A set of ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RankSet {
    first: u64,
    /// Boxed, as there are many sets.
    more: Option<Box<More>>,
}

/// Those of ranks from 64 on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct More(Vec<u64>);

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
                let More(more) = &mut **self.more.get_or_insert_default();
                if more.len() <= word {
                    more.resize(word + 1, 0);
                }
                more[word] |= bit;
            }
        }
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        let (word, bit) = place(rank);
        match word.checked_sub(1) {
            None => self.first &= !bit,
            Some(word) => {
                if let Some(bits) = self.more.as_mut().and_then(|more| more.0.get_mut(word)) {
                    *bits &= !bit;
                }
            }
        }
    }

    pub(super) fn contains(&self, rank: Rank) -> bool {
        let (word, bit) = place(rank);
        match word.checked_sub(1) {
            None => self.first & bit != 0,
            Some(word) => self.more().get(word).is_some_and(|bits| bits & bit != 0),
        }
    }

    fn more(&self) -> &[u64] {
        self.more.as_ref().map_or(&[], |more| &more.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == 0 && self.more().iter().all(|bits| *bits == 0)
    }

    pub(super) fn len(&self) -> u32 {
        self.first.count_ones() + self.more().iter().map(|bits| bits.count_ones()).sum::<u32>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Rank> {
        let words = std::iter::once(self.first).chain(self.more().iter().copied());
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
