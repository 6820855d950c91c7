//! Whether what a tier holds is fetched, or computed again.

use super::TierKind;
use crate::cost::{CostModel, StepShape, StepTime};

/// What decides it.
#[derive(Debug, Clone)]
pub enum Fetch {
    /// It is fetched.
    Always,
    /// It is fetched if it is so many tokens.
    MinTokens(u32),
    /// It is fetched as far as that is expected to take less time.
    WhenFaster(Box<FetchTimes>),
}

/// How long fetching and computing are expected to take, with nothing else on the links or in the step.
#[derive(Debug, Clone)]
pub struct FetchTimes {
    /// Prices the steps that compute.
    pub cost: StepTime,
    /// Tokens of a step at most.
    pub step_tokens: u32,
    /// Seconds before the first chunk of a tier comes.
    pub latency_s: f64,
    /// Seconds for each chunk, by tier.
    pub chunk_s: [f64; TierKind::ALL.len()],
}

impl Fetch {
    /// How many of the chunks that were found are fetched: the first of them. The GPU holds the first `hit`
    /// of `known` tokens.
    pub(super) fn worth(
        &self,
        found: &[TierKind],
        (chunk_tokens, known, hit): (u32, u32, u32),
    ) -> usize {
        let end = |chunks: usize| (hit / chunk_tokens + chunks as u32) * chunk_tokens;
        match self {
            Self::Always => found.len(),
            Self::MinTokens(least) => {
                if found.is_empty() || end(found.len()) - hit < *least {
                    0
                } else {
                    found.len()
                }
            }
            Self::WhenFaster(times) => {
                let (mut best, mut best_s) = (0, times.compute_s(hit, known));
                let mut fetched_s = 0.0;
                let mut latest = None;
                for (index, kind) in found.iter().enumerate() {
                    if latest.replace(*kind) != Some(*kind) {
                        fetched_s += times.latency_s;
                    }
                    fetched_s += times.chunk_s[*kind as usize];
                    // What comes from one tier comes together.
                    if found.get(index + 1) == Some(kind) {
                        continue;
                    }
                    let total_s = fetched_s + times.compute_s(end(index + 1), known);
                    if total_s < best_s {
                        (best, best_s) = (index + 1, total_s);
                    }
                }
                best
            }
        }
    }
}

impl FetchTimes {
    /// The time of the steps that compute the tokens behind the first `done`; one at least is computed.
    fn compute_s(&self, done: u32, known: u32) -> f64 {
        let mut done = done.min(known - 1);
        let mut seconds = 0.0;
        while done < known {
            let tokens = self.step_tokens.min(known - done);
            let mut shape = StepShape::seeing(self.cost.prefill_window());
            shape.add_prefill(tokens, done, done + tokens == known);
            seconds += self.cost.step_duration(&shape).as_secs_f64();
            done += tokens;
        }
        seconds
    }
}
