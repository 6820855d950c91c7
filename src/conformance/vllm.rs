//! vLLM's settings and step lines as recorded.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::drive::{Outcome, STEP_TIME};
use super::groups::{HybridSettings, groups};
use super::offload::{OFFLOAD_KEYS, offload};
use super::recording::{Recording, RecordingError};
use super::{DRAFTS_MAX, acceptance};
use crate::cost::CostModel;
use crate::engine::scheduler::{
    EncoderSettings, KvRole, Schedule, Scheduler, VllmV1, VllmV1Settings,
};
use crate::engine::{Batch, EntryKind};
use crate::ids::RequestId;
use crate::kv::BlockId;
use crate::scenario::{Policy, SpeculationMethod};
use crate::units::SimDuration;

/// The versions of vLLM whose recordings can be replayed.
const VERSIONS: [&str; 1] = ["0.33.0"];

/// Blocks of a pool in which each has its number: 100 times what the largest GPUs hold, in 700 MB.
const NUMBERED_BLOCKS_MAX: u32 = 1 << 24;

/// vLLM's names of the ends of KV transfers.
#[derive(Deserialize)]
#[serde(remote = "KvRole")]
enum RoleName {
    #[serde(rename = "kv_producer")]
    Producer,
    #[serde(rename = "kv_consumer")]
    Consumer,
    #[serde(rename = "kv_both")]
    Both,
}

