//! From a resolved scenario to machines.

use super::run::Simulation;
use super::source::Source;
use super::{handover, layer_table, step_table};
use crate::cluster::{Cluster, Disaggregation, Links, Router};
use crate::cost::{
    CapturedSizes, CudaGraphs, Linear, LoraTimes, OperatorModel, OperatorProfile, Roofline,
    RooflineOptions, StepTime,
};
use crate::engine::scheduler::{
    Acceptance, FasterTransformer, Orca, Sarathi, Scheduler, Sglang, StaticBatch, VllmV0, VllmV1,
};
use crate::engine::{Adapters, HostTimes, Instance};
use crate::network::Protocol;
use crate::rng::{Seed, mix};
use crate::scenario::{
    AcceptanceConfig, EngineConfig, HandoverProtocol, Scenario, ScenarioError, StepTimeConfig,
    VllmConfig,
};
use crate::units::SimDuration;
use crate::workload::Client;

/// The idle cluster of a scenario.
///
/// # Errors
/// When the step times of the model cannot be derived for its GPUs.
pub fn cluster(scenario: &Scenario) -> Result<Cluster, ScenarioError> {
    cluster_priced_by(scenario, &step_time(scenario)?)
}

/// The same, where its [`step_time`] is at hand.
///
/// # Errors
/// When a recording that the scenario names was not read.
pub fn cluster_priced_by(scenario: &Scenario, cost: &StepTime) -> Result<Cluster, ScenarioError> {
    let config = &scenario.file.cluster;
    let host = HostTimes::from(config.engine.host());
    let graphs = cuda_graphs(&config.engine);
    let lora = lora_times(scenario)?;
    let instance = |_| {
        let instance = Instance::new(scheduler(scenario)?, cost.clone());
        Ok(instance.with_graphs(graphs.clone()).on_host(host).with_lora(lora))
    };
    Ok(Cluster {
        instances: (0..config.replicas).map(instance).collect::<Result<_, ScenarioError>>()?,
        router: Router::new(&config.router, scenario.file.seed),
        disaggregation: disaggregation(scenario)?,
    })
}

fn disaggregation(scenario: &Scenario) -> Result<Option<Disaggregation>, ScenarioError> {
    let cluster = &scenario.file.cluster;
    let Some(parts) = &cluster.disaggregation else { return Ok(None) };
    let transfer = &parts.transfer;
    let time = SimDuration::from_secs_f64(transfer.latency_us / 1e6);
    let (block, latency, ask_latency) = match (&parts.protocol, &cluster.engine) {
        (HandoverProtocol::Pull, EngineConfig::VllmV1(vllm)) => {
            (handover::blocks(scenario, vllm), time, None)
        }
        (HandoverProtocol::Blocking { .. }, _) => {
            (handover::copies(scenario), SimDuration::ZERO, Some(time))
        }
        (HandoverProtocol::Pull, _) => {
            unreachable!("a resolved scenario hands KV over by `pull` with vllm_v1 only")
        }
    };
    let links = Links {
        nic_bytes_per_s: transfer.nic_gb_per_s * 1e9,
        latency,
        protocol: Protocol {
            efficiency: transfer.efficiency,
            flow_cap_bytes_per_s: transfer.flow_gb_per_s.map(|rate| rate * 1e9),
            ..Protocol::default()
        },
    };
    let counts = (parts.prefill_replicas, parts.decode_replicas);
    // Draws of its own.
    let router = Router::new(&cluster.router, Seed(mix(scenario.file.seed.0)));
    let built = Disaggregation::new(counts, router, block, &links);
    let built = built.map(|parts| match ask_latency {
        Some(latency) => parts.with_senders(latency),
        None => parts,
    });
    built.map(Some).map_err(|error| ScenarioError {
        problems: vec![format!("cluster.disaggregation.transfer: {error}")],
    })
}

/// The run of a scenario with the requests of `source`, where its [`step_time`] is at hand.
///
/// # Errors
/// When a recording that the scenario names was not read.
pub fn simulation<W: Source>(
    scenario: &Scenario,
    cost: &StepTime,
    source: W,
) -> Result<Simulation<W>, ScenarioError> {
    let file = &scenario.file;
    let client = &file.workload.client;
    let time = |ms: f64| SimDuration::from_secs_f64(ms / 1e3);
    let cluster = cluster_priced_by(scenario, cost)?;
    let run =
        Simulation::new(source, Client::new(client), cluster, time(file.cluster.api_delay_ms));
    Ok(run.with_serial_front_end(time(file.cluster.api_per_request_ms)).until(client.stops_at()))
}

