//! Why a model cannot be read or served.

use crate::plain::shown;
use crate::units::Bytes;

/// Why a model cannot be read or served. The message names the model, the rule and the value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The text is no JSON object.
    #[error("{model}: config.json: {problem}")]
    Json {
        /// The model's name.
        model: String,
        /// What the parser says.
        problem: String,
    },
    /// A key of `config.json` is missing, out of range, or describes what is not modelled.
    #[error("{model}: config.json: {key}: {problem}")]
    Key {
        /// The model's name.
        model: String,
        /// The key, with the keys it is nested in.
        key: String,
        /// The rule, the value, and what would be right.
        problem: String,
    },
    /// The heads cannot be divided over the GPUs.
    #[error(
        "{model}: tensor parallel size must divide {heads} heads and divide, or be a multiple \
         of, {kv_heads} KV heads, got {tp}"
    )]
    TensorParallel {
        /// The model's name.
        model: String,
        /// Query heads.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
        /// The size asked for.
        tp: u32,
    },
    /// Adapters of these matrices are not modelled.
    #[error("adapters of {what} are not modelled")]
    Lora {
        /// The matrices.
        what: &'static str,
    },
    /// A setting of the memory budget is out of range.
    #[error("{key}: {problem}")]
    Budget {
        /// The engine's flag.
        key: &'static str,
        /// The rule and the value.
        problem: String,
    },
    /// Weights and working memory leave no room for one KV block.
    #[error(
        "{model} does not fit at {sizes}: {} of {memory} is {usable}, \
         but weights need {weights} and activations {reserve} per GPU; {advice}",
        shown(utilization)
    )]
    DoesNotFit {
        /// The model's name.
        model: String,
        /// How many GPUs share the weights, in words.
        sizes: String,
        /// Share of the memory the engine may use.
        utilization: f64,
        /// Memory of one GPU.
        memory: Bytes,
        /// Memory the engine may use.
        usable: Bytes,
        /// Weights per GPU.
        weights: Bytes,
        /// Activations and captured graphs per GPU.
        reserve: Bytes,
        /// What would fit.
        advice: String,
    },
}