#[derive(Deserialize)]
struct Role(#[serde(with = "RoleName")] KvRole);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
struct Settings {
    max_num_seqs: u32,
    max_num_active_seqs: Option<u32>,
    max_num_batched_tokens: u32,
    max_model_len: u32,
    enable_chunked_prefill: bool,
    block_size: u32,
    num_gpu_blocks: u32,
    enable_prefix_caching: bool,
    policy: Policy,
    long_prefill_token_threshold: u32,
    long_prefill_token_threshold_adaptive: bool,
    scheduler_reserve_full_isl: bool,
    watermark: f64,
    prefill_schedule_interval: u32,
    async_scheduling: bool,
    max_loras: Option<u32>,
    spec_method: Option<String>,
    num_speculative_tokens: u32,
    kv_role: Option<Role>,
    record_block_ids: bool,
    #[serde(default = "one")]
    pipeline_parallel_size: u32,
    #[serde(default)]
    encoder_compute_budget: Option<u32>,
    #[serde(default)]
    encoder_cache_size: Option<u32>,
    #[serde(default)]
    disable_chunked_mm_input: bool,
    /// Given as `null` it is not 0: everything is kept.
    #[serde(default = "zero")]
    prefix_cache_retention_interval: Option<u32>,
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the setting")]
fn zero() -> Option<u32> {
    Some(0)
}

fn one() -> u32 {
    1
}

/// The settings without some of them, and those.
fn apart(config: &Value, keys: &[&str]) -> (Value, Value) {
    let all = config.as_object().cloned().unwrap_or_default();
    let is_own = |key: &str| keys.contains(&key);
    let (own, others): (Map<_, _>, Map<_, _>) = all.into_iter().partition(|(key, _)| is_own(key));
    (Value::Object(others), Value::Object(own))
}

pub(super) fn read<T: DeserializeOwned>(
    recording: &Recording,
    settings: Value,
) -> Result<T, RecordingError> {
    serde_json::from_value(settings)
        .map_err(|error| recording.not_modelled(format!("vLLM settings: {error}")))
}

pub(super) fn scheduler(recording: &Recording) -> Result<Scheduler, RecordingError> {
    if !VERSIONS.contains(&recording.version.as_str()) {
        return Err(recording.not_modelled(format!(
            "vLLM {}: recordings of version {} can be replayed",
            recording.version,
            VERSIONS.join(", ")
        )));
    }
    let (config, hybrid) = apart(&recording.config, &HybridSettings::KEYS);
    let (config, offload_settings) = apart(&config, &OFFLOAD_KEYS);
    let settings: Settings = read(recording, config)?;
    let hybrid: HybridSettings = read(recording, hybrid)?;
    let method = match settings.spec_method.as_deref() {
        None => None,
        Some("ngram") => Some(SpeculationMethod::Ngram),
        Some("eagle" | "eagle3") => Some(SpeculationMethod::Eagle),
        Some(other) => {
            let message = format!("speculation `{other}`: ngram, eagle and eagle3 are modelled");
            return Err(recording.not_modelled(message));
        }
    };
    let drafts = settings.num_speculative_tokens;
    let engine = VllmV1Settings {
        block_size: settings.block_size,
        num_gpu_blocks: settings.num_gpu_blocks,
        max_num_batched_tokens: settings.max_num_batched_tokens,
        max_num_active_seqs: settings.max_num_active_seqs.unwrap_or(settings.max_num_seqs),
        max_model_len: settings.max_model_len,
        enable_chunked_prefill: settings.enable_chunked_prefill,
        enable_prefix_caching: settings.enable_prefix_caching,
        async_scheduling: settings.async_scheduling,
        policy: settings.policy,
        long_prefill_token_threshold: settings.long_prefill_token_threshold,
        adaptive_long_prefill_threshold: settings.long_prefill_token_threshold_adaptive,
        prefill_schedule_interval: settings.prefill_schedule_interval,
        watermark: settings.watermark,
        scheduler_reserve_full_isl: settings.scheduler_reserve_full_isl,
        max_loras: settings.max_loras,
        drafts: method.map(|method| (method, drafts)),
    };
    for (key, value) in [
        ("block_size", settings.block_size),
        ("num_gpu_blocks", settings.num_gpu_blocks),
        ("max_num_batched_tokens", settings.max_num_batched_tokens),
        ("max_num_seqs", settings.max_num_seqs),
        ("pipeline_parallel_size", settings.pipeline_parallel_size),
        ("max_num_active_seqs", engine.max_num_active_seqs),
    ] {
        if value == 0 {
            let message = format!("vLLM settings: {key}: must be at least 1, got 0");
            return Err(recording.not_modelled(message));
        }
    }
    if drafts > DRAFTS_MAX {
        let rule = format!("must be at most {DRAFTS_MAX}, got {drafts}");
        let message = format!("vLLM settings: num_speculative_tokens: {rule}");
        return Err(recording.not_modelled(message));
    }
    if !(0.0..1.0).contains(&settings.watermark) {
        let rule = format!("must be at least 0 and below 1, got {}", settings.watermark);
        return Err(recording.not_modelled(format!("vLLM settings: watermark: {rule}")));
    }
    if settings.record_block_ids && settings.num_gpu_blocks > NUMBERED_BLOCKS_MAX {
        let (most, got) = (NUMBERED_BLOCKS_MAX, settings.num_gpu_blocks);
        let rule = format!("must be at most {most} where block ids are recorded, got {got}");
        return Err(recording.not_modelled(format!("vLLM settings: num_gpu_blocks: {rule}")));
    }
    let vllm = VllmV1::new(engine, acceptance(recording.requests.len(), drafts));
    let vllm = vllm.recording_entries().in_stages(settings.pipeline_parallel_size);
    let kept = (settings.enable_prefix_caching, settings.prefix_cache_retention_interval);
    let vllm = match groups(recording, &hybrid, kept)? {
        Some(groups) => vllm.with_groups(groups),
        None => vllm,
    };
    let vllm = match offload(recording, offload_settings)? {
        Some(offload) => vllm.with_offload(offload),
        None => vllm,
    };
    let vllm = match encoder(recording, &settings)? {
        Some(encoder) => vllm.with_encoder(encoder),
        None => vllm,
    };
    let vllm = match settings.kv_role {
        Some(Role(role)) => vllm.with_connector(role).finishing_loads(),
        None => vllm,
    };
    let vllm = if settings.record_block_ids { vllm.recording_blocks() } else { vllm };
    Ok(Scheduler::VllmV1(Box::new(vllm)))
}

/// The encoder of an engine, if it has one; without one there are no images.
fn encoder(
    recording: &Recording,
    settings: &Settings,
) -> Result<Option<EncoderSettings>, RecordingError> {
    let (budget, size) = (settings.encoder_compute_budget, settings.encoder_cache_size);
    if let (Some(compute_budget), Some(cache_size)) = (budget, size) {
        let whole_images = settings.disable_chunked_mm_input;
        return Ok(Some(EncoderSettings { compute_budget, cache_size, whole_images }));
    }
    if budget.is_some() || size.is_some() || settings.disable_chunked_mm_input {
        let message =
            "vLLM settings: encoder_compute_budget and encoder_cache_size: an encoder has both";
        return Err(recording.not_modelled(message.to_owned()));
    }
    match recording
        .requests
        .iter()
        .position(|r| r.request.inputs.as_ref().is_some_and(|inputs| !inputs.images.is_empty()))
    {
        None => Ok(None),
        Some(index) => {
            let message = format!("request r{index:04}: images: the engine has no encoder");
            Err(recording.not_modelled(message))
        }
    }
}

pub(super) fn step_line(batch: &Batch, vllm: &VllmV1) -> Value {
    let plan = &batch.plan;
    let micros = |nanos: u64| nanos / 1000;
    let entries: Vec<Value> = plan
        .decode_entries
        .iter()
        .chain(&plan.entries)
        .map(|e| {
            let kind = match e.kind {
                EntryKind::Running => 0,
                EntryKind::New => 1,
                EntryKind::Resumed => 2,
            };
            match e.drafts {
                0 => json!([e.request.0, e.tokens, e.computed, kind]),
                drafts => json!([e.request.0, e.tokens, e.computed, kind, drafts]),
            }
        })
        .collect();
    let load = vllm.load();
    let mut line = json!({
        "type": "step",
        "i": batch.step,
        "t": micros(batch.scheduled_at.as_nanos()),
        "dur": micros(batch.duration.as_nanos()),
        "pf": plan.shape.prefill_tokens,
        "nd": plan.shape.decode_seqs,
        "s": entries,
        "free": load.kv_blocks_free,
        "run": load.running,
        "wait": load.waiting,
        "head": vllm.head().map(|id| id.0),
        "fin": [],
    });
    if !plan.hits.is_empty() {
        line["hit"] = by_request(plan.hits.iter().map(|(id, tokens)| (id.0, json!(tokens))));
    }
    if !plan.preempted.is_empty() {
        line["pre"] = json!(plan.preempted.iter().map(|id| id.0).collect::<Vec<_>>());
    }
    if !plan.blocks.is_empty() {
        let blocks = |(id, lists): &(RequestId, Vec<Vec<BlockId>>)| match &lists[..] {
            [only] if !vllm.has_groups() => (id.0, json!(only)),
            lists => (id.0, json!(lists)),
        };
        line["blk"] = by_request(plan.blocks.iter().map(blocks));
    }
    if !plan.encoded.is_empty() {
        line["enc"] = by_request(plan.encoded.iter().map(|(id, images)| (id.0, json!(images))));
    }
    if let Some(blocks) = vllm.host_blocks() {
        line["host"] = json!(blocks);
    }
    if plan.stall > SimDuration::ZERO {
        line["stall"] = json!(micros(plan.stall.as_nanos()));
    }
    if let Some(places) = vllm.encoder_places() {
        line["encfree"] = json!(places);
    }
    if vllm.steps_in_flight_max() > 1 {
        line["gpu_start"] = json!(micros(batch.starts_at.as_nanos()));
    }
    if vllm.stages() > 1 {
        line["dur"] = json!(micros(STEP_TIME.step_duration(&plan.shape).as_nanos()));
        line["gpu_start"] = json!(micros(batch.enters_at.as_nanos()));
        line["gpu_end"] = json!(micros(batch.ends_at().as_nanos()));
        line["call"] = json!(vllm.decisions());
    }
    line
}

/// The fields of a result line that only vLLM's recordings have.
pub(super) fn add_result(line: &mut Value, outcome: &Outcome) {
    line["preemptions"] = json!(outcome.preemptions);
    line["first_prefix_hit"] = json!(outcome.first_prefix_hit);
}

fn by_request(pairs: impl Iterator<Item = (u32, Value)>) -> Value {
    Value::Object(pairs.map(|(id, value)| (id.to_string(), value)).collect::<Map<_, _>>())
}
