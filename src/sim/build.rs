//! From a resolved scenario to machines.

use super::drafting::drafting;
use super::handover;
use super::lora;
use super::pools;
use super::run::Simulation;
use super::source::Source;
use super::step_time::step_times;
use super::tier_plan::TierPlan;
use super::warm_up;
use super::wave;
use crate::cluster::{
    Cluster, Disaggregation, Order, Ranks, Roles, Route, Router, TransferEnd, Way, Wires,
};
use crate::cost::StepTime;
use crate::engine::scheduler::{
    Acceptance, EngineSettings, FasterTransformer, Orca, Sarathi, Scheduler, Sglang, StaticBatch,
    VllmV0, VllmV1,
};
use crate::engine::{HostTimes, Instance, Tiers};
use crate::frontend::{FrontEnd, FrontEndTimes};
use crate::ids::AdapterId;
use crate::network::Protocol;
use crate::profiles;
use crate::resolved::{ReplicaGroup, Scenario, ScenarioError};
use crate::rng::{Seed, mix};
use crate::scenario::{
    AcceptanceConfig, EngineConfig, HandoverProtocol, MigrationConfig, ReplicaRole,
};
use crate::units::SimDuration;
use crate::workload::Client;

/// The idle cluster of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn cluster(scenario: &Scenario) -> Result<Cluster, ScenarioError> {
    cluster_priced_by(scenario, &step_times(scenario)?)
}

/// The same, where its [`step_times`] are at hand.
///
/// # Errors
/// When a recording that the scenario names was not read.
pub fn cluster_priced_by(
    scenario: &Scenario,
    costs: &[StepTime],
) -> Result<Cluster, ScenarioError> {
    let mut instances = Vec::new();
    let tiers = TierPlan::new(scenario, costs);
    for (place, (group, cost)) in scenario.groups.iter().zip(costs).enumerate() {
        let wave = wave::of_group(scenario, group, cost);
        let front = front_end(group);
        let drafting = drafting(group)?;
        for _ in 0..group.replicas() {
            let wave = wave.as_ref().map(|wave| wave.of_replica(instances.len() as u64));
            let own = tiers.as_ref().and_then(|plan| plan.tiers(place));
            let held = lora::held(scenario, instances.len() as u32);
            let built = replica(scenario, group, cost, (own, held.as_deref()))?;
            let built = built.with_drafting(drafting.clone());
            instances.push(built.in_waves(wave).behind(front.clone()));
        }
    }
    let mut wires = Wires::default();
    let hands_over = scenario.disaggregation().is_some();
    let router = Router::per_model(scenario.models.len(), scenario.seed, |seed| {
        let build = if hands_over { Router::of_prefills } else { Router::new };
        build(scenario.router(), seed)
    });
    let first = pools::entrances(scenario);
    let cluster = Cluster {
        tiers: tiers.map(|tiers| tiers.links(&mut wires)).transpose()?,
        instances,
        router,
        models: first,
        placement: lora::placement(scenario),
        disaggregation: disaggregation(scenario, &mut wires)?,
        wires,
        scale: None,
    };
    told_of_caches(cluster)
}

/// Makes sure that a router that listens to caches can hear all of them.
fn told_of_caches(mut cluster: Cluster) -> Result<Cluster, ScenarioError> {
    let heard = cluster.heard(cluster.router.needs().cache_events);
    if cluster.instances[heard].iter_mut().all(Instance::tell_cache_events_shown) {
        return Ok(cluster);
    }
    let problem = "`use_kv_events` needs replicas that tell of their prefix caches: vLLM v1 and SGLang with one, of a \
                   model whose layers all keep the whole context, without drafts that read a token ahead; take \
                   `use_kv_events = false`";
    Err(ScenarioError::at("cluster.router", problem))
}

