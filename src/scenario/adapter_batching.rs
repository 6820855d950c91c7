//! Whose requests go into a step together, and whether their adapter is merged into the weights.

use serde::{Deserialize, Serialize};

/// A rule for batches of requests with different adapters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum AdapterBatchingConfig {
    /// Everybody's, as the engine admits them; adapters stay apart from the weights.
    Unmerged {},
    /// Those of one adapter, which is merged into the weights: that of the request that came first.
    MergedOnly(MergedOnlyConfig),
    /// Either, as it pays: dLoRA's dynamic batching.
    DloraCredit(DloraCreditConfig),
    /// Those of few adapters before others, apart from the weights: S-LoRA's adapter clustering.
    SloraClusters(SloraClustersConfig),
}

impl Default for AdapterBatchingConfig {
    fn default() -> Self {
        Self::Unmerged {}
    }
}

impl AdapterBatchingConfig {
    /// Its name in scenarios.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unmerged {} => "unmerged",
            Self::MergedOnly(_) => "merged_only",
            Self::DloraCredit(_) => "dlora_credit",
            Self::SloraClusters(_) => "slora_clusters",
        }
    }

    /// Whether adapters are merged into the weights at times, so that others pause.
    pub const fn merges(&self) -> bool {
        matches!(self, Self::MergedOnly(_) | Self::DloraCredit(_))
    }

    /// What it takes to merge an adapter into the weights, or to take it out again, in ms; 0 where that
    /// does not happen.
    pub const fn switch_ms(&self) -> f64 {
        match self {
            Self::Unmerged {} | Self::SloraClusters(_) => 0.0,
            Self::MergedOnly(config) => config.switch_ms,
            Self::DloraCredit(config) => config.switch_ms,
        }
    }
}

/// S-LoRA's adapter clustering.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SloraClustersConfig {
    /// Distinct adapters in a batch from which on requests of these go first (S-LoRA's `batch_num_adapters`).
    pub max_adapters: u32,
    /// Whether requests of other adapters fill the places that those leave.
    #[serde(default = "yes")]
    pub fills_with_others: bool,
}

fn yes() -> bool {
    true
}

/// Batches of one merged adapter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MergedOnlyConfig {
    /// To merge an adapter into the weights, or to take it out again, in ms.
    pub switch_ms: f64,
}

impl Default for MergedOnlyConfig {
    fn default() -> Self {
        Self { switch_ms: DloraCreditConfig::SWITCH_MS }
    }
}

/// dLoRA's dynamic batching.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DloraCreditConfig {
    /// To merge an adapter into the weights, or to take it out again, in ms.
    pub switch_ms: f64,
    /// What the policy takes a merged step to last, in ms; if absent, what a full batch takes that
    /// decodes at a context of 512 tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_step_ms: Option<f64>,
    /// The same unmerged; if absent, that batch with as many adapters of `max_rank` as there are slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmerged_step_ms: Option<f64>,
    /// The credit between an adapter at rest and one whose requests go first.
    pub credit: f64,
    /// What a threshold of merging moves by where its mode was the better one.
    pub threshold_step: f64,
    /// The factor by which it gives way where its mode was the worse one.
    pub threshold_factor: f64,
}

impl DloraCreditConfig {
    /// dLoRA's figure for Llama-7B.
    const SWITCH_MS: f64 = 20.0;
}

impl Default for DloraCreditConfig {
    /// dLoRA's own constants.
    fn default() -> Self {
        Self {
            switch_ms: Self::SWITCH_MS,
            merged_step_ms: None,
            unmerged_step_ms: None,
            credit: 10_000.0,
            threshold_step: 0.05,
            threshold_factor: 1.1,
        }
    }
}
