//! Scenarios as they are typed ([`ScenarioFile`]). One sub-configuration per component; keys name their
//! units; unknown keys are refused. What may be left out is optional here and decided in `resolved`.

mod adapter_batching;
mod autoscaler;
mod baselines;
mod bill;
mod calibration;
mod cluster;
mod cuda_graph;
mod disaggregation;
mod dynamo;
mod dynamo_conditional;
mod dynamo_planner;
mod engine;
mod expert_parallel;
mod faults;
mod file;
mod gateway;
mod group;
mod kv_tiers;
mod lora;
mod migration;
mod pipeline;
mod router;
mod router_time;
mod server_host;
mod sglang;
mod sglang_speculation;
mod speculation;
mod step_time;
mod workload;

pub use crate::host::HostConfig;
pub use adapter_batching::{
    AdapterBatchingConfig, DloraCreditConfig, MergedOnlyConfig, SloraClustersConfig,
};
pub use autoscaler::{AutoscalerConfig, SignalConfig};
pub use baselines::{
    FasterTransformerConfig, OrcaConfig, Reservation, SarathiConfig, StaticBatchingConfig,
    VllmV0Config,
};
pub use bill::{GpuPower, GpuPrice, Offer};
pub use calibration::Calibration;
pub use cluster::ClusterConfig;
pub use disaggregation::{
    DisaggregationConfig, HandoverProtocol, LocalPrefillConfig, TransferConfig, TransferGranularity,
};
pub use dynamo::{
    DynamoBucket, DynamoClass, DynamoConfig, DynamoPolicy, DynamoQueueOrder, DynamoSelection,
    DynamoTwoTier,
};
pub use dynamo_conditional::{DynamoConditionalDisagg, DynamoConditionalPolicy};
pub use dynamo_planner::{DynamoPlannerConfig, LoadPredictor, OptimizationTarget};
pub use engine::{EngineConfig, MambaCacheMode, Policy, VllmConfig, VllmStartUp};
pub use expert_parallel::{ExchangeConfig, ExchangeKind, ExpertParallelConfig};
pub use faults::{CancellationConfig, FaultConfig, RandomFault, RandomFaultConfig, RetryConfig};
pub use file::{
    MeasuredConfig, NAME_MAX, ReportConfig, ReportFormat, ScenarioFile, TraceColumns, TraceConfig,
    TraceOrigin,
};
pub use gateway::{GatewayConfig, GatewayOrder, OverRate, RateLimitConfig, RateScope};
pub use group::{GroupConfig, ReplicaRole};
pub use kv_tiers::{
    DiskTierConfig, HostTierConfig, KvTiersConfig, PoolTierConfig, TierEviction, TierFetch,
    TierWrite,
};
pub use lora::{
    AdapterKind, AdapterMix, AdapterPopularity, ComputedPlacement, DriftConfig, LoraConfig,
    LoraKernels, LoraLoad, PlacementConfig,
};
pub use migration::{MigrationConfig, MigrationSolver, MovedRequests, PeriodicMigration};
pub use pipeline::{AllReduceConfig, PipelineLink};
pub use router::{
    AdapterAffinityConfig, AdapterKnowledge, AssignmentMode, DloraDispatchConfig,
    LatencyPredictingConfig, MakersRouter, PrefixAwareConfig, PrefixExactConfig, PrefixMiss,
    RankAwareConfig, RankKernel, RouterConfig, SglangRouterConfig, SglangRouterPolicy,
    VllmRouterConfig, VllmRouterPolicy, WeightedConfig,
};
pub use router_time::RouterTimeConfig;
pub use server_host::{Endpoint, NoHost, ServerHost, ServerHostConfig, ServerHostProfile};
pub use sglang::{SglangConfig, SglangPolicy};
pub use sglang_speculation::{SglangSpeculationConfig, SpeculativeAlgorithm};
pub use speculation::{
    AcceptanceConfig, Speculation, SpeculationConfig, SpeculationKeys, SpeculationMethod,
};
pub use step_time::{Communication, LayerTableConfig, Sampler, StepTimeConfig};
pub use workload::{
    AdapterCountsConfig, AdapterStreams, ArrivalConfig, ClassConfig, ClientConfig, ContentConfig,
    CopyContent, EarlyStopConfig, GroupDistribution, LengthConfig, Popularity, PortsConfig,
    PrefixRepetitionConfig, RampUp, RampUpConfig, RowOrder, RowSort, SessionConfig,
    SglangRandomConfig, SharedPrefixConfig, SonnetConfig, ThinkTime, TokenDistribution,
    TraceArrivalConfig, Vllm2024RandomConfig, VllmRandomConfig, WarmUpConfig, WorkloadConfig,
    models, tenants,
};
