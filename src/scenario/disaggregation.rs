//! Prefill and decode on different replicas.

use serde::{Deserialize, Serialize};

use super::engine::EngineConfig;

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
    /// Who moves KV caches, and who waits for them; as the engine does it if absent: `reserve` for
    /// `sglang`, else `pull`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<HandoverProtocol>,
    /// How KV caches travel from one to the other.
    pub transfer: TransferConfig,
    /// Which prompts the decode side computes itself; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_prefill: Option<LocalPrefillConfig>,
}

/// Prompts that a decode replica computes itself: those for which one of the conditions holds, as with the
/// conditional disaggregation of Dynamo 0.2 to 0.4. That of 1.6 is a setting of its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LocalPrefillConfig {
    /// Prompts of at most so many tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_prompt_tokens: Option<u32>,
    /// Prompts of which the cache of a decode replica lacks at most so many tokens (Dynamo's
    /// `max-local-prefill-length`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_new_tokens: Option<u32>,
    /// All, while more than so many requests wait at prefill replicas (Dynamo's
    /// `max-prefill-queue-size`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_prefill_queue: Option<u32>,
}

/// How the KV cache of a prompt comes from the replica that prefilled it to the one that decodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum HandoverProtocol {
    /// The decode side claims blocks and reads into them while it goes on with other requests (vLLM
    /// 0.33.0 with the NIXL connector). For `vllm_v1`.
    Pull,
    /// The decode side sets memory aside first; then the prefill side computes the prompt and writes its
    /// KV cache there (SGLang 0.5.23; `MooncakeLayerwiseConnector` of vLLM Ascend). For `sglang` and
    /// `vllm_v1`.
    Reserve,
    /// The prefill side keeps copies of KV caches in a buffer; a step of the decode side that admits
    /// prompts fetches them one after the other, and nothing else happens there meanwhile (the
    /// disaggregated prefill of vLLM 0.6 with Mooncake's pipe). For `vllm_v0`.
    Blocking {
        /// Bytes of copies in the buffer of a prefill replica, above which it waits with the next
        /// ones. vLLM's name.
        #[serde(default = "kv_buffer_size")]
        kv_buffer_size: f64,
    },
}

impl HandoverProtocol {
    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Reserve => "reserve",
            Self::Blocking { .. } => "blocking",
        }
    }
}

impl DisaggregationConfig {
    /// How replicas with this engine hand over.
    pub fn protocol_of(&self, engine: &EngineConfig) -> HandoverProtocol {
        self.protocol.unwrap_or(match engine {
            EngineConfig::Sglang(_) => HandoverProtocol::Reserve,
            _ => HandoverProtocol::Pull,
        })
    }
}

/// A network in which only the replicas' own NICs limit transfers, which share them max-min fairly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferConfig {
    /// All NICs of a replica together, in GB/s (10⁹ bytes) in each direction; a pool of KV tiers and weights
    /// from one place take them too.
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
    /// How long a GPU of the receiver takes for each message, one after the other, in µs: the keys or values
    /// of a layer in a block, as far as one GPU of the sender has them.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub message_us: f64,
    /// Bytes that are carried beside each message.
    #[serde(default, skip_serializing_if = "is_none")]
    pub message_overhead_bytes: u32,
    /// What of a KV cache is sent at a time. Other than `whole` needs the protocol `reserve`: there is nowhere to
    /// send a part to before the decode side has memory for it.
    #[serde(default, skip_serializing_if = "TransferGranularity::is_whole")]
    pub granularity: TransferGranularity,
}

/// What of a KV cache is sent at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TransferGranularity {
    /// All of it, once the prompt is computed.
    #[default]
    Whole,
    /// The blocks of each prefill step when it ends, while the next one computes.
    ChunkWise,
    /// The part of each layer once it is computed.
    LayerWise,
}

impl TransferGranularity {
    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::ChunkWise => "chunk_wise",
            Self::LayerWise => "layer_wise",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// The default of vLLM 0.6.5, `KVTransferConfig` of `vllm/config.py`.
fn kv_buffer_size() -> f64 {
    1e9
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nothing(time: &f64) -> bool {
    *time == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_none(bytes: &u32) -> bool {
    *bytes == 0
}

fn unit() -> f64 {
    1.0
}
