//! The cost model of a replica whose layers lie on several stages.

use super::step_time::of_layers;
use crate::cost::{Hop, Pipeline, StepTime};
use crate::model::{ModelSpec, Stage};
use crate::resolved::{ReplicaGroup, ScenarioError};
use crate::scenario::StepTimeConfig;

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
            None => priced.push(of_layers(&stage.model, group, &stage.layers, model.num_layers())?),
        }
    }
    Ok(Pipeline::new(priced, hop(model, group)?, &described(&stages, group)))
}

/// How the layers are cut and joined, for a report.
fn described(stages: &[Stage], group: &ReplicaGroup) -> String {
    let layers = |stage: &Stage| stage.model.num_layers().to_string();
    let mut counts: Vec<String> = stages.iter().map(layers).collect();
    if counts.iter().all(|count| *count == counts[0]) {
        counts.truncate(1);
    }
    let counts = counts.join(", ");
    let link = group.stage_link.map_or_else(String::new, |link| {
        format!(", joined at {} GB/s and {} µs a message", link.gb_per_s, link.latency_us)
    });
    format!("{} stages of {counts} layers{link}", stages.len())
}

fn is_linear(group: &ReplicaGroup) -> bool {
    matches!(group.cluster.step_time, StepTimeConfig::Linear { .. })
}

fn hop(model: &ModelSpec, group: &ReplicaGroup) -> Result<Hop, ScenarioError> {
    let Some(link) = group.stage_link else { return Ok(Hop::NONE) };
    let hop = Hop::between(model, &group.gpu, group.cluster.tensor_parallel_size, link);
    hop.map_err(|error| ScenarioError::at("cluster.tensor_parallel_size", error))
}
