//! Models: layers, heads, experts and precision, and what follows from them.
//!
//! A [`ModelSpec`] is a decoder-only transformer with gated MLPs, read from a Hugging Face
//! `config.json` ([`ModelSpec::from_hf_config`]) or from the catalogue (`profiles`). Parameter
//! counts, weight bytes, KV bytes and FLOPs are exact for the language model; multi-token-prediction
//! heads are not counted; vision and audio towers and encoder layers are refused.

pub mod checkpoint;
mod error;
mod file;
mod format;
mod groups;
mod hf;
mod kv_groups;
pub mod layout;
mod lora;
mod memory;
mod precision;
mod shape;
mod stages;
mod weights;

pub use checkpoint::{
    Checkpoint, Checkpoint as ModelSpec, DenseMlp, Experts, GroupedAttention, LatentAttention,
    Layer, Mixer, Packing, QuantizedWeights, Reach,
};
pub use error::ModelError;
pub use format::Format;
pub use groups::{GroupKind, GroupSpec, Groups};
pub use kv_groups::KvGroups;
pub use lora::{LoraModules, LoraShape};
pub use memory::{
    Card, EngineVersion, Generation, KvCapacity, Loading, MemoryBudget, Reserve, SamplerKernels,
    SglangStart, StartUp, TrtLlmStart, VllmStart, WindowMemory,
};
pub use precision::{ComputeRate, Dtype, KvDtype, Module, Quantization, Scheme, WeightFormat};
pub use shape::SlidingWindow;
pub use stages::Stage;
pub use weights::{LayersAlike, Matrix};
