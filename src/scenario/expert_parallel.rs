//! Experts spread over the GPUs of a replica.

use serde::{Deserialize, Serialize};

/// Routed experts spread over the GPUs of a replica, each of which computes the tokens that visit its
/// own, instead of all GPUs sharing every expert (vLLM's `--enable-expert-parallel`, SGLang's
/// `--ep-size`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ExpertParallelConfig {
    /// GPUs among which the experts are divided; all of the replica if absent. With fewer, which
    /// SGLang can, each expert is shared by the rest; with 1, all GPUs of all ranks share every
    /// expert, as in vLLM's ranks without expert parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Tokens that visit the experts of the busiest GPU, as a multiple of the mean over GPUs, in the
    /// long run. What chance adds in a single step comes on top.
    pub imbalance: f64,
    /// How much that differs from step to step: what is above 1 is log-normal, with this standard
    /// deviation of its logarithm.
    #[serde(skip_serializing_if = "is_zero")]
    pub imbalance_sigma: f64,
    /// How tokens travel to the GPUs of their experts and back, with several data-parallel ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeConfig>,
}

impl Default for ExpertParallelConfig {
    fn default() -> Self {
        Self { size: None, imbalance: 1.0, imbalance_sigma: 0.0, exchange: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(sigma: &f64) -> bool {
    sigma.to_bits() == 0
}

/// The way of tokens to experts on other GPUs, and back. A message takes the latency, and the bytes that a
/// GPU gets over the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExchangeConfig {
    /// Which GPUs get a token.
    #[serde(rename = "type", default)]
    pub kind: ExchangeKind,
    /// Time of a small message one way, in µs.
    pub latency_us: f64,
    /// Rate at which a GPU gets bytes, in 10⁹ B/s.
    pub gb_per_s: f64,
}

/// Which GPUs get a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExchangeKind {
    /// All: an all-gather there, a reduce-scatter back.
    #[default]
    AllGather,
    /// Those that have experts for it: an all-to-all both ways.
    AllToAll,
}
