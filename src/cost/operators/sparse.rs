//! Attention of chosen or compressed tokens from measured times.
//!
//! What the tables hold is what the layer's attention takes beside its matrix products, those of the indexer and of
//! the compressor among the latter: norms, rotary positions, the write to the caches, the logits of the indexer, the
//! choice of the tokens, the attention itself. Up to as many tokens as are chosen it is attention of all; beyond,
//! what is read stays the same and the indexer's part grows with the context.
//!
//! A prompt's later tokens see longer contexts than its first ones. So what a part of a prompt takes is what the whole
//! prompt up to its end takes less the same up to its begin.

use super::latent;
use super::mixers::{MixerTimes, Shape};
use super::profile::OperatorProfile;
use super::tables::MixerKind;
use crate::model::KvDtype;
use crate::model::checkpoint::{Compressed, GroupedAttention, Indexer, LatentAttention};

/// Tokens that are chosen, where a layer takes the choice of an earlier one, and the elements of its index heads.
const TAKEN: [u32; 3] = [0, 128, 2048];

impl OperatorProfile {
    /// Latent attention of chosen tokens in so many layers, on one of `tp` GPUs that share the heads, each with the
    /// whole indexer; `None` where the GPU has no table of it with this KV cache. A layer without an indexer takes the
    /// choice of one before it.
    pub fn sparse_latent_attention(
        &self,
        latent: &LatentAttention,
        tp: u32,
        kv_dtype: KvDtype,
        layers: f64,
    ) -> Option<MixerTimes> {
        let indexer = Some(latent.indexer.map_or(TAKEN, numbers));
        let shape = Shape { indexer, ..latent::shape(latent, tp, MixerKind::SparseLatent) };
        shape.times(&self.mixers, kv_dtype, layers)
    }

    /// Grouped attention of chosen blocks (MiniMax-M3) in so many layers, on one of `tp` GPUs that share the heads
    /// of queries, keys and the indexer.
    pub fn sparse_grouped_attention(
        &self,
        grouped: &GroupedAttention,
        tp: u32,
        kv_dtype: KvDtype,
        layers: f64,
    ) -> Option<MixerTimes> {
        let elements = f64::from(grouped.head_dim + grouped.value_dim);
        let shape = Shape {
            kind: MixerKind::SparseGrouped,
            heads: f64::from(grouped.heads.div_ceil(tp.max(1))),
            // Of a KV head: how many there are goes with the query heads.
            cached: elements,
            multiplied: elements,
            indexer: grouped.indexer.map(numbers),
            ratio: 0,
        };
        shape.times(&self.mixers, kv_dtype, layers)
    }

    /// Attention of a window and of compressed entries before it (DeepSeek-V4) in so many layers, on one of `tp` GPUs
    /// that share the heads, each with the whole indexer and all entries. The cache was measured in 8 bits alone, as
    /// the engines have it.
    pub fn compressed_attention(
        &self,
        compressed: &Compressed,
        tp: u32,
        kv_dtype: KvDtype,
        layers: f64,
    ) -> Option<MixerTimes> {
        let elements = f64::from(compressed.head_dim);
        let shape = Shape {
            kind: MixerKind::Compressed,
            heads: f64::from(compressed.heads.div_ceil(tp.max(1))),
            cached: elements,
            multiplied: 2.0 * elements,
            indexer: compressed.indexer.map(numbers),
            ratio: compressed.ratio,
        };
        shape.times(&self.mixers, kv_dtype, layers)
    }
}

fn numbers(indexer: Indexer) -> [u32; 3] {
    [indexer.heads, indexer.head_dim, indexer.tokens]
}

#[cfg(test)]
mod tests;
