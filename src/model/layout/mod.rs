//! How engines lay out a checkpoint in the memory of GPUs: weights, and caches of keys, values and states.
//!
//! * `weights.rs`: bytes of weights as vLLM creates them
//! * `specs.rs`: what each layer keeps in vLLM, and in blocks of how many tokens
//! * `groups.rs`: how vLLM puts these into groups that share a pool, and what a request needs
//! * `sglang.rs`: SGLang's pools
//! * `refusals.rs`: what engines do not start with

mod groups;
mod refusals;
mod sglang;
mod specs;
mod weights;

pub use groups::{CacheGroup, VllmLayout};
pub(super) use refusals::check_drafts;
pub use refusals::{Refusal, RefusedSetting};
pub use sglang::{DraftLayers, MambaStrategy, SglangLayout, SglangPoolFlags, SglangPools};
pub use specs::{CacheKind, LayerCache};

use super::checkpoint::Checkpoint;
use super::memory::Generation;
use super::precision::KvDtype;

/// The GPUs that a layout is for, and what is asked of the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Generation of the GPU.
    pub generation: Generation,
    /// GPUs that share each layer.
    pub tp: u32,
    /// What keys and values are to be stored in (`--kv-cache-dtype`).
    pub kv_cache_dtype: KvDtype,
    /// Tokens that layers which draft (multi-token prediction) add to each step of a sequence; 0 where nothing drafts.
    pub draft_tokens: u32,
}

impl Machine {
    /// So many GPUs, where nothing drafts.
    pub const fn new(generation: Generation, tp: u32, kv_cache_dtype: KvDtype) -> Self {
        Self { generation, tp, kv_cache_dtype, draft_tokens: 0 }
    }

    const fn is_blackwell(self) -> bool {
        matches!(self.generation, Generation::Blackwell)
    }
}

#[cfg(test)]
mod tests;

impl Checkpoint {
    /// What vLLM stores keys and values in.
    pub fn kv_dtype_of_vllm(&self, machine: Machine) -> KvDtype {
        self.stored_kv(machine)
    }

    /// What SGLang stores keys and values in.
    pub fn kv_dtype_of_sglang(&self, machine: Machine) -> KvDtype {
        sglang::stored(self, machine)
    }
}
