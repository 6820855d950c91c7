//! What joins the GPUs of a replica: those of a stage, and stages.

use serde::{Deserialize, Serialize};

/// The way from a GPU of one stage to the one that goes on in the next. A message takes the latency, and
/// its bytes over the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PipelineLink {
    /// Rate of one GPU in one direction, in 10⁹ B/s.
    pub gb_per_s: f64,
    /// Time of a small message, in µs.
    pub latency_us: f64,
}

/// All-reduces between the GPUs of a replica, or of each of its stages, on this host. One takes the latency,
/// and the bytes of its message over the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AllReduceConfig {
    /// Bytes of large messages over time, in 10⁹ B/s (`algbw` of nccl-tests).
    pub gb_per_s: f64,
    /// Time of a small message, in µs.
    pub latency_us: f64,
}
