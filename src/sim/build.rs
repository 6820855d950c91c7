//! From a resolved scenario to machines.

use crate::cluster::{Cluster, Router};
use crate::cost::{Linear, OperatorModel, OperatorProfile, Roofline, RooflineOptions, StepTime};
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

/// The cost model of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn step_time(scenario: &Scenario) -> Result<StepTime, ScenarioError> {
    let fail =
        |problem: String| ScenarioError { problems: vec![format!("cluster.step_time: {problem}")] };
    let cluster = &scenario.file.cluster;
    let micros = |us: f64| SimDuration::from_secs_f64(us / 1e6);
    let options = |sampler, communication, calibration| RooflineOptions {
        tensor_parallel_size: cluster.tensor_parallel_size,
        kv_cache_dtype: cluster.kv_cache_dtype,
        calibration,
        sampler,
        communication,
    };
    match &cluster.step_time {
        StepTimeConfig::Auto { .. } => unreachable!("a resolved scenario names its step times"),
        StepTimeConfig::OperatorTable { profile, sampler, communication, calibration, .. } => {
            let name = profile.as_deref().unwrap_or_default();
            let text = scenario.step_time_profile.as_deref();
            let text = text.ok_or_else(|| fail(format!("{name} was not read")))?;
            let profile = OperatorProfile::parse(text);
            let profile = profile.map_err(|error| fail(format!("{name}: {error}")))?;
            if !profile.gpu.eq_ignore_ascii_case(&scenario.gpu.name) {
                let problem = format!(
                    "{name} was measured on {}, but cluster.gpu is {}",
                    profile.gpu, scenario.gpu.name
                );
                return Err(fail(problem));
            }
            let options = options(*sampler, *communication, *calibration);
            let model = OperatorModel::new(&scenario.model, &scenario.gpu, &profile, &options);
            model.map(StepTime::Operators).map_err(|error| fail(error.to_string()))
        }
        StepTimeConfig::Roofline { sampler, communication, calibration } => {
            let options = options(*sampler, *communication, *calibration);
            let roofline = Roofline::new(&scenario.model, &scenario.gpu, &options);
            roofline.map(StepTime::Roofline).map_err(|error| fail(error.to_string()))
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
