//! From a resolved scenario to machines.

use crate::cluster::{Cluster, Router};
use crate::cost::{HostOverhead, Linear, Roofline, RooflineOptions, StepTime};
use crate::engine::Instance;
use crate::engine::scheduler::{
    Acceptance, FasterTransformer, Orca, Sarathi, Scheduler, Sglang, StaticBatch, VllmV0, VllmV1,
};
use crate::scenario::{
    AcceptanceConfig, EngineConfig, Scenario, ScenarioError, StepTimeConfig, VllmConfig,
};
use crate::units::SimDuration;

/// The idle cluster of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn cluster(scenario: &Scenario) -> Result<Cluster, ScenarioError> {
    let config = &scenario.file.cluster;
    let cost = step_time(scenario)?;
    let instance = |_| Ok(Instance::new(scheduler(scenario)?, cost.clone()));
    Ok(Cluster {
        instances: (0..config.replicas).map(instance).collect::<Result<_, ScenarioError>>()?,
        router: Router::new(&config.router),
    })
}

fn scheduler(scenario: &Scenario) -> Result<Scheduler, ScenarioError> {
    Ok(match &scenario.file.cluster.engine {
        EngineConfig::VllmV1(config) => {
            let acceptance = acceptance(scenario, config)?;
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
    })
}

fn acceptance(scenario: &Scenario, config: &VllmConfig) -> Result<Acceptance, ScenarioError> {
    let Some(speculation) = &config.speculation else { return Ok(Acceptance::NONE) };
    let seed = scenario.file.seed.0;
    Ok(match &speculation.acceptance {
        AcceptanceConfig::PerPosition { probability } => {
            Acceptance::PerPosition { probability: *probability, seed }
        }
        AcceptanceConfig::MeanLength { tokens } => {
            Acceptance::with_mean_length(*tokens, speculation.num_speculative_tokens, seed)
        }
        AcceptanceConfig::Recorded { path } => {
            let recorded = scenario.accepted_drafts.clone().ok_or_else(|| ScenarioError {
                problems: vec![format!(
                    "cluster.engine.speculation.acceptance: the recording {path} was not read"
                )],
            });
            Acceptance::Recorded(recorded?)
        }
    })
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
        StepTimeConfig::Linear { base_us, prefill_token_us, decode_seq_us } => {
            Ok(StepTime::Linear(Linear {
                base: micros(*base_us),
                prefill_token: micros(*prefill_token_us),
                decode_seq: micros(*decode_seq_us),
            }))
        }
    }
}
