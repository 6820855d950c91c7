//! Latent attention from measured times.
//!
//! The tables are of DeepSeek-V3's layer. What they hold is what the layer's attention takes beside its matrix products,
//! which are the projections down (of queries, keys and values one product), of queries up, of keys and values up, and
//! of the output. So a layer takes these products and the time given here; the absorbed products of decode count as
//! that of keys and values up, and their difference is in the table. Rotary positions and the write to the cache are
//! in the tables of vLLM, and the write alone in those of SGLang.

use super::mixers::{MixerTimes, Shape};
use super::profile::OperatorProfile;
use super::tables::MixerKind;
use crate::model::KvDtype;
use crate::model::checkpoint::LatentAttention;

impl OperatorProfile {
    /// Latent attention of all tokens in so many layers, on one of `tp` GPUs that share the heads; `None` where the
    /// GPU has no table of it with this KV cache.
    pub fn latent_attention(
        &self,
        latent: &LatentAttention,
        tp: u32,
        kv_dtype: KvDtype,
        layers: f64,
    ) -> Option<MixerTimes> {
        shape(latent, tp, MixerKind::Latent).times(&self.mixers, kv_dtype, layers)
    }
}

pub(super) fn shape(latent: &LatentAttention, tp: u32, kind: MixerKind) -> Shape {
    let per_head = latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim;
    Shape {
        kind,
        heads: f64::from(latent.heads.div_ceil(tp.max(1))),
        cached: f64::from(latent.kv_lora_rank + latent.qk_rope_head_dim),
        multiplied: f64::from(per_head),
        indexer: None,
        ratio: 0,
    }
}
