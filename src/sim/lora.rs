//! The adapters of a resolved scenario: which replica holds which, what they take, whose requests go
//! into a step together.

use crate::cluster::Placement;
use crate::cost::{CostModel, LoraTimes, StepShape, StepTime};
use crate::engine::Adapters;
use crate::engine::scheduler::{OrcaLora, OrcaSettings, Scheduler, StepSeconds};
use crate::ids::AdapterId;
use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::{AdapterBatchingConfig, DloraCreditConfig, LoraConfig};

/// The context at which a batch decodes whose time stands for all steps, in tokens.
const USUAL_CONTEXT: u32 = 512;

fn holders(scenario: &Scenario) -> Option<&[Vec<u32>]> {
    let lora = scenario.lora()?;
    lora.placement.as_ref()?.holders()
}

pub(super) fn placement(scenario: &Scenario) -> Option<Placement> {
    let instances = scenario.groups.iter().map(ReplicaGroup::replicas).sum();
    holders(scenario).map(|holders| Placement::new(holders, instances))
}

/// The adapters that a replica holds, where not all hold all.
pub(super) fn held(scenario: &Scenario, replica: u32) -> Option<Vec<AdapterId>> {
    let held = (0..).map(AdapterId).zip(holders(scenario)?);
    Some(held.filter(|(_, of)| of.contains(&replica)).map(|(id, _)| id).collect())
}

/// The adapters of a scenario, on an engine with so many slots, where not all are `held`.
pub(super) fn adapters(
    scenario: &Scenario,
    group: &ReplicaGroup,
    slots: Option<u32>,
    held: Option<&[AdapterId]>,
) -> Option<Adapters> {
    let mix = scenario.workload.adapters.as_ref()?;
    let lora = group.cluster.lora.as_ref()?;
    let in_host = lora.max_host_adapters.unwrap_or(u32::MAX);
    let adapters = Adapters::new(mix.ranks().collect(), slots.unwrap_or(u32::MAX), in_host);
    let pinned = lora.pinned_ids(mix);
    Some(match held {
        Some(held) => adapters.holding(held),
        None if pinned.is_empty() => adapters,
        None => adapters.pinning(pinned),
    })
}

/// Orca with these adapters.
pub(super) fn orca(
    scenario: &Scenario,
    (group, cost): (&ReplicaGroup, &StepTime),
    orca: OrcaSettings,
    adapters: Adapters,
) -> Scheduler {
    let count = scenario.workload.adapters.as_ref().map_or(0, |mix| mix.count() as usize);
    let lora = group.cluster.lora.clone().unwrap_or_default();
    let steps = match lora.batching {
        AdapterBatchingConfig::DloraCredit(DloraCreditConfig {
            merged_step_ms: Some(merged),
            unmerged_step_ms: Some(unmerged),
            ..
        }) => StepSeconds { merged: merged / 1e3, unmerged: unmerged / 1e3 },
        _ => usual_steps(cost, group.lora.unwrap_or_default(), &lora, orca),
    };
    let scheduler = OrcaLora::new(orca, &lora.batching, (adapters, count), steps);
    Scheduler::OrcaLora(Box::new(scheduler))
}

/// A full batch that decodes, with one merged adapter, and with one of the largest rank in every slot.
fn usual_steps(
    cost: &StepTime,
    times: LoraTimes,
    lora: &LoraConfig,
    orca: OrcaSettings,
) -> StepSeconds {
    let rows = orca.max_batch_size;
    let context = orca.memory.max_model_len.min(USUAL_CONTEXT);
    let (adapters, rank) = (orca.max_loras.unwrap_or(1).min(rows), lora.max_rank.unwrap_or(1));
    let mut shape = StepShape::seeing(cost.prefill_window());
    shape.add_decodes(rows, u64::from(rows) * u64::from(context), context);
    shape.adapters = adapters as u16;
    shape.adapter_ranks = adapters * rank;
    shape.lora_tokens = rows;
    shape.lora_rank_tokens = u64::from(rows) * u64::from(rank);
    let merged = cost.step_duration(&shape);
    let unmerged = merged + times.kernels(&shape);
    StepSeconds { merged: merged.as_secs_f64(), unmerged: unmerged.as_secs_f64() }
}
