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

    /// The law under which `mean` tokens come out of a step with `drafts` drafts, the bonus token
    /// included: the probability p per position with 1 + p + … + p^drafts = mean.
    pub fn with_mean_length(mean: f64, drafts: u32, seed: u64) -> Self {
        let length = |p: f64| (0..=drafts).fold((0.0, 1.0), |(sum, q), _| (sum + q, q * p)).0;
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
    use super::*;

    #[test]
    fn the_mean_accepted_length_is_met() {
        let law = Acceptance::with_mean_length(2.5, 4, 7);
        let steps = 20_000;
        let accepted: u32 = (0..steps).map(|v| law.accepted(RequestId(3), v, 4)).sum();
        let mean = 1.0 + f64::from(accepted) / f64::from(steps);
        // standard error about 1.5 / √20000 ≈ 0.011
        assert!((mean - 2.5).abs() < 0.05, "{mean}");
    }
}
