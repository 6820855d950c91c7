//! How many KV blocks fit on a GPU beside the weights.
//!
//! blocks = floor((memory·utilization − weights per GPU − reserve) / (block size · KV bytes per
//! token and GPU)). What the reserve is depends on the engine: `start.rs` has what the engines' own
//! start-up measures or sets aside, part by part, `forward.rs` and `sampler.rs` what a step and its sampler
//! allocate, `loading.rs` what weights take once they are loaded.

mod forward;
mod loading;
mod sampler;
mod start;

use serde::{Deserialize, Serialize};

use super::checkpoint::{Checkpoint as ModelSpec, Reach};
use super::drafter::Drafter;
use super::error::ModelError;
use super::kv_groups::KvGroups;
use super::layout::{Machine, VllmLayout};
use super::precision::KvDtype;
use super::stages::Stage;
use crate::units::Bytes;

pub use loading::{Generation, Loading};
pub use sampler::SamplerKernels;
pub use start::{Card, EngineVersion, SglangStart, StartUp, TrtLlmStart, VllmStart};

/// Memory that is neither weights nor KV cache: activations of the largest step, captured CUDA
/// graphs, communication buffers, per GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    /// What the start-up of the engine finds or estimates ([`VllmStart`]).
    #[default]
    Profiled,
    /// 1.22 GiB + 2.2 · `max_num_batched_tokens` · hidden · 2 B. Mean error of the block count
    /// 0.3 % over block counts that vLLM 0.15.1 logged on H100 (eight settings of five dense models, TP 1 to 4),
    /// 1.5 % at worst (2.1 % on one RTX 4090).
    Activations,
    /// 0.2 GB + 8.5 MB per thousand entries of the vocabulary: the logits of the profiling step.
    /// Mean error 0.4 % over the same counts, 1.2 % at worst.
    Logits,
    /// An amount the user knows.
    Fixed(Bytes),
}

impl Reserve {
    /// So much, for steps of so many tokens, where the start-up finds this.
    pub fn bytes(self, model: &ModelSpec, max_num_batched_tokens: u32, start: StartUp) -> Bytes {
        match self {
            Self::Profiled => start.total(),
            Self::Activations => {
                let elements = f64::from(max_num_batched_tokens) * f64::from(model.hidden);
                Bytes(Bytes::from_gib(1.22).0 + (2.2 * elements * 2.0) as u64)
            }
            Self::Logits => Bytes((0.2e9 + 8.5e3 * f64::from(model.vocab)) as u64),
            Self::Fixed(bytes) => bytes,
        }
    }
}

/// What layers with a sliding window keep in KV memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum WindowMemory {
    /// As much as the others.
    #[default]
    Whole,
    /// Blocks of the one pool, of a group of layers each: vLLM's hybrid KV cache manager
    /// ([`KvGroups`]).
    Grouped,
    /// The same of a model whose layers keep different amounts of a token: any block is as large as the largest, on
    /// GPUs of this generation ([`VllmLayout`]). The tokens of a block follow from the layers.
    Laid(Generation),
    /// A pool of their own that holds so large a share of the tokens that the others hold: `SGLang`'s
    /// `swa_full_tokens_ratio`. Requests in decode keep a window in it, which is less.
    Share(f64),
}

impl WindowMemory {
    /// Bytes of a block.
    fn bytes_per_block(self, model: &ModelSpec, budget: &MemoryBudget) -> u64 {
        let Self::Laid(generation) = self else {
            return u64::from(budget.block_size) * self.bytes_per_token(model, budget);
        };
        let machine = Machine::new(generation, budget.tp, budget.kv_dtype);
        VllmLayout::of(model, machine).bytes_per_block.max(1)
    }

    /// KV bytes of a token in a block.
    fn bytes_per_token(self, model: &ModelSpec, budget: &MemoryBudget) -> u64 {
        let (tp, dtype) = (budget.tp, budget.kv_dtype);
        match (self, KvGroups::of(model)) {
            (Self::Grouped, Some(groups)) => {
                u64::from(groups.layers) * model.kv_bytes_of_layer(tp, dtype)
            }
            (Self::Share(share), _) => {
                let windows = model.kv_bytes_of(tp, dtype, |reach| reach != Reach::Full);
                let whole = model.kv_bytes_of(tp, dtype, |reach| reach == Reach::Full);
                // Where all layers have a window there is one pool.
                let share = if whole > 0 { share } else { 1.0 };
                whole + (share * windows as f64) as u64
            }
            (Self::Whole | Self::Grouped | Self::Laid(_), _) => model.kv_bytes_per_token(tp, dtype),
        }
    }
}

