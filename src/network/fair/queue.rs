//! Links that wait to be looked at, by level.
//!
//! Levels fall into steps of 1/64 to 1/32 of themselves. Within a step the order is that of a
//! stack, which decides how much is done twice, never what comes out.

use crate::network::quantity::Rate;

/// log₂ of the steps from a power of two to the next.
const STEP_BITS: u32 = 5;
const STEPS: usize = 64 << STEP_BITS;
const NOBODY: u32 = u32::MAX;

/// How far a level is shifted to leave the number of its step.
fn shift(level: Rate) -> u32 {
    (level | 1 << STEP_BITS).ilog2() - STEP_BITS
}

/// The links, each at most once: a stack for every step.
#[derive(Debug)]
pub(super) struct Queue {
    tops: Box<[u32; STEPS]>,
    /// The link below, by link.
    below: Vec<u32>,
    /// A bit for every stack that is not empty.
    is_used: [u64; STEPS / 64],
    /// No bit is set in a word before this.
    lowest: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        let tops = Box::new([NOBODY; STEPS]);
        Self { tops, below: Vec::new(), is_used: [0; STEPS / 64], lowest: 0 }
    }

    /// Makes room for one more link.
    pub(super) fn push_link(&mut self) {
        self.below.push(NOBODY);
    }

    /// Adds a link that is not inside.
    pub(super) fn put(&mut self, link: u32, level: Rate) {
        let shift = shift(level);
        let step = (((shift as usize) << STEP_BITS) + (level >> shift) as usize) % STEPS;
        self.below[link as usize] = std::mem::replace(&mut self.tops[step], link);
        self.is_used[step / 64] |= 1 << (step % 64);
        self.lowest = self.lowest.min(step / 64);
    }

    /// Takes out a link of the lowest step.
    pub(super) fn pop(&mut self) -> Option<u32> {
        while *self.is_used.get(self.lowest)? == 0 {
            self.lowest += 1;
        }
        let word = self.lowest;
        let step = word * 64 + self.is_used[word].trailing_zeros() as usize;
        let link = self.tops[step];
        self.tops[step] = self.below[link as usize];
        if self.tops[step] == NOBODY {
            self.is_used[word] &= self.is_used[word] - 1;
        }
        Some(link)
    }
}
