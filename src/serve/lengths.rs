//! How long answers are.

use crate::rng::{Seed, Stream};

use rand::RngExt;

/// A limit, and how long the answer will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) output_tokens: u32,
    pub(super) max_tokens: u32,
}

/// Where the length of an answer comes from.
#[derive(Debug)]
pub(super) struct Lengths {
    /// Those of the workload.
    of_workload: Vec<u32>,
    /// Whether answers with a limit are drawn too, and end at it at the latest.
    draws_all: bool,
    stream: Stream,
}

impl Lengths {
    /// Answers as long as their limit, or drawn from these lengths: those without a limit, or all.
    pub(super) fn new(of_workload: Vec<u32>, draws_all: bool, seed: Seed) -> Self {
        Self { of_workload, draws_all, stream: seed.stream("answers", 0) }
    }

    /// The length of the next answer, which is asked for with this limit, has so many tokens at least, and may not
    /// end by itself.
    pub(super) fn draw(&mut self, asked: Option<u32>, at_least: u32, ignore_eos: bool) -> Drawn {
        match asked {
            Some(limit) if ignore_eos || !self.draws_all => {
                Drawn { output_tokens: limit, max_tokens: limit }
            }
            _ => {
                let place = self.stream.random_range(0..self.of_workload.len().max(1));
                let drawn = self.of_workload.get(place).copied().unwrap_or(1).max(at_least);
                let max_tokens = asked.unwrap_or(drawn);
                Drawn { output_tokens: drawn.min(max_tokens).max(1), max_tokens }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_they_are_asked_to_be_unless_all_are_drawn() {
        let mut asked = Lengths::new(vec![50], false, Seed(1));
        assert_eq!(asked.draw(Some(7), 0, false), Drawn { output_tokens: 7, max_tokens: 7 });
        assert_eq!(asked.draw(None, 0, false), Drawn { output_tokens: 50, max_tokens: 50 });
        let mut drawn = Lengths::new(vec![50], true, Seed(1));
        assert_eq!(drawn.draw(Some(70), 0, false), Drawn { output_tokens: 50, max_tokens: 70 });
        assert_eq!(drawn.draw(Some(7), 0, false), Drawn { output_tokens: 7, max_tokens: 7 });
        assert_eq!(drawn.draw(Some(70), 60, false), Drawn { output_tokens: 60, max_tokens: 70 });
        assert_eq!(drawn.draw(Some(70), 0, true), Drawn { output_tokens: 70, max_tokens: 70 });
    }
}
