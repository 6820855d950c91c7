//! Measured times of layers that are not grouped attention: of latent and sparse attention, and of layers with
//! states, as a file holds them.

use serde::Deserialize;

use super::profile::{Codes, ProfileError, ascends, holds};

/// What a layer's attention takes beside its matrix products, for one model's layer and one type of KV cache.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixerTable {
    /// What kind of layer it is.
    pub kind: MixerKind,
    /// The model whose layer was measured.
    pub model: String,
    /// The type of the KV cache: `bfloat16` or `fp8`.
    pub kv_dtype: String,
    /// Elements that a layer caches of a token.
    pub cached: u32,
    /// Elements that prompts multiply for a head and a pair of tokens: of a key and of a value.
    pub multiplied: u32,
    /// Heads of the indexer, elements of each and tokens that it chooses; no heads where another layer has chosen.
    #[serde(default)]
    pub indexer: Option<[u32; 3]>,
    /// Tokens that one compressed entry stands for; 0 where nothing is compressed.
    #[serde(default)]
    pub ratio: u32,
    /// Query heads on a GPU that were measured.
    pub heads: Vec<u32>,
    /// Sequences that decode.
    pub sequences: Vec<u32>,
    /// Their contexts, in tokens.
    pub contexts: Vec<u32>,
    /// Time in µs, by heads, then sequences, then contexts; a line for each heads and sequences.
    pub decode: Codes,
    /// Whole prompts side by side; none where prefill was not measured.
    #[serde(default)]
    pub prompts: Vec<u32>,
    /// Their lengths, in tokens.
    #[serde(default)]
    pub tokens: Vec<u32>,
    /// Time in µs, by heads, then prompts, then tokens; a line for each heads and prompts.
    #[serde(default)]
    pub prefill: Codes,
}

/// Kinds of attention that are not grouped, or not of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixerKind {
    /// Latent attention (DeepSeek-V2, V3).
    Latent,
    /// Latent attention of chosen tokens (DeepSeek-V3.2, GLM-5).
    SparseLatent,
    /// Grouped attention of chosen blocks (MiniMax-M3).
    SparseGrouped,
    /// A window and compressed entries before it (DeepSeek-V4).
    Compressed,
}

impl MixerKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latent => "latent",
            Self::SparseLatent => "sparse_latent",
            Self::SparseGrouped => "sparse_grouped",
            Self::Compressed => "compressed",
        }
    }
}

/// What layers with states take beside their matrix products, convolutions included.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateTable {
    /// What kind of layer it is.
    pub kind: StateKind,
    /// Elements of a key head.
    pub key_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Heads of keys and of values on a GPU that were measured.
    pub heads: Vec<[u32; 2]>,
    /// Sequences that decode.
    pub sequences: Vec<u32>,
    /// Time in µs, a line for each heads.
    pub decode: Codes,
    /// Whole prompts side by side.
    pub prompts: Vec<u32>,
    /// Their lengths, in tokens.
    pub tokens: Vec<u32>,
    /// Time in µs, by heads, then prompts, then tokens; a line for each heads and prompts.
    pub prefill: Codes,
}

/// Kinds of layers with states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// Gated delta net (Qwen3-Next, Qwen3.5).
    GatedDelta,
    /// Kimi delta attention.
    KimiDelta,
}

impl StateKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GatedDelta => "gated_delta",
            Self::KimiDelta => "kimi_delta",
        }
    }
}

impl MixerTable {
    pub(super) fn check(&self, index: usize) -> Result<(), ProfileError> {
        let place = format!("mixers[{index}]");
        ascends(&place, "heads", &self.heads)?;
        ascends(&place, "sequences", &self.sequences)?;
        ascends(&place, "contexts", &self.contexts)?;
        let shapes = self.heads.len();
        let decode = shapes * self.sequences.len() * self.contexts.len();
        holds(&format!("{place}.decode"), &self.decode, decode)?;
        if self.prompts.is_empty() && self.tokens.is_empty() {
            return holds(&format!("{place}.prefill"), &self.prefill, 0);
        }
        ascends(&place, "prompts", &self.prompts)?;
        ascends(&place, "tokens", &self.tokens)?;
        let prefill = shapes * self.prompts.len() * self.tokens.len();
        holds(&format!("{place}.prefill"), &self.prefill, prefill)?;
        if self.cached == 0 || self.multiplied == 0 {
            return Err(ProfileError::new(format!(
                "{place}: cached and multiplied must be above 0"
            )));
        }
        Ok(())
    }
}

impl StateTable {
    pub(super) fn check(&self, index: usize) -> Result<(), ProfileError> {
        let place = format!("states[{index}]");
        ascends(&place, "sequences", &self.sequences)?;
        ascends(&place, "prompts", &self.prompts)?;
        ascends(&place, "tokens", &self.tokens)?;
        let shapes = self.heads.len();
        holds(&format!("{place}.decode"), &self.decode, shapes * self.sequences.len())?;
        let prefill = shapes * self.prompts.len() * self.tokens.len();
        holds(&format!("{place}.prefill"), &self.prefill, prefill)?;
        let is_head = |[key, value]: &[u32; 2]| *key > 0 && *value > 0;
        if shapes == 0 || !self.heads.iter().all(is_head) || self.key_dim * self.value_dim == 0 {
            return Err(ProfileError::new(format!(
                "{place}: heads and their elements must be above 0"
            )));
        }
        Ok(())
    }
}
