//! Scenarios: as typed ([`file`](self)), then validated. One sub-configuration per component.

mod engine;
mod sglang;

pub use engine::{EngineConfig, Policy, SpeculationConfig, SpeculationMethod, VllmConfig};
pub use sglang::{SglangConfig, SglangPolicy};
