//! A step profile: the file form of [`StepTable`](super::StepTable).

use std::fmt::Write as _;

use serde::Deserialize;

use crate::cost::Numbers;

/// Measured times of whole steps of one model on so many of one kind of GPU, in µs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepProfile {
    /// Where the measurements come from.
    pub source: String,
    /// Their licence.
    pub licence: String,
    /// The day they were made, or what is known of it.
    pub measured: String,
    /// The GPU, by its name in the catalogue.
    pub gpu: String,
    /// The model, by its name in the catalogue.
    pub model: String,
    /// Type of weights and activations.
    pub dtype: String,
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// The engine that ran them.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// Steps that prefill one prompt.
    pub one_prompt: OnePromptProfile,
    /// Steps that prefill several prompts of equal length.
    pub prompts: PromptsProfile,
    /// Steps that decode sequences of equal context.
    pub decode: DecodeProfile,
    /// Steps that decode one sequence.
    pub decode_context: DecodeContextProfile,
}

/// Steps that prefill one whole prompt.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnePromptProfile {
    /// Its tokens.
    pub tokens: Numbers,
    /// Times.
    pub us: Numbers,
}

/// Steps that prefill several whole prompts of equal length.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptsProfile {
    /// Tokens of each of them.
    pub prompt_tokens: u32,
    /// How many, from 2.
    pub prompts: Numbers,
    /// Times.
    pub us: Numbers,
}

/// Steps that decode sequences of equal context.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeProfile {
    /// Tokens in context of each of them, in the mean over the steps measured.
    pub context: u32,
    /// How many, from 1.
    pub sequences: Numbers,
    /// Times.
    pub us: Numbers,
}

/// Steps that decode one sequence.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeContextProfile {
    /// Tokens in its context, in the mean over the steps measured.
    pub context: Numbers,
    /// Times.
    pub us: Numbers,
}

/// Why a step profile cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepProfileError {
    /// It is no profile.
    #[error("{0}")]
    Syntax(String),
    /// A table has another size than its axis says.
    #[error("{table}.us: must hold {expected} times above 0, got {found}")]
    Size {
        /// The table.
        table: &'static str,
        /// Points of its axis.
        expected: usize,
        /// Times above 0 that there are.
        found: usize,
    },
    /// An axis does not increase, is too short or begins elsewhere.
    #[error("{axis}: must be at least {least} increasing numbers from {first} on")]
    Axis {
        /// The axis.
        axis: &'static str,
        /// How many it needs.
        least: usize,
        /// The smallest number that may stand first.
        first: u64,
    },
    /// A number is zero.
    #[error("{0}: must be at least 1, got 0")]
    Zero(&'static str),
}

impl StepProfile {
    /// Reads a profile.
    ///
    /// # Errors
    /// When it is no TOML of this shape, or a table has another size than its axis says.
    pub fn parse(text: &str) -> Result<Self, StepProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|error| StepProfileError::Syntax(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// Whether every table has the size of its axis.
    pub(super) fn check(&self) -> Result<(), StepProfileError> {
        let Self { one_prompt, prompts, decode, decode_context, .. } = self;
        for (key, number) in [
            ("prompts.prompt_tokens", prompts.prompt_tokens),
            ("decode.context", decode.context),
            ("tensor_parallel_size", self.tensor_parallel_size),
        ] {
            if number == 0 {
                return Err(StepProfileError::Zero(key));
            }
        }
        check_axis("one_prompt.tokens", &one_prompt.tokens, 2, 1)?;
        check_axis("prompts.prompts", &prompts.prompts, 1, 2)?;
        check_axis("decode.sequences", &decode.sequences, 2, 1)?;
        check_axis("decode_context.context", &decode_context.context, 2, 0)?;
        check_times("one_prompt", &one_prompt.us, &one_prompt.tokens)?;
        check_times("prompts", &prompts.us, &prompts.prompts)?;
        check_times("decode", &decode.us, &decode.sequences)?;
        check_times("decode_context", &decode_context.us, &decode_context.context)
    }

    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, value) in [
            ("source", &self.source),
            ("licence", &self.licence),
            ("measured", &self.measured),
            ("gpu", &self.gpu),
            ("model", &self.model),
            ("dtype", &self.dtype),
        ] {
            put(&mut text, key, value.as_str());
        }
        put(&mut text, "tensor_parallel_size", i64::from(self.tensor_parallel_size));
        put(&mut text, "engine", self.engine.as_str());
        put(&mut text, "engine_version", self.engine_version.as_str());
        text.push_str("\n[one_prompt]\n");
        put(&mut text, "tokens", line(&self.one_prompt.tokens));
        put(&mut text, "us", line(&self.one_prompt.us));
        text.push_str("\n[prompts]\n");
        put(&mut text, "prompt_tokens", i64::from(self.prompts.prompt_tokens));
        put(&mut text, "prompts", line(&self.prompts.prompts));
        put(&mut text, "us", line(&self.prompts.us));
        text.push_str("\n[decode]\n");
        put(&mut text, "context", i64::from(self.decode.context));
        put(&mut text, "sequences", line(&self.decode.sequences));
        put(&mut text, "us", line(&self.decode.us));
        text.push_str("\n[decode_context]\n");
        put(&mut text, "context", line(&self.decode_context.context));
        put(&mut text, "us", line(&self.decode_context.us));
        text
    }
}

fn put(text: &mut String, key: &str, value: impl Into<toml::Value>) {
    let value = value.into();
    // A string can always be written to.
    let _ = writeln!(text, "{key} = {value}");
}

fn line(numbers: &Numbers) -> String {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    words.join(" ")
}

fn check_axis(
    axis: &'static str,
    points: &[u64],
    least: usize,
    first: u64,
) -> Result<(), StepProfileError> {
    let is_increasing = points.is_sorted_by(|a, b| a < b);
    if points.len() >= least && is_increasing && points.first().is_some_and(|p| *p >= first) {
        return Ok(());
    }
    Err(StepProfileError::Axis { axis, least, first })
}

fn check_times(table: &'static str, us: &[u64], axis: &[u64]) -> Result<(), StepProfileError> {
    let found = us.iter().filter(|us| **us > 0).count();
    let expected = axis.len();
    if found == expected && us.len() == expected {
        return Ok(());
    }
    Err(StepProfileError::Size { table, expected, found })
}
