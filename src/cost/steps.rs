//! Step time from measured times of whole steps: steps that only prefill and steps that only decode,
//! of one model on so many GPUs.
//!
//! Prefill is linear in the tokens between measured points, and between one long prompt and many
//! short ones linear in the mean length of a prompt. Decode is linear in the sequences between
//! measured points; contexts other than those of these measurements count by a rate per token, that
//! of the straight line (least squares) through the steps of one sequence.
//!
//! Four shapes were not measured and are stand-ins: several sequences at longer contexts take that rate
//! for each token, whatever a kernel gains from more of them; behind cached tokens, a prompt takes at least
//! what the whole takes longer than the cached part does; a step that prefills and decodes takes both
//! times, less that of one decoding sequence, for its weights are read once; and lengths beyond the
//! measured ones go on as in the upper half of the axis. [`CostModel::coverage`] says so of each.
//! Whole steps hold all that the measured engine did: its host, its sampler, its all-reduces.
//! Captured graphs do not pad them.

mod profile;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::CostModel;
use super::Coverage;
use super::Numbers;
use super::StepShape;
use super::StepTimeSource;
use super::layers::Curve;
use crate::model::KvDtype;
use crate::model::ModelSpec;
use crate::units::SimDuration;

pub use profile::{
    DecodeContextProfile, DecodeProfile, OnePromptProfile, PromptsProfile, StepProfile,
    StepProfileError,
};

/// How an engine runs a model on its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTableOptions {
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// Type of the KV cache.
    pub kv_cache_dtype: KvDtype,
}

/// Why a profile does not price a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepTableError {
    /// The profile itself.
    #[error(transparent)]
    Profile(#[from] StepProfileError),
    /// It is of something else.
    #[error("the profile has {what} {found}, the scenario {asked}")]
    Other {
        /// What differs.
        what: &'static str,
        /// In the profile.
        found: String,
        /// In the scenario.
        asked: String,
    },
}

/// Prices steps by a step profile.
#[derive(Debug, Clone)]
pub struct StepTable {
    curves: Arc<Curves>,
    provenance: Arc<str>,
    source: Arc<StepTimeSource>,
}

#[derive(Debug)]
struct Curves {
    /// Seconds of a step that prefills one prompt, by its tokens.
    one_prompt: Curve,
    /// Seconds of a step that prefills prompts of `prompt_tokens`, by the tokens of all.
    prompts: Curve,
    prompt_tokens: f64,
    /// Seconds of a step that decodes, by sequences, each with a context of `context`.
    decode: Curve,
    context: f64,
    secs_per_context_token: f64,
    /// One sequence: what a step takes whatever it decodes.
    one_sequence: f64,
    measured: Measured,
}

/// Where the measurements begin and end.
#[derive(Debug)]
struct Measured {
    shortest_prompt: u64,
    longest_prompt: u64,
    prompt_tokens: u64,
    tokens_of_prompts: u64,
    sequences: u64,
    /// Of one sequence, and of several.
    context: u64,
    context_of_several: u64,
}

impl StepTable {
    /// Prices a model by a profile of it.
    ///
    /// # Errors
    /// When the profile is broken, or of another model, precision or parallel size.
    pub fn new(
        profile: &StepProfile,
        model: &ModelSpec,
        options: &StepTableOptions,
    ) -> Result<Self, StepTableError> {
        profile.check()?;
        check_match(profile, model, *options)?;
        let StepProfile { source, engine, engine_version, measured, licence, .. } = profile;
        let provenance = format!(
            "{source}; whole steps, engine {engine} {engine_version}, measured {measured}, {licence}"
        );
        let named = StepTimeSource::StepTable {
            engine: engine.clone(),
            version: engine_version.clone(),
            source: source.clone(),
        };
        let curves = Arc::new(Curves::new(profile));
        Ok(Self { curves, provenance: provenance.into(), source: Arc::new(named) })
    }

    /// Where the figures come from, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(super) fn source(&self) -> &StepTimeSource {
        &self.source
    }
}

impl Curves {
    fn new(profile: &StepProfile) -> Self {
        let StepProfile { one_prompt, prompts, decode, decode_context, .. } = profile;
        let alone = curve(&one_prompt.tokens, &one_prompt.us);
        let length = u64::from(prompts.prompt_tokens);
        // Up to the length of one of them there is one prompt.
        let short = one_prompt.tokens.iter().copied().filter(|tokens| *tokens < length);
        let together: Vec<u64> = prompts.prompts.iter().map(|count| count * length).collect();
        let (mut tokens, mut secs) = (Vec::new(), Vec::new());
        for point in short.chain([length]) {
            tokens.push(point as f64);
            secs.push(alone.at(point as f64));
        }
        tokens.extend(together.iter().map(|tokens| *tokens as f64));
        secs.extend(prompts.us.iter().map(|us| *us as f64 * 1e-6));
        let by_sequences = curve(&decode.sequences, &decode.us);
        let last = |numbers: &Numbers| numbers.last().copied().unwrap_or_default();
        Self {
            one_prompt: alone,
            prompts: Curve::new(tokens, secs),
            prompt_tokens: length as f64,
            one_sequence: by_sequences.at(1.0),
            decode: by_sequences,
            context: f64::from(decode.context),
            secs_per_context_token: slope(&decode_context.context, &decode_context.us).max(0.0),
            measured: Measured {
                shortest_prompt: one_prompt.tokens.first().copied().unwrap_or_default(),
                longest_prompt: last(&one_prompt.tokens),
                prompt_tokens: length,
                tokens_of_prompts: together.last().copied().unwrap_or_default(),
                sequences: last(&decode.sequences),
                context: last(&decode_context.context),
                // From the prompt on, as far beyond the mean as the mean is beyond it.
                context_of_several: (2 * u64::from(decode.context)).saturating_sub(length),
            },
        }
    }

