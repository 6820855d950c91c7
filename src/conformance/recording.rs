//! The file format of recorded schedules: JSON lines, one scenario a file.

use serde::Deserialize;
use serde_json::Value;

use super::images::{ImageLine, images, with_placeholders};
use crate::engine::scheduler::Handoff;
use crate::ids::{AdapterId, RequestId};
use crate::request::{Content, Inputs, Request, Segment};
use crate::units::{SimDuration, SimTime};

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A line is not what the format says.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The recording is of something that is not modelled.
    #[error("line {line}: {problem}")]
    NotModelled {
        /// The line of the engine's settings, counted from 1.
        line: usize,
        /// What is not modelled.
        problem: String,
    },
}

/// A recorded scenario.
#[derive(Debug)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// The engine it was recorded from.
    pub engine: String,
    /// The version of that engine.
    pub version: String,
    /// The engine's settings, in its own names.
    pub config: Value,
    /// The groups of layers with KV memory of their own, where they are told.
    pub groups: Option<Value>,
    /// Of those, tokens of a block of the scheduler and of a hash.
    pub group_blocks: (Option<u32>, Option<u32>),
    /// The line they stand on, counted from 1.
    pub config_line: usize,
    /// The requests, in the order of their ids.
    pub requests: Vec<RecordedRequest>,
    /// Step lines, in order.
    pub steps: Vec<Value>,
    /// Result lines, in order.
    pub results: Vec<Value>,
}

/// A request of a recording.
#[derive(Debug)]
pub struct RecordedRequest {
    /// What arrives.
    pub request: Request,
    /// When its client goes away, if it does.
    pub abort: Option<SimTime>,
    /// Which part another machine does.
    pub handoff: Handoff,
    /// Time of a transfer of its KV: a constant and a share per token.
    pub transfer: (SimDuration, SimDuration),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioLine {
    #[serde(rename = "type")]
    _kind: String,
    name: String,
    engine: String,
    version: String,
    #[serde(rename = "note", default)]
    _note: Option<String>,
    config: Value,
    #[serde(default)]
    groups: Option<Value>,
    #[serde(default)]
    sched_block: Option<u32>,
    #[serde(default)]
    hash_block: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    #[serde(rename = "type")]
    _kind: String,
    id: String,
    arrival_us: u64,
    prompt: Vec<(u64, u32, u32)>,
    max_tokens: u32,
    #[serde(default)]
    priority: Option<i32>,
    #[serde(default)]
    lora: Option<Value>,
    #[serde(default)]
    cache_salt: Option<Value>,
    #[serde(default)]
    abort_us: Option<u64>,
    #[serde(default)]
    remote_prefill: bool,
    #[serde(default)]
    remote_decode: bool,
    #[serde(default)]
    xfer_base_us: u64,
    #[serde(default)]
    xfer_us_per_token: u64,
    #[serde(default)]
    ignore_eos: Option<bool>,
    #[serde(default)]
    stop_at: Option<u32>,
    #[serde(default)]
    grammar_us: Option<u64>,
    #[serde(default)]
    images: Vec<ImageLine>,
}

impl Recording {
    /// Reads a recording from its lines.
    ///
    /// # Errors
    /// When a line is cut off, is no JSON, or misses a field; the message names the line.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut scenario: Option<(usize, ScenarioLine)> = None;
        let (mut requests, mut steps, mut results) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Names::default();
        let mut summary: Option<Value> = None;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fail = |problem: String| RecordingError::Line { line: index + 1, problem };
            let value = crate::json::parse(line)
                .map_err(|error| fail(format!("not a whole JSON object: {error}")))?;
            let kind = value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            match kind.as_str() {
                "scenario" => {
                    if let Some((first, _)) = scenario {
                        return Err(fail(format!("a second scenario line, after line {first}")));
                    }
                    let line = serde_json::from_value(value);
                    scenario = Some((index + 1, line.map_err(|error| fail(error.to_string()))?));
                }
                "request" => {
                    let line: RequestLine =
                        serde_json::from_value(value).map_err(|error| fail(error.to_string()))?;
                    let expected = format!("r{:04}", requests.len());
                    if line.id != expected {
                        return Err(fail(format!("request {} where {expected} follows", line.id)));
                    }
                    // SGLang puts requests without a priority behind all others.
                    let is_last = scenario.as_ref().is_some_and(|(_, s)| s.engine == "sglang");
                    let no_priority = if is_last { i32::MIN } else { 0 };
                    requests.push(line.into_request(&mut names, no_priority).map_err(fail)?);
                }
                "step" => steps.push(value),
                "result" => results.push(value),
                "summary" => summary = Some(value),
                "abort"
                | "load_start"
                | "load_done"
                | "send_start"
                | "send_done"
                | "empty_schedule_preempt"
                | "grammar_ready"
                | "offload_load"
                | "offload_load_done"
                | "offload_store"
                | "offload_store_done" => {}
                other => return Err(fail(format!("unknown line type `{other}`"))),
            }
        }
        let last = text.lines().count().max(1);
        let fail = |problem: &str| RecordingError::Line { line: last, problem: problem.to_owned() };
        if text.trim().is_empty() {
            return Err(fail("the file is empty"));
        }
        let (config_line, scenario) =
            scenario.ok_or_else(|| fail("no scenario line in the file"))?;
        let Some(summary) = summary else {
            return Err(fail("the file ends before its summary line: it is truncated"));
        };
        let told = summary.get("steps").unwrap_or(&Value::Null);
        if told.as_u64() != Some(steps.len() as u64) {
            let held = steps.len();
            return Err(fail(&format!("the summary tells of {told} steps, the file has {held}")));
        }
        let ScenarioLine { name, engine, version, config, groups, .. } = scenario;
        let group_blocks = (scenario.sched_block, scenario.hash_block);
        // vLLM without a connector does not look at what requests say about transfers.
        if engine == "vllm" && config.get("kv_role").is_none_or(Value::is_null) {
            for recorded in &mut requests {
                recorded.handoff = Handoff::None;
            }
        }
        Ok(Self {
            name,
            engine,
            version,
            config,
            groups,
            group_blocks,
            config_line,
            requests,
            steps,
            results,
        })
    }

    /// Whether KV goes to host memory and comes back from it.
    pub(super) fn offloads(&self) -> bool {
        self.config.get("offload_blocks").is_some_and(|blocks| !blocks.is_null())
    }

    /// The error for something in the settings.
    pub(super) fn not_modelled(&self, problem: String) -> RecordingError {
        RecordingError::NotModelled { line: self.config_line, problem }
    }
}

