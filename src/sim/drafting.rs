//! What prices the drafts of a group of replicas.

use super::step_time::options;
use crate::cost::{
    Calibration, CudaGraphs, DraftPasses, Drafting, OperatorModel, OperatorProfile, Roofline,
    RooflineError, RooflineOptions, StepTime,
};
use crate::engine::scheduler::EngineSettings;
use crate::hardware::GpuSpec;
use crate::model::{Drafter, ModelSpec};
use crate::profiles;
use crate::resolved::{ReplicaGroup, ScenarioError, captured_of_requests};
use crate::scenario::{Communication, EngineConfig, Sampler, StepTimeConfig};
use crate::units::SimDuration;

/// What its drafts take, where that is counted.
///
/// # Errors
/// When the passes cannot be priced on its GPUs.
pub(super) fn drafting(group: &ReplicaGroup) -> Result<Option<Drafting>, ScenarioError> {
    let Some(speculation) = group.speculation() else { return Ok(None) };
    if let Some(micros) = speculation.lookup_us {
        return Ok(Some(Drafting::LookUps(SimDuration::from_secs_f64(micros / 1e6))));
    }
    let Some(drafter) = &group.drafter else { return Ok(None) };
    let Some((communication, calibration)) = asked(&group.cluster.step_time) else {
        return Ok(None);
    };
    let fail = |error: RooflineError| ScenarioError::at("cluster.engine.speculation.method", error);
    let share = share_of_layers(drafter, &group.model);
    let options = options(group, (Sampler::Greedy, communication), calibration.of_stage(share));
    let layers = layers(drafter, group, &options)?;
    let passes = (layers, speculation.drafts);
    let host = (graphs(group), launch(drafter, group));
    let passes = DraftPasses::new(drafter, passes, &group.gpu, &options, host).map_err(fail)?;
    let passes = match &group.settings {
        EngineSettings::Sglang(_) => passes.ahead_of_verification(),
        _ => passes,
    };
    Ok(Some(Drafting::Passes(Box::new(passes))))
}

/// Graphs for passes over a token of each sequence.
fn graphs(group: &ReplicaGroup) -> CudaGraphs {
    match &group.cluster.engine {
        EngineConfig::Sglang(sglang) => captured_of_requests(sglang, 1),
        _ => group.graphs.clone(),
    }
}

/// How far its layers are a part of the model's.
fn share_of_layers(drafter: &Drafter, model: &ModelSpec) -> f64 {
    f64::from(drafter.model.num_layers()) / f64::from(model.num_layers())
}

/// What the step times say of all kernels; nothing where they are of whole steps.
fn asked(config: &StepTimeConfig) -> Option<(Communication, Calibration)> {
    match config {
        StepTimeConfig::OperatorTable { communication, calibration, .. }
        | StepTimeConfig::Roofline { communication, calibration, .. } => {
            Some((*communication, *calibration))
        }
        StepTimeConfig::LayerTable(table) => Some((Communication::default(), table.calibration)),
        StepTimeConfig::Auto { .. }
        | StepTimeConfig::StepTable { .. }
        | StepTimeConfig::Linear { .. } => None,
    }
}

/// A pass through its layers: by the operator table of the model, or that of the GPU where the model has a table of
/// its own layers; else by the roofline.
fn layers(
    drafter: &Drafter,
    group: &ReplicaGroup,
    options: &RooflineOptions,
) -> Result<StepTime, ScenarioError> {
    let fail = |problem: String| ScenarioError::at("cluster.engine.speculation.method", problem);
    let text = match &group.cluster.step_time {
        StepTimeConfig::OperatorTable { .. } => group.step_time_profile.as_deref(),
        StepTimeConfig::LayerTable(_) => shipped_table(&group.gpu, &group.settings),
        _ => None,
    };
    let (model, gpu) = (&drafter.model, &group.gpu);
    let Some(text) = text else {
        let built = Roofline::new(model, gpu, options).map(StepTime::Roofline);
        return built.map_err(|error| fail(error.to_string()));
    };
    let profile = OperatorProfile::parse(text).map_err(|error| fail(error.to_string()))?;
    let built = OperatorModel::new(model, gpu, &profile, options).map(StepTime::Operators);
    built.map_err(|error| fail(error.to_string()))
}

fn shipped_table(gpu: &GpuSpec, settings: &EngineSettings) -> Option<&'static str> {
    let engine = if matches!(settings, EngineSettings::Sglang(_)) { "sglang" } else { "vllm" };
    profiles::operator_table_for(&gpu.name, engine, None).map(|table| table.text)
}

/// What the host takes for the kernels of a pass, as far as it is known what it takes for those of a step: in the
/// measure in which their layers differ.
fn launch(drafter: &Drafter, group: &ReplicaGroup) -> SimDuration {
    let engine =
        if matches!(group.settings, EngineSettings::Sglang(_)) { "sglang" } else { "vllm" };
    let share = profiles::host(engine).map_or_else(
        || share_of_layers(drafter, &group.model),
        |profile| profile.launches.of(&drafter.model) / profile.launches.of(&group.model),
    );
    SimDuration::from_secs_f64(share * group.cluster.engine.host().eager_launch_us / 1e6)
}
