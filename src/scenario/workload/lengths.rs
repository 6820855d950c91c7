//! How prompt and answer lengths are configured.

use serde::{Deserialize, Serialize};

/// How long prompts and answers are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum LengthConfig {
    /// The same for every request.
    Fixed {
        /// Prompt tokens.
        input_tokens: u32,
        /// Answer tokens.
        output_tokens: u32,
    },
    /// Prompt and answer drawn independently.
    Sampled {
        /// Prompt tokens.
        input_tokens: TokenDistribution,
        /// Answer tokens.
        output_tokens: TokenDistribution,
    },
    /// `sglang.bench_serving --dataset-name random` and `random-ids`.
    SglangRandom(SglangRandomConfig),
    /// `vllm bench serve --dataset-name random`.
    VllmRandom(VllmRandomConfig),
    /// `--dataset-name random` of vLLM's `benchmark_serving.py` of 2024, and of `InferenceX`.
    #[serde(rename = "vllm_2024_random")]
    Vllm2024Random(Vllm2024RandomConfig),
    /// `sglang.bench_serving --dataset-name generated-shared-prefix`.
    GeneratedSharedPrefix(SharedPrefixConfig),
    /// `vllm bench serve --dataset-name prefix_repetition`.
    PrefixRepetition(PrefixRepetitionConfig),
    /// Lines of a poem, like vLLM's `sonnet`.
    Sonnet(SonnetConfig),
    /// Pairs of prompt and answer tokens.
    List {
        /// (prompt tokens, answer tokens).
        pairs: Vec<(u32, u32)>,
        /// In which order they are used.
        #[serde(default)]
        order: RowOrder,
    },
    /// The lengths, and the content if any, of a recorded trace.
    Trace {
        /// In which order its rows are used.
        #[serde(default)]
        order: RowOrder,
    },
}

/// In which order recorded rows are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// As recorded, each at most once.
    #[default]
    Recorded,
    /// In random order, each at most once.
    Shuffled,
    /// Drawn anew for every request.
    WithReplacement,
}

/// A distribution of token counts, at least 1 each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TokenDistribution {
    /// Always the same.
    Fixed {
        /// Tokens.
        tokens: u32,
    },
    /// Every number from the smallest to the largest equally likely.
    Uniform {
        /// The smallest.
        min_tokens: u32,
        /// The largest.
        max_tokens: u32,
    },
    /// The logarithm is normal. Draws outside the bounds are moved to the bound.
    LogNormal {
        /// The median.
        median_tokens: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// The smallest.
        #[serde(default = "one")]
        min_tokens: u32,
        /// The largest.
        max_tokens: u32,
    },
    /// The k-th smallest number in proportion to k^-exponent.
    Zipf {
        /// The exponent, at least 0.
        exponent: f64,
        /// The smallest, and the most frequent.
        #[serde(default = "one")]
        min_tokens: u32,
        /// The largest.
        max_tokens: u32,
    },
}

/// The flags of SGLang's `random` and `random-ids`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SglangRandomConfig {
    /// `--random-input-len`, the largest prompt.
    pub input_tokens: u32,
    /// `--random-output-len`, the largest answer.
    pub output_tokens: u32,
    /// `--random-range-ratio`: the smallest length as a share of the largest. 1 is exactly the
    /// length given; 0 is anything from 1 up to it.
    #[serde(default)]
    pub range_ratio: f64,
    /// Tokens that the tokeniser adds to a prompt, which the tool takes off (Llama 1, Qwen 0).
    #[serde(default)]
    pub special_tokens: u32,
    /// Token ids of the model's tokeniser: given for `random-ids`, which draws one for each prompt
    /// between lengths and arrivals; absent for `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary_size: Option<u32>,
}

/// The flags of vLLM's `random`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VllmRandomConfig {
    /// `--random-input-len`, the middle of the prompt lengths.
    pub input_tokens: u32,
    /// `--random-output-len`, the middle of the answer lengths.
    pub output_tokens: u32,
    /// `--random-range-ratio`: how far lengths go either side, as a share; below 1. 0 is exactly
    /// the length given.
    #[serde(default)]
    pub range_ratio: f64,
    /// The ratio for answers where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_range_ratio: Option<f64>,
    /// `--random-prefix-len`: tokens that all prompts begin with, on top of the prompt length.
    #[serde(default)]
    pub prefix_tokens: u32,
    /// Tokens that the tokeniser adds to a prompt, which the tool takes off (Llama 1, Qwen 0).
    #[serde(default)]
    pub special_tokens: u32,
}