/// Names of adapters, salts and images, numbered in order of appearance.
#[derive(Default)]
struct Names {
    adapters: Vec<Value>,
    salts: Vec<Value>,
    images: Vec<Value>,
}

pub(super) fn number(names: &mut Vec<Value>, name: Value) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// The first stream of recorded answers: answer token j of request i is `(ANSWERS + i, j)`.
const ANSWERS: u64 = 1 << 20;

/// Thirty years, and tokens of which two lengths add up in 32 bits.
const LATEST_US: u64 = 1_000_000_000_000_000;
const TOKENS_MAX: u32 = (1 << 31) - 1;

impl RequestLine {
    fn into_request(self, names: &mut Names, no_priority: i32) -> Result<RecordedRequest, String> {
        let per_token = self.xfer_us_per_token.saturating_mul(1_000_000);
        let times = [self.arrival_us, self.xfer_base_us, per_token];
        let others = self.abort_us.into_iter().chain(self.grammar_us);
        if let Some(late) = times.into_iter().chain(others).find(|us| *us > LATEST_US) {
            return Err(format!("times must be at most {LATEST_US} us, got {late}"));
        }
        if self.max_tokens > TOKENS_MAX {
            return Err(format!(
                "max_tokens: must be at most {TOKENS_MAX}, got {}",
                self.max_tokens
            ));
        }
        if self.stop_at == Some(0) {
            return Err("stop_at: must be at least 1, got 0".to_owned());
        }
        let micros = |us: u64| SimTime::ZERO + SimDuration::from_micros(us);
        let segments: Vec<Segment> = self
            .prompt
            .iter()
            .map(|&(stream, start, len)| {
                if u64::from(start) + u64::from(len) > TOKENS_MAX.into() {
                    return Err(format!("a stream has at most {TOKENS_MAX} tokens"));
                }
                let Some(request) = stream.checked_sub(ANSWERS) else {
                    return Ok(Segment { stream, start, len });
                };
                let request = u32::try_from(request)
                    .map_err(|_| format!("a prompt has tokens of stream {stream}: no request"))?;
                Ok(Segment { stream: Segment::answer_stream(RequestId(request)), start, len })
            })
            .collect::<Result<_, String>>()?;
        let images = images(&self.images, &mut names.images);
        let segments = with_placeholders(&segments, &images)?;
        let prompt_tokens: u64 = segments.iter().map(|s| u64::from(s.len)).sum();
        let prompt_tokens = u32::try_from(prompt_tokens).unwrap_or(u32::MAX);
        if prompt_tokens > TOKENS_MAX {
            return Err(format!("a prompt has at most {TOKENS_MAX} tokens"));
        }
        if prompt_tokens == 0 {
            return Err("a prompt has at least one token".to_owned());
        }
        let ends_itself = self.ignore_eos == Some(false);
        let stop_at = self.stop_at.filter(|_| ends_itself);
        // An answer that honours the end without coming to it would go on past the limit.
        let unstopped = self.max_tokens.saturating_add(u32::from(ends_itself));
        let mut request =
            Request::new(micros(self.arrival_us), prompt_tokens, stop_at.unwrap_or(unstopped));
        request.max_tokens = self.max_tokens;
        request.ignore_eos = !ends_itself;
        request.priority = self.priority.unwrap_or(no_priority);
        request.adapter =
            self.lora.map(|name| AdapterId::from_index(number(&mut names.adapters, name)));
        // An empty salt is none.
        let salt = self.cache_salt.filter(|name| name != "");
        request.content = Content {
            salt: salt.map_or(0, |name| 1 + number(&mut names.salts, name) as u64),
            segments: Some(segments.into()),
        };
        let grammar = self.grammar_us.map(SimDuration::from_micros);
        if grammar.is_some() || !images.is_empty() {
            request.inputs = Some(Inputs { grammar, images }.into());
        }
        let handoff = match (self.remote_prefill, self.remote_decode) {
            (true, true) => {
                return Err("one of remote_prefill and remote_decode is modelled, not both".into());
            }
            (true, false) => Handoff::PrefilledElsewhere,
            (false, true) => Handoff::DecodedElsewhere,
            (false, false) => Handoff::None,
        };
        Ok(RecordedRequest {
            request,
            // Who goes away before the request is there is not heard.
            abort: self.abort_us.filter(|&at| at >= self.arrival_us).map(micros),
            handoff,
            transfer: (
                SimDuration::from_micros(self.xfer_base_us),
                SimDuration::from_micros(self.xfer_us_per_token),
            ),
        })
    }
}

#[cfg(test)]
mod tests;
