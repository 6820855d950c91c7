//! How long prompts and answers are, one request after another.
//!
//! Generic distributions draw from the run's `lengths` stream as requests are asked for and hold
//! nothing; the tools draw all lengths before the first request, so those are kept (8 bytes per
//! request); pairs and traces in another order than recorded are kept whole.

use std::sync::Arc;

use rand::RngExt;
use rand::distr::Distribution;
use rand::seq::SliceRandom;
use rand_distr::LogNormal;
use rand_distr::StandardNormal;
use rand_distr::Zipf;

use crate::request::Segment;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::LengthConfig;
use crate::scenario::RowOrder;
use crate::scenario::SonnetConfig;
use crate::scenario::TokenDistribution;
use crate::workload::draft::Draft;
use crate::workload::draft::Tokens;
use crate::workload::rows::Rows;
use crate::workload::rows::TraceRows;
use crate::workload::tools::Tools;
use crate::workload::trace::WorkloadError;

/// A source of lengths.
#[derive(Debug)]
pub(super) enum Lengths {
    Fixed {
        input_tokens: u32,
        output_tokens: u32,
    },
    Sampled {
        input: TokenSampler,
        output: TokenSampler,
        stream: Box<Stream>,
    },
    /// Prompts of vLLM's `random`, which may all begin with the same tokens.
    Pairs {
        pairs: std::vec::IntoIter<(u32, u32)>,
        prefix_tokens: u32,
        index: u64,
    },
    Drafts(std::vec::IntoIter<Draft>),
    Drawn {
        from: Vec<Draft>,
        stream: Box<Stream>,
    },
    Recorded(Rows),
    Sonnet {
        lines: Lines,
        stream: Box<Stream>,
        index: u64,
    },
}

impl Lengths {
    /// The source of a configuration. `tools` is left as the tool leaves it for its arrivals.
    pub(super) fn open(
        config: &LengthConfig,
        count: usize,
        seed: Seed,
        tools: &mut Tools,
        rows: Option<TraceRows>,
    ) -> Result<Self, WorkloadError> {
        let stream = || Box::new(seed.stream("lengths", 0));
        let pairs = |pairs: Vec<(u32, u32)>, prefix_tokens| Self::Pairs {
            pairs: pairs.into_iter(),
            prefix_tokens,
            index: 0,
        };
        Ok(match config {
            LengthConfig::Fixed { input_tokens, output_tokens } => {
                Self::Fixed { input_tokens: *input_tokens, output_tokens: *output_tokens }
            }
            LengthConfig::Sampled { input_tokens, output_tokens } => Self::Sampled {
                input: TokenSampler::new(input_tokens)?,
                output: TokenSampler::new(output_tokens)?,
                stream: stream(),
            },
            LengthConfig::SglangRandom(random) => pairs(tools.sglang_random(random, count), 0),
            LengthConfig::VllmRandom(random) => {
                pairs(tools.vllm_random(random, count), random.prefix_tokens)
            }
            LengthConfig::Vllm2024Random(random) => {
                pairs(tools.vllm_2024_random(random, count), random.prefix_tokens)
            }
            LengthConfig::GeneratedSharedPrefix(shared) => {
                Self::Drafts(tools.shared_prefix(shared).into_iter())
            }
            LengthConfig::PrefixRepetition(repetition) => {
                if count < repetition.prefixes as usize {
                    return Err(WorkloadError::Unusable(format!(
                        "num_requests: must be at least lengths.prefixes, {}, got {count}",
                        repetition.prefixes
                    )));
                }
                Self::Drafts(tools.prefix_repetition(repetition, count).into_iter())
            }
            LengthConfig::Sonnet(sonnet) => {
                Self::Sonnet { lines: Lines::of(sonnet), stream: stream(), index: 0 }
            }
            LengthConfig::List { pairs, order } => {
                let draft = |&(input, output): &(u32, u32)| Draft::of_lengths(input, output);
                Self::ordered(pairs.iter().map(draft).collect(), *order, stream())
            }
            LengthConfig::Trace { order: RowOrder::Recorded } => Self::Recorded(Rows::open(rows)?),
            LengthConfig::Trace { order } => {
                let mut rows = Rows::open(rows)?;
                let drafts: Result<Vec<Draft>, _> =
                    std::iter::from_fn(|| rows.next_draft()).collect();
                Self::ordered(drafts?, *order, stream())
            }
        })
    }

    fn ordered(mut drafts: Vec<Draft>, order: RowOrder, mut stream: Box<Stream>) -> Self {
        match order {
            RowOrder::WithReplacement if !drafts.is_empty() => Self::Drawn { from: drafts, stream },
            RowOrder::Shuffled => {
                drafts.shuffle(&mut stream);
                Self::Drafts(drafts.into_iter())
            }
            _ => Self::Drafts(drafts.into_iter()),
        }
    }

