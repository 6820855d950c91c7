//! Rules and derived values of data-parallel ranks.

use super::{Rules, ScenarioError, fail};
use crate::hardware::{Exchanged, GpuSpec};
use crate::model::ModelSpec;
use crate::scenario::{
    ClusterConfig, EngineConfig, ExchangeConfig, ExchangeKind, RouterConfig, StepTimeConfig,
};

const SIZE: &str = "cluster.data_parallel_size";
const EXCHANGE: &str = "cluster.expert_parallel.exchange";

/// Rules that need no look-up.
pub(super) fn rules(cluster: &ClusterConfig, has_adapters: bool, rules: &mut Rules) {
    let (ranks, most) = (cluster.data_parallel_size, ClusterConfig::RANKS_MAX);
    rules.check((1..=most).contains(&ranks), SIZE, &format!("from 1 to {most}"), ranks);
    if let Some(exchange) = cluster.expert_parallel.and_then(|parallel| parallel.exchange) {
        rules.brief(&format!("{EXCHANGE}.latency_us"), exchange.latency_us, 1e6);
        rules.carried(&format!("{EXCHANGE}.gb_per_s"), exchange.gb_per_s);
        if ranks == 1 {
            let message = "has no effect with data_parallel_size 1; leave one of them out";
            rules.broken(EXCHANGE, message);
        } else if cluster.step_time.ignores_communication() {
            let message = "has no effect with step_time.communication = \"ignored\"; leave one out";
            rules.broken(EXCHANGE, message);
        }
    }
    let sigma = cluster.expert_parallel.map_or(0.0, |parallel| parallel.imbalance_sigma);
    if ranks > 1 {
        let refuse = |what: &str| rules.broken(SIZE, &format!("must be 1, got {ranks}: {what}"));
        refuse_others(cluster, has_adapters, "ranks", refuse);
    } else if sigma > 0.0 {
        let path = "cluster.expert_parallel.imbalance_sigma";
        let refuse = |what: &str| {
            rules.broken(path, &format!("must be 0, got {}: {what}", crate::plain::shown(sigma)));
        };
        refuse_others(cluster, has_adapters, "drawn imbalances", refuse);
    }
}

/// What is not modelled beside steps that ranks do together, which `what` names.
fn refuse_others(
    cluster: &ClusterConfig,
    has_adapters: bool,
    what: &str,
    mut refuse: impl FnMut(&str),
) {
    match &cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            if vllm.speculation.is_some() {
                refuse(&format!("{what} with speculation are not modelled"));
            }
            if vllm.prefill_schedule_interval > 1 {
                refuse(&format!("{what} with a prefill_schedule_interval are not modelled"));
            }
        }
        EngineConfig::Sglang(sglang) => {
            if sglang.speculation.is_some() {
                refuse(&format!("{what} with speculation are not modelled"));
            }
            if sglang.scheduler_recv_interval > 1 {
                refuse(&format!("{what} with a scheduler_recv_interval are not modelled"));
            }
        }
        other => {
            let name = other.name();
            refuse(&format!("{what} of {name} are not modelled, those of vllm_v1 and sglang are"));
        }
    }
    if cluster.pipeline_parallel_size > 1 {
        refuse(&format!("{what} of several stages are not modelled"));
    }
    if has_adapters || cluster.lora.is_some() {
        refuse(&format!("{what} with adapters are not modelled"));
    }
    if cluster.disaggregation.is_some() {
        refuse(&format!("{what} of replicas that only prefill or decode are not modelled"));
    }
    if cluster.kv_tiers.is_some() {
        refuse(&format!("{what} with kv_tiers are not modelled"));
    }
    if let RouterConfig::LatencyPredicting(_)
    | RouterConfig::PrefixExact(_)
    | RouterConfig::Dynamo(_) = cluster.router
    {
        refuse(&format!("{what} behind routers that foresee steps or ask caches are not modelled"));
    }
    if let StepTimeConfig::StepTable { .. } = &cluster.step_time {
        refuse("a step_table holds the times of whole steps; take another step_time.type");
    }
}

/// Makes sure that the ranks have experts to share, and fills in how tokens travel to them.
pub(super) fn resolve(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<(), ScenarioError> {
    let ranks = cluster.data_parallel_size;
    if ranks == 1 {
        return Ok(());
    }
    if model.experts().is_none() {
        let problem = format!(
            "must be 1, got {ranks}: {} has no experts, so that ranks would not wait for each other; \
             that many replicas serve alike",
            model.name
        );
        return Err(fail(SIZE, &problem));
    }
    if matches!(cluster.step_time, StepTimeConfig::Linear { .. }) {
        return Ok(());
    }
    let is_silent = cluster.step_time.ignores_communication();
    let gpus = cluster.gpus_per_replica();
    let Some(parallel) = &mut cluster.expert_parallel else {
        let problem = format!(
            "must be given where data_parallel_size is {ranks}: {{}} has whole experts on each GPU, {{ size = 1 }} a \
             part of every expert"
        );
        return Err(fail("cluster.expert_parallel", &problem));
    };
    if !is_silent && parallel.exchange.is_none() {
        parallel.exchange = Some(measured(gpu, gpus)?);
    }
    Ok(())
}

/// What NCCL takes between so many of these GPUs in a node. Where that was not measured, an all-gather is
/// half of an all-reduce.
fn measured(gpu: &GpuSpec, gpus: u32) -> Result<ExchangeConfig, ScenarioError> {
    let node = gpu.gpus_per_node();
    if gpus > node {
        let problem = format!(
            "must be given: {gpus} {} do not fit in a node of {node}, and what joins nodes is not \
             known; with a NIC of 400 Gb/s for each GPU, for instance, {{ type = \"all_to_all\", \
             latency_us = 30.0, gb_per_s = 40.0 }}",
            gpu.name
        );
        return Err(fail(EXCHANGE, &problem));
    }
    let efficiency = &gpu.efficiency;
    let kind = ExchangeKind::AllGather;
    let found = |table: &[Exchanged]| {
        let entry = table.iter().find(|entry| entry.gpus >= gpus).or(table.last())?;
        let (latency_us, gb_per_s) = (entry.latency_us, entry.bandwidth_gb_s);
        Some(ExchangeConfig { kind, latency_us, gb_per_s })
    };
    if let Some(way) = found(&efficiency.all_gather) {
        return Ok(way);
    }
    let reduces = gpu.all_reduce(gpus);
    let received = f64::from(gpus - 1) / f64::from(gpus);
    Ok(ExchangeConfig {
        kind,
        latency_us: reduces.latency_us / 2.0,
        gb_per_s: 2.0 * received * reduces.bandwidth_gb_s,
    })
}
