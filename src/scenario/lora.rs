//! LoRA adapters: which there are, which requests use them, how an engine serves them.

use serde::{Deserialize, Serialize};

use super::adapter_batching::AdapterBatchingConfig;
use super::engine::EngineConfig;
use super::migration::MigrationConfig;
use crate::ids::AdapterId;
use crate::model::LoraModules;

/// The adapters there are, and which request uses which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AdapterMix {
    /// The adapters, kind by kind.
    pub kinds: Vec<AdapterKind>,
    /// Which of them a request uses.
    #[serde(default)]
    pub popularity: AdapterPopularity,
    /// How that changes in the run; it stays if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftConfig>,
}

/// Popularity that moves from adapter to adapter: after each interval, what was asked for of one adapter is asked
/// for of the one `shift` numbers further on, after the last one of the first again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DriftConfig {
    /// From one change to the next, in seconds from time zero on.
    pub interval_s: f64,
    /// By how many adapters it moves each time.
    #[serde(default = "one")]
    pub shift: u32,
}

impl AdapterMix {
    /// How many adapters there are; more than can be counted are refused before they are made.
    pub fn count(&self) -> u32 {
        self.kinds.iter().fold(0, |sum, kind| sum.saturating_add(kind.count))
    }

    /// The name of each, in order of their ids.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let named = self.kinds.iter().flat_map(|kind| {
            (0..kind.count).map(move |place| match &kind.name {
                Some(name) if kind.count == 1 => Some(name.clone()),
                Some(name) => Some(format!("{name}-{place}")),
                None => None,
            })
        });
        named.enumerate().map(|(id, name)| name.unwrap_or_else(|| id.to_string()))
    }

    /// How often each is asked for, in any unit; nothing where something else says it.
    pub fn weights(&self) -> Option<Vec<f64>> {
        let count = self.count();
        match self.popularity {
            AdapterPopularity::Uniform {} | AdapterPopularity::RoundRobin {} => {
                Some(vec![1.0; count as usize])
            }
            AdapterPopularity::Zipf { exponent } => {
                Some((1..=count).map(|k| f64::from(k).powf(-exponent)).collect())
            }
            AdapterPopularity::Geometric { base } => {
                Some((0..count).map(|k| base.powf(-f64::from(k))).collect())
            }
            AdapterPopularity::Weights {} => {
                let kinds = self.kinds.iter();
                Some(kinds.flat_map(|kind| (0..kind.count).map(|_| kind.weight)).collect())
            }
            AdapterPopularity::AsGiven {} => None,
        }
    }

    /// The rank of each, in order of their ids.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.kinds.iter().flat_map(|kind| (0..kind.count).map(|_| kind.rank))
    }
}

/// Adapters of one kind, numbered after those of the kinds before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AdapterKind {
    /// A name, for reports and traces: of one adapter, else followed by `-0`, `-1`, …. Adapters without
    /// one are called by their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model that they were trained for; that of the cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The rank of each.
    pub rank: u32,
    /// The share of requests that use each of them, relative to the other kinds, under the
    /// popularity `weights`.
    #[serde(default = "unit")]
    pub weight: f64,
}

impl AdapterKind {
    /// One adapter of this rank.
    pub fn of_rank(rank: u32) -> Self {
        Self { name: None, base_model: None, count: 1, rank, weight: 1.0 }
    }
}

/// Which adapter a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdapterPopularity {
    /// Equally often, drawn.
    Uniform {},
    /// In turn.
    RoundRobin {},
    /// The k-th in proportion to k^-exponent, drawn.
    Zipf {
        /// The exponent, at least 0.
        exponent: f64,
    },
    /// The k-th in proportion to base^-k, drawn: `skewed` of `sglang.bench_serving`, whose
    /// `--lora-zipf-alpha` this is.
    Geometric {
        /// The base, at least 1.
        base: f64,
    },
    /// In proportion to the `weight` of their kind, drawn.
    Weights {},
    /// As arrivals of type `adapter_counts`, or the column `trace.adapter`, say.
    AsGiven {},
}

