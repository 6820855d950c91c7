//! Replicas of several kinds.

use serde::{Deserialize, Serialize};

use super::autoscaler::AutoscalerConfig;
use super::cluster::ClusterConfig;
use super::engine::EngineConfig;
use super::expert_parallel::ExpertParallelConfig;
use super::lora::LoraConfig;
use super::pipeline::{AllReduceConfig, PipelineLink};
use super::server_host::ServerHost;
use super::step_time::StepTimeConfig;
use crate::model::{Format, KvDtype, Reserve};

/// Replicas of one kind. A setting that is absent is that of the cluster; one that is given replaces
/// it whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// A name for reports; GPU, tensor parallelism and role if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many.
    pub replicas: u32,
    /// What they do of a request.
    #[serde(default)]
    pub role: ReplicaRole,
    /// As [`ClusterConfig::model`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// As [`ClusterConfig::quantization`]; that of the cluster where the group names no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Format>,
    /// As [`ClusterConfig::gpu`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// As [`ClusterConfig::tensor_parallel_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_parallel_size: Option<u32>,
    /// As [`ClusterConfig::all_reduce`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_reduce: Option<AllReduceConfig>,
    /// As [`ClusterConfig::pipeline_parallel_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_parallel_size: Option<u32>,
    /// As [`ClusterConfig::pipeline_link`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_link: Option<PipelineLink>,
    /// As [`ClusterConfig::data_parallel_size`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_parallel_size: Option<u32>,
    /// As [`ClusterConfig::expert_parallel`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_parallel: Option<ExpertParallelConfig>,
    /// As [`ClusterConfig::gpu_memory_utilization`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_utilization: Option<f64>,
    /// As [`ClusterConfig::memory_reserve`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_reserve: Option<Reserve>,
    /// As [`ClusterConfig::kv_cache_dtype`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_cache_dtype: Option<KvDtype>,
    /// As [`ClusterConfig::derived_kv_capacity`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_kv_capacity: Option<u32>,
    /// As [`ClusterConfig::host`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<ServerHost>,
    /// As [`ClusterConfig::engine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineConfig>,
    /// As [`ClusterConfig::step_time`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time: Option<StepTimeConfig>,
    /// As [`ClusterConfig::lora`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// Starts and drains its replicas; [`replicas`](Self::replicas) then is the most there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerConfig>,
    /// As [`TransferConfig::nic_gb_per_s`](super::TransferConfig::nic_gb_per_s), for each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic_gb_per_s: Option<f64>,
}

/// What a replica does of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRole {
    /// Everything.
    #[default]
    Mixed,
    /// The prompt.
    Prefill,
    /// The answer.
    Decode,
}

