//! What weights take on a GPU once they are loaded: more than in the checkpoint.
//!
//! * Experts of MXFP4 are padded on each GPU to the tile of the kernel that multiplies them: on Hopper their width
//!   to a multiple of 64, on other NVIDIA GPUs the width to 128 and the hidden size to 256. Experts in 16 bits
//!   are padded to 128 on data-centre Blackwell (vLLM 0.33.0,
//!   `vllm/model_executor/layers/quantization/mxfp4.py`, `.../fused_moe/layer.py`).
//! * Latent attention keeps its up-projections a second time, in 16 bits and the order in which decodes multiply
//!   them (`vllm/v1/attention/backends/mla/common.py`, `process_weights_after_loading`).
//! * One table of rotary positions, as long as the model's reach
//!   (`vllm/model_executor/layers/rotary_embedding/base.py`).

use crate::model::precision::{Module, Scheme};
use crate::model::spec::{Attention, ModelSpec};
use crate::model::stages::Stage;
use crate::units::Bytes;

/// A generation of GPUs, as far as kernels are chosen by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// NVIDIA's Hopper.
    Hopper,
    /// NVIDIA's data-centre Blackwell.
    Blackwell,
    /// Any other of NVIDIA.
    OtherNvidia,
    /// Of another vendor.
    Other,
}

/// What weights take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// What they take in the checkpoint.
    Checkpoint,
    /// What they take on GPUs of a generation, ready to multiply with.
    Served(Generation),
}

/// Multiples to which width and hidden size of experts are padded.
struct Tile {
    width: u64,
    hidden: u64,
}

impl Generation {
    fn tile(self, scheme: Option<Scheme>) -> Tile {
        let (width, hidden) = match (self, scheme) {
            (Self::Hopper, Some(Scheme::Mxfp4)) => (64, 1),
            (Self::Blackwell | Self::OtherNvidia, Some(Scheme::Mxfp4)) => (128, 256),
            (Self::Blackwell, None) => (128, 1),
            _ => (1, 1),
        };
        Tile { width, hidden }
    }
}

impl Stage {
    /// Bytes of weights on each of the `tp` GPUs of the stage, once loaded.
    pub fn loaded_bytes(&self, tp: u32, ranks: u32, loading: Loading) -> Bytes {
        let plain = self.weight_bytes_of_rank(tp, ranks);
        let Loading::Served(generation) = loading else { return plain };
        let model = &self.model;
        Bytes(
            plain.0 + padding(model, generation, tp, ranks) + copies(model, tp) + positions(model),
        )
    }
}

/// Bytes by which the experts grow.
fn padding(model: &ModelSpec, generation: Generation, tp: u32, ranks: u32) -> u64 {
    let Some(moe) = &model.moe else { return 0 };
    let tile = generation.tile(model.weights.scheme(Module::Experts));
    // Experts that ranks share are whole ones.
    let (share, held) = if ranks > 1 {
        (1, u64::from(moe.experts).div_ceil(u64::from(tp) * u64::from(ranks)))
    } else {
        (tp, u64::from(moe.experts))
    };
    let width = u64::from(moe.intermediate).div_ceil(u64::from(share.max(1)));
    let hidden = u64::from(model.hidden);
    let (wide, deep) = (width.next_multiple_of(tile.width), hidden.next_multiple_of(tile.hidden));
    let bytes = |width: u64, hidden: u64| {
        let of = |outputs, inputs| model.weights.bytes(Module::Experts, outputs, inputs);
        of(2 * width, hidden) + of(hidden, width)
    };
    u64::from(model.sparse_layers()) * held * (bytes(wide, deep) - bytes(width, hidden))
}

/// Bytes of the second copy of latent attention's up-projections.
fn copies(model: &ModelSpec, tp: u32) -> u64 {
    let Attention::Latent(latent) = &model.attention else { return 0 };
    let heads = u64::from(latent.heads.div_ceil(tp.max(1)));
    let head = u64::from(latent.qk_nope_head_dim + latent.v_head_dim);
    let of_layer = heads * head * u64::from(latent.kv_lora_rank) * model.weights.dtype.bytes();
    u64::from(model.layers) * of_layer
}

/// Bytes of sines and cosines of all positions.
fn positions(model: &ModelSpec) -> u64 {
    let turned = match &model.attention {
        Attention::Grouped(grouped) => grouped.head_dim,
        Attention::Latent(latent) => latent.qk_rope_head_dim,
    };
    u64::from(model.max_position) * u64::from(turned) * model.weights.dtype.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSpec;

    const GPT_OSS: &str = r#"{"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
        "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072,
        "attention_bias": true, "quantization_config": {"quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn"]}}"#;

    fn loaded_gib(generation: Generation) -> f64 {
        let model = ModelSpec::from_hf_config(GPT_OSS, "gpt-oss-20b").unwrap();
        model.stages(1)[0].loaded_bytes(1, 1, Loading::Served(generation)).as_gib()
    }

    /// Starts of gpt-oss-20b on A100 and GB10 log 13.72 GiB.
    #[test]
    fn experts_of_four_bits_are_padded_to_the_tile_of_their_kernel() {
        let padded = loaded_gib(Generation::OtherNvidia);
        assert!((padded - 13.72).abs() < 0.05, "{padded}");
        // 2880 is a multiple of 64.
        let (hopper, plain) = (loaded_gib(Generation::Hopper), loaded_gib(Generation::Other));
        assert_eq!(hopper.to_bits(), plain.to_bits());
        assert!(padded > hopper + 0.5, "{padded} {hopper}");
    }
}