/// What an engine may do with the memory of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryBudget {
    /// Memory of one GPU as the driver reports it to the engine.
    pub gpu_memory: Bytes,
    /// Share of it the engine may use (`--gpu-memory-utilization`), above 0, at most 1.
    pub utilization: f64,
    /// GPUs that share every matrix.
    pub tp: u32,
    /// Stages that share the layers, at most as many as layers; 1 without pipeline parallelism.
    pub pp: u32,
    /// Data-parallel ranks, each with a KV cache of its own, that share routed experts; 1 without.
    pub ranks: u32,
    /// Tokens per KV block, at least 1.
    pub block_size: u32,
    /// Type of the KV cache.
    pub kv_dtype: KvDtype,
    /// What weights take once they are loaded.
    pub loading: Loading,
    /// What else takes memory ([`Reserve::bytes`]).
    pub reserve: Bytes,
    /// The slots of LoRA adapters, per GPU.
    pub adapters: Bytes,
    /// What layers with a window keep.
    pub window: WindowMemory,
    /// What drafts take.
    pub drafts: DraftMemory,
}

/// What making drafts takes of memory, on each GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftMemory {
    /// Weights that come to those of the model.
    pub weights: Bytes,
    /// KV bytes of a token in a block, those of the model among them; those alone if absent.
    pub kv_bytes_per_token: Option<u64>,
}

impl DraftMemory {
    /// What a drafter takes beside a model, in the memory of this budget.
    pub fn of(drafter: &Drafter, model: &ModelSpec, budget: &MemoryBudget) -> Self {
        let per_token = budget.window.bytes_per_token(&drafter.beside(model), budget);
        Self { weights: drafter.weights, kv_bytes_per_token: Some(per_token) }
    }

    /// Such weights, and so many bytes of a token beside those of the model.
    pub fn beside(weights: Bytes, bytes: u64, model: &ModelSpec, budget: &MemoryBudget) -> Self {
        let own = budget.window.bytes_per_token(model, budget);
        Self { weights, kv_bytes_per_token: Some(own + bytes) }
    }
}

