//! From a scenario as typed to one that can be run: names are looked up, defaults filled in, rules
//! across fields checked. Afterwards nothing fails for reasons of configuration.

mod baselines;

use std::borrow::Cow;

use super::cluster::ClusterConfig;
use super::engine::{EngineConfig, VllmConfig};
use super::file::{ReportConfig, ScenarioFile};
use super::sglang::{SglangConfig, SglangPolicy};
use super::step_time::{LayerTableConfig, StepTimeConfig};
use crate::hardware::GpuSpec;
use crate::model::{KvCapacity, MemoryBudget, ModelSpec};
use crate::profiles;

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
        let kv = resolve_engine(&mut file.cluster, &model, &gpu)?;
        let step_time_profile = resolve_step_time(&mut file.cluster, &model, &gpu)?;
        Ok(Self { file, model, gpu, kv, step_time_profile: step_time_profile.map(Cow::Borrowed) })
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
    rules.share("cluster.gpu_memory_utilization", cluster.gpu_memory_utilization);
    match &cluster.step_time {
        StepTimeConfig::Roofline { host_per_step_us, host_per_sequence_us, .. } => {
            rules.not_negative("cluster.step_time.host_per_step_us", *host_per_step_us);
            rules.not_negative("cluster.step_time.host_per_sequence_us", *host_per_sequence_us);
        }
        StepTimeConfig::LayerTable(config) => layer_table_rules(config, &mut rules),
        StepTimeConfig::Linear { base_us, prefill_token_us, decode_seq_us } => {
            rules.positive("cluster.step_time.base_us", *base_us);
            rules.not_negative("cluster.step_time.prefill_token_us", *prefill_token_us);
            rules.not_negative("cluster.step_time.decode_seq_us", *decode_seq_us);
        }
    }
    match &cluster.engine {
        EngineConfig::VllmV1(vllm) => vllm_rules(vllm, &mut rules),
        EngineConfig::Sglang(sglang) => sglang_rules(sglang, &mut rules),
        baseline => baselines::rules(baseline, &mut rules),
    }
    report_rules(&file.report, &mut rules);
    rules.problems
}

fn layer_table_rules(config: &LayerTableConfig, rules: &mut Rules) {
    let path = |key: &str| format!("cluster.step_time.{key}");
    if config.all_reduce_latency_us.is_some() != config.all_reduce_gb_s.is_some() {
        let message = "and all_reduce_gb_s are given together";
        rules.broken(&path("all_reduce_latency_us"), message);
    }
    if let Some(latency) = config.all_reduce_latency_us {
        rules.not_negative(&path("all_reduce_latency_us"), latency);
    }
    if let Some(rate) = config.all_reduce_gb_s {
        rules.positive(&path("all_reduce_gb_s"), rate);
    }
    for (key, value) in config.calibration.entries() {
        rules.not_negative(&path(&format!("calibration.{key}")), value);
    }
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
    if let Some(speculation) = vllm.speculation {
        let drafts = speculation.num_speculative_tokens;
        rules.count("cluster.engine.speculation.num_speculative_tokens", drafts);
        rules.share("cluster.engine.speculation.acceptance_rate", speculation.acceptance_rate);
    }
}

