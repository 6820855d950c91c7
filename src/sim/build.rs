//! From a resolved scenario to machines.

use super::layer_table;
use crate::cluster::{Cluster, Router};
use crate::cost::{HostOverhead, Linear, Roofline, RooflineOptions, StepTime};
use crate::engine::Instance;
use crate::engine::scheduler::{
    Acceptance, FasterTransformer, Orca, Sarathi, Scheduler, Sglang, StaticBatch, VllmV0, VllmV1,
};
use crate::scenario::{EngineConfig, Scenario, ScenarioError, StepTimeConfig};
use crate::units::SimDuration;

/// The idle cluster of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn cluster(scenario: &Scenario) -> Result<Cluster, ScenarioError> {
    let config = &scenario.file.cluster;
    let cost = step_time(scenario)?;
    let instance = |_| Instance::new(scheduler(scenario), cost.clone());
    Ok(Cluster {
        instances: (0..config.replicas).map(instance).collect(),
        router: Router::new(&config.router),
    })
}

fn scheduler(scenario: &Scenario) -> Scheduler {
    match &scenario.file.cluster.engine {
        EngineConfig::VllmV1(config) => {
            let acceptance = config.speculation.map_or(Acceptance::NONE, |speculation| {
                Acceptance::PerPosition {
                    probability: speculation.acceptance_rate,
                    seed: scenario.file.seed.0,
                }
            });
            Scheduler::VllmV1(Box::new(VllmV1::new(config.clone(), acceptance)))
        }
        EngineConfig::Sglang(config) => Scheduler::Sglang(Box::new(Sglang::new(config.clone()))),
        EngineConfig::VllmV0(config) => Scheduler::VllmV0(Box::new(VllmV0::new(config))),
        EngineConfig::Sarathi(config) => Scheduler::Sarathi(Box::new(Sarathi::new(config))),
        EngineConfig::Orca(config) => Scheduler::Orca(Box::new(Orca::new(config))),
        EngineConfig::FasterTransformer(config) => {
            Scheduler::FasterTransformer(Box::new(FasterTransformer::new(config)))
        }
        EngineConfig::StaticBatching(config) => {
            Scheduler::StaticBatch(Box::new(StaticBatch::new(config)))
        }
    }
}

fn step_time(scenario: &Scenario) -> Result<StepTime, ScenarioError> {
    let micros = |us: f64| SimDuration::from_secs_f64(us / 1e6);
    match &scenario.file.cluster.step_time {
        StepTimeConfig::Roofline {
            host_per_step_us,
            host_per_sequence_us,
            sampler,
            communication,
        } => {
            let options = RooflineOptions {
                tensor_parallel_size: scenario.file.cluster.tensor_parallel_size,
                kv_cache_dtype: scenario.file.cluster.kv_cache_dtype,
                host: HostOverhead {
                    per_step: micros(*host_per_step_us),
                    per_sequence: micros(*host_per_sequence_us),
                },
                sampler: *sampler,
                communication: *communication,
            };
            let roofline = Roofline::new(&scenario.model, &scenario.gpu, &options);
            roofline.map(StepTime::Roofline).map_err(|error| ScenarioError {
                problems: vec![format!("cluster.step_time: {error}")],
            })
        }
        StepTimeConfig::LayerTable(config) => layer_table::layer_table(scenario, config)
            .map(StepTime::LayerTable)
            .map_err(|problem| ScenarioError { problems: vec![problem] }),
        StepTimeConfig::Linear { base_us, prefill_token_us, decode_seq_us } => {
            Ok(StepTime::Linear(Linear {
                base: micros(*base_us),
                prefill_token: micros(*prefill_token_us),
                decode_seq: micros(*decode_seq_us),
            }))
        }
    }
}