/// The KV cache of an engine, per GPU; with several stages on the GPUs of the stage where it is smallest,
/// for all have as many blocks (vLLM 0.33.0, `vllm/v1/core/kv_cache_utils.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KvCapacity {
    /// Blocks, the engine's reserved null block included.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: Bytes,
    /// Bytes of weights.
    pub weights: Bytes,
    /// Bytes kept for activations and captured graphs.
    pub reserve: Bytes,
    /// Bytes of the slots of LoRA adapters.
    pub adapters: Bytes,
    /// Bytes of the weights of what drafts.
    #[serde(skip_serializing_if = "is_nothing")]
    pub drafts: Bytes,
    /// What the kept bytes are for, where they follow from the engine's start-up.
    #[serde(skip)]
    pub start: Option<StartUp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_nothing(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

impl KvCapacity {
    /// The KV cache that a budget leaves beside the weights of a model.
    ///
    /// # Errors
    /// When the heads cannot be shared, a setting is out of range, or not one block fits.
    pub fn derive(model: &ModelSpec, budget: &MemoryBudget) -> Result<Self, ModelError> {
        model.check_tensor_parallel(budget.tp)?;
        if !(budget.utilization > 0.0 && budget.utilization <= 1.0) {
            let problem = format!(
                "must be above 0 and at most 1, got {}",
                crate::plain::shown(budget.utilization)
            );
            return Err(ModelError::Budget { key: "gpu_memory_utilization", problem });
        }
        if budget.block_size == 0 {
            let problem = "must be at least 1, got 0".to_owned();
            return Err(ModelError::Budget { key: "block_size", problem });
        }
        let usable = Bytes((budget.gpu_memory.0 as f64 * budget.utilization) as u64);
        let reserve = budget.reserve;
        let kept = reserve.0 + budget.adapters.0 + budget.drafts.weights.0;
        let tightest = tightest(model, (budget.tp, budget.pp), budget, usable.0, kept);
        let Tightest { blocks, block, weights } = tightest;
        if blocks == 0 {
            return Err(ModelError::DoesNotFit {
                model: model.name.clone(),
                sizes: sizes(budget.tp, budget.pp),
                utilization: budget.utilization,
                memory: budget.gpu_memory,
                usable,
                weights,
                reserve: Bytes(kept),
                advice: advice(model, budget, usable, kept),
            });
        }
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let (adapters, drafts) = (budget.adapters, budget.drafts.weights);
        let block_bytes = Bytes(block);
        Ok(Self { blocks, block_bytes, weights, reserve, adapters, drafts, start: None })
    }

    /// Tokens the blocks hold, one block being reserved.
    pub fn tokens(&self, block_size: u32) -> u64 {
        u64::from(self.blocks.saturating_sub(1)) * u64::from(block_size)
    }
}

/// The stage with the fewest blocks.
struct Tightest {
    blocks: u64,
    /// Bytes of one.
    block: u64,
    weights: Bytes,
}

/// What `usable` bytes hold beside the weights and the bytes `kept`, with these sizes of tensor and
/// pipeline parallelism.
fn tightest(
    model: &ModelSpec,
    (tp, pp): (u32, u32),
    budget: &MemoryBudget,
    usable: u64,
    kept: u64,
) -> Tightest {
    let of_stage = |stage: Stage| {
        let weights = stage.loaded_bytes(tp, budget.ranks, budget.loading);
        let sized = MemoryBudget { tp, ..*budget };
        // Nothing drafts on several stages.
        let own = || budget.window.bytes_per_block(&stage.model, &sized);
        let with_drafts = |bytes: u64| u64::from(budget.block_size) * bytes;
        let block = budget.drafts.kv_bytes_per_token.map_or_else(own, with_drafts);
        // Stages in which no layer caches anything hold as many as others need.
        let left = usable.saturating_sub(weights.0 + kept);
        let blocks = left.checked_div(block).unwrap_or(if left > 0 { u64::MAX } else { 0 });
        Tightest { blocks, block, weights }
    };
    let stages = model.stages(pp).into_iter().map(of_stage);
    let least = stages.min_by_key(|stage| (stage.blocks, std::cmp::Reverse(stage.weights)));
    least.expect("a model has a stage")
}

/// Sizes of tensor and pipeline parallelism, in words.
fn sizes(tp: u32, pp: u32) -> String {
    match pp {
        1 => format!("tensor parallel size {tp}"),
        _ => format!("tensor × pipeline parallel size {tp}×{pp}"),
    }
}

/// The smallest sizes that fit on the same GPU, or the memory one GPU would need.
fn advice(model: &ModelSpec, budget: &MemoryBudget, usable: Bytes, kept: u64) -> String {
    let fits = |(tp, pp): (u32, u32)| {
        model.check_tensor_parallel(tp).is_ok()
            && pp <= model.num_layers()
            && tightest(model, (tp, pp), budget, usable.0, kept).blocks > 0
    };
    let now = tightest(model, (budget.tp, budget.pp), budget, usable.0, kept);
    let needed = (now.weights.0 + kept + now.block) as f64 / budget.utilization;
    let larger = format!("a GPU of at least {}", Bytes(needed as u64));
    let wider = (budget.tp + 1..=64).map(|tp| (tp, budget.pp)).find(|size| fits(*size));
    // Stages are advice for those who have some, or would need more GPUs than a node has.
    let needs_stages = budget.pp > 1 || wider.is_none_or(|(tp, _)| tp > 8);
    let longer = (budget.pp + 1..=16).map(|pp| (budget.tp, pp)).find(|size| fits(*size));
    let longer = longer.filter(|_| needs_stages);
    let others: Vec<String> =
        wider.into_iter().chain(longer).map(|(tp, pp)| sizes(tp, pp)).collect();
    match others.as_slice() {
        [] => format!("it would fit on {larger}"),
        others => format!("it would fit at {} or on {larger}", others.join(", at ")),
    }
}

#[cfg(test)]
mod tests;