fn scheduler(scenario: &Scenario) -> Result<Scheduler, ScenarioError> {
    Ok(match &scenario.file.cluster.engine {
        EngineConfig::VllmV1(config) => {
            let acceptance = acceptance(scenario, config)?;
            let scheduler = VllmV1::new(config.clone(), acceptance);
            Scheduler::VllmV1(Box::new(match adapters(scenario, config.max_loras) {
                Some(adapters) => scheduler.with_adapters(adapters),
                None => scheduler,
            }))
        }
        EngineConfig::Sglang(config) => {
            let scheduler = Sglang::new(config.clone());
            Scheduler::Sglang(Box::new(match adapters(scenario, config.max_loras_per_batch) {
                Some(adapters) => scheduler.with_adapters(adapters),
                None => scheduler,
            }))
        }
        EngineConfig::VllmV0(config) => {
            let scheduler = VllmV0::new(config);
            Scheduler::VllmV0(Box::new(match handover::send_buffer_tokens(scenario) {
                Some(tokens) => scheduler.with_send_buffer(tokens),
                None => scheduler,
            }))
        }
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

/// The adapters of a scenario, on an engine with so many slots.
fn adapters(scenario: &Scenario, slots: Option<u32>) -> Option<Adapters> {
    let mix = scenario.file.workload.adapters.as_ref()?;
    let lora = scenario.file.cluster.lora.as_ref()?;
    let in_host = lora.max_host_adapters.unwrap_or(u32::MAX);
    Some(Adapters::new(mix.ranks().collect(), slots.unwrap_or(u32::MAX), in_host))
}

fn lora_times(scenario: &Scenario) -> Result<Option<LoraTimes>, ScenarioError> {
    let cluster = &scenario.file.cluster;
    let Some(lora) = &cluster.lora else { return Ok(None) };
    let shape = scenario.model.lora_shape(lora.modules, cluster.tensor_parallel_size);
    let shape = shape
        .map_err(|error| ScenarioError { problems: vec![format!("cluster.lora: {error}")] })?;
    Ok(Some(LoraTimes::new(&shape, &scenario.gpu, lora)))
}

/// The graphs that an engine captures; the baselines capture none.
fn cuda_graphs(engine: &EngineConfig) -> CudaGraphs {
    let sizes = |sizes: &Option<Vec<u32>>| CapturedSizes::new(sizes.iter().flatten().copied());
    match engine {
        EngineConfig::VllmV1(config) => {
            let sizes = sizes(&config.cudagraph_capture_sizes);
            CudaGraphs::new(sizes.clone(), sizes)
        }
        EngineConfig::Sglang(config) => {
            let decode = if config.disable_cuda_graph_padding {
                CapturedSizes::exact(config.cuda_graph_bs_decode.iter().flatten().copied())
            } else {
                sizes(&config.cuda_graph_bs_decode)
            };
            CudaGraphs::new(decode, sizes(&config.cuda_graph_bs_prefill))
        }
        EngineConfig::VllmV0(config) if !config.enforce_eager => {
            let decode = CapturedSizes::new(config.capture_sizes());
            CudaGraphs::new(decode, CapturedSizes::default()).up_to(config.max_seq_len_to_capture)
        }
        EngineConfig::VllmV0(_)
        | EngineConfig::Sarathi(_)
        | EngineConfig::Orca(_)
        | EngineConfig::FasterTransformer(_)
        | EngineConfig::StaticBatching(_) => CudaGraphs::default(),
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
        StepTimeConfig::LayerTable(config) => layer_table::layer_table(scenario, config)
            .map(StepTime::LayerTable)
            .map_err(|problem| ScenarioError { problems: vec![problem] }),
        StepTimeConfig::StepTable { profile } => {
            let name = profile.as_deref().unwrap_or_default();
            let table = step_table::step_table(scenario);
            table.map(StepTime::StepTable).map_err(|problem| ScenarioError {
                problems: vec![format!("cluster.step_time.profile: {name}: {problem}")],
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
