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

use crate::model::checkpoint::{Checkpoint as ModelSpec, Component, Mixer, Packing, Place, Tensor};
use crate::model::stages::Stage;
use crate::model::weights::LayersAlike;
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

impl Tile {
    /// Experts as wide as these multiples.
    fn padded(&self, tensor: Tensor) -> Tensor {
        let up = |size: u64, multiple: u64| size.next_multiple_of(multiple);
        let (outputs, inputs) = if tensor.name == "experts.down_proj" {
            (up(tensor.outputs, self.hidden), up(tensor.inputs, self.width))
        } else {
            let width = up(tensor.outputs / tensor.parts, self.width);
            (tensor.parts * width, up(tensor.inputs, self.hidden))
        };
        let biases = if tensor.biases > 0 { outputs } else { 0 };
        Tensor { outputs, inputs, biases, ..tensor }
    }
}

impl Generation {
    fn tile(self, packing: Option<Packing>) -> Tile {
        let (width, hidden) = match (self, packing) {
            (Self::Hopper, Some(Packing::Mxfp4)) => (64, 1),
            (Self::Blackwell | Self::OtherNvidia, Some(Packing::Mxfp4)) => (128, 256),
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
    // Experts that ranks share are whole ones.
    let (cut, gpus) = if ranks > 1 { (1, u64::from(tp) * u64::from(ranks)) } else { (tp, 1) };
    let of_layer = |alike: LayersAlike| {
        let grown = |tensor: &Tensor| {
            let tile = generation.tile(model.packing_of(Place::Layer(alike.first), tensor));
            let wider = Tensor { copies: tensor.copies.div_ceil(gpus), ..tile.padded(*tensor) };
            let plain = Tensor { copies: wider.copies, ..*tensor };
            model.bytes_of(Place::Layer(alike.first), &wider)
                - model.bytes_of(Place::Layer(alike.first), &plain)
        };
        let tensors = model.layer_tensors(&alike.layer, cut);
        let experts = tensors.iter().filter(|tensor| tensor.component == Component::RoutedExperts);
        u64::from(alike.count) * experts.map(grown).sum::<u64>()
    };
    model.layers_alike().into_iter().map(of_layer).sum()
}

/// Bytes of the second copy of latent attention's up-projections.
fn copies(model: &ModelSpec, tp: u32) -> u64 {
    let of = |mixer: &Mixer| match mixer {
        Mixer::Latent(latent) if !latent.is_expanded => {
            let heads = u64::from(latent.heads.div_ceil(tp.max(1)));
            let head = u64::from(latent.qk_nope_head_dim + latent.v_head_dim);
            heads * head * u64::from(latent.kv_lora_rank) * model.dtype.bytes()
        }
        _ => 0,
    };
    model.each_mixer().map(of).sum()
}

/// Bytes of sines and cosines of all positions.
fn positions(model: &ModelSpec) -> u64 {
    let turned = |mixer: &Mixer| match mixer {
        Mixer::Grouped(grouped) => grouped.head_dim,
        Mixer::Latent(latent) => latent.qk_rope_head_dim,
        Mixer::Compressed(_) => COMPRESSED_ROPE,
        Mixer::Delta(_)
        | Mixer::KimiDelta(_)
        | Mixer::StateSpace(_)
        | Mixer::Selective(_)
        | Mixer::ShortConv(_) => 0,
    };
    let turned = model.each_mixer().map(turned).max().unwrap_or(0);
    u64::from(model.max_position) * u64::from(turned) * model.dtype.bytes()
}

/// Elements of a head of DeepSeek-V4 that have a rotary position.
const COMPRESSED_ROPE: u32 = 64;

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
        let model = ModelSpec::from_hf_config(GPT_OSS, None, "gpt-oss-20b").unwrap();
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
