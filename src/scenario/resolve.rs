//! From a scenario as typed to one that can be run: names are looked up, defaults filled in, rules
//! across fields checked. Afterwards nothing fails for reasons of configuration.

mod acceptance;
mod baselines;
mod bill;
mod disaggregation;
mod graphs;
mod lora;
mod router;
mod sglang;
mod step_time;

use std::borrow::Cow;
use std::sync::Arc;

use super::cluster::ClusterConfig;
use super::engine::{EngineConfig, VllmConfig};
use super::file::{ReportConfig, ScenarioFile};
use super::step_time::{LayerTableConfig, StepTimeConfig};
use crate::hardware::GpuSpec;
use crate::model::{KvCapacity, MemoryBudget, ModelSpec};
use crate::profiles;
use crate::units::{Bytes, SimDuration};

/// A scenario that can be run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The scenario with every default filled in; reading it again gives the same run.
    pub file: ScenarioFile,
    /// The model that is served.
    pub model: ModelSpec,
    /// The GPU it is served on.
    pub gpu: GpuSpec,
    /// Where the number of KV blocks comes from.
    pub kv: KvSource,
    /// For each request the drafts accepted in each of its verifications, where the scenario has
    /// them recorded; given with [`with_accepted_drafts`](Self::with_accepted_drafts).
    pub(crate) accepted_drafts: Option<Arc<[Vec<u32>]>>,
    /// The file of measured step times, where `cluster.step_time` reads one.
    pub step_time_profile: Option<Cow<'static, str>>,
}

/// Where the number of KV blocks comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvSource {
    /// The scenario gives it.
    Given,
    /// From the memory that the weights leave.
    Derived(KvCapacity),
}

/// Rules that a scenario breaks; each line names the field, the rule and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct ScenarioError {
    /// One line for each rule broken.
    pub problems: Vec<String>,
}

impl ScenarioError {
    fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }
}

impl Scenario {
    /// Resolves a scenario. `local_model` is the model where `cluster.model` names a local
    /// `config.json`, which only the caller can read.
    ///
    /// # Errors
    /// Every rule that is broken.
    pub fn resolve(
        mut file: ScenarioFile,
        local_model: Option<ModelSpec>,
    ) -> Result<Self, ScenarioError> {
        let problems = broken_rules(&file);
        if !problems.is_empty() {
            return Err(ScenarioError { problems });
        }
        let model = match local_model {
            Some(model) => model,
            None => catalogue_model(&file.cluster.model)?,
        };
        let gpu = catalogue_gpu(&file.cluster.gpu)?;
        bill::resolve(&mut file.report, &[&gpu.name])?;
        lora::resolve(&mut file, &model)?;
        disaggregation::resolve(&mut file.cluster);
        let kv = resolve_engine(&mut file.cluster, &model, &gpu)?;
        let profile = step_time::resolve(&mut file.cluster, &model, &gpu)?;
        Ok(Self {
            file,
            model,
            gpu,
            kv,
            step_time_profile: profile.map(Cow::Borrowed),
            accepted_drafts: None,
        })
    }

    /// The file that holds the measured step times, where that is one of the user's own: its text
    /// belongs into [`step_time_profile`](Self::step_time_profile).
    pub fn step_time_file(&self) -> Option<&str> {
        match &self.file.cluster.step_time {
            StepTimeConfig::OperatorTable { profile: Some(name), .. }
            | StepTimeConfig::StepTable { profile: Some(name) }
            | StepTimeConfig::LayerTable(LayerTableConfig { profile: Some(name), .. }) => {
                step_time::is_file(name).then_some(name.as_str())
            }
            _ => None,
        }
    }
}

fn catalogue_model(name: &str) -> Result<ModelSpec, ScenarioError> {
    profiles::model(name).ok_or_else(|| {
        let hint = hint(profiles::closest(name, profiles::model_names()));
        ScenarioError::one(format!(
            "cluster.model: `{name}` is neither in the catalogue nor a local config.json{hint}; \
             `servecast profile list` names the models"
        ))
    })
}

fn catalogue_gpu(name: &str) -> Result<GpuSpec, ScenarioError> {
    profiles::gpu(name).ok_or_else(|| {
        let hint = hint(profiles::closest(name, profiles::gpu_names()));
        ScenarioError::one(format!(
            "cluster.gpu: `{name}` is not in the catalogue{hint}; `servecast profile list` names \
             the GPUs"
        ))
    })
}

