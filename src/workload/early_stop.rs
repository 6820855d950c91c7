//! Answers that end before their limit.

use rand::RngExt;

use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::EarlyStopConfig;

/// Draws where answers end by themselves.
#[derive(Debug)]
pub(super) struct EarlyStop {
    kinds: Vec<EarlyStopConfig>,
    stream: Box<Stream>,
}

impl EarlyStop {
    /// Nothing where all answers run to their limit.
    pub(super) fn open(kinds: &[EarlyStopConfig], seed: Seed) -> Option<Self> {
        let stream = || Box::new(seed.stream("early stop", 0));
        (!kinds.is_empty()).then(|| Self { kinds: kinds.to_vec(), stream: stream() })
    }

    /// The tokens of the next answer, whose limit is `limit`.
    pub(super) fn next(&mut self, limit: u32) -> u32 {
        let (kind, length): (f64, f64) = (self.stream.random(), self.stream.random());
        let mut below = 0.0;
        for each in &self.kinds {
            below += each.share;
            if kind < below {
                return geometric(each.mean_tokens, length).min(limit);
            }
        }
        limit
    }
}

/// The smallest number of tokens whose probability to have ended exceeds a uniform number.
fn geometric(mean_tokens: f64, uniform: f64) -> u32 {
    if mean_tokens <= 1.0 {
        return 1;
    }
    let tokens = (-uniform).ln_1p() / (-1.0 / mean_tokens).ln_1p();
    (tokens.floor() as u32).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_means_are_those_asked_for_and_no_answer_exceeds_its_limit() {
        let kinds = [(0.25, 1.0), (0.5, 40.0)]
            .map(|(share, mean_tokens)| EarlyStopConfig { share, mean_tokens });
        let mut stops = EarlyStop::open(&kinds, Seed(1)).expect("there are kinds");
        let drawn: Vec<u32> = (0..100_000).map(|_| stops.next(10_000)).collect();
        let share = |of: &dyn Fn(u32) -> bool| {
            drawn.iter().filter(|tokens| of(**tokens)).count() as f64 / 100_000.0
        };
        assert!((share(&|tokens| tokens == 10_000) - 0.25).abs() < 0.01);
        // Of the geometric ones one in 40 ends after its first token.
        assert!((share(&|tokens| tokens == 1) - (0.25 + 0.5 / 40.0)).abs() < 0.01);
        let ended: Vec<f64> =
            drawn.iter().filter(|tokens| **tokens < 10_000).map(|t| f64::from(*t)).collect();
        let mean = ended.iter().sum::<f64>() / ended.len() as f64;
        assert!((mean - (0.25 + 0.5 * 40.0) / 0.75).abs() < 0.5, "{mean}");
        assert!((0..1000).all(|_| stops.next(7) <= 7));
    }
}
