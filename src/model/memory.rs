//! How many KV blocks fit on a GPU beside the weights.
//!
//! blocks = floor((memory·utilization − weights per GPU − reserve) / (block size · KV bytes per
//! token and GPU)). What the reserve is depends on the engine; both forms here were fitted to
//! block counts that vLLM 0.15.1 logged on H100 (eight settings of five dense models, TP 1 to 4). A
//! count from the server's log is better than either.

use serde::{Deserialize, Serialize};

use super::error::ModelError;
use super::kv_groups::KvGroups;
use super::precision::KvDtype;
use super::spec::ModelSpec;
use crate::units::Bytes;

/// Memory that is neither weights nor KV cache: activations of the largest step, captured CUDA
/// graphs, communication buffers, per GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    /// 1.22 GiB + 2.2 · `max_num_batched_tokens` · hidden · 2 B. Mean error of the block count
    /// 0.3 % over those counts, 1.5 % at worst (2.1 % on one RTX 4090).
    #[default]
    Activations,
    /// 0.2 GB + 8.5 MB per thousand entries of the vocabulary: the logits of the profiling step.
    /// Mean error 0.4 % over the same counts, 1.2 % at worst.
    Logits,
    /// An amount the user knows.
    Fixed(Bytes),
}

impl Reserve {
    fn bytes(self, model: &ModelSpec, max_num_batched_tokens: u32) -> Bytes {
        match self {
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
    /// A pool of their own that holds so large a share of the tokens that the others hold: `SGLang`'s
    /// `swa_full_tokens_ratio`. Requests in decode keep a window in it, which is less.
    Share(f64),
}

impl WindowMemory {
    /// KV bytes of a token in a block.
    fn bytes_per_token(self, model: &ModelSpec, budget: &MemoryBudget) -> u64 {
        let bytes = |layers| model.kv_bytes_of_layers(layers, budget.tp, budget.kv_dtype);
        let groups = KvGroups::of(model);
        match (self, groups, model.sliding_window) {
            (Self::Grouped, Some(groups), _) => bytes(groups.layers),
            (Self::Share(share), _, Some(window)) if window.layers < model.layers => {
                bytes(model.layers - window.layers) + (share * bytes(window.layers) as f64) as u64
            }
            _ => bytes(model.layers),
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
    /// GPUs that share the weights.
    pub tp: u32,
    /// Tokens per KV block, at least 1.
    pub block_size: u32,
    /// Type of the KV cache.
    pub kv_dtype: KvDtype,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// What else takes memory.
    pub reserve: Reserve,
    /// The slots of LoRA adapters, per GPU.
    pub adapters: Bytes,
    /// What layers with a window keep.
    pub window: WindowMemory,
}

/// The KV cache of an engine, per GPU.
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
}

impl KvCapacity {
    /// The KV cache that a budget leaves beside the weights of a model.
    ///
    /// # Errors
    /// When the heads cannot be shared, a setting is out of range, or not one block fits.
    pub fn derive(model: &ModelSpec, budget: &MemoryBudget) -> Result<Self, ModelError> {
        model.check_tensor_parallel(budget.tp)?;
        if !(budget.utilization > 0.0 && budget.utilization <= 1.0) {
            let problem = format!("must be above 0 and at most 1, got {}", budget.utilization);
            return Err(ModelError::Budget { key: "gpu_memory_utilization", problem });
        }
        if budget.block_size == 0 {
            let problem = "must be at least 1, got 0".to_owned();
            return Err(ModelError::Budget { key: "block_size", problem });
        }
        let usable = Bytes((budget.gpu_memory.0 as f64 * budget.utilization) as u64);
        let weights = model.weight_bytes(budget.tp);
        let reserve = budget.reserve.bytes(model, budget.max_num_batched_tokens);
        let taken = weights.0 + reserve.0 + budget.adapters.0;
        let block = u64::from(budget.block_size) * budget.window.bytes_per_token(model, budget);
        let blocks = usable.0.saturating_sub(taken) / block;
        if blocks == 0 {
            return Err(ModelError::DoesNotFit {
                model: model.name.clone(),
                tp: budget.tp,
                utilization: budget.utilization,
                memory: budget.gpu_memory,
                usable,
                weights,
                reserve: Bytes(reserve.0 + budget.adapters.0),
                advice: advice(model, budget, usable, block, taken - weights.0),
            });
        }
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let adapters = budget.adapters;
        Ok(Self { blocks, block_bytes: Bytes(block), weights, reserve, adapters })
    }

    /// Tokens the blocks hold, one block being reserved.
    pub fn tokens(&self, block_size: u32) -> u64 {
        u64::from(self.blocks.saturating_sub(1)) * u64::from(block_size)
    }
}

/// The smallest tensor parallel size that fits on the same GPU, or the memory one GPU would need.
fn advice(
    model: &ModelSpec,
    budget: &MemoryBudget,
    usable: Bytes,
    block: u64,
    reserve: u64,
) -> String {
    let fits = |tp: &u32| {
        model.check_tensor_parallel(*tp).is_ok()
            && model.weight_bytes(*tp).0 + reserve + block <= usable.0
    };
    let wider = (budget.tp + 1..=64).find(fits);
    let needed = (model.weight_bytes(budget.tp).0 + reserve + block) as f64 / budget.utilization;
    let larger = format!("a GPU of at least {}", Bytes(needed as u64));
    match wider {
        Some(tp) => format!("it would fit at tensor parallel size {tp} or on {larger}"),
        None => format!("it would fit on {larger}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SlidingWindow;

    const JSON: &str = r#"{"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512}"#;

    fn budget(gpu_memory: u64, tp: u32) -> MemoryBudget {
        MemoryBudget {
            gpu_memory: Bytes(gpu_memory),
            utilization: 0.5,
            tp,
            block_size: 16,
            kv_dtype: KvDtype::Auto,
            max_num_batched_tokens: 0,
            reserve: Reserve::Fixed(Bytes(1000)),
            adapters: Bytes(0),
            window: WindowMemory::Whole,
        }
    }

    #[test]
    fn layers_with_a_window_leave_room_as_their_engine_has_it() {
        let mut model = ModelSpec::from_hf_config(JSON, "small").unwrap();
        let room = 10_000_000;
        let blocks = |model: &ModelSpec, window| {
            let memory = 2 * (190_080 + 1000 + room);
            let budget = MemoryBudget { window, ..budget(memory, 1) };
            u64::from(KvCapacity::derive(model, &budget).unwrap().blocks)
        };
        let (grouped, shared) = (WindowMemory::Grouped, WindowMemory::Share(0.5));
        let whole = room / 8192;
        let mut window = SlidingWindow { tokens: 16, layers: 1, chunked: false };
        for all in [WindowMemory::Whole, grouped, shared] {
            assert_eq!(blocks(&model, all), whole, "no layer has a window");
        }
        model.sliding_window = Some(window);
        assert_eq!(blocks(&model, WindowMemory::Whole), whole);
        assert_eq!(blocks(&model, grouped), room / 4096, "a block holds one layer of two");
        assert_eq!(blocks(&model, shared), room / (4096 + 2048));
        window.chunked = true;
        model.sliding_window = Some(window);
        assert_eq!(blocks(&model, grouped), whole, "chunks are kept");
    }

    #[test]
    fn blocks_fill_what_weights_and_reserve_leave() {
        let model = ModelSpec::from_hf_config(JSON, "small").unwrap();
        // 95,040 parameters of 2 B; a block is 16 tokens · 2 layers · 2·4·16 elements · 2 B.
        assert_eq!(model.weight_bytes(1), Bytes(2 * 95_040));
        let capacity = KvCapacity::derive(&model, &budget(2 * (190_080 + 1000 + 5 * 8192), 1));
        let capacity = capacity.unwrap();
        assert_eq!((capacity.blocks, capacity.block_bytes), (5, Bytes(8192)));
        assert_eq!(capacity.tokens(16), 64);
    }

    #[test]
    fn a_model_that_does_not_fit_says_what_would() {
        let model = ModelSpec::from_hf_config(JSON, "small").unwrap();
        let error = KvCapacity::derive(&model, &budget(300_000, 1)).unwrap_err().to_string();
        assert!(error.contains("weights need 185.6 KiB"), "{error}");
        assert!(error.contains("tensor parallel size 2 or on a GPU of at least"), "{error}");
    }

    #[test]
    fn heads_are_shared_evenly_or_not_at_all() {
        let model = ModelSpec::from_hf_config(JSON, "small").unwrap();
        assert!(model.check_tensor_parallel(4).is_ok());
        let error = KvCapacity::derive(&model, &budget(1 << 30, 3)).unwrap_err();
        assert!(matches!(error, ModelError::TensorParallel { tp: 3, .. }));
    }
}
