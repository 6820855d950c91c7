//! Prefill and decode on different replicas.

use serde::{Deserialize, Serialize};

/// Replicas that prefill and replicas that decode, and the network between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DisaggregationConfig {
    /// Replicas that only prefill; absent where `cluster.groups` gives roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_replicas: Option<u32>,
    /// Replicas that only decode; absent where `cluster.groups` gives roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_replicas: Option<u32>,
    /// How KV caches travel from one to the other.
    pub transfer: TransferConfig,
}

/// A network in which only the replicas' own NICs limit transfers, which share them max-min fairly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferConfig {
    /// All NICs of a replica together, in GB/s (10⁹ bytes) in each direction.
    pub nic_gb_per_s: f64,
    /// Payload as a share of what the NICs carry, from 0 (excluded) to 1.
    #[serde(default = "unit")]
    pub efficiency: f64,
    /// What one transfer carries at most, in GB/s: one NIC of several, one connection, one core that
    /// copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_gb_per_s: Option<f64>,
    /// Before the first byte of a transfer, in µs.
    #[serde(default)]
    pub latency_us: f64,
}

fn unit() -> f64 {
    1.0
}
