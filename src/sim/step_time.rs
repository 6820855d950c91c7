//! The cost models of a scenario.

use std::ops::Range;

use super::{layer_table, pipeline, step_table};
use crate::cost::{
    Calibration, Linear, OperatorModel, OperatorProfile, Roofline, RooflineError, RooflineOptions,
    StepTime,
};
use crate::model::ModelSpec;
use crate::resolved::{ReplicaGroup, Scenario, ScenarioError};
use crate::scenario::{Communication, Sampler, StepTimeConfig};
use crate::units::SimDuration;

/// The cost model of each group of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn step_times(scenario: &Scenario) -> Result<Vec<StepTime>, ScenarioError> {
    scenario.groups.iter().map(step_time).collect()
}

/// The cost model of a group of replicas.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn step_time(group: &ReplicaGroup) -> Result<StepTime, ScenarioError> {
    let model = &group.model;
    match group.cluster.pipeline_parallel_size {
        1 => of_layers(model, group, &(0..model.num_layers()), model.num_layers()),
        stages => pipeline::pipeline(model, group, stages).map(StepTime::Pipeline),
    }
}

/// What a roofline of layers on these replicas is asked for.
pub(super) fn options(
    group: &ReplicaGroup,
    (sampler, communication): (Sampler, Communication),
    calibration: Calibration,
) -> RooflineOptions {
    let cluster = &group.cluster;
    RooflineOptions {
        tensor_parallel_size: cluster.tensor_parallel_size,
        data_parallel_size: cluster.data_parallel_size,
        expert_parallel: cluster.expert_parallel,
        kv_cache_dtype: cluster.kv_cache_dtype,
        calibration,
        sampler,
        communication,
        all_reduce: cluster.all_reduce,
    }
}

/// The cost model of a part of the layers; `model` has only these.
pub(super) fn of_layers(
    model: &ModelSpec,
    group: &ReplicaGroup,
    layers: &Range<u32>,
    all_layers: u32,
) -> Result<StepTime, ScenarioError> {
    let share = f64::from(layers.end - layers.start) / f64::from(all_layers);
    let fail = |problem: String| ScenarioError::at("cluster.step_time", problem);
    let (cluster, gpu) = (&group.cluster, &group.gpu);
    let unshared = |error: RooflineError| ScenarioError::at("cluster.tensor_parallel_size", error);
    let micros = |us: f64| {
        let whole = u128::from(SimDuration::from_secs_f64(us / 1e6).as_nanos());
        let before = |layer: u32| whole * u128::from(layer) / u128::from(all_layers);
        SimDuration::from_nanos((before(layers.end) - before(layers.start)) as u64)
    };
    let options = |sampler, communication, calibration: Calibration| {
        options(group, (sampler, communication), calibration.of_stage(share))
    };
    match &cluster.step_time {
        StepTimeConfig::Auto { .. } => unreachable!("a resolved scenario names its step times"),
        StepTimeConfig::OperatorTable { profile, sampler, communication, calibration, .. } => {
            let name = profile.as_deref().unwrap_or_default();
            let text = group.step_time_profile.as_deref();
            let text = text.ok_or_else(|| fail(format!("{name} was not read")))?;
            let profile = OperatorProfile::parse(text);
            let profile = profile.map_err(|error| fail(format!("{name}: {error}")))?;
            if !profile.gpu.eq_ignore_ascii_case(&gpu.name) {
                let problem = format!(
                    "{name} was measured on {}, but cluster.gpu is {}",
                    profile.gpu, gpu.name
                );
                return Err(fail(problem));
            }
            let options = options(*sampler, *communication, *calibration);
            let built = OperatorModel::new(model, gpu, &profile, &options);
            built.map(StepTime::Operators).map_err(unshared)
        }
        StepTimeConfig::Roofline { sampler, communication, calibration } => {
            let options = options(*sampler, *communication, *calibration);
            let roofline = Roofline::new(model, gpu, &options);
            roofline.map(StepTime::Roofline).map_err(unshared)
        }
        StepTimeConfig::LayerTable(config) => layer_table::layer_table(model, group, config)
            .map(StepTime::LayerTable)
            .map_err(ScenarioError::from),
        StepTimeConfig::StepTable { profile } => {
            let name = profile.as_deref().unwrap_or_default();
            let table = step_table::step_table(model, group);
            table.map(StepTime::StepTable).map_err(|problem| {
                ScenarioError::at("cluster.step_time.profile", format_args!("{name}: {problem}"))
            })
        }
        StepTimeConfig::Linear {
            base_us,
            prefill_token_us,
            decode_seq_us,
            prefill_base_us,
            prefill_seq_us,
            context_token_us,
        } => Ok(StepTime::Linear(Linear {
            base: micros(*base_us),
            prefill_token: micros(*prefill_token_us),
            decode_seq: micros(*decode_seq_us),
            prefill_base: prefill_base_us.map(micros),
            prefill_seq_nanos: (prefill_seq_us * 1e3).round() as i64,
            context_token_picos: (context_token_us * 1e6).round() as u64,
        })),
    }
}
