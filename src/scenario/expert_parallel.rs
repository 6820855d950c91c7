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
    /// SGLang can, each expert is shared by `tensor_parallel_size / size` GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Tokens that visit the experts of the busiest GPU, as a multiple of the mean over GPUs, in the
    /// long run. What chance adds in a single step comes on top.
    pub imbalance: f64,
}

impl Default for ExpertParallelConfig {
    fn default() -> Self {
        Self { size: None, imbalance: 1.0 }
    }
}
