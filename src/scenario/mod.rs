//! Scenarios: as typed ([`file`](self)), then validated. One sub-configuration per component.

mod engine;
mod workload;

pub use engine::{EngineConfig, Policy, SpeculationConfig, SpeculationMethod, VllmConfig};
pub use workload::{
    ArrivalConfig, ClientConfig, ContentConfig, CopyContent, GroupDistribution, LengthConfig,
    Popularity, PrefixRepetitionConfig, Problem, RampUp, RampUpConfig, RowOrder, RowSort,
    SessionConfig, SglangRandomConfig, SharedPrefixConfig, SonnetConfig, ThinkTime,
    TokenDistribution, TraceArrivalConfig, Vllm2024RandomConfig, VllmRandomConfig, WorkloadConfig,
};
