//! How the serving side is configured.

use serde::{Deserialize, Serialize};

use super::autoscaler::AutoscalerConfig;
use super::disaggregation::DisaggregationConfig;
use super::engine::EngineConfig;
use super::expert_parallel::ExpertParallelConfig;
use super::gateway::GatewayConfig;
use super::group::GroupConfig;
use super::kv_tiers::KvTiersConfig;
use super::lora::LoraConfig;
use super::pipeline::{AllReduceConfig, PipelineLink};
use super::router::RouterConfig;
use super::router_time::RouterTimeConfig;
use super::server_host::ServerHost;
use super::step_time::StepTimeConfig;
use crate::model::{Format, KvDtype, Reserve};

/// Engine replicas behind a router: identical ones, or groups of several kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// A model of the catalogue (`servecast profile list`), or a local Hugging Face `config.json`
    /// or the folder that holds one.
    pub model: String,
    /// What the matrices of the model are stored in; what its checkpoint says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Format>,
    /// A GPU of the catalogue, or the path of a TOML file with the figures of one.
    pub gpu: String,
    /// Engine replicas.
    #[serde(default = "one")]
    pub replicas: u32,
    /// GPUs of a replica, or of each of its stages, which share every matrix.
    #[serde(default = "one")]
    pub tensor_parallel_size: u32,
    /// How long all-reduces between them take on this host; what its GPUs were measured to take if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_reduce: Option<AllReduceConfig>,
    /// Stages of a replica, each of which computes a part of the layers on GPUs of its own;
    /// `tensor_parallel_size` GPUs share a stage.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pipeline_parallel_size: u32,
    /// How activations travel from stage to stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_link: Option<PipelineLink>,
    /// Ranks of a replica with requests and KV memory of their own, which share the experts of a mixture
    /// and step together; each has `tensor_parallel_size` GPUs.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub data_parallel_size: u32,
    /// Whole experts on each GPU of a replica; every GPU has a part of every expert if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_parallel: Option<ExpertParallelConfig>,
    /// Share of the GPU memory the engine may use; if absent 0.92 of vLLM from 0.22 on, 0.9 of others.
    /// SGLang has a setting of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_utilization: Option<f64>,
    /// GPU memory within that share that is neither weights nor KV cache; not for SGLang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_reserve: Option<Reserve>,
    /// Type of the KV cache; `auto` is that of the checkpoint.
    #[serde(default)]
    pub kv_cache_dtype: KvDtype,
    /// The KV capacity that was derived from GPU memory, as a resolved scenario has it, in what the engine
    /// counts it in. Where the engine's settings give the same number it is derived anew from the
    /// settings as they are; any other number counts as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_kv_capacity: Option<u32>,
    /// From the client to the engine's queue (network, HTTP, tokenisation), in ms.
    #[serde(default)]
    pub api_delay_ms: f64,
    /// Time that the front end of a replica takes for each request, one after the other in the order
    /// in which they were sent (HTTP, tokenisation in one process), in ms. The delay follows it.
    #[serde(default)]
    pub api_per_request_ms: f64,
    /// The server's processes around the scheduler, and the client; they take no time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<ServerHost>,
    /// The engine and its flags.
    #[serde(default)]
    pub engine: EngineConfig,
    /// How long steps take.
    #[serde(default)]
    pub step_time: StepTimeConfig,
    /// How the engine serves LoRA adapters; required where the scenario has adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// Which replica gets a request.
    #[serde(default)]
    pub router: RouterConfig,
    /// How many requests replicas get at once, and how the others wait; they get all at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayConfig>,
    /// Prefill and decode on different replicas; [`replicas`](Self::replicas) then is their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disaggregation: Option<DisaggregationConfig>,
    /// KV memory below that of the GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_tiers: Option<KvTiersConfig>,
    /// What the process of the router takes for each request; no time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_time: Option<RouterTimeConfig>,
    /// Starts and drains replicas; [`replicas`](Self::replicas) then is the most there may be. Groups have
    /// autoscalers of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerConfig>,
    /// Replicas of several kinds, in place of identical ones; [`replicas`](Self::replicas) then is their
    /// number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupConfig>,
}

impl ClusterConfig {
    /// One replica on one GPU, with the defaults of everything else.
    pub fn new(model: impl Into<String>, gpu: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            quantization: None,
            gpu: gpu.into(),
            replicas: one(),
            tensor_parallel_size: one(),
            all_reduce: None,
            pipeline_parallel_size: one(),
            pipeline_link: None,
            data_parallel_size: one(),
            expert_parallel: None,
            gpu_memory_utilization: None,
            memory_reserve: None,
            kv_cache_dtype: KvDtype::default(),
            derived_kv_capacity: None,
            api_delay_ms: 0.0,
            api_per_request_ms: 0.0,
            host: None,
            engine: EngineConfig::default(),
            step_time: StepTimeConfig::default(),
            lora: None,
            router: RouterConfig::default(),
            router_time: None,
            gateway: None,
            disaggregation: None,
            kv_tiers: None,
            autoscaler: None,
            groups: Vec::new(),
        }
    }

    /// Stages of a replica at most.
    pub const STAGES_MAX: u32 = 16;

    /// Data-parallel ranks of a replica at most.
    pub const RANKS_MAX: u32 = 256;

    /// GPUs of a replica.
    pub fn gpus_per_replica(&self) -> u32 {
        let of_rank = self.tensor_parallel_size.saturating_mul(self.pipeline_parallel_size);
        of_rank.saturating_mul(self.data_parallel_size)
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}