impl Default for AdapterPopularity {
    fn default() -> Self {
        Self::Uniform {}
    }
}

/// How an engine serves adapters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank that slots are made for (`--max-lora-rank`); the largest of the adapters if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<u32>,
    /// The matrices that adapters change.
    pub modules: LoraModules,
    /// Adapters in host memory at most (vLLM's `--max-cpu-loras`); further ones are read from disk
    /// again. As many as there are slots if absent, as in vLLM; SGLang keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_host_adapters: Option<u32>,
    /// Which replicas hold which adapters; all hold all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementConfig>,
    /// How adapters and requests move between replicas; they stay if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationConfig>,
    /// Whose requests go into a step together.
    pub batching: AdapterBatchingConfig,
    /// Names of adapters that keep their slots (SGLang's `pinned`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// What the kernels take.
    pub kernels: LoraKernels,
    /// What it takes to load an adapter.
    pub load: LoraLoad,
    /// What the scheduler takes in every step for each waiting request whose adapter gets no slot,
    /// in µs: vLLM walks its queue past them. 0 for SGLang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_passed_over_us: Option<f64>,
}

/// Which replicas hold which adapters. A router chooses among the holders of a request's adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum PlacementConfig {
    /// As listed.
    Static {
        /// For each adapter, the numbers of the replicas that hold it.
        holders: Vec<Vec<u32>>,
    },
    /// As dLoRA places adapters when it starts: copies in proportion to requests.
    Greedy(ComputedPlacement),
    /// An even load of all replicas: longest processing time first, with copies of what is asked for most.
    LoadBalanced(ComputedPlacement),
}

impl PlacementConfig {
    /// What is to be computed; nothing where holders are listed.
    pub fn computed(&self) -> Option<&ComputedPlacement> {
        match self {
            Self::Static { .. } => None,
            Self::Greedy(computed) | Self::LoadBalanced(computed) => Some(computed),
        }
    }

    /// The holders of each adapter; nothing where they are computed and have not been.
    pub fn holders(&self) -> Option<&[Vec<u32>]> {
        match self {
            Self::Static { holders } => Some(holders),
            Self::Greedy(_) | Self::LoadBalanced(_) => None,
        }
    }
}

/// A placement that is computed before the run; the resolved scenario lists it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ComputedPlacement {
    /// Adapters that a replica holds at most; its slots if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_replica: Option<u32>,
    /// Adapters on all replicas together, each counted wherever it is; the policy's own choice if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// By adapter, how often it is expected to be asked for, in any unit; what the workload says if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<f64>>,
}

impl ComputedPlacement {
    /// Adapters that a replica with this engine holds at most.
    pub fn room(&self, engine: &EngineConfig) -> u32 {
        self.max_per_replica.or(engine.adapter_slots()).unwrap_or(u32::MAX)
    }
}

impl LoraConfig {
    /// The pinned ones of these adapters.
    pub fn pinned_ids(&self, mix: &AdapterMix) -> Vec<AdapterId> {
        let named = (0..).map(AdapterId).zip(mix.names());
        named.filter(|(_, name)| self.pinned.contains(name)).map(|(id, _)| id).collect()
    }

    /// The same for vLLM, fitted as [`LoraKernels::VLLM`] was.
    pub const VLLM_PER_PASSED_OVER_US: f64 = 0.51;
}