/// One idle replica of a group, without tiers of KV memory below it.
///
/// # Errors
/// When a recording that the scenario names was not read.
pub fn instance(
    scenario: &Scenario,
    group: &ReplicaGroup,
    cost: &StepTime,
) -> Result<Instance, ScenarioError> {
    let built = replica(scenario, group, cost, (None, None))?.with_drafting(drafting(group)?);
    Ok(built.in_waves(wave::of_group(scenario, group, cost)).behind(front_end(group)))
}

fn replica(
    scenario: &Scenario,
    group: &ReplicaGroup,
    cost: &StepTime,
    (tiers, held): (Option<Tiers>, Option<&[AdapterId]>),
) -> Result<Instance, ScenarioError> {
    let scheduler = || scheduler(scenario, (group, cost), held);
    let scheduler = match (wave::ranks(group, scheduler)?, tiers) {
        (Scheduler::VllmV1(vllm), Some(tiers)) => {
            Scheduler::VllmV1(Box::new(vllm.with_tiers(tiers)))
        }
        (scheduler, _) => scheduler,
    };
    let instance = Instance::new(scheduler, cost.clone())
        .with_graphs(group.graphs.clone())
        .on_host(HostTimes::from(group.cluster.engine.host()));
    Ok(instance.with_lora(group.lora))
}

pub(super) fn disaggregation(
    scenario: &Scenario,
    wires: &mut Wires,
) -> Result<Option<Disaggregation>, ScenarioError> {
    let Some(parts) = scenario.disaggregation() else { return Ok(None) };
    let nics = scenario.nics_bytes_per_s().unwrap_or_default();
    let (mut roles, mut ends) = (Roles::default(), Vec::new());
    let (mut order, mut block_tokens) = (Order::SourceFirst, 1);
    let mut protocol = HandoverProtocol::Pull;
    let mut first = 0;
    for group in &scenario.groups {
        let of_group = first..first + group.replicas() as usize;
        first = of_group.end;
        match group.role {
            ReplicaRole::Mixed => roles.whole += group.replicas(),
            ReplicaRole::Prefill => roles.prefills += group.replicas(),
            ReplicaRole::Decode => roles.decodes += group.replicas(),
        }
        let Some(of_group_protocol) = group.handover else { continue };
        protocol = of_group_protocol;
        if protocol == HandoverProtocol::Reserve {
            order = Order::DestinationFirst;
        }
        let kv_bytes_per_token = match protocol {
            HandoverProtocol::Pull | HandoverProtocol::Reserve => {
                block_tokens = group.settings.block_size();
                handover::kv_bytes_per_token(group)
            }
            HandoverProtocol::Blocking { .. } => handover::copied_bytes_per_token(group),
        };
        let gpus = group.cluster.tensor_parallel_size;
        let head_shards = gpus.min(group.model.kv_heads());
        let end = |&nic_bytes_per_s| TransferEnd {
            nic_bytes_per_s,
            kv_bytes_per_token,
            gpus,
            head_shards,
        };
        ends.extend(nics[of_group].iter().map(end));
    }
    let transfer = &parts.transfer;
    let time = SimDuration::from_secs_f64(transfer.latency_us / 1e6);
    let (latency, ask_latency) = match protocol {
        HandoverProtocol::Pull | HandoverProtocol::Reserve => (time, None),
        HandoverProtocol::Blocking { .. } => (SimDuration::ZERO, Some(time)),
    };
    let handing_over = scenario.groups.iter().find(|group| group.role != ReplicaRole::Mixed);
    let handing_over = handing_over.unwrap_or(scenario.first());
    let way = Way {
        latency,
        protocol: Protocol {
            efficiency: transfer.efficiency,
            flow_cap_bytes_per_s: transfer.flow_gb_per_s.map(|rate| rate * 1e9),
            ..Protocol::default()
        },
        messages: handover::messages(transfer, &handing_over.model),
    };
    // Draws of its own.
    let seed = Seed(mix(scenario.seed.0));
    let router = Router::per_model(scenario.models.len(), seed, |seed| {
        Router::of_decodes(scenario.router(), seed)
    });
    let built = Disaggregation::new(wires, (roles, order), router, block_tokens, &ends, way);
    let models = pools::decodes(scenario);
    let built = built.map(|parts| parts.serving(&models));
    let granularity = handover::granularity(parts, &handing_over.model);
    let local = parts.local_prefill;
    let built = built.map(|parts| parts.sending(granularity).prefilling_locally(local));
    let built = built.map(|parts| match ask_latency {
        Some(latency) => parts.with_senders(latency),
        None => parts,
    });
    built.map(Some).map_err(|error| ScenarioError::at("cluster.disaggregation.transfer", error))
}

