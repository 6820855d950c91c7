//! What travels where some instances prefill and others decode, by protocol.

use crate::cluster::KvBlock;
use crate::scenario::{HandoverProtocol, Scenario, VllmConfig};

/// Beside keys and values, a copy has the id of each token (64 bits) and whether it counts (a byte), on
/// every GPU (vLLM 0.6, `insert` of `simple_buffer.py`).
const COPY_BYTES_PER_TOKEN: u64 = 9;

/// Bytes of an element of hidden states: all models of the catalogue compute in 16 bits.
const HIDDEN_ELEMENT_BYTES: u64 = 2;

/// Whole blocks of an engine.
pub(super) fn blocks(scenario: &Scenario, vllm: &VllmConfig) -> KvBlock {
    KvBlock { tokens: vllm.block_size, bytes_per_token: kv_bytes_per_token(scenario) }
}

/// Copies of the KV caches of prompts and of the hidden states after their last layer, which all GPUs of
/// an instance have.
pub(super) fn copies(scenario: &Scenario) -> KvBlock {
    let gpus = u64::from(scenario.file.cluster.tensor_parallel_size);
    let hidden = u64::from(scenario.model.hidden) * HIDDEN_ELEMENT_BYTES;
    let beside = gpus * (hidden + COPY_BYTES_PER_TOKEN);
    KvBlock { tokens: 1, bytes_per_token: kv_bytes_per_token(scenario) + beside }
}

/// The tokens of prompts in the buffer of an instance above which it waits with the next ones.
pub(super) fn send_buffer_tokens(scenario: &Scenario) -> Option<u64> {
    let parts = scenario.file.cluster.disaggregation?;
    match parts.protocol {
        HandoverProtocol::Pull => None,
        HandoverProtocol::Blocking { kv_buffer_size } => {
            // The buffer of every GPU has this size.
            let gpus = f64::from(scenario.file.cluster.tensor_parallel_size);
            Some((gpus * kv_buffer_size / copies(scenario).bytes_per_token as f64) as u64)
        }
    }
}

fn kv_bytes_per_token(scenario: &Scenario) -> u64 {
    let cluster = &scenario.file.cluster;
    let gpus = cluster.tensor_parallel_size;
    u64::from(gpus) * scenario.model.kv_bytes_per_token(gpus, cluster.kv_cache_dtype)
}
