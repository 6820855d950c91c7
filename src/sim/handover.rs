//! What travels where some instances prefill and others decode, by protocol.

use crate::cluster::{Granularity, Messages};
use crate::engine::scheduler::KvRole;
use crate::model::ModelSpec;
use crate::resolved::ReplicaGroup;
use crate::scenario::{
    DisaggregationConfig, HandoverProtocol, ReplicaRole, TransferConfig, TransferGranularity,
};

/// Beside keys and values, a copy has the id of each token (64 bits) and whether it counts (a byte), on
/// every GPU (vLLM 0.6, `insert` of `simple_buffer.py`).
const COPY_BYTES_PER_TOKEN: u64 = 9;

/// Bytes of an element of hidden states: all models of the catalogue compute in 16 bits.
const HIDDEN_ELEMENT_BYTES: u64 = 2;

/// KV bytes of a token on all GPUs of a replica.
pub(super) fn kv_bytes_per_token(group: &ReplicaGroup) -> u64 {
    let gpus = group.cluster.tensor_parallel_size;
    u64::from(gpus) * group.model.kv_bytes_per_token(gpus, group.cluster.kv_cache_dtype)
}

/// Bytes of a token in copies of the KV caches of prompts and of the hidden states after their last
/// layer, which all GPUs of a replica have.
pub(super) fn copied_bytes_per_token(group: &ReplicaGroup) -> u64 {
    let gpus = u64::from(group.cluster.tensor_parallel_size);
    let hidden = u64::from(group.model.hidden) * HIDDEN_ELEMENT_BYTES;
    kv_bytes_per_token(group) + gpus * (hidden + COPY_BYTES_PER_TOKEN)
}

/// Which end of KV transfers a replica of vLLM is, as its guide to several replicas sets them up (vLLM 0.33.0,
/// `docs/features/nixl_connector_usage.md`).
pub(super) fn kv_role(role: ReplicaRole) -> Option<KvRole> {
    match role {
        ReplicaRole::Mixed => None,
        ReplicaRole::Prefill => Some(KvRole::Producer),
        ReplicaRole::Decode => Some(KvRole::Consumer),
    }
}

/// What of a KV cache is sent at a time.
pub(super) fn granularity(parts: &DisaggregationConfig, model: &ModelSpec) -> Granularity {
    match parts.transfer.granularity {
        TransferGranularity::Whole => Granularity::Whole,
        TransferGranularity::ChunkWise => Granularity::Chunks,
        TransferGranularity::LayerWise => Granularity::Layers { count: model.attention_layers() },
    }
}

/// The messages that KV caches travel in.
pub(super) fn messages(transfer: &TransferConfig, model: &ModelSpec) -> Messages {
    let parts = if model.is_latent() { 1 } else { 2 };
    Messages {
        of_block: parts * model.attention_layers(),
        seconds: transfer.message_us / 1e6,
        overhead_bytes: transfer.message_overhead_bytes.into(),
    }
}

/// The tokens of prompts in the buffer of a replica above which it waits with the next ones.
pub(super) fn send_buffer_tokens(group: &ReplicaGroup) -> Option<u64> {
    match group.handover? {
        HandoverProtocol::Pull | HandoverProtocol::Reserve => None,
        HandoverProtocol::Blocking { kv_buffer_size } => {
            // The buffer of every GPU has this size.
            let gpus = f64::from(group.cluster.tensor_parallel_size);
            let token = copied_bytes_per_token(group);
            Some((gpus * kv_buffer_size / token as f64) as u64)
        }
    }
}
