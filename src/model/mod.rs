//! Models: layers of every kind, precision, and what follows from them.
//!
//! A [`ModelSpec`] is a list of layers with what stands around them, read from a Hugging Face `config.json`
//! ([`ModelSpec::from_hf_config`]) or from the catalogue (`profiles`). Parameters, weight bytes, KV bytes, states and
//! FLOPs are exact; encoders of images count with their weights, layers that draft where they are used.
//!
//! * `checkpoint/`: the layers, how they are read, their weights
//! * `file.rs`: files of the catalogue
//! * `shape.rs`, `weights.rs`, `stages.rs`: what follows from a list of layers
//! * `layout/`: memory as vLLM and SGLang lay it out
//! * `memory/`, `kv_groups.rs`: KV blocks that are left beside the weights

pub mod checkpoint;
mod drafter;
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
pub use drafter::{DraftHead, Drafter};
pub use error::ModelError;
pub use format::Format;
pub use groups::{GroupKind, GroupSpec, Groups};
pub use kv_groups::{KvGroups, WindowGroups};
pub use lora::{LoraModules, LoraShape};
pub use memory::{
    Card, DraftMemory, EngineVersion, Generation, KvCapacity, Loading, MemoryBudget, Reserve,
    SamplerKernels, SglangStart, StartUp, TrtLlmStart, VllmStart, WindowMemory,
};
pub use precision::{ComputeRate, Dtype, KvDtype, Module, Quantization, Scheme, WeightFormat};
pub(crate) use shape::COMPRESSED_ROW;
pub use shape::SlidingWindow;
pub use stages::Stage;
pub use weights::{LayersAlike, Matrix};
