//! Scenarios: as typed ([`file`](self)), then validated. One sub-configuration per component.

mod engine;

pub use engine::{EngineConfig, Policy, SpeculationConfig, SpeculationMethod, VllmConfig};