/// The run of a scenario with the requests of `source`, where its [`step_times`] are at hand. What the scenario
/// has its cluster serve before is served here.
///
/// # Errors
/// When a recording that the scenario names was not read, or requests that come before are never answered.
pub fn simulation<W: Source>(
    scenario: &Scenario,
    costs: &[StepTime],
    source: W,
) -> Result<Simulation<W>, ScenarioError> {
    simulation_on(scenario, cluster_priced_by(scenario, costs)?, source)
}

/// The same on a cluster that was changed after it was built: with schedulers or a router of one's own.
///
/// # Errors
/// When requests that come before are never answered.
pub fn simulation_on<W: Source>(
    scenario: &Scenario,
    cluster: Cluster,
    source: W,
) -> Result<Simulation<W>, ScenarioError> {
    if cluster.scale.is_some() && scenario.scaled_groups().next().is_none() {
        let problem = "a rule of one's own needs one, for its bounds and times";
        return Err(ScenarioError::at("cluster.autoscaler", problem));
    }
    Ok(cold(scenario, warm_up::warmed_up(scenario, cluster)?, source))
}

/// The same where nothing is served before.
pub(super) fn cold<W: Source>(scenario: &Scenario, cluster: Cluster, source: W) -> Simulation<W> {
    let client = &scenario.workload.client;
    let [api_delay, api_per_request] = scenario.api_delays();
    let run = Simulation::new(source, Client::new(client), cluster, api_delay);
    let run = run.with_serial_front_end(api_per_request).until(client.stops_at());
    let run = run.with_sender(front_end_times(scenario.first()).as_ref());
    let run = match scenario.gateway() {
        Some(gateway) => run.with_gateway(gateway, &scenario.workload.classes, ranks(scenario)),
        None => run,
    };
    let run = run.with_router_time(scenario.router_time());
    let run = run.with_limit(scenario.router(), scenario.seed);
    let run = run.with_faults(&scenario.faults, client, scenario.seed);
    let migration = scenario.lora().and_then(|lora| lora.migration);
    let run = match migration {
        Some(MigrationConfig::Periodic(config)) => {
            let (group, bytes) = (scenario.first(), handover::kv_bytes_per_token(scenario.first()));
            run.with_migration(config, group.settings.block_size(), bytes as f64)
        }
        Some(MigrationConfig::DispatchWithSwap { swap_cost }) => run.with_swaps(swap_cost),
        Some(MigrationConfig::DispatchOnly {}) | None => run,
    };
    let run = scenario.scaled_groups().fold(run, |run, (replicas, group, autoscaler)| {
        let tp = group.cluster.tensor_parallel_size;
        let ranks = group.cluster.data_parallel_size;
        let of_gpu = group.model.weight_bytes_of_rank(tp, ranks).0;
        let bytes = of_gpu * u64::from(tp) * u64::from(ranks);
        run.with_autoscaler(replicas, autoscaler, bytes)
    });
    let mut scaled = scenario.scaled_groups();
    let planner = scaled.find_map(|(.., config)| config.signal.dynamo_planner());
    match planner {
        Some(planner) => run.with_dynamo_planner(planner, scenario),
        None => run,
    }
}