fn sglang_rules(sglang: &SglangConfig, rules: &mut Rules) {
    let at_least_one = [
        ("page_size", Some(sglang.page_size)),
        ("max_prefill_tokens", Some(sglang.max_prefill_tokens)),
        ("max_running_requests", sglang.max_running_requests),
        ("prefill_max_requests", sglang.prefill_max_requests),
        ("max_loras_per_batch", sglang.max_loras_per_batch),
    ];
    for (key, value) in at_least_one {
        rules.count(&format!("cluster.engine.{key}"), value.unwrap_or(1));
    }
    let conservativeness = sglang.schedule_conservativeness;
    rules.not_negative("cluster.engine.schedule_conservativeness", conservativeness);
    if let Some(tokens) = sglang.max_total_tokens {
        let rule = "at least one page";
        let is_page = tokens >= sglang.page_size;
        rules.check(is_page, "cluster.engine.max_total_tokens", rule, tokens);
    }
    if let Some(chunk) = sglang.chunked_prefill_size {
        let page = i64::from(sglang.page_size);
        let is_page = chunk <= 0 || i64::from(chunk) >= page;
        let rule = "at least one page, or 0 or less for no cutting";
        rules.check(is_page, "cluster.engine.chunked_prefill_size", rule, chunk);
    }
    if sglang.enable_priority_scheduling && sglang.schedule_policy != SglangPolicy::Fcfs {
        let message = "must be `fcfs` with enable_priority_scheduling";
        rules.broken("cluster.engine.schedule_policy", message);
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
    let source = match &mut engine {
        EngineConfig::VllmV1(vllm) => resolve_vllm(vllm, cluster, model, gpu),
        EngineConfig::Sglang(sglang) => resolve_sglang(sglang, cluster, model, gpu),
        baseline => baselines::resolve(baseline, cluster, model, gpu),
    };
    cluster.engine = engine;
    source
}

fn fail(key: &str, problem: &str) -> ScenarioError {
    ScenarioError::one(format!("{key}: {problem}"))
}

/// Names the layer profile; the text of a shipped one.
fn resolve_step_time(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Option<&'static str>, ScenarioError> {
    let tp = cluster.tensor_parallel_size;
    let StepTimeConfig::LayerTable(config) = &mut cluster.step_time else { return Ok(None) };
    let shipped = match &config.profile {
        Some(name) => profiles::layer_table(name),
        None => Some(profiles::layer_table_for(&model.name, &gpu.name, tp).ok_or_else(|| {
            let names: Vec<_> = profiles::layer_tables().iter().map(|table| table.name).collect();
            fail(
                "cluster.step_time.profile",
                &format!(
                    "no layer profile of {} on {} with tensor_parallel_size {tp} is shipped; there \
                     are {}",
                    model.name,
                    gpu.name,
                    names.join(", ")
                ),
            )
        })?),
    };
    if let Some(shipped) = shipped {
        config.profile = Some(shipped.name.to_owned());
    }
    Ok(shipped.map(|shipped| shipped.text))
}

/// The blocks that fit beside the weights.
fn derive_kv(
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
    block_size: u32,
    step_tokens: u32,
) -> Result<KvCapacity, ScenarioError> {
    let budget = MemoryBudget {
        gpu_memory: gpu.memory(),
        utilization: cluster.gpu_memory_utilization,
        tp: cluster.tensor_parallel_size,
        block_size,
        kv_dtype: cluster.kv_cache_dtype,
        max_num_batched_tokens: step_tokens,
        reserve: cluster.memory_reserve,
    };
    KvCapacity::derive(model, &budget)
        .map_err(|error| fail("cluster.model", &format!("{error} ({})", gpu.name)))
}

fn resolve_sglang(
    sglang: &mut SglangConfig,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<KvSource, ScenarioError> {
    let context = *sglang.context_length.get_or_insert(model.max_position);
    let by_gpu = SglangConfig::chunked_prefill_size_for(gpu.memory());
    let chunk = *sglang.chunked_prefill_size.get_or_insert(by_gpu);
    let step_tokens = u32::try_from(chunk).ok().filter(|&size| size > 0);
    let step_tokens = step_tokens.unwrap_or(sglang.max_prefill_tokens);
    let source = if sglang.max_total_tokens.is_some() {
        KvSource::Given
    } else {
        KvSource::Derived(derive_kv(cluster, model, gpu, sglang.page_size, step_tokens)?)
    };
    let tokens = *sglang.max_total_tokens.get_or_insert_with(|| match source {
        KvSource::Derived(kv) => u32::try_from(kv.tokens(sglang.page_size)).unwrap_or(u32::MAX),
        KvSource::Given => 0,
    });
    sglang
        .max_running_requests
        .get_or_insert(SglangConfig::running_requests_for(tokens, context).max(1));
    Ok(source)
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
        let capacity = derive_kv(cluster, model, gpu, vllm.block_size, budget)?;
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

    fn share(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value <= 1.0, path, "above 0 and at most 1", value);
    }
}