    /// Seconds of a step that prefills.
    fn prefill_secs(&self, shape: &StepShape) -> f64 {
        let (tokens, prompts) =
            (f64::from(shape.prefill_tokens), f64::from(shape.prefill_seqs.max(1)));
        let length = tokens / prompts;
        let alone = self.one_prompt.at(tokens);
        let mut secs = alone;
        if prompts > 1.0 && tokens > self.prompt_tokens {
            let together = self.prompts.at(tokens);
            let share = (length - self.prompt_tokens) / (tokens - self.prompt_tokens);
            secs = together + share.max(0.0) * (alone - together);
        }
        if shape.prefill_context_tokens == 0 {
            return secs;
        }
        let cached = shape.prefill_context_tokens as f64 / prompts;
        let longer = self.one_prompt.at(cached + length) - self.one_prompt.at(cached);
        secs + prompts * (longer - self.one_prompt.at(length)).max(0.0)
    }

    /// Seconds of a step that decodes.
    fn decode_secs(&self, shape: &StepShape) -> f64 {
        let sequences = f64::from(shape.decode_seqs);
        let further = shape.decode_context_tokens as f64 - sequences * self.context;
        let rate = self.secs_per_context_token;
        let secs = self.decode.at(sequences + f64::from(shape.draft_tokens)) + rate * further;
        secs.max(self.one_sequence - rate * self.context).max(0.0)
    }
}

impl CostModel for StepTable {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        let curves = &self.curves;
        let secs = match (shape.prefill_tokens, shape.decode_seqs) {
            (0, 0) => 0.0,
            (0, _) => curves.decode_secs(shape),
            (_, 0) => curves.prefill_secs(shape),
            _ => {
                let decode = curves.decode_secs(shape) - curves.one_sequence;
                curves.prefill_secs(shape) + decode.max(0.0)
            }
        };
        SimDuration::from_secs_f64(secs)
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        let measured = &self.curves.measured;
        let tokens = u64::from(shape.prefill_tokens);
        let is_covered = match (shape.prefill_seqs, shape.decode_seqs) {
            (0, decodes) => {
                let context =
                    if decodes > 1 { measured.context_of_several } else { measured.context };
                shape.draft_tokens == 0
                    && u64::from(decodes) <= measured.sequences
                    && u64::from(shape.decode_context_max) <= context
            }
            (_, 1..) => false,
            (prompts, 0) => {
                let is_short = tokens <= u64::from(prompts) * measured.prompt_tokens;
                shape.prefill_context_tokens == 0
                    && tokens >= measured.shortest_prompt
                    && tokens <= measured.tokens_of_prompts.max(measured.longest_prompt)
                    && (tokens <= measured.longest_prompt || prompts > 1 && is_short)
            }
        };
        if is_covered { Coverage::Interpolated } else { Coverage::Extrapolated }
    }
}

fn check_match(
    profile: &StepProfile,
    model: &ModelSpec,
    options: StepTableOptions,
) -> Result<(), StepTableError> {
    let differs = |what, found: &str, asked: &str| {
        let (found, asked) = (found.to_owned(), asked.to_owned());
        (found != asked).then_some(StepTableError::Other { what, found, asked })
    };
    let is_half = model.quantization.is_none() && model.dtype.bytes() == 2;
    // Both 16-bit formats run at the same rates.
    let dtype = if is_half { profile.dtype.as_str() } else { "other weights" };
    let kv = if options.kv_cache_dtype == KvDtype::Auto { "auto" } else { "fp8" };
    let [measured, asked] = [profile.tensor_parallel_size, options.tensor_parallel_size];
    let found = [
        differs("model", &profile.model, &model.name),
        differs("dtype", &profile.dtype, dtype),
        differs("kv_cache_dtype", "auto", kv),
        differs("tensor_parallel_size", &measured.to_string(), &asked.to_string()),
    ];
    found.into_iter().flatten().next().map_or(Ok(()), Err)
}

fn curve(points: &Numbers, us: &Numbers) -> Curve {
    let points = points.iter().map(|point| *point as f64).collect();
    Curve::new(points, us.iter().map(|us| *us as f64 * 1e-6).collect())
}

/// Seconds per unit of the axis: the slope of the line of least squares.
fn slope(points: &Numbers, us: &Numbers) -> f64 {
    let count = points.len() as f64;
    let mean = |numbers: &Numbers| numbers.iter().map(|x| *x as f64).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(points), mean(us));
    let pairs =
        || points.iter().zip(us.iter()).map(|(x, y)| (*x as f64 - x_mean, *y as f64 - y_mean));
    let (together, alone): (f64, f64) =
        pairs().fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
    together / alone * 1e-6
}
