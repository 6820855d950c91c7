//! Where the router draws: a stream of random numbers, or whoever knows what was drawn.

use rand::RngExt;

use crate::rng::Stream;

/// Draws whole numbers.
pub(crate) trait Draw {
    /// One of `0 .. count`, each as likely as the others; `count` is at least 1.
    fn below(&mut self, count: usize) -> usize;
}

impl Draw for Stream {
    fn below(&mut self, count: usize) -> usize {
        self.random_range(0..count)
    }
}
