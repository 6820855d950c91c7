//! Speculative decoding of SGLang, under SGLang's own names.

use serde::{Deserialize, Serialize};

use super::AcceptanceConfig;
use super::speculation::{Speculation, SpeculationKeys, SpeculationMethod};

/// Speculative decoding as SGLang's flags set it (SGLang 0.5.23, `sglang/srt/arg_groups/fields/spec.py`), with how much
/// is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SglangSpeculationConfig {
    /// Where drafts come from.
    pub speculative_algorithm: SpeculativeAlgorithm,
    /// Drafts of a step, one after the other; with 0 nothing drafts, as if there were no speculation. By the model if
    /// absent, as SGLang chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_num_steps: Option<u32>,
    /// Candidates for each draft: 1, which is a chain. By the model if steps are absent too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_eagle_topk: Option<u32>,
    /// Tokens that a step verifies for each request, the one before the drafts included: one more than steps; of `NGRAM`
    /// 12 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_num_draft_tokens: Option<u32>,
    /// The model that drafts (`STANDALONE`), or whose layers the head has (`EAGLE`, `NEXTN`, `EAGLE3`): one of the
    /// catalogue, or a `config.json`. If absent, the layers that the model itself brings draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_draft_model_path: Option<String>,
    /// Tokens that the output head of `EAGLE3` knows; those of the model if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_vocab_size: Option<u32>,
    /// What `NGRAM` takes on the CPU for each sequence of a step, in µs; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_us: Option<f64>,
    /// How many of them the target model accepts.
    pub acceptance: AcceptanceConfig,
}

/// What makes drafts in SGLang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum SpeculativeAlgorithm {
    /// A head that reads the target's last states, or the layers that the model itself brings.
    #[default]
    Eagle,
    /// A head that reads states of three of the target's layers.
    Eagle3,
    /// The same as `EAGLE`.
    Nextn,
    /// A small model with a KV cache of its own.
    Standalone,
    /// Looked up in the text so far.
    Ngram,
}

impl SpeculativeAlgorithm {
    /// Whether drafts are made of the target's states: prefixes then go by pairs of tokens, because the KV of what drafts
    /// needs the token behind each (SGLang 0.5.23, `sglang/srt/speculative/spec_info.py`, `is_eagle`).
    pub const fn reads_states(self) -> bool {
        matches!(self, Self::Eagle | Self::Eagle3 | Self::Nextn)
    }

    /// Its name in SGLang.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eagle => "EAGLE",
            Self::Eagle3 => "EAGLE3",
            Self::Nextn => "NEXTN",
            Self::Standalone => "STANDALONE",
            Self::Ngram => "NGRAM",
        }
    }
}

/// Tokens that `NGRAM` verifies unless told otherwise (`sglang/srt/arg_groups/speculative_hook.py`, as the next one).
const NGRAM_TOKENS: u32 = 12;

impl SglangSpeculationConfig {
    /// Steps unless told otherwise, of models for which SGLang takes a chain; others need to be told.
    pub const STEPS: u32 = 3;

    /// Drafts that come from there, without further settings.
    pub const fn new(algorithm: SpeculativeAlgorithm, acceptance: AcceptanceConfig) -> Self {
        Self {
            speculative_algorithm: algorithm,
            speculative_num_steps: None,
            speculative_eagle_topk: None,
            speculative_num_draft_tokens: None,
            speculative_draft_model_path: None,
            draft_vocab_size: None,
            lookup_us: None,
            acceptance,
        }
    }

    /// Drafts that a step verifies for each request.
    pub fn drafts(&self) -> u32 {
        match self.speculative_algorithm {
            SpeculativeAlgorithm::Ngram => {
                self.speculative_num_draft_tokens.unwrap_or(NGRAM_TOKENS).saturating_sub(1)
            }
            _ => self.speculative_num_steps.unwrap_or(Self::STEPS),
        }
    }

    /// The same in the words of all engines.
    pub(super) fn in_common(&self) -> Speculation<'_> {
        let method = match (self.speculative_algorithm, &self.speculative_draft_model_path) {
            (SpeculativeAlgorithm::Eagle3, _) => SpeculationMethod::Eagle3,
            (SpeculativeAlgorithm::Standalone, _) => SpeculationMethod::DraftModel,
            (SpeculativeAlgorithm::Ngram, _) => SpeculationMethod::Ngram,
            (SpeculativeAlgorithm::Eagle | SpeculativeAlgorithm::Nextn, None) => {
                SpeculationMethod::Mtp
            }
            (SpeculativeAlgorithm::Eagle | SpeculativeAlgorithm::Nextn, Some(_)) => {
                SpeculationMethod::Eagle
            }
        };
        Speculation {
            method: Some(method),
            name: Some(self.speculative_algorithm.name()),
            model: self.speculative_draft_model_path.as_ref(),
            drafts: self.drafts(),
            draft_vocab_size: self.draft_vocab_size,
            lookup_us: self.lookup_us,
            acceptance: &self.acceptance,
            keys: match self.speculative_algorithm {
                SpeculativeAlgorithm::Ngram => SpeculationKeys::SGLANG_NGRAM,
                _ => SpeculationKeys::SGLANG,
            },
        }
    }
}
