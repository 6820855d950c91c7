//! When each flow wants to be called again: the earliest of many times that change often.
//!
//! Times stand in an array in blocks of 64, with the least of each block beside it. A change is a
//! store and a mark; the least of a marked block is found anew when the earliest is asked for. Where
//! one change in the network moves the ends of a third of all flows this does less than a heap.

const BLOCK: usize = 64;
const NEVER: u64 = u64::MAX;

/// Times in nanoseconds by slot.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    at: Vec<u64>,
    least: Vec<u64>,
    is_stale: Vec<bool>,
}

impl Wakes {
    /// Makes room for one more slot.
    pub(super) fn push(&mut self) {
        if self.at.len().is_multiple_of(BLOCK) {
            self.least.push(NEVER);
            self.is_stale.push(false);
        }
        self.at.push(NEVER);
    }

    pub(super) fn set(&mut self, slot: usize, at: u64) {
        self.at[slot] = at;
        self.is_stale[slot / BLOCK] = true;
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.set(slot, NEVER);
    }

    /// The earliest time.
    pub(super) fn first(&mut self) -> Option<u64> {
        for (block, is_stale) in self.is_stale.iter_mut().enumerate() {
            if std::mem::take(is_stale) {
                let end = self.at.len().min((block + 1) * BLOCK);
                self.least[block] = least(&self.at[block * BLOCK..end]);
            }
        }
        Some(least(&self.least)).filter(|at| *at != NEVER)
    }

    /// The lowest slot at or after `from` whose time is `at`.
    pub(super) fn slot_at(&self, at: u64, from: usize) -> Option<usize> {
        let mut slot = from;
        while slot < self.at.len() {
            let block = slot / BLOCK;
            let end = self.at.len().min((block + 1) * BLOCK);
            if self.is_stale[block] || self.least[block] <= at {
                let found = self.at[slot..end].iter().position(|time| *time == at);
                if let Some(offset) = found {
                    return Some(slot + offset);
                }
            }
            slot = end;
        }
        None
    }
}

fn least(times: &[u64]) -> u64 {
    times.iter().copied().min().unwrap_or(NEVER)
}
