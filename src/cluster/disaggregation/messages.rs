//! The messages that a KV cache travels in (vLLM 0.33.0, `kv_connector/v1/nixl_connector.py`: a descriptor for
//! each layer and block, of keys and of values).
//!
//! Every GPU of the receiver reads for itself what it keeps of a block, layer by layer, keys and values apart;
//! a latent vector is one. Where the GPUs of the sender have fewer KV heads each, it reads from several of
//! them, in as many smaller messages; where they have more, it reads a part of what one has. A latent vector is
//! on every GPU, and is read from one.

use super::TransferEnd;
use crate::network::Protocol;

/// What messages cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Messages {
    /// Messages of a block on a GPU that gets its heads from one other: 2 for each layer, or 1 of latent
    /// vectors.
    pub of_block: u32,
    /// Seconds that a GPU of the receiver takes for each, one after the other.
    pub seconds: f64,
    /// Bytes carried beside each.
    pub overhead_bytes: u64,
}

impl Messages {
    /// How KV goes from one end to the other, in blocks of so many tokens.
    pub(super) fn between(
        &self,
        protocol: Protocol,
        (from, to): (TransferEnd, TransferEnd),
        block_tokens: u32,
    ) -> Protocol {
        let of_gpu = u64::from(block_tokens) * to.kv_bytes_per_token / u64::from(to.gpus);
        let senders = from.head_shards.div_ceil(to.head_shards);
        let bytes = (of_gpu / u64::from(self.of_block * senders)).max(1);
        let carried = bytes as f64 / protocol.efficiency + self.overhead_bytes as f64;
        let fastest = (self.seconds > 0.0).then(|| f64::from(to.gpus) * carried / self.seconds);
        let caps = [protocol.flow_cap_bytes_per_s, fastest];
        Protocol {
            flow_cap_bytes_per_s: caps.into_iter().flatten().reduce(f64::min),
            message_bytes: (self.overhead_bytes > 0).then_some(bytes),
            message_overhead_bytes: self.overhead_bytes,
            ..protocol
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight heads and 32 layers; a token has 4,096 bytes of each head.
    fn end(gpus: u32) -> TransferEnd {
        let held = gpus.max(8);
        let kv_bytes_per_token = 4096 * u64::from(held);
        TransferEnd { nic_bytes_per_s: 1e9, kv_bytes_per_token, gpus, head_shards: gpus.min(8) }
    }

    fn bytes(from: u32, to: u32) -> u64 {
        let messages = Messages { of_block: 64, seconds: 1e-6, overhead_bytes: 1 };
        let protocol = messages.between(Protocol::default(), (end(from), end(to)), 16);
        let bytes = protocol.message_bytes.expect("messages carry something beside");
        let cap = protocol.flow_cap_bytes_per_s.expect("messages take time");
        assert!((cap - f64::from(to) * (bytes + 1) as f64 * 1e6).abs() < 1.0);
        bytes
    }

    #[test]
    fn messages_are_as_large_as_what_one_gpu_has_for_another() {
        // Keys or values of a layer of 16 tokens of a head: 1,024 bytes.
        let head = 16 * 4096 / 64;
        assert_eq!(bytes(1, 1), 8 * head);
        assert_eq!(bytes(4, 4), 2 * head);
        assert_eq!(bytes(1, 4), 2 * head, "each reads its part of what one has");
        assert_eq!(bytes(4, 1), 2 * head, "one reads from four");
        assert_eq!(bytes(8, 2), head);
        assert_eq!(bytes(16, 8), head, "heads that two have are read from one");
    }

    #[test]
    fn messages_that_cost_nothing_change_nothing() {
        let messages = Messages { of_block: 64, seconds: 0.0, overhead_bytes: 0 };
        let capped = Protocol { flow_cap_bytes_per_s: Some(5e6), ..Protocol::default() };
        for protocol in [Protocol::default(), capped] {
            assert_eq!(messages.between(protocol, (end(4), end(2)), 16), protocol);
        }
    }
}
