//! How many draft tokens the target model accepts.

use std::sync::Arc;

use crate::ids::RequestId;
use crate::rng::mix;

/// A law of acceptance. Draws are a hash of request and verification, so that they do not depend
/// on the order in which requests are served.
#[derive(Debug, Clone)]
pub enum Acceptance {
    /// Each draft is accepted with this probability if all before it were.
    PerPosition {
        /// The probability, from 0 to 1.
        probability: f64,
        /// The seed of the draws.
        seed: u64,
    },
    /// Recorded counts: verification v of request i accepts `counts[i][v mod len]`.
    Recorded(Arc<[Vec<u32>]>),
}

impl Acceptance {
    /// Nothing is ever accepted.
    pub const NONE: Self = Self::PerPosition { probability: 0.0, seed: 0 };

    /// The law under which `mean` tokens come out of a step with `drafts` drafts, the token after
    /// the accepted ones included: the probability p per position with 1 + p + … + p^drafts = mean.
    pub fn with_mean_length(mean: f64, drafts: u32, seed: u64) -> Self {
        let length = |p: f64| (0..=drafts).fold((0.0, 1.0), |(sum, q), _| (sum + q, q * p)).0;
        if mean <= 1.0 || mean >= length(1.0) {
            let probability = if mean <= 1.0 { 0.0 } else { 1.0 };
            return Self::PerPosition { probability, seed };
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if length(middle) < mean { low = middle } else { high = middle }
        }
        Self::PerPosition { probability: f64::midpoint(low, high), seed }
    }

    /// Of `drafts` drafts, those accepted at the `verification`-th verification of a request.
    pub fn accepted(&self, request: RequestId, verification: u32, drafts: u32) -> u32 {
        match self {
            Self::PerPosition { probability, seed } => {
                let draw = |position: u32| {
                    let step = u64::from(verification) << 32 | u64::from(position);
                    let bits = mix(mix(seed ^ u64::from(request.0)) ^ step) >> 11;
                    bits as f64 / (1_u64 << 53) as f64
                };
                (0..drafts).take_while(|&position| draw(position) < *probability).count() as u32
            }
            Self::Recorded(counts) => counts
                .get(request.index())
                .filter(|counts| !counts.is_empty())
                .map_or(0, |counts| counts[verification as usize % counts.len()])
                .min(drafts),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mean_length(law: &Acceptance, drafts: u32, steps: u32) -> f64 {
        let accepted: u32 = (0..steps).map(|v| law.accepted(RequestId(3), v, drafts)).sum();
        1.0 + f64::from(accepted) / f64::from(steps)
    }

    #[test]
    fn the_mean_accepted_length_is_met() {
        for (mean, drafts) in [(1.2, 1), (2.5, 4), (2.62, 3), (4.1, 7), (7.9, 7)] {
            let law = Acceptance::with_mean_length(mean, drafts, 7);
            let drawn = mean_length(&law, drafts, 20_000);
            // The deviation of one step is at most k/2: five standard errors of 20 000 steps.
            let tolerance = 5.0 * f64::from(drafts) / 2.0 / 20_000_f64.sqrt();
            assert!((drawn - mean).abs() < tolerance, "{mean} of {drafts}: {drawn}");
        }
    }

    #[test]
    fn the_ends_of_the_range_accept_nothing_and_everything() {
        let never = Acceptance::with_mean_length(1.0, 3, 7);
        let always = Acceptance::with_mean_length(4.0, 3, 7);
        for verification in 0..1000 {
            assert_eq!(never.accepted(RequestId(0), verification, 3), 0);
            assert_eq!(always.accepted(RequestId(0), verification, 3), 3);
        }
    }

    #[test]
    fn a_recording_that_ends_begins_again_and_is_cut_to_the_drafts() {
        let law = Acceptance::Recorded([vec![3, 0], vec![1]].into());
        let accepted: Vec<u32> = (0..5).map(|v| law.accepted(RequestId(0), v, 4)).collect();
        assert_eq!(accepted, [3, 0, 3, 0, 3]);
        assert_eq!(law.accepted(RequestId(1), 9, 4), 1);
        assert_eq!(law.accepted(RequestId(0), 0, 2), 2);
    }

    proptest! {
        #[test]
        fn the_probability_gives_the_mean_length(drafts in 1_u32..12, share in 0.0_f64..=1.0) {
            let mean = 1.0 + share * f64::from(drafts);
            let law = Acceptance::with_mean_length(mean, drafts, 1);
            let Acceptance::PerPosition { probability, .. } = law else { panic!() };
            let sum: f64 = (0..=drafts).map(|i| probability.powi(i.cast_signed())).sum();
            prop_assert!((sum - mean).abs() < 1e-9, "{sum} for {mean}");
        }
    }
}
