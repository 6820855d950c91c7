//! How step times are configured.

use serde::{Deserialize, Serialize};

/// How long steps take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StepTimeConfig {
    /// From the shapes of the model and the figures of the GPU, with measured kernel efficiencies.
    Roofline {
        /// How tokens are drawn.
        #[serde(default)]
        sampler: Sampler,
        /// Whether all-reduces between GPUs take time.
        #[serde(default)]
        communication: Communication,
    },
    /// An affine law.
    Linear {
        /// Every step, in µs.
        base_us: f64,
        /// Every prompt token computed, in µs.
        prefill_token_us: f64,
        /// Every sequence that decodes, in µs.
        decode_seq_us: f64,
    },
}

impl Default for StepTimeConfig {
    fn default() -> Self {
        Self::Roofline { sampler: Sampler::default(), communication: Communication::default() }
    }
}

/// How tokens are drawn from the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// The largest logit, or a draw without limits: no measurable time.
    #[default]
    Greedy,
    /// Top-p or top-k, which sorts the vocabulary in `PyTorch`: 52 µs and 17 µs per row
    /// at 128,000 entries (fitted to vLLM 0.15.1 on H100).
    TopPTopK,
}

/// Whether all-reduces take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Communication {
    /// Two all-reduces per layer.
    #[default]
    Counted,
    /// Free: a lower bound.
    Ignored,
}
