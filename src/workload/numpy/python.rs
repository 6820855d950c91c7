//! Python's `random` module: the twister seeded by the words of an integer, and the draws of
//! `shuffle` and `choice` (Python 3.12, `Lib/random.py`: bits of the bound, rejected above it).

use super::Mt19937;

/// The global generator of Python after `random.seed(seed)`.
#[derive(Debug, Clone)]
pub struct PythonRandom {
    bits: Mt19937,
}

impl PythonRandom {
    /// `random.seed(seed)`.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = [low, high];
        Self { bits: Mt19937::from_words(if high == 0 { &words[..1] } else { &words }) }
    }

    /// `random()`: uniform in [0, 1).
    pub fn random(&mut self) -> f64 {
        self.bits.next_f64()
    }

    /// `randrange(bound)`: uniform in `0 .. bound`, also the index that `choice` picks.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "there is nothing to choose from");
        loop {
            let value = self.bits.next_u32() >> bound.leading_zeros();
            if value < bound {
                return value;
            }
        }
    }

    /// `shuffle(items)`.
    ///
    /// # Panics
    /// When there are 2³² items or more.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u32::try_from(last + 1).expect("fewer than 2^32 items are shuffled");
            items.swap(last, self.below(bound) as usize);
        }
    }

    /// Passes over `count` calls of `random()`.
    pub fn skip(&mut self, count: u64) {
        self.bits.skip(2 * count);
    }
}