    /// How many requests are left, where the source has all of them at hand.
    pub(super) fn left(&self) -> Option<usize> {
        match self {
            Self::Pairs { pairs, .. } => Some(pairs.len()),
            Self::Drafts(drafts) => Some(drafts.len()),
            _ => None,
        }
    }

    /// The next request's lengths; `None` when the source has run out.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Result<Draft, WorkloadError>> {
        Some(Ok(match self {
            Self::Fixed { input_tokens, output_tokens } => {
                Draft::of_lengths(*input_tokens, *output_tokens)
            }
            Self::Sampled { input, output, stream } => {
                let prompt_tokens = input.sample(stream);
                Draft::of_lengths(prompt_tokens, output.sample(stream))
            }
            Self::Pairs { pairs, prefix_tokens, index } => {
                let (prompt, output) = pairs.next()?;
                *index += 1;
                Draft {
                    segments: begun(*prefix_tokens, prompt, *index),
                    ..Draft::of_lengths(prompt, output)
                }
            }
            Self::Drafts(drafts) => drafts.next()?,
            Self::Drawn { from, stream } => from[stream.random_range(0..from.len())].clone(),
            Self::Recorded(rows) => return rows.next_draft(),
            Self::Sonnet { lines, stream, index } => {
                *index += 1;
                let prompt = lines.sample(stream);
                Draft {
                    segments: begun(lines.shared_tokens.min(prompt), prompt, *index),
                    ..Draft::of_lengths(prompt, lines.output_tokens)
                }
            }
        }))
    }
}

/// A prompt that begins with `shared` tokens that all prompts of the source begin with.
fn begun(shared: u32, prompt: u32, index: u64) -> Option<Arc<[Segment]>> {
    let own = prompt - shared;
    (shared > 0).then(|| {
        let body = (own > 0).then(|| Tokens::Body(index).segment(0, own));
        std::iter::once(Tokens::Prefix(0).segment(0, shared)).chain(body).collect()
    })
}

/// Draws token counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenSampler {
    Fixed(u32),
    Uniform { min: u32, max: u32 },
    LogNormal { draw: LogNormal<f64>, min: u32, max: u32 },
    Zipf { draw: Zipf<f64>, min: u32 },
}

impl TokenSampler {
    pub(super) fn new(distribution: &TokenDistribution) -> Result<Self, WorkloadError> {
        let refused = || WorkloadError::Unusable(format!("cannot draw from {distribution:?}"));
        Ok(match *distribution {
            TokenDistribution::Fixed { tokens } => Self::Fixed(tokens),
            TokenDistribution::Uniform { min_tokens, max_tokens } => {
                Self::Uniform { min: min_tokens, max: max_tokens }
            }
            TokenDistribution::LogNormal { median_tokens, sigma, min_tokens, max_tokens } => {
                let draw = LogNormal::new(median_tokens.ln(), sigma).map_err(|_| refused())?;
                Self::LogNormal { draw, min: min_tokens, max: max_tokens }
            }
            TokenDistribution::Zipf { exponent, min_tokens, max_tokens } => {
                let ranks = f64::from(max_tokens - min_tokens) + 1.0;
                let draw = Zipf::new(ranks, exponent).map_err(|_| refused())?;
                Self::Zipf { draw, min: min_tokens }
            }
        })
    }

    pub(super) fn sample(&self, stream: &mut Stream) -> u32 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Uniform { min, max } => stream.random_range(*min..=*max),
            Self::LogNormal { draw, min, max } => {
                let tokens = draw.sample(stream).round();
                tokens.clamp(f64::from(*min), f64::from(*max)) as u32
            }
            Self::Zipf { draw, min } => min - 1 + draw.sample(stream) as u32,
        }
    }
}

/// Prompts made of a question, lines that all share, and lines drawn for each
/// (vLLM `benchmarks/datasets/sonnet.py`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    output_tokens: u32,
    /// The question and the shared lines.
    shared_tokens: u32,
    drawn_mean: f64,
    drawn_std: f64,
}

impl Lines {
    fn of(config: &SonnetConfig) -> Self {
        let base = f64::from(config.question_tokens + config.template_tokens);
        let lines = |tokens: u32| {
            ((f64::from(tokens) - base) / config.line_tokens_mean).round_ties_even().max(0.0)
        };
        let shared = lines(config.prefix_tokens);
        let drawn = (lines(config.input_tokens) - shared).max(0.0);
        let shared_tokens = f64::from(config.question_tokens) + shared * config.line_tokens_mean;
        Self {
            output_tokens: config.output_tokens,
            shared_tokens: shared_tokens.round() as u32,
            drawn_mean: drawn * config.line_tokens_mean,
            drawn_std: drawn.sqrt() * config.line_tokens_std,
        }
    }

    /// A sum of many lines is close to normal.
    fn sample(&self, stream: &mut Stream) -> u32 {
        let normal: f64 = StandardNormal.sample(stream);
        let drawn = (self.drawn_mean + self.drawn_std * normal).round().max(0.0);
        (f64::from(self.shared_tokens) + drawn).clamp(1.0, f64::from(i32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests;
