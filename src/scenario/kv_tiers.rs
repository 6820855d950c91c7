//! KV memory below that of the GPUs.

use serde::{Deserialize, Serialize};

/// Tiers that keep KV caches longer than GPU memory does: host memory and a disk of every replica, and a
/// pool that all replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KvTiersConfig {
    /// Tokens of a chunk: tiers keep, find and move whole chunks. A multiple of the engine's
    /// `block_size`; LMCache's default.
    #[serde(default = "chunk_tokens")]
    pub chunk_tokens: u32,
    /// When KV goes down.
    #[serde(default)]
    pub write: TierWrite,
    /// Which chunk gives way to a new one.
    #[serde(default)]
    pub eviction: TierEviction,
    /// Whether what lies below is fetched or computed again.
    #[serde(default)]
    pub fetch: TierFetch,
    /// Between the GPUs of a replica and its host in each direction, in GB/s (10⁹ bytes); the host
    /// buses of all of its GPUs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_gb_per_s: Option<f64>,
    /// Before the first byte of each move, in µs.
    #[serde(default)]
    pub latency_us: f64,
    /// Host memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostTierConfig>,
    /// A disk below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskTierConfig>,
    /// What all replicas share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolTierConfig>,
}

/// Host memory of each replica.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostTierConfig {
    /// Memory for KV caches, of all GPUs of a replica together, in GiB.
    pub memory_gib: f64,
}

/// A disk of each replica.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskTierConfig {
    /// Room for KV caches, of all GPUs of a replica together, in GiB.
    pub capacity_gib: f64,
    /// What it reads, in GB/s (10⁹ bytes).
    pub read_gb_per_s: f64,
    /// What it writes, in GB/s.
    pub write_gb_per_s: f64,
}

/// A pool that all replicas share, as Mooncake's store is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolTierConfig {
    /// Memory for KV caches in all of it, in GiB.
    pub memory_gib: f64,
    /// All NICs of a replica together, in GB/s (10⁹ bytes) in each direction; those over which it hands KV caches
    /// over, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_gb_per_s: Option<f64>,
    /// All servers of the pool together, in GB/s in each direction; only the replicas' NICs limit if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers_gb_per_s: Option<f64>,
}

/// When KV goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TierWrite {
    /// To every tier, when it is computed.
    #[default]
    Through,
    /// To the next tier below, when the one above gives it up.
    Back,
}

/// Which chunk gives way to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TierEviction {
    /// The one that no request has asked for for longest.
    #[default]
    Lru,
    /// The one that came first.
    Fifo,
}

/// Whether what lies below is fetched or computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TierFetch {
    /// It is always fetched.
    #[default]
    Always,
    /// It is fetched where that is expected to take less time than to compute it.
    WhenFaster,
    /// It is fetched from so many tokens on.
    MinTokens(u32),
}

/// LMCache, `chunk_size` of `lmcache/v1/config.py` (commit 000620e).
fn chunk_tokens() -> u32 {
    256
}
