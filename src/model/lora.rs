//! The size of LoRA adapters (Hu et al. 2021).
//!
//! An adapter of rank r adds B·A to a matrix of n outputs and m inputs: A has r·m elements, B has
//! n·r. Engines split them over GPUs as the matrix is split (vLLM 0.33.0,
//! `vllm/lora/layers`; SGLang 0.5.23, `sglang/srt/lora/layers.py`): the side that is split for the
//! matrix is split for the adapter, the other side is on every GPU.

use serde::{Deserialize, Serialize};

use super::checkpoint::Checkpoint as ModelSpec;
use super::error::ModelError;
use super::precision::Module;
use crate::units::Bytes;

/// The matrices that adapters change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoraModules {
    /// Those of attention and MLP: q, k, v, o, gate, up and down.
    #[default]
    All,
    /// Those of attention: q, k, v and o.
    Attention,
}

/// The adapters of a model, per rank and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoraShape {
    /// Elements of both factors of an adapter of rank 1, over all layers.
    pub elements_per_rank: u64,
    /// Pairs of products (with A, then with B) of a step: fused projections are one pair.
    pub products: u32,
    /// Tensors of an adapter: two for each matrix of the checkpoint.
    pub tensors: u32,
}

impl LoraShape {
    /// Bytes of an adapter of this rank, in 16-bit floats.
    pub const fn bytes(&self, rank: u32) -> Bytes {
        Bytes(2 * self.elements_per_rank * rank as u64)
    }
}

impl ModelSpec {
    /// What adapters of these modules are on each of `tp` GPUs.
    ///
    /// # Errors
    /// For latent attention, and for experts: engines serve no adapters of those, or do so in ways
    /// that are not modelled.
    pub fn lora_shape(&self, modules: LoraModules, tp: u32) -> Result<LoraShape, ModelError> {
        if self.is_latent() {
            return Err(ModelError::Lora { what: "latent attention" });
        }
        if self.experts().is_some() && modules == LoraModules::All {
            return Err(ModelError::Lora {
                what: "experts (modules = \"attention\" leaves them out)",
            });
        }
        let mut shape = LoraShape { elements_per_rank: 0, products: 0, tensors: 0 };
        if self.state_layers() > 0 {
            return Err(ModelError::Lora { what: "layers with states" });
        }
        for alike in self.layers_alike() {
            let count = alike.count;
            for matrix in self.layer_matrices(&alike, tp) {
                let is_changed = match matrix.module {
                    Module::Attention => true,
                    Module::Mlp => modules == LoraModules::All,
                    _ => false,
                };
                if !is_changed {
                    continue;
                }
                let parts = matrix.parts as u32;
                shape.elements_per_rank +=
                    u64::from(count) * (u64::from(parts) * matrix.inputs + matrix.outputs);
                shape.products += count;
                shape.tensors += 2 * parts * count;
            }
        }
        Ok(shape)
    }
}