/// The time that kernels of unmerged adapters add to a step: a constant, the weights of the
/// adapters in the step read from memory, and the products of their rows. What is absent is the
/// engine's own, measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoraKernels {
    /// Each step, whether or not a request in it uses an adapter, for each pair of products of
    /// each layer, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_product_us: Option<f64>,
    /// Each adapter in the step, for each pair of products of each layer, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_adapter_product_us: Option<f64>,
    /// Each slot and each block of up to 32 rows of a step, for each pair of products of each layer,
    /// in µs: kernels whose thread blocks are launched for all slots, and find out that most have no rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_slot_block_us: Option<f64>,
    /// Share of the GPU's memory bandwidth at which weights of adapters are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_efficiency: Option<f64>,
    /// Share of the GPU's 16-bit rate at which rows are multiplied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_efficiency: Option<f64>,
    /// Whether every adapter counts as one of the largest rank, as in kernels that read whole
    /// slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pads_to_max_rank: Option<bool>,
}

impl LoraKernels {
    /// dLoRA's products of every row with every adapter on the GPU: 12 ms of a step of Llama-2-7B with
    /// eight adapters of rank 16 (`profiles/lora/README.md`).
    pub const DLORA: Self = Self {
        per_product_us: Some(91.0),
        per_adapter_product_us: Some(0.0),
        per_slot_block_us: Some(0.0),
        memory_efficiency: Some(1.0),
        compute_efficiency: Some(0.08),
        pads_to_max_rank: Some(true),
    };
    /// vLLM's Triton kernels: fitted to 24 runs of vLLM 0.8.5 with Llama-3.1-8B on H100-64GB
    /// (`profiles/lora/README.md`).
    pub const VLLM: Self = Self {
        per_product_us: Some(9.5),
        per_adapter_product_us: Some(1.8),
        per_slot_block_us: Some(0.062),
        memory_efficiency: Some(0.2),
        compute_efficiency: Some(0.08),
        pads_to_max_rank: Some(true),
    };
    /// SGLang's `csgmv` kernels: step times of Llama-2-7B on RTX 4090 rise by 0.34 µs a row and rank
    /// and not with the number of adapters (`profiles/lora/README.md`).
    pub const SGLANG: Self = Self {
        per_product_us: Some(6.0),
        per_adapter_product_us: Some(0.0),
        per_slot_block_us: Some(0.0),
        memory_efficiency: Some(0.5),
        compute_efficiency: Some(0.09),
        pads_to_max_rank: Some(false),
    };

    /// What is absent is that of others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            per_product_us: self.per_product_us.or(others.per_product_us),
            per_adapter_product_us: self.per_adapter_product_us.or(others.per_adapter_product_us),
            per_slot_block_us: self.per_slot_block_us.or(others.per_slot_block_us),
            memory_efficiency: self.memory_efficiency.or(others.memory_efficiency),
            compute_efficiency: self.compute_efficiency.or(others.compute_efficiency),
            pads_to_max_rank: self.pads_to_max_rank.or(others.pads_to_max_rank),
        }
    }
}

/// How long it takes to load an adapter; the engine computes nothing meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoraLoad {
    /// From host memory to the GPU, for each tensor of the adapter, in µs.
    pub to_gpu_per_tensor_us: f64,
    /// The bandwidth from host memory to the GPU, in 10⁹ B/s; the GPU's host bus if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_gpu_gb_per_s: Option<f64>,
    /// From disk to host memory, for each tensor, in µs.
    pub to_host_per_tensor_us: f64,
    /// The bandwidth from disk to host memory, in 10⁹ B/s.
    pub to_host_gb_per_s: f64,
}

impl Default for LoraLoad {
    /// Two measurements of vLLM 0.8.5 on H100 (Agulló et al. 2025, arXiv 2508.08343): from host
    /// memory 6.4 to 8.1 ms for Llama-3.1-8B (448 tensors) and 3.0 to 3.5 ms for Qwen2.5-7B (392),
    /// nearly whatever the rank; from disk 70, 88 and 141 ms at ranks 8, 16 and 32 for the former.
    fn default() -> Self {
        Self {
            to_gpu_per_tensor_us: 16.4,
            to_gpu_gb_per_s: None,
            to_host_per_tensor_us: 100.0,
            to_host_gb_per_s: 1.8,
        }
    }
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}