fn hint(closest: Option<&str>) -> String {
    closest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// Rules that need no look-up.
fn broken_rules(file: &ScenarioFile) -> Vec<String> {
    let workload = file.workload.validate().into_iter().map(|p| format!("workload.{p}"));
    let mut rules = Rules { problems: workload.collect() };
    match (&file.trace, file.workload.reads_trace()) {
        (None, true) => rules.broken("trace", "the workload reads a trace, but none is given"),
        (Some(_), false) => rules.broken(
            "trace",
            "is given, but neither workload.arrivals nor workload.lengths is of type `trace`",
        ),
        _ => {}
    }
    let cluster = &file.cluster;
    rules.count("cluster.replicas", cluster.replicas);
    rules.count("cluster.tensor_parallel_size", cluster.tensor_parallel_size);
    rules.not_negative("cluster.api_delay_ms", cluster.api_delay_ms);
    rules.not_negative("cluster.api_per_request_ms", cluster.api_per_request_ms);
    let utilization = cluster.gpu_memory_utilization.unwrap_or(1.0);
    rules.share("cluster.gpu_memory_utilization", utilization);
    for (key, value) in cluster.engine.host().values() {
        rules.not_negative(&format!("cluster.engine.host.{key}"), value);
    }
    router::rules(&cluster.router, &mut rules);
    step_time::rules(&cluster.step_time, &mut rules);
    match &cluster.engine {
        EngineConfig::VllmV1(vllm) => vllm_rules(vllm, &mut rules),
        EngineConfig::Sglang(sglang) => sglang::rules(sglang, &mut rules),
        baseline => baselines::rules(baseline, &mut rules),
    }
    lora::rules(file, &mut rules);
    disaggregation::rules(file, &mut rules);
    report_rules(&file.report, &mut rules);
    bill::rules(&file.report, &mut rules);
    rules.problems
}

fn report_rules(report: &ReportConfig, rules: &mut Rules) {
    for name in &report.percentile_metrics {
        if !["ttft", "tpot", "itl", "e2el"].contains(&name.as_str()) {
            let message = format!("unknown latency `{name}`, known are ttft, tpot, itl and e2el");
            rules.broken("report.percentile_metrics", &message);
        }
    }
    for percentile in &report.metric_percentiles {
        let holds = (0.0..=100.0).contains(percentile);
        rules.check(holds, "report.metric_percentiles", "from 0 to 100", percentile);
    }
    for (name, limit_ms) in &report.goodput {
        if !["ttft", "tpot", "e2el"].contains(&name.as_str()) {
            let message = format!("unknown limit `{name}`, known are ttft, tpot and e2el");
            rules.broken("report.goodput", &message);
        }
        rules.positive(&format!("report.goodput.{name}"), *limit_ms);
    }
}

fn vllm_rules(vllm: &VllmConfig, rules: &mut Rules) {
    let at_least_one = [
        ("block_size", Some(vllm.block_size)),
        ("max_num_batched_tokens", vllm.max_num_batched_tokens),
        ("max_num_seqs", vllm.max_num_seqs),
        ("max_num_active_seqs", vllm.max_num_active_seqs),
        ("max_loras", vllm.max_loras),
        ("prefill_schedule_interval", Some(vllm.prefill_schedule_interval)),
    ];
    for (key, value) in at_least_one {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    if vllm.num_gpu_blocks.is_some_and(|blocks| blocks < 2) {
        rules.broken("cluster.engine.num_gpu_blocks", "must be at least 2, one being reserved");
    }
    if vllm.max_model_len.is_some_and(|tokens| tokens < 2) {
        rules.broken("cluster.engine.max_model_len", "must be at least 2: a prompt and an answer");
    }
    if !(0.0..1.0).contains(&vllm.watermark) {
        let message = format!("must be at least 0 and below 1, got {}", vllm.watermark);
        rules.broken("cluster.engine.watermark", &message);
    }
    graphs::vllm_rules(vllm, rules);
    if let Some(speculation) = &vllm.speculation {
        acceptance::rules(speculation, rules);
    }
}

/// Fills in what depends on model and GPU, and makes sure that both fit.
fn resolve_engine(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    model
        .check_tensor_parallel(cluster.tensor_parallel_size)
        .map_err(|error| fail("cluster.tensor_parallel_size", &error.to_string()))?;
    let mut engine = std::mem::take(&mut cluster.engine);
    if !matches!(engine, EngineConfig::Sglang(_)) {
        cluster.gpu_memory_utilization.get_or_insert(ClusterConfig::GPU_MEMORY_UTILIZATION);
        cluster.memory_reserve.get_or_insert_default();
    }
    let source = match &mut engine {
        EngineConfig::VllmV1(vllm) => resolve_vllm(vllm, cluster, model, gpu),
        EngineConfig::Sglang(sglang) => sglang::resolve(sglang, cluster, model, gpu),
        baseline => baselines::resolve(baseline, cluster, model, gpu),
    };
    cluster.engine = engine;
    source
}

fn fail(key: &str, problem: &str) -> ScenarioError {
    ScenarioError::one(format!("{key}: {problem}"))
}

/// The blocks that fit beside the weights.
fn derive_kv(
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
    block_size: u32,
    step_tokens: u32,
    adapters: Bytes,
) -> Result<KvCapacity, ScenarioError> {
    let budget = MemoryBudget {
        gpu_memory: gpu.memory(),
        utilization: cluster
            .gpu_memory_utilization
            .unwrap_or(ClusterConfig::GPU_MEMORY_UTILIZATION),
        tp: cluster.tensor_parallel_size,
        block_size,
        kv_dtype: cluster.kv_cache_dtype,
        max_num_batched_tokens: step_tokens,
        reserve: cluster.memory_reserve.unwrap_or_default(),
        adapters,
    };
    KvCapacity::derive(model, &budget)
        .map_err(|error| fail("cluster.model", &format!("{error} ({})", gpu.name)))
}

fn resolve_vllm(
    vllm: &mut VllmConfig,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    let (tokens, seqs) = default_batch_limits(gpu);
    let model_len = *vllm.max_model_len.get_or_insert(model.max_position);
    let budget = *vllm.max_num_batched_tokens.get_or_insert(if vllm.enable_chunked_prefill {
        tokens
    } else {
        tokens.max(model_len)
    });
    vllm.max_num_seqs.get_or_insert(seqs);
    graphs::resolve_vllm(vllm, gpu)?;
    if !vllm.enable_chunked_prefill && budget < model_len {
        return Err(fail(
            "cluster.engine.max_num_batched_tokens",
            &format!(
                "without chunked prefill it must be at least max_model_len ({model_len}), got {budget}"
            ),
        ));
    }
    let source = if vllm.num_gpu_blocks.is_some() {
        KvSource::Given
    } else {
        let adapters = lora::slot_bytes(cluster, model, vllm.max_loras)?;
        let capacity = derive_kv(cluster, model, gpu, vllm.block_size, budget, adapters)?;
        vllm.num_gpu_blocks = Some(capacity.blocks);
        KvSource::Derived(capacity)
    };
    let blocks = vllm.num_gpu_blocks.unwrap_or_default();
    let kv_tokens = u64::from(blocks) * u64::from(vllm.block_size);
    if kv_tokens < u64::from(model_len) {
        return Err(fail(
            "cluster.engine.max_model_len",
            &format!(
                "a sequence of {model_len} tokens needs more than the {kv_tokens} tokens of the \
                 KV cache; the engine refuses to start: set max_model_len to at most {kv_tokens}"
            ),
        ));
    }
    let usable_tokens = kv_tokens - u64::from(vllm.block_size);
    let admits_in_part = !vllm.scheduler_reserve_full_isl || vllm.speculation.is_some();
    if admits_in_part && usable_tokens < u64::from(model_len) {
        return Err(fail(
            "cluster.engine.max_model_len",
            &format!(
                "with speculation, or without scheduler_reserve_full_isl, a sequence of \
                 {model_len} tokens that outgrows the {usable_tokens} tokens of the KV cache \
                 outside the null block is preempted and starts over forever: set max_model_len \
                 to at most {usable_tokens}"
            ),
        ));
    }
    Ok(source)
}

/// `max_num_batched_tokens` and `max_num_seqs` of vLLM's API server by GPU
/// (vLLM 0.33.0, `vllm/engine/arg_utils.py`).
fn default_batch_limits(gpu: &GpuSpec) -> (u32, u32) {
    let gib = gpu.memory().as_gib();
    if gib >= 160.0 {
        (16_384, 1024)
    } else if gib >= 70.0 && !gpu.name.starts_with("A100") {
        (8192, 1024)
    } else {
        (2048, 256)
    }
}

/// Collects broken rules.
struct Rules {
    problems: Vec<String>,
}

impl Rules {
    fn broken(&mut self, path: &str, message: &str) {
        self.problems.push(format!("{path}: {message}"));
    }

    fn check(&mut self, holds: bool, path: &str, rule: &str, value: impl std::fmt::Display) {
        if !holds {
            self.problems.push(format!("{path}: must be {rule}, got {value}"));
        }
    }

    fn count(&mut self, path: &str, value: u32) {
        self.check(value >= 1, path, "at least 1", value);
    }

    fn positive(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value.is_finite(), path, "a finite number above 0", value);
    }

    fn not_negative(&mut self, path: &str, value: f64) {
        self.check(value >= 0.0 && value.is_finite(), path, "a finite number of at least 0", value);
    }

    /// A time in seconds that fits the clock.
    fn time(&mut self, path: &str, seconds: f64) {
        let holds = SimDuration::try_from_secs_f64(seconds).is_some();
        self.check(holds, path, "a time of at least 0 that a run can have", seconds);
    }

    fn share(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value <= 1.0, path, "above 0 and at most 1", value);
    }
}
