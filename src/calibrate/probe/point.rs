//! From the times of tokens to the time of a step.

use super::plan::Round;
use crate::cost::StepShape;

/// Gaps that a round has to share to tell anything.
const GAPS_MIN: usize = 4;

/// What a client saw of one request: seconds since its round began.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// When it was sent.
    pub sent_s: f64,
    /// When each token came.
    pub tokens_s: Vec<f64>,
    /// Tokens of its prompt as the server counts them.
    pub prompt_tokens: u32,
}

/// What a round shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// From sending a lone prompt to its first token.
    FirstToken,
    /// The gap between tokens of streams that all decode.
    Gap,
}

/// A measured time with the step it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What was measured.
    pub observed: Observed,
    /// Streams at once.
    pub streams: u32,
    /// Tokens of each prompt.
    pub prompt_tokens: u32,
    /// The step.
    pub shape: StepShape,
    /// Fastest first token, or median gap, in ms.
    pub measured_ms: f64,
}

impl Point {
    /// What the repetitions of a round tell; nothing where its streams hardly decoded together.
    pub fn of(round: &Round, repetitions: &[Vec<Answer>]) -> Option<Self> {
        if round.is_lone_prompt() { Self::first_token(repetitions) } else { Self::gap(repetitions) }
    }

    fn first_token(repetitions: &[Vec<Answer>]) -> Option<Self> {
        let answers = repetitions.iter().flatten();
        let (secs, answer) = answers
            .filter_map(|answer| Some((answer.tokens_s.first()? - answer.sent_s, answer)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut shape = StepShape::default();
        shape.add_prefill(answer.prompt_tokens, 0, true);
        Some(Self {
            observed: Observed::FirstToken,
            streams: 1,
            prompt_tokens: answer.prompt_tokens,
            shape,
            measured_ms: secs * 1e3,
        })
    }

    fn gap(repetitions: &[Vec<Answer>]) -> Option<Self> {
        let mut gaps = Vec::new();
        // Σ over those gaps of the context that its token was computed on.
        let mut context_sum = 0.0;
        for answers in repetitions {
            let (from, to) = shared(answers)?;
            for answer in answers {
                for (index, pair) in answer.tokens_s.windows(2).enumerate() {
                    if pair[0] >= from && pair[1] <= to {
                        gaps.push(pair[1] - pair[0]);
                        context_sum += f64::from(answer.prompt_tokens) + index as f64;
                    }
                }
            }
        }
        let answers = repetitions.first()?;
        if gaps.len() < GAPS_MIN * answers.len() {
            return None;
        }
        let streams = answers.len() as u32;
        let context = (context_sum / gaps.len() as f64).round() as u32;
        let mut shape = StepShape::default();
        shape.add_decodes(streams, u64::from(streams) * u64::from(context), context);
        Some(Self {
            observed: Observed::Gap,
            streams,
            prompt_tokens: answers.first()?.prompt_tokens,
            shape,
            measured_ms: median(&mut gaps) * 1e3,
        })
    }
}

/// From the last stream's first token to the first stream's last.
fn shared(answers: &[Answer]) -> Option<(f64, f64)> {
    let mut shared = (0.0_f64, f64::INFINITY);
    for answer in answers {
        shared.0 = shared.0.max(*answer.tokens_s.first()?);
        shared.1 = shared.1.min(*answer.tokens_s.last()?);
    }
    Some(shared)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { 0.5 * (values[middle - 1] + values[middle]) }
}