/// The processes of a replica's server, where they take time.
fn front_end(group: &ReplicaGroup) -> Option<FrontEnd> {
    let speaks = group.role != ReplicaRole::Prefill;
    front_end_times(group).map(|times| FrontEnd::new(times, speaks))
}

fn front_end_times(group: &ReplicaGroup) -> Option<FrontEndTimes> {
    let config = group.cluster.host.as_ref()?.processes()?;
    let profile = profiles::host(config.profile?.name())?;
    Some(FrontEndTimes::new(profile, config))
}

/// How the engines of a scenario read priorities; a gateway that does too has engines of one mind.
fn ranks(scenario: &Scenario) -> Ranks {
    match scenario.first().cluster.engine {
        EngineConfig::Sglang(_) => Ranks::LargerFirst,
        _ => Ranks::SmallerFirst,
    }
}

fn scheduler(
    scenario: &Scenario,
    (group, cost): (&ReplicaGroup, &StepTime),
    held: Option<&[AdapterId]>,
) -> Result<Scheduler, ScenarioError> {
    let adapters = |slots| lora::adapters(scenario, group, slots, held);
    Ok(match &group.settings {
        EngineSettings::VllmV1(settings) => {
            let scheduler = VllmV1::new(settings.clone(), acceptance(scenario, group)?)
                .in_stages(group.cluster.pipeline_parallel_size);
            let scheduler = match group.aligned_states() {
                Some(groups) => scheduler.with_groups(groups),
                None => scheduler.with_windows(group.windows()),
            };
            let scheduler = match adapters(settings.max_loras) {
                Some(adapters) => scheduler.with_adapters(adapters),
                None => scheduler,
            };
            Scheduler::VllmV1(Box::new(match handover::kv_role(group.role) {
                Some(role) => scheduler.with_connector(role),
                None => scheduler,
            }))
        }
        EngineSettings::Sglang(settings) => {
            let scheduler = Sglang::new(settings.clone()).accepting(acceptance(scenario, group)?);
            Scheduler::Sglang(Box::new(match adapters(settings.max_loras_per_batch) {
                Some(adapters) => scheduler.with_adapters(adapters),
                None => scheduler,
            }))
        }
        EngineSettings::VllmV0(settings) => {
            let scheduler = VllmV0::new(*settings);
            Scheduler::VllmV0(Box::new(match handover::send_buffer_tokens(group) {
                Some(tokens) => scheduler.with_send_buffer(tokens),
                None => scheduler,
            }))
        }
        EngineSettings::Sarathi(settings) => Scheduler::Sarathi(Box::new(Sarathi::new(*settings))),
        EngineSettings::Orca(settings) => match adapters(settings.max_loras) {
            Some(adapters) => lora::orca(scenario, (group, cost), *settings, adapters),
            None => Scheduler::Orca(Box::new(Orca::new(*settings))),
        },
        EngineSettings::FasterTransformer(settings) => {
            Scheduler::FasterTransformer(Box::new(FasterTransformer::new(*settings)))
        }
        EngineSettings::StaticBatching(settings) => {
            Scheduler::StaticBatch(Box::new(StaticBatch::new(*settings)))
        }
    })
}

fn acceptance(scenario: &Scenario, group: &ReplicaGroup) -> Result<Acceptance, ScenarioError> {
    let Some(speculation) = group.speculation() else { return Ok(Acceptance::NONE) };
    let seed = scenario.seed.0;
    Ok(match speculation.acceptance {
        AcceptanceConfig::PerPosition { probability } => {
            Acceptance::PerPosition { probability: *probability, seed }
        }
        AcceptanceConfig::MeanLength { tokens } => {
            Acceptance::with_mean_length(*tokens, speculation.drafts, seed)
        }
        AcceptanceConfig::Recorded { path } => {
            let recorded = scenario.accepted_drafts.clone().ok_or_else(|| {
                let problem = format!("the recording {path} was not read");
                ScenarioError::at("cluster.engine.speculation.acceptance", problem)
            });
            Acceptance::Recorded(recorded?)
        }
    })
}
