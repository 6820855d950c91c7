//! When each of many wants to be called again: the earliest of times that change often.
//!
//! Times stand in an array in blocks of 64, with the least of each block beside it. A change is a
//! store and a mark; the least of a marked block is found anew when the earliest is asked for. Where
//! one change in the network moves half of the times this does less than a heap.

const BLOCK: usize = 64;
/// Times in nanoseconds, by number.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    at: Vec<u64>,
    least: Vec<u64>,
    is_stale: Vec<bool>,
    /// The earliest time, unless it may be another now.
    earliest: Option<u64>,
}

impl Wakes {
    /// The time of what does not want to be called.
    pub(super) const NEVER: u64 = u64::MAX;

    /// Makes room for one more.
    pub(super) fn push(&mut self) {
        if self.at.len().is_multiple_of(BLOCK) {
            self.least.push(Self::NEVER);
            self.is_stale.push(false);
        }
        self.at.push(Self::NEVER);
    }

    pub(super) fn set(&mut self, index: usize, at: u64) {
        self.at[index] = at;
        self.earliest = None;
        self.is_stale[index / BLOCK] = true;
    }

    pub(super) fn clear(&mut self, index: usize) {
        self.set(index, Self::NEVER);
    }

    /// The earliest time.
    pub(super) fn first(&mut self) -> Option<u64> {
        let earliest = self.earliest.unwrap_or_else(|| self.find_earliest());
        self.earliest = Some(earliest);
        Some(earliest).filter(|at| *at != Self::NEVER)
    }

    fn find_earliest(&mut self) -> u64 {
        for (block, is_stale) in self.is_stale.iter_mut().enumerate() {
            if std::mem::take(is_stale) {
                let end = self.at.len().min((block + 1) * BLOCK);
                self.least[block] = least(&self.at[block * BLOCK..end]);
            }
        }
        least(&self.least)
    }

    /// The lowest number at or after `from` whose time is `at`.
    pub(super) fn index_at(&self, at: u64, from: usize) -> Option<usize> {
        let mut index = from;
        while index < self.at.len() {
            let block = index / BLOCK;
            let end = self.at.len().min((block + 1) * BLOCK);
            if self.is_stale[block] || self.least[block] <= at {
                let found = self.at[index..end].iter().position(|time| *time == at);
                if let Some(offset) = found {
                    return Some(index + offset);
                }
            }
            index = end;
        }
        None
    }
}

fn least(times: &[u64]) -> u64 {
    times.iter().copied().min().unwrap_or(Wakes::NEVER)
}
