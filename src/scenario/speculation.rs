//! Speculative decoding, in vLLM's names (`--speculative-config`), and what it comes to in any engine.

use serde::{Deserialize, Serialize};

/// Speculative decoding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SpeculationConfig {
    /// Where drafts come from. If absent, they come from nowhere: making them takes neither time nor memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<SpeculationMethod>,
    /// The model that drafts (`draft_model`), or whose layers the head has (`eagle`, `eagle3`): one of the catalogue,
    /// or a `config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Drafts per step; with 0 nothing drafts, as if there were no speculation.
    pub num_speculative_tokens: u32,
    /// Tokens that the output head of `eagle3` knows; those of the model if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_vocab_size: Option<u32>,
    /// What `ngram` and `suffix` take on the CPU for each sequence of a step, in µs; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_us: Option<f64>,
    /// How many of them the target model accepts.
    pub acceptance: AcceptanceConfig,
}

impl SpeculationConfig {
    /// Drafts that come from there, without further settings.
    pub const fn new(
        method: SpeculationMethod,
        num_speculative_tokens: u32,
        acceptance: AcceptanceConfig,
    ) -> Self {
        Self {
            method: Some(method),
            model: None,
            num_speculative_tokens,
            draft_vocab_size: None,
            lookup_us: None,
            acceptance,
        }
    }

    /// What the scheduler reserves slots for: drafts from nowhere are treated like those of `ngram`.
    pub fn scheduled_as(&self) -> SpeculationMethod {
        self.method.unwrap_or(SpeculationMethod::Ngram)
    }

    /// The same in the words of all engines.
    pub(super) fn in_common(&self) -> Speculation<'_> {
        Speculation {
            method: self.method,
            name: self.method.map(SpeculationMethod::name),
            model: self.model.as_ref(),
            drafts: self.num_speculative_tokens,
            draft_vocab_size: self.draft_vocab_size,
            lookup_us: self.lookup_us,
            acceptance: &self.acceptance,
            keys: SpeculationKeys::VLLM,
        }
    }
}

/// Speculative decoding as an engine does it, whatever its names are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation<'a> {
    /// Where drafts come from, if that is told.
    pub method: Option<SpeculationMethod>,
    /// What the engine calls that.
    pub name: Option<&'static str>,
    /// The model that drafts, or whose layers the head has, if one is named.
    pub model: Option<&'a String>,
    /// Drafts that a step verifies for each request.
    pub drafts: u32,
    /// Tokens that the output head of what drafts knows, if that is told.
    pub draft_vocab_size: Option<u32>,
    /// What looking drafts up takes for each sequence of a step, in µs, if that is told.
    pub lookup_us: Option<f64>,
    /// How many are accepted.
    pub acceptance: &'a AcceptanceConfig,
    /// What the engine calls these settings.
    pub keys: SpeculationKeys,
}

/// The names of an engine for settings of speculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeculationKeys {
    /// Where drafts come from.
    pub method: &'static str,
    /// The model that drafts.
    pub model: &'static str,
    /// How many drafts there are.
    pub drafts: &'static str,
    /// The longest accept length, as a sum of that.
    pub longest: &'static str,
}

impl SpeculationKeys {
    /// vLLM's.
    pub const VLLM: Self = Self {
        method: "method",
        model: "model",
        drafts: "num_speculative_tokens",
        longest: "num_speculative_tokens + 1",
    };

    /// `SGLang`'s.
    pub const SGLANG: Self = Self {
        method: "speculative_algorithm",
        model: "speculative_draft_model_path",
        drafts: "speculative_num_steps",
        longest: "speculative_num_steps + 1",
    };

    /// Those of its `NGRAM`.
    pub const SGLANG_NGRAM: Self = Self {
        drafts: "speculative_num_draft_tokens",
        longest: "speculative_num_draft_tokens",
        ..Self::SGLANG
    };
}

/// How many drafts of a step are accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AcceptanceConfig {
    /// Each draft with the same probability, if all before it were.
    PerPosition {
        /// The probability, above 0 and at most 1.
        probability: f64,
    },
    /// As with `per_position`, the probability being the one under which a step with all its drafts
    /// brings out this many tokens on average.
    MeanLength {
        /// Accepted drafts and the token that follows them: from 1 to one more than the drafts.
        /// Both benchmark tools print it as the accept length.
        tokens: f64,
    },
    /// As recorded, request by request.
    Recorded {
        /// JSON lines `{"request": 0, "accepted": [2, 0, 3]}`, relative to the scenario file.
        path: String,
    },
}

/// Where drafts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpeculationMethod {
    /// Looked up in the text so far.
    Ngram,
    /// Looked up in a tree of texts so far.
    Suffix,
    /// A head of one layer, which reads the target's last states.
    Eagle,
    /// A head of one layer, which reads states of three of the target's layers.
    Eagle3,
    /// The layers that the model itself brings for it (multi-token prediction).
    Mtp,
    /// A small model with a KV cache of its own.
    DraftModel,
}

impl SpeculationMethod {
    /// Whether drafts are made of the target's states: its KV is then named with one token more, and the last block
    /// that a lookup finds is computed again (vLLM 0.33.0, `vllm/config/speculative.py`, `use_eagle`).
    pub const fn reads_states(self) -> bool {
        matches!(self, Self::Eagle | Self::Eagle3 | Self::Mtp)
    }

    /// Whether slots are reserved for drafts before they are verified: what drafts has KV of its own
    /// (vLLM 0.33.0, `vllm/v1/core/sched/scheduler.py`, `num_lookahead_tokens`).
    pub const fn looks_ahead(self) -> bool {
        self.reads_states() || matches!(self, Self::DraftModel)
    }

    /// Whether drafts are looked up on the CPU.
    pub const fn is_looked_up(self) -> bool {
        matches!(self, Self::Ngram | Self::Suffix)
    }

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ngram => "ngram",
            Self::Suffix => "suffix",
            Self::Eagle => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Mtp => "mtp",
            Self::DraftModel => "draft_model",
        }
    }
}