impl ReplicaRole {
    /// As scenario files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

impl GroupConfig {
    /// The cluster as its replicas have it.
    pub(crate) fn in_cluster(&self, cluster: &ClusterConfig) -> ClusterConfig {
        let engine = self.engine.as_ref().unwrap_or(&cluster.engine).clone();
        // What an engine does not know it does not inherit.
        let has_own_memory = matches!(engine, EngineConfig::Sglang(_));
        let shared = |setting: Option<f64>| setting.filter(|_| !has_own_memory);
        let shared_lora = cluster.lora.as_ref().filter(|_| engine.serves_adapters());
        let stages = self.pipeline_parallel_size.unwrap_or(cluster.pipeline_parallel_size);
        let step_time = self.step_time.as_ref().unwrap_or(&cluster.step_time);
        // A group without stages, or whose stages send nothing, has no use for the link of others.
        let joins_stages = stages > 1 && !step_time.ignores_communication();
        let shared_link = cluster.pipeline_link.filter(|_| joins_stages);
        ClusterConfig {
            model: self.model.as_ref().unwrap_or(&cluster.model).clone(),
            quantization: self
                .quantization
                .or(cluster.quantization.filter(|_| self.model.is_none())),
            gpu: self.gpu.as_ref().unwrap_or(&cluster.gpu).clone(),
            replicas: self.replicas,
            tensor_parallel_size: self.tensor_parallel_size.unwrap_or(cluster.tensor_parallel_size),
            all_reduce: self.all_reduce.or(cluster.all_reduce),
            pipeline_parallel_size: stages,
            pipeline_link: self.pipeline_link.or(shared_link),
            data_parallel_size: self.data_parallel_size.unwrap_or(cluster.data_parallel_size),
            expert_parallel: self.expert_parallel.or(cluster.expert_parallel),
            gpu_memory_utilization: self
                .gpu_memory_utilization
                .or(shared(cluster.gpu_memory_utilization)),
            memory_reserve: self
                .memory_reserve
                .or(cluster.memory_reserve.filter(|_| !has_own_memory)),
            kv_cache_dtype: self.kv_cache_dtype.unwrap_or(cluster.kv_cache_dtype),
            derived_kv_capacity: self
                .derived_kv_capacity
                .or(cluster.derived_kv_capacity.filter(|_| self.engine.is_none())),
            api_delay_ms: cluster.api_delay_ms,
            api_per_request_ms: cluster.api_per_request_ms,
            host: self.host.or(cluster.host),
            engine,
            step_time: self.step_time.as_ref().unwrap_or(&cluster.step_time).clone(),
            lora: self.lora.as_ref().or(shared_lora).map(|lora| LoraConfig {
                // It is about all replicas.
                placement: None,
                migration: None,
                ..lora.clone()
            }),
            router: cluster.router.clone(),
            router_time: cluster.router_time,
            gateway: cluster.gateway.clone(),
            disaggregation: None,
            // What comes to a replica that decodes is sent there.
            kv_tiers: cluster.kv_tiers.filter(|_| self.role != ReplicaRole::Decode),
            autoscaler: self.autoscaler,
            groups: Vec::new(),
        }
    }

    /// Takes what was filled in.
    pub(crate) fn settle(&mut self, resolved: &ClusterConfig) {
        self.quantization = resolved.quantization;
        self.gpu = Some(resolved.gpu.clone());
        self.tensor_parallel_size = Some(resolved.tensor_parallel_size);
        self.pipeline_parallel_size = Some(resolved.pipeline_parallel_size)
            .filter(|stages| *stages > 1 || self.pipeline_parallel_size.is_some());
        self.all_reduce = resolved.all_reduce;
        self.pipeline_link = resolved.pipeline_link;
        self.data_parallel_size = Some(resolved.data_parallel_size)
            .filter(|ranks| *ranks > 1 || self.data_parallel_size.is_some());
        self.expert_parallel = resolved.expert_parallel;
        self.gpu_memory_utilization = resolved.gpu_memory_utilization;
        self.memory_reserve = resolved.memory_reserve;
        self.kv_cache_dtype = Some(resolved.kv_cache_dtype);
        self.derived_kv_capacity = resolved.derived_kv_capacity;
        self.host = resolved.host;
        self.engine = Some(resolved.engine.clone());
        self.step_time = Some(resolved.step_time.clone());
        self.lora.clone_from(&resolved.lora);
    }

    /// Which settings of the cluster it replaces, by their keys.
    pub(crate) fn own_settings(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("model", self.model.is_some()),
            ("quantization", self.quantization.is_some()),
            ("gpu", self.gpu.is_some()),
            ("replicas", true),
            ("tensor_parallel_size", self.tensor_parallel_size.is_some()),
            ("all_reduce", self.all_reduce.is_some()),
            ("pipeline_parallel_size", self.pipeline_parallel_size.is_some()),
            ("pipeline_link", self.pipeline_link.is_some()),
            ("data_parallel_size", self.data_parallel_size.is_some()),
            ("expert_parallel", self.expert_parallel.is_some()),
            ("gpu_memory_utilization", self.gpu_memory_utilization.is_some()),
            ("memory_reserve", self.memory_reserve.is_some()),
            ("kv_cache_dtype", self.kv_cache_dtype.is_some()),
            ("host", self.host.is_some()),
            ("engine", self.engine.is_some()),
            ("step_time", self.step_time.is_some()),
            ("lora", self.lora.is_some()),
        ];
        given.into_iter().filter_map(|(key, is_given)| is_given.then_some(key))
    }
}