/// The flags of vLLM's `random` of 2024.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Vllm2024RandomConfig {
    /// `--random-input-len`, the largest prompt.
    pub input_tokens: u32,
    /// `--random-output-len`, the largest answer.
    pub output_tokens: u32,
    /// `--random-range-ratio`: the smallest length as a share of the largest.
    #[serde(default = "whole")]
    pub range_ratio: f64,
    /// `--random-prefix-len`: tokens that all prompts begin with, on top of the prompt length.
    #[serde(default)]
    pub prefix_tokens: u32,
    /// Token ids of the model's tokeniser: the tool draws prompts between lengths and arrivals.
    pub vocabulary_size: u32,
}

/// The flags of SGLang's `generated-shared-prefix`; the number of requests is groups × prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SharedPrefixConfig {
    /// `--gsp-num-groups`.
    pub groups: u32,
    /// `--gsp-prompts-per-group`.
    pub prompts_per_group: u32,
    /// `--gsp-system-prompt-len`, shared within a group.
    pub system_prompt_tokens: u32,
    /// `--gsp-question-len`.
    pub question_tokens: u32,
    /// `--gsp-output-len`.
    pub output_tokens: u32,
    /// `--gsp-range-ratio`: the smallest length as a share of the largest.
    pub range_ratio: f64,
    /// Tokens of the blank line between system prompt and question.
    pub separator_tokens: u32,
    /// Whether groups follow one another or are mixed (`--gsp-ordered`).
    pub order: RowOrder,
    /// `--gsp-group-distribution`.
    pub group_distribution: GroupDistribution,
}

impl Default for SharedPrefixConfig {
    /// The defaults of SGLang 0.5.23 without warm-up requests, which add prompts to the groups.
    fn default() -> Self {
        Self {
            groups: 64,
            prompts_per_group: 16,
            system_prompt_tokens: 2048,
            question_tokens: 128,
            output_tokens: 256,
            range_ratio: 1.0,
            separator_tokens: 1,
            order: RowOrder::Shuffled,
            group_distribution: GroupDistribution::Uniform {},
        }
    }
}

/// How prompts are spread over groups.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum GroupDistribution {
    /// The same number each.
    Uniform {},
    /// The k-th group with probability in proportion to k^-exponent (`--gsp-zipf-alpha`).
    Zipf {
        /// The exponent, above 0.
        exponent: f64,
    },
}

impl Default for GroupDistribution {
    fn default() -> Self {
        Self::Uniform {}
    }
}

/// The flags of vLLM's `prefix_repetition`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PrefixRepetitionConfig {
    /// `--prefix-repetition-prefix-len`.
    pub prefix_tokens: u32,
    /// `--prefix-repetition-suffix-len`.
    pub suffix_tokens: u32,
    /// `--prefix-repetition-num-prefixes`.
    pub prefixes: u32,
    /// `--prefix-repetition-output-len`.
    pub output_tokens: u32,
    /// Token ids of the model's tokeniser: the tool draws prompts before arrivals.
    pub vocabulary_size: u32,
}

impl Default for PrefixRepetitionConfig {
    /// The defaults of vLLM 0.33.0, with Qwen's vocabulary.
    fn default() -> Self {
        Self {
            prefix_tokens: 256,
            suffix_tokens: 256,
            prefixes: 10,
            output_tokens: 128,
            vocabulary_size: 151_643,
        }
    }
}

/// The flags of vLLM's `sonnet`, and what its poem's lines look like to a tokeniser.
///
/// The default tokens per line, question and template together give 202 326 and 49 049 prompt
/// tokens for 200 prompts of 1024 and 256; a measured run with Qwen2.5's tokeniser had 202 314 and
/// 49 054. The spread of a line is an assumption.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SonnetConfig {
    /// `--sonnet-input-len`: the prompt is about this long, chat template included.
    pub input_tokens: u32,
    /// `--sonnet-output-len`.
    pub output_tokens: u32,
    /// `--sonnet-prefix-len`: all prompts share about this many tokens, chat template included.
    pub prefix_tokens: u32,
    /// Mean tokens of a line.
    pub line_tokens_mean: f64,
    /// Standard deviation of the tokens of a line.
    pub line_tokens_std: f64,
    /// Tokens of the question before the lines.
    pub question_tokens: u32,
    /// Tokens of the chat template, which the tool counts when it chooses the number of lines, and
    /// does not send.
    pub template_tokens: u32,
}

impl Default for SonnetConfig {
    fn default() -> Self {
        Self {
            input_tokens: 550,
            output_tokens: 150,
            prefix_tokens: 200,
            line_tokens_mean: 11.107,
            line_tokens_std: 1.5,
            question_tokens: 12,
            template_tokens: 12,
        }
    }
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}
