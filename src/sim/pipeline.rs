//! The cost model of a replica whose layers lie on several stages.

use super::step_time::of_layers;
use crate::cost::{Hop, Pipeline, StepTime};
use crate::model::{ModelSpec, Stage};
use crate::scenario::{Communication, ReplicaGroup, ScenarioError, StepTimeConfig};

/// Prices each stage as a model of its layers.
pub(super) fn pipeline(
    model: &ModelSpec,
    group: &ReplicaGroup,
    count: u32,
) -> Result<Pipeline, ScenarioError> {
    let stages = model.stages(count);
    let mut priced: Vec<StepTime> = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        // Stages of equal layers share their tables; a linear law is cut by the layers' numbers.
        let alike = |other: &Stage| other.model == stage.model && !is_linear(group);
        match stages[..index].iter().position(alike) {
            Some(same) => priced.push(priced[same].clone()),
            None => priced.push(of_layers(&stage.model, group, &stage.layers, model.layers)?),
        }
    }
    let counts: Vec<String> = stages.iter().map(|stage| stage.model.layers.to_string()).collect();
    let described = format!("{count} stages of {} layers", counts.join(", "));
    Ok(Pipeline::new(priced, hop(model, group)?, &described))
}

fn is_linear(group: &ReplicaGroup) -> bool {
    matches!(group.cluster.step_time, StepTimeConfig::Linear { .. })
}

fn hop(model: &ModelSpec, group: &ReplicaGroup) -> Result<Hop, ScenarioError> {
    if let StepTimeConfig::OperatorTable { communication, .. }
    | StepTimeConfig::Roofline { communication, .. } = &group.cluster.step_time
        && *communication == Communication::Ignored
    {
        return Ok(Hop::NONE);
    }
    let link = group.cluster.pipeline_link.expect("a resolved scenario joins its stages");
    let hop = Hop::between(model, &group.gpu, group.cluster.tensor_parallel_size, link);
    hop.map_err(|error| ScenarioError {
        problems: vec![format!("cluster.tensor_parallel_size: {error}")],
    })
}
