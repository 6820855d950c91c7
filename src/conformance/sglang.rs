//! SGLang's settings, step lines and result lines as recorded.

use serde::Deserialize;
use serde_json::{Value, json};

use super::drive::Outcome;
use super::recording::{RecordedRequest, Recording, RecordingError};
use super::{DRAFTS_MAX, acceptance};
use crate::engine::Batch;
use crate::engine::scheduler::{
    Handoff, Schedule, Scheduler, Sglang, SglangHybrid, SglangSettings, SglangStatePool,
    SglangWindowPool, StateStrategy, Stored,
};
use crate::ids::RequestId;
use crate::scenario::{SglangConfig, SglangPolicy, SpeculativeAlgorithm};

/// The versions of SGLang whose recordings can be replayed.
const VERSIONS: [&str; 1] = ["0.5.23"];

/// Waiting requests that a step line names.
const WAITING_NAMED: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
struct Settings {
    max_total_num_tokens: u32,
    max_running_requests: u32,
    context_len: u32,
    chunked_prefill_size: i32,
    max_prefill_tokens: u32,
    page_size: u32,
    schedule_policy: SglangPolicy,
    schedule_conservativeness: f64,
    disable_radix_cache: bool,
    enable_mixed_chunk: bool,
    disable_overlap_schedule: bool,
    enable_priority_scheduling: bool,
    priority_scheduling_preemption_threshold: i32,
    max_loras_per_batch: Option<u32>,
    prefill_max_requests: Option<u32>,
    #[serde(default)]
    spec_k: u32,
    swa: Option<WindowPool>,
    mamba: Option<StatePool>,
    swa_eviction_interval: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowPool {
    window: u32,
    tokens: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatePool {
    slots: u32,
    #[serde(default)]
    extra_buffer: bool,
    chunk: Option<u32>,
    track_interval: Option<u32>,
}

impl StatePool {
    fn strategy(&self) -> Result<StateStrategy, &'static str> {
        match (self.extra_buffer, self.chunk, self.track_interval) {
            (false, None, None) => Ok(StateStrategy::NoBuffer),
            (false, ..) => Err("mamba: chunk and track_interval go with extra_buffer"),
            (true, None, _) => Err("mamba: extra_buffer goes with chunk"),
            (true, Some(chunk), track_interval) => Ok(StateStrategy::ExtraBuffer {
                chunk,
                track_interval: track_interval.unwrap_or(StateStrategy::TRACK_INTERVAL),
            }),
        }
    }
}

pub(super) fn scheduler(recording: &Recording) -> Result<Scheduler, RecordingError> {
    if !VERSIONS.contains(&recording.version.as_str()) {
        return Err(recording.not_modelled(format!(
            "SGLang {}: recordings of version {} can be replayed",
            recording.version,
            VERSIONS.join(", ")
        )));
    }
    let settings: Settings = serde_json::from_value(recording.config.clone())
        .map_err(|error| recording.not_modelled(format!("SGLang settings: {error}")))?;
    for (key, value) in [
        ("page_size", settings.page_size),
        ("max_total_num_tokens", settings.max_total_num_tokens / settings.page_size.max(1)),
        ("max_running_requests", settings.max_running_requests),
    ] {
        if value == 0 {
            let message = format!("SGLang settings: {key}: must be at least 1, got 0");
            return Err(recording.not_modelled(message));
        }
    }
    if settings.page_size > SglangConfig::PAGE_SIZE_MAX {
        let (most, got) = (SglangConfig::PAGE_SIZE_MAX, settings.page_size);
        let rule = format!("must be at most {most}, got {got}");
        return Err(recording.not_modelled(format!("SGLang settings: page_size: {rule}")));
    }
    if settings.enable_priority_scheduling && !settings.schedule_policy.knows_priorities() {
        let policy = &recording.config["schedule_policy"];
        let message = format!(
            "SGLang settings: enable_priority_scheduling: goes with schedule_policy \"fcfs\" and \"lof\", got {policy}"
        );
        return Err(recording.not_modelled(message));
    }
    if settings.spec_k > DRAFTS_MAX {
        let (most, got) = (DRAFTS_MAX, settings.spec_k);
        let rule = format!("must be at most {most}, got {got}");
        return Err(recording.not_modelled(format!("SGLang settings: spec_k: {rule}")));
    }
    let elsewhere = recording.requests.iter().position(|r| r.handoff != Handoff::None);
    if let Some(index) = elsewhere {
        let message = format!(
            "request r{index:04}: remote_prefill, remote_decode: recordings of SGLang have requests \
             that are prefilled and decoded in one place"
        );
        return Err(recording.not_modelled(message));
    }
    let elsewhere = |r: &RecordedRequest| r.request.inputs.is_some();
    if let Some(index) = recording.requests.iter().position(elsewhere) {
        let message = format!(
            "request r{index:04}: grammar_us, images: recordings of SGLang have neither grammars nor images"
        );
        return Err(recording.not_modelled(message));
    }
    let engine = SglangSettings {
        max_total_tokens: settings.max_total_num_tokens,
        max_running_requests: settings.max_running_requests,
        context_length: settings.context_len,
        refuse_beyond_context: false,
        chunked_prefill_size: SglangSettings::chunk_size(settings.chunked_prefill_size),
        max_prefill_tokens: settings.max_prefill_tokens,
        prefill_max_requests: settings.prefill_max_requests,
        page_size: settings.page_size,
        schedule_policy: settings.schedule_policy,
        schedule_conservativeness: settings.schedule_conservativeness,
        disable_radix_cache: settings.disable_radix_cache,
        enable_mixed_chunk: settings.enable_mixed_chunk,
        disable_overlap_schedule: settings.disable_overlap_schedule,
        scheduler_recv_interval: 1,
        enable_priority_scheduling: settings.enable_priority_scheduling,
        priority_scheduling_preemption_threshold: settings.priority_scheduling_preemption_threshold,
        max_loras_per_batch: settings.max_loras_per_batch,
        speculative_num_steps: settings.spec_k,
        speculative_algorithm: SpeculativeAlgorithm::Eagle,
        hybrid: hybrid(recording, &settings)?,
    };
    if let Some((flag, rule)) = engine.conflict() {
        return Err(recording.not_modelled(format!("SGLang settings: {flag}: {rule}")));
    }
    let accepted = acceptance(recording.requests.len(), settings.spec_k);
    let sglang = Sglang::new(engine).accepting(accepted).recording_entries();
    Ok(Scheduler::Sglang(Box::new(sglang)))
}

/// The memory beside that of full attention.
fn hybrid(
    recording: &Recording,
    settings: &Settings,
) -> Result<Option<SglangHybrid>, RecordingError> {
    let not_modelled = |rule: &str| Err(recording.not_modelled(format!("SGLang settings: {rule}")));
    if let Some(pool) = &settings.mamba {
        if settings.swa.is_some() || settings.swa_eviction_interval.is_some() {
            return not_modelled("mamba: not with swa");
        }
        let strategy = match pool.strategy() {
            Ok(strategy) => strategy,
            Err(rule) => return not_modelled(rule),
        };
        return Ok(Some(SglangHybrid::State(SglangStatePool { slots: pool.slots, strategy })));
    }
    let Some(pool) = &settings.swa else {
        return match settings.swa_eviction_interval {
            Some(_) => not_modelled("swa_eviction_interval: goes with swa"),
            None => Ok(None),
        };
    };
    Ok(Some(SglangHybrid::Window(SglangWindowPool {
        window: pool.window,
        tokens: pool.tokens,
        eviction_interval: settings
            .swa_eviction_interval
            .unwrap_or(SglangWindowPool::EVICTION_INTERVAL),
    })))
}

/// Drafts that a decode step verifies for each request.
pub(super) fn drafts(recording: &Recording) -> u32 {
    let drafts = recording.config.get("spec_k").and_then(Value::as_u64);
    drafts.and_then(|drafts| u32::try_from(drafts).ok()).unwrap_or(0)
}

pub(super) fn step_line(batch: &Batch, scheduler: &Sglang) -> Value {
    let plan = &batch.plan;
    let micros = |nanos: u64| nanos / 1000;
    let (prefills, decodes) = (plan.shape.prefill_seqs, plan.shape.decode_seqs);
    let mode = match (prefills, decodes) {
        (0, _) => "D",
        (_, 0) => "P",
        _ => "M",
    };
    let entry = |(index, e): (usize, &crate::engine::Entry)| {
        if mode == "M" && index >= prefills as usize {
            json!([e.request.0, e.tokens, e.computed, 1])
        } else {
            json!([e.request.0, e.tokens, e.computed])
        }
    };
    let (displaced, retracted) = scheduler.split_preempted(plan);
    let by_priority = scheduler.is_by_priority();
    let mut waiting: Vec<u32> = scheduler.waiting_requests().map(|id| id.0).collect();
    let waiting_count = waiting.len();
    if by_priority {
        waiting.sort_unstable();
    }
    waiting.truncate(WAITING_NAMED);
    let mut line = json!({
        "type": "step",
        "i": batch.step,
        "t": micros(batch.scheduled_at.as_nanos()),
        "mode": mode,
        "dur": micros(batch.duration.as_nanos()),
        "pf": plan.shape.prefill_tokens,
        "nd": decodes + plan.shape.draft_tokens,
        "s": plan.decode_entries.iter().chain(&plan.entries).enumerate().map(entry).collect::<Vec<_>>(),
        "chunked": scheduler.chunked_request().map(|id| id.0),
        "avail": scheduler.available_tokens(),
        "evictable": scheduler.evictable_tokens(),
        "ratio": rounded(scheduler.new_token_ratio()),
        "run": scheduler.running_requests(),
        "full": scheduler.is_batch_full(),
        "wait": waiting,
        "nwait": waiting_count,
        "fin": [],
    });
    let numbers = |ids: &[RequestId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    if let Some((free, evictable)) = scheduler.window_tokens() {
        line["swa"] = json!([free, evictable]);
    }
    if let Some((free, evictable)) = scheduler.states() {
        line["mamba"] = json!([free, evictable]);
    }
    let stored = scheduler.stored_states();
    if !stored.is_empty() {
        let insert = |s: &Stored| json!([s.request.0, s.tokens, u32::from(s.is_new)]);
        line["store"] = json!(stored.iter().map(insert).collect::<Vec<_>>());
    }
    if !retracted.is_empty() {
        line["retract"] = json!(numbers(retracted));
    }
    if !displaced.is_empty() {
        let mut displaced = numbers(displaced);
        displaced.sort_unstable();
        line["preempt"] = json!(displaced);
    }
    if scheduler.steps_in_flight_max() > 1 {
        line["gpu_start"] = json!(micros(batch.starts_at.as_nanos()));
    }
    line
}

/// A ratio to nine decimal places, as recorded.
fn rounded(ratio: f64) -> f64 {
    format!("{ratio:.9}").parse().unwrap_or(ratio)
}

/// The fields of a result line that are SGLang's own.
pub(super) fn add_result(line: &mut Value, outcome: &Outcome, recorded: &RecordedRequest) {
    let ends_itself =
        !recorded.request.ignore_eos && recorded.request.output_tokens <= outcome.max_tokens;
    line["status"] = match outcome.status {
        Some("length") if ends_itself => json!("FINISH_MATCHED_TOKEN"),
        Some("length") => json!("FINISH_LENGTH"),
        Some("aborted" | "failed") => json!("FINISH_ABORT"),
        status => json!(status.unwrap_or("unfinished")),
    };
    line["retractions"] = json!(outcome.preemptions);
    line["max_new_tokens_effective"] = json!(outcome.max_tokens);
}
