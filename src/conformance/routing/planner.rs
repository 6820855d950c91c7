//! Decisions of Dynamo's planner, whose performance model was replaced by a linear law and whose metrics were scripted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::RecordingError;
use super::Tally;
use crate::cluster::autoscaler::dynamo::{
    Capabilities, Counts, Demand, ForwardPassMetrics, ForwardTime, ForwardTimes, LoadTick, Mode,
    Planner,
};
use crate::scenario::{DynamoPlannerConfig, OptimizationTarget};

/// What the recorder divided prompt tokens that wait by to get their requests.
const TOKENS_OF_A_QUEUED_REQUEST: u64 = 600;
/// Replicas and GPUs that are looked at, at most.
const COUNT_MAX: u32 = 4096;
/// Tokens, requests and seconds that are looked at, at most.
const VALUE_MAX: f64 = 1e9;
/// Of figures that were added up in another order, what they may be off by.
const TOLERANCE: f64 = 1e-12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsLine {
    #[serde(rename = "k")]
    _kind: String,
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "seed")]
    _seed: u64,
    #[serde(rename = "source")]
    _source: String,
    version: String,
    config: serde_json::Map<String, Value>,
    resolved: serde_json::Map<String, Value>,
    capabilities: CapabilitiesLine,
    forward_seconds: Option<Law>,
    avg_isl: f64,
    avg_decode_length: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CapabilitiesLine {
    prefill: RecordedCapabilities,
    decode: DecodeCapabilities,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DecodeCapabilities {
    Word(String),
    Own(RecordedCapabilities),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedCapabilities {
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    context_length: u32,
    max_kv_tokens: u32,
    num_gpu: u32,
}

/// Seconds of a forward pass.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Law {
    base: f64,
    per_prefill_token: f64,
    per_decode_seq: f64,
    per_kv_token: f64,
}

impl ForwardTime for Law {
    fn forward_seconds(&self, prefill_tokens: u64, decode_seqs: u64, kv_tokens: u64) -> f64 {
        self.base
            + self.per_prefill_token * prefill_tokens as f64
            + self.per_decode_seq * decode_seqs as f64
            + self.per_kv_token * kv_tokens as f64
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TickLine {
    #[serde(rename = "k")]
    _kind: String,
    n: u64,
    p: u32,
    d: u32,
    fpm: Option<FpmLine>,
    load: Option<[Option<u32>; 2]>,
    why: Option<String>,
    est: Option<[Option<f64>; 2]>,
    traffic: Option<Traffic>,
    rps: Option<[Option<f64>; 2]>,
    thr: Option<[Option<u32>; 2]>,
    floor: Option<[u32; 2]>,
}

/// Of each replica sequences that decode, tokens in KV memory, those that wait for it, prompt tokens that are computed and that wait.
type Workers = BTreeMap<String, [u64; 5]>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FpmLine {
    prefill: Option<Workers>,
    decode: Option<Workers>,
}

/// Seconds, requests, prompt tokens, output tokens, hit rate.
#[derive(Clone, Copy, Deserialize)]
struct Traffic(f64, f64, f64, f64, Option<f64>);

/// Replays the ticks of a recorded planner.
pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let (settings, ticks) = lines.split_first().ok_or_else(|| wrong(1, "there is no line"))?;
    let mut replay = Replay::of(settings)?;
    for (index, line) in ticks.iter().enumerate() {
        replay.tick(index + 2, line)?;
    }
    Ok(replay.tally)
}

struct Replay {
    planner: Planner,
    config: DynamoPlannerConfig,
    is_aggregated: bool,
    law: Law,
    isl: f64,
    decode_length: f64,
    tally: Tally,
}

impl Replay {
    fn of(line: &Value) -> Result<Self, RecordingError> {
        let settings: SettingsLine = read(1, line)?;
        if settings.version != "ai-dynamo 1.6.1" {
            return Err(not_modelled(format!(
                "version {:?}: only ai-dynamo 1.6.1",
                settings.version
            )));
        }
        let mut config = settings.config;
        for name in ["environment", "backend"] {
            config.remove(name);
        }
        let mode = config.remove("mode");
        let config: DynamoPlannerConfig = serde_json::from_value(config.into())
            .map_err(|error| not_modelled(format!("config: {error}")))?;
        check_config(&config)?;
        check_resolved(&config, &settings.resolved)?;
        let prefill = capabilities("prefill", settings.capabilities.prefill)?;
        let decode = match settings.capabilities.decode {
            DecodeCapabilities::Own(own) => capabilities("decode", own)?,
            DecodeCapabilities::Word(word) if word == "same" => prefill,
            DecodeCapabilities::Word(word) => {
                return Err(wrong(1, &format!("capabilities.decode: {word:?} is not \"same\"")));
            }
        };
        let mode = match mode.as_ref().map_or(Some("disagg"), Value::as_str) {
            Some("agg") => Mode::Aggregated(decode),
            Some("disagg") => Mode::Disaggregated { prefill, decode },
            other => return Err(not_modelled(format!("config.mode: {other:?}: agg or disagg"))),
        };
        let is_sla = config.optimization_target == OptimizationTarget::Sla;
        let law = match settings.forward_seconds {
            Some(law) => law,
            None if is_sla => {
                return Err(wrong(1, "forward_seconds: missing, though latencies count"));
            }
            None => {
                Law { base: 1.0, per_prefill_token: 0.0, per_decode_seq: 0.0, per_kv_token: 0.0 }
            }
        };
        let coefficients = [law.base, law.per_prefill_token, law.per_decode_seq, law.per_kv_token];
        if coefficients.iter().any(|value| !value.is_finite() || *value < 0.0) {
            return Err(wrong(1, "forward_seconds: must not be negative"));
        }
        Ok(Self {
            planner: Planner::new(&config, mode),
            config,
            is_aggregated: matches!(mode, Mode::Aggregated(_)),
            law,
            isl: within(1, "avg_isl", settings.avg_isl)?,
            decode_length: within(1, "avg_decode_length", settings.avg_decode_length)?,
            tally: Tally { policy: "planner".into(), ..Tally::default() },
        })
    }

    fn tick(&mut self, at: usize, line: &Value) -> Result<(), RecordingError> {
        let kind = line.get("k").and_then(Value::as_str);
        if kind != Some("tick") {
            return Err(wrong(at, &format!("k: {kind:?} is not \"tick\"")));
        }
        let tick: TickLine = read(at, line)?;
        if tick.p.max(tick.d) > COUNT_MAX {
            return Err(wrong(at, &format!("p, d: must be at most {COUNT_MAX}")));
        }
        let ready = Counts { prefill: tick.p, decode: tick.d };
        if let Some(traffic) = tick.traffic {
            self.throughput(at, &tick, ready, traffic)?;
        } else if tick.rps.is_some() || tick.thr.is_some() || tick.floor.is_some() {
            return Err(wrong(at, "traffic: missing beside what was made of it"));
        }
        match &tick.fpm {
            Some(fpm) => self.load(at, &tick, ready, fpm),
            None if tick.load.is_some() || tick.why.is_some() || tick.est.is_some() => {
                Err(wrong(at, "fpm: missing beside what was made of it"))
            }
            None => Ok(()),
        }
    }

    fn throughput(
        &mut self,
        at: usize,
        tick: &TickLine,
        ready: Counts,
        traffic: Traffic,
    ) -> Result<(), RecordingError> {
        let Traffic(seconds, requests, isl, osl, hit_rate) = traffic;
        for value in [seconds, requests, isl, osl, hit_rate.unwrap_or(0.0)] {
            within(at, "traffic", value)?;
        }
        if seconds == 0.0 {
            return Err(wrong(at, "traffic: an interval must not be 0 s"));
        }
        let demand = Demand { per_s: requests / seconds, isl, osl, hit_rate };
        let law = self.law;
        let times = ForwardTimes { prefill: &law, decode: &law };
        let decision = self.planner.look_at_demand(ready, &demand, times);
        self.count(
            (at, tick.n, "rps"),
            &Figures(tick.rps.unwrap_or_default()),
            Figures(decision.engine_per_s),
        );
        self.count((at, tick.n, "thr"), &tick.thr, self.pair(decision.target));
        let floors = self.planner.floors();
        self.count((at, tick.n, "floor"), &tick.floor, Some([floors.prefill, floors.decode]));
        Ok(())
    }

    fn load(
        &mut self,
        at: usize,
        tick: &TickLine,
        ready: Counts,
        fpm: &FpmLine,
    ) -> Result<(), RecordingError> {
        let (prefill, decode) =
            (workers(at, fpm.prefill.as_ref())?, workers(at, fpm.decode.as_ref())?);
        let seen = LoadTick {
            ready,
            is_scaling: false,
            prefill: &prefill,
            decode: &decode,
            isl: self.isl,
            decode_length: self.decode_length,
            // The recorder let it see no passes.
            prefill_beside: 0,
        };
        let times = ForwardTimes { prefill: &self.law, decode: &self.law };
        let decision = self.planner.look_at_load(&seen, times);
        let reason = decision.reason.name().to_owned();
        let target = self.pair(decision.target);
        let recorded = (tick.load, tick.why.clone());
        self.count((at, tick.n, "load"), &recorded, (target, Some(reason)));
        if self.config.optimization_target == OptimizationTarget::Sla {
            let estimated = Figures([decision.ttft_ms, decision.itl_ms]);
            self.count((at, tick.n, "est"), &Figures(tick.est.unwrap_or_default()), estimated);
        } else if tick.est.is_some() {
            return Err(wrong(at, "est: there is no estimate where thresholds decide"));
        }
        Ok(())
    }

    /// As recordings write replicas.
    fn pair(&self, counts: Option<Counts>) -> Option<[Option<u32>; 2]> {
        let prefill = |counts: Counts| (!self.is_aggregated).then_some(counts.prefill);
        counts.map(|counts| [prefill(counts), Some(counts.decode)])
    }

    fn count<T: PartialEq + std::fmt::Debug>(
        &mut self,
        (line, tick, what): (usize, u64, &str),
        recorded: &T,
        replayed: T,
    ) {
        let place = || format!("line {line} (tick {tick}, {what})");
        self.tally.count(place, recorded, &[replayed]);
    }
}

/// Figures that are equal but for the order of their sums.
#[derive(Debug)]
struct Figures([Option<f64>; 2]);

impl PartialEq for Figures {
    fn eq(&self, other: &Self) -> bool {
        let is_equal = |pair: (&Option<f64>, &Option<f64>)| match pair {
            (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            (a, b) => a.is_none() && b.is_none(),
        };
        self.0.iter().zip(&other.0).all(is_equal)
    }
}

fn check_config(config: &DynamoPlannerConfig) -> Result<(), RecordingError> {
    let latencies = [config.ttft_ms, config.itl_ms];
    if latencies.iter().any(|limit| !limit.is_finite() || *limit <= 0.0) {
        return Err(wrong(1, "config: ttft_ms and itl_ms must be positive"));
    }
    let budgets = [config.min_gpu_budget, config.max_gpu_budget];
    if budgets.iter().any(|&gpus| i64::from(gpus) > i64::from(COUNT_MAX))
        || config.min_endpoint > COUNT_MAX
    {
        return Err(wrong(
            1,
            &format!("config: budgets and min_endpoint must be at most {COUNT_MAX}"),
        ));
    }
    Ok(())
}

/// What the planner made of its settings is what is made of them here.
fn check_resolved(
    config: &DynamoPlannerConfig,
    resolved: &serde_json::Map<String, Value>,
) -> Result<(), RecordingError> {
    let own = DynamoPlannerConfig {
        enable_load_scaling: config.scales_by_load(),
        enable_throughput_scaling: config.scales_by_throughput(),
        ..*config
    };
    let own = serde_json::to_value(own).map_err(|error| wrong(1, &error.to_string()))?;
    for (name, value) in resolved {
        let known = own.get(name);
        let is_equal = known == Some(value)
            || known.and_then(Value::as_f64).is_some_and(|known| Some(known) == value.as_f64());
        if !is_equal {
            return Err(not_modelled(format!("resolved.{name}: {value}, here {known:?}")));
        }
    }
    Ok(())
}

fn capabilities(pool: &str, of: RecordedCapabilities) -> Result<Capabilities, RecordingError> {
    let figures = [
        of.max_num_batched_tokens,
        of.max_num_seqs,
        of.context_length,
        of.max_kv_tokens,
        of.num_gpu,
    ];
    if figures.contains(&0) || of.num_gpu > COUNT_MAX {
        let problem =
            format!("capabilities.{pool}: nothing may be 0, nor num_gpu over {COUNT_MAX}");
        return Err(wrong(1, &problem));
    }
    Ok(Capabilities {
        max_num_batched_tokens: of.max_num_batched_tokens,
        max_num_seqs: of.max_num_seqs,
        context_length: of.context_length,
        max_kv_tokens: of.max_kv_tokens.into(),
        num_gpu: of.num_gpu,
    })
}

fn workers(at: usize, of: Option<&Workers>) -> Result<Vec<ForwardPassMetrics>, RecordingError> {
    let worker = |figures: &[u64; 5]| {
        let [
            decode_seqs,
            scheduled_kv_tokens,
            queued_kv_tokens,
            scheduled_prefill_tokens,
            queued_prefill_tokens,
        ] = *figures;
        if figures.iter().any(|&figure| figure as f64 > VALUE_MAX) {
            return Err(wrong(at, &format!("fpm: must be at most {VALUE_MAX}")));
        }
        Ok(ForwardPassMetrics {
            scheduled_prefill_tokens,
            scheduled_prefill_requests: u32::from(scheduled_prefill_tokens > 0),
            decode_seqs: decode_seqs as u32,
            scheduled_kv_tokens,
            queued_kv_tokens,
            queued_prefill_tokens,
            queued_prefill_requests: (queued_prefill_tokens / TOKENS_OF_A_QUEUED_REQUEST) as u32,
        })
    };
    of.into_iter().flat_map(BTreeMap::values).map(worker).collect()
}

fn within(line: usize, field: &str, value: f64) -> Result<f64, RecordingError> {
    if (0.0..=VALUE_MAX).contains(&value) {
        Ok(value)
    } else {
        Err(wrong(line, &format!("{field}: must be between 0 and {VALUE_MAX}, got {value}")))
    }
}

fn read<'a, T: Deserialize<'a>>(line: usize, value: &'a Value) -> Result<T, RecordingError> {
    T::deserialize(value).map_err(|error| wrong(line, &error.to_string()))
}

fn wrong(line: usize, problem: &str) -> RecordingError {
    RecordingError::Line { line, problem: problem.to_owned() }
}

fn not_modelled(problem: String) -> RecordingError {
    RecordingError::NotModelled { line: 1, problem }
}
