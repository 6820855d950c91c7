//! A model as its checkpoint has it: a list of layers, each of its kind and shape, and what stands around them.
//!
//! * `shape.rs`: the kinds of layers
//! * `read/`: from `config.json` and `hf_quant_config.json`
//! * `tensors.rs`: the weights of a layer on one of several GPUs
//! * `counts.rs`: parameters by part, those that a token meets
//! * `quantized.rs`: which matrices are stored in which format
//! * `drafts.rs`: layers that draft, and their weights
//! * `towers.rs`: encoders of images

mod counts;
mod drafts;
mod quantized;
mod read;
mod shape;
mod tensors;
mod towers;

pub use counts::Parameters;
pub use drafts::{DraftModules, Drafts, Join};
pub use quantized::{Packing, Place, QuantizedWeights};
pub use read::describes;
pub use shape::{
    Compressed, DeltaNet, DenseMlp, Experts, Gate, GroupedAttention, Indexer, KimiDelta,
    LatentAttention, Layer, Mixer, QkNorm, Reach, Router, Selective, ShortConv, StateSpace,
};
pub use tensors::{Component, Element, Tensor};
pub use towers::Tower;

use serde::Deserialize;

use super::file::ModelFile;
use super::precision::{Dtype, KvDtype};

/// A model as its checkpoint has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "ModelFile")]
pub struct Checkpoint {
    /// The name people use, a Hugging Face id where there is one.
    pub name: String,
    /// The class of the implementation, as `architectures` in `config.json` names it.
    pub architecture: String,
    /// The family, as `model_type` names it, that of the language model where there are several.
    pub family: String,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Copies of the residual stream (hyper-connections of DeepSeek-V4), 1 without.
    pub streams: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// Whether the output head is the embedding table.
    pub tied_embeddings: bool,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// Longest context that vLLM serves where nobody asks for another, in tokens.
    pub max_position: u32,
    /// The same of SGLang.
    pub max_position_sglang: u32,
    /// The type of weights that are not quantised.
    pub dtype: Dtype,
    /// Which matrices are stored in fewer bits, if any.
    pub quantization: Option<QuantizedWeights>,
    /// What keys and values are stored in where nobody asks otherwise, as the checkpoint says.
    pub kv_cache_dtype: KvDtype,
    /// The same as SGLang reads it, for which `hf_quant_config.json` counts beside `config.json` too.
    pub kv_cache_dtype_sglang: KvDtype,
    /// The encoder of images, if there is one.
    pub tower: Option<Tower>,
    /// Layers that draft (multi-token prediction), loaded only where they are used.
    pub drafts: Drafts,
}
