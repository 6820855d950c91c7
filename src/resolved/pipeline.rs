//! Rules and derived values of pipeline parallelism.

use super::{Rules, ScenarioError, fail, kv};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::scenario::{ClusterConfig, EngineConfig, PipelineLink, StepTimeConfig};

/// GPUs in a node without a link of its own.
const GPUS_PER_NODE: u32 = 8;

/// Rules that need no look-up.
pub(super) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    let (stages, most) = (cluster.pipeline_parallel_size, ClusterConfig::STAGES_MAX);
    let size = "cluster.pipeline_parallel_size";
    rules.check((1..=most).contains(&stages), size, &format!("from 1 to {most}"), stages);
    if let Some(link) = &cluster.pipeline_link {
        rules.carried("cluster.pipeline_link.gb_per_s", link.gb_per_s);
        rules.brief("cluster.pipeline_link.latency_us", link.latency_us, 1e6);
        if stages == 1 {
            let message = "has no effect with pipeline_parallel_size 1; leave one of them out";
            rules.broken("cluster.pipeline_link", message);
        } else if cluster.step_time.ignores_communication() {
            let message = "has no effect with step_time.communication = \"ignored\"; leave one out";
            rules.broken("cluster.pipeline_link", message);
        }
    }
    if stages == 1 {
        return;
    }
    let mut refuse = |what: &str| {
        let message = format!("must be 1, got {stages}: {what}");
        rules.broken(size, &message);
    };
    match &cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            if vllm.speculation.is_some() {
                refuse("speculation over several stages is not modelled");
            }
        }
        other => {
            refuse(&format!("stages of {} are not modelled, those of vllm_v1 are", other.name()));
        }
    }
    if has_adapters || cluster.lora.is_some() {
        refuse("adapters on several stages are not modelled");
    }
    if cluster.disaggregation.is_some() {
        refuse("the KV cache of several stages is not handed over between replicas");
    }
    if cluster.kv_tiers.is_some() {
        refuse("kv_tiers below several stages are not modelled");
    }
    match &cluster.step_time {
        StepTimeConfig::LayerTable(_) => {
            refuse("a layer_table holds the times of whole models; take another step_time.type");
        }
        StepTimeConfig::StepTable { .. } => {
            refuse("a step_table holds the times of whole steps; take another step_time.type");
        }
        _ => {}
    }
}

/// Makes sure that every stage has a layer, and fills in the link between stages: nothing where they send
/// nothing.
pub(super) fn resolve(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Option<PipelineLink>, ScenarioError> {
    let (tp, stages) = (cluster.tensor_parallel_size, cluster.pipeline_parallel_size);
    if stages > model.num_layers() {
        let problem = format!(
            "must be at most the {} layers of {}, got {stages}",
            model.num_layers(),
            model.name
        );
        return Err(fail("cluster.pipeline_parallel_size", &problem));
    }
    if stages > 1
        && let EngineConfig::VllmV1(vllm) = &cluster.engine
        && vllm.kv_groups(model, kv::machine(cluster, gpu)).is_some()
    {
        let problem = format!(
            "must be 1, got {stages}: blocks of windows on several stages are not modelled; \
             engine.disable_hybrid_kv_cache_manager = true keeps whole contexts"
        );
        return Err(fail("cluster.pipeline_parallel_size", &problem));
    }
    let sends_nothing = stages == 1 || cluster.step_time.ignores_communication();
    if sends_nothing || cluster.pipeline_link.is_some() {
        return Ok(cluster.pipeline_link);
    }
    let node = gpu.gpus_per_domain.max(GPUS_PER_NODE);
    if cluster.gpus_per_replica() > node {
        let problem = format!(
            "must be given: {tp}×{stages} {} do not fit in a node of {node}, and what joins nodes \
             is not known; with two NICs of 400 Gb/s for eight GPUs, for instance, \
             {{ gb_per_s = 12.5, latency_us = 10.0 }}",
            gpu.name
        );
        return Err(fail("cluster.pipeline_link", &problem));
    }
    // Either of two GPUs gets the other's bytes once in an all-reduce.
    let pair = gpu.all_reduce(2);
    let link = PipelineLink { gb_per_s: pair.bandwidth_gb_s, latency_us: pair.latency_us };
    cluster.pipeline_link = Some(link);
    Ok(Some(link))
}
