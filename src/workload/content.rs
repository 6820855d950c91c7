//! What prompts share: system prompts in front of what a data set or trace says.

use std::sync::Arc;

use rand::RngExt;
use rand::distr::Distribution;
use rand_distr::Zipf;

use crate::request::Segment;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::ContentConfig;
use crate::scenario::Popularity;
use crate::workload::draft::Draft;
use crate::workload::draft::Tokens;
use crate::workload::trace::WorkloadError;

/// Gives drafts their content.
#[derive(Debug)]
pub(super) enum Sharing {
    AsGiven,
    Nothing,
    SystemPrompt {
        groups: u32,
        prefix_tokens: u32,
        share: f64,
        choice: Choice,
        stream: Box<Stream>,
        /// Who has one, apart from which: another share leaves the choices alone.
        having: Box<Stream>,
    },
}

/// Which of the system prompts comes next.
#[derive(Debug)]
pub(super) enum Choice {
    Uniform,
    RoundRobin,
    Zipf(Zipf<f64>),
}

impl Sharing {
    pub(super) fn new(config: &ContentConfig, seed: Seed) -> Result<Self, WorkloadError> {
        Ok(match *config {
            ContentConfig::AsGiven {} => Self::AsGiven,
            ContentConfig::Unique {} => Self::Nothing,
            ContentConfig::SystemPrompt { groups, prefix_tokens, share, popularity } => {
                let choice = match popularity {
                    Popularity::Uniform {} => Choice::Uniform,
                    Popularity::RoundRobin {} => Choice::RoundRobin,
                    Popularity::Zipf { exponent } => {
                        Choice::Zipf(Zipf::new(f64::from(groups), exponent).map_err(|_| {
                            WorkloadError::Unusable(format!(
                                "content.popularity.exponent: must be above 0, got {exponent}"
                            ))
                        })?)
                    }
                };
                let stream = Box::new(seed.stream("content", 0));
                let having = Box::new(seed.stream("content share", 0));
                Self::SystemPrompt { groups, prefix_tokens, share, choice, stream, having }
            }
        })
    }

    /// Settles what the prompt of the `index`-th request is made of.
    #[inline]
    pub(super) fn settle(&mut self, draft: &mut Draft, index: u64) {
        match self {
            Self::AsGiven => {}
            Self::Nothing => draft.segments = None,
            Self::SystemPrompt { groups, prefix_tokens, share, choice, stream, having } => {
                let group = match choice {
                    Choice::Uniform => u64::from(stream.random_range(0..*groups)),
                    Choice::RoundRobin => index % u64::from(*groups),
                    Choice::Zipf(zipf) => zipf.sample(stream) as u64 - 1,
                };
                // Below 1, so that a share of 1 is all and one of 0 is none.
                let is_shared = having.random::<f64>() < *share;
                let prefix = if is_shared { SYSTEM_PROMPTS + group } else { OWN_PROMPTS + index };
                let prefix = Tokens::Prefix(prefix).segment(0, *prefix_tokens);
                let own = explicit(draft, index);
                draft.segments = Some(std::iter::once(prefix).chain(own.iter().copied()).collect());
                draft.prompt_tokens += *prefix_tokens;
            }
        }
    }
}

/// System prompts are numbered apart from the prefixes of data sets.
const SYSTEM_PROMPTS: u64 = 1 << 40;
/// What stands in the place of a system prompt is numbered apart from those.
const OWN_PROMPTS: u64 = 1 << 41;
/// Prompts without given content are numbered apart from those of data sets.
const PLAIN_PROMPTS: u64 = 1 << 40;

/// The content of a draft in segments, also where it shares nothing.
pub(super) fn explicit(draft: &Draft, index: u64) -> Arc<[Segment]> {
    draft.segments.clone().unwrap_or_else(|| {
        Arc::new([Tokens::Body(PLAIN_PROMPTS + index).segment(0, draft.prompt_tokens)])
    })
}
