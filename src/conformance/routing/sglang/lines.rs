//! What happened, line by line.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::prompt::Prompt;
use super::settings::Settings;
use crate::cluster::sglang::policy::Worker;
use crate::conformance::RecordingError;
use crate::conformance::routing::problem;
use crate::units::SimTime;

/// A line, with when it happened.
#[derive(Debug)]
pub(super) struct Line {
    /// The number in the file, counted from 1.
    pub(super) number: usize,
    pub(super) at: SimTime,
    pub(super) what: What,
}

/// What may happen.
#[derive(Debug)]
pub(super) enum What {
    Send(Box<Send>),
    Finish(String),
    HangUp(String),
    Loads(Vec<(Worker, u32)>),
    Polled(Vec<(Worker, i64)>),
    Evict {
        before: Vec<(Worker, u64)>,
        after: Vec<(Worker, u64)>,
    },
    Adjust(Option<Vec<(Worker, u64, u64)>>),
    InitBounds(Vec<(Worker, u64, u64)>),
    Add(Worker, Vec<Worker>),
    Remove(Worker, Vec<Worker>),
    SetHealth(Worker, u16),
    /// What the router thinks of a worker, and when it checked it.
    Health {
        worker: Worker,
        is_healthy: bool,
        checks: Vec<f64>,
    },
    /// What workers do from here on, which attempts tell.
    Nothing,
}

/// A request.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) rid: String,
    pub(super) prompt: Prompt,
    /// Whether it is a `/generate`.
    pub(super) is_generate: bool,
    pub(super) holds: bool,
    pub(super) streams: bool,
    pub(super) headers: Vec<(String, String)>,
    /// Attempts that a worker refused; they come first.
    pub(super) refused: Vec<Worker>,
    /// Attempts that reached a worker, and what it answered.
    pub(super) attempts: Vec<(Worker, u16)>,
    /// When those came there, in ms after the request.
    pub(super) attempts_ms: Vec<f64>,
    pub(super) status: Option<u16>,
    pub(super) ms: Option<f64>,
    /// Of each attempt its worker, and host, port and room of the hand-over.
    pub(super) boot: Vec<(Worker, String, Value, u64)>,
}

#[derive(Deserialize)]
struct SendLine {
    rid: String,
    api: String,
    text: Value,
    #[serde(default)]
    hold: u8,
    #[serde(default)]
    stream: u8,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    refused: Vec<String>,
    att: Vec<(String, u16)>,
    #[serde(default)]
    att_dt_ms: Vec<f64>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    ms: Option<f64>,
    #[serde(default)]
    boot: Vec<(String, String, Value, u64)>,
}

/// The fields of other lines.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields {
    rid: Option<String>,
    w: Option<String>,
    loads: Option<BTreeMap<String, u32>>,
    tokens: Option<BTreeMap<String, i64>>,
    before: Option<BTreeMap<String, u64>>,
    after: Option<BTreeMap<String, u64>>,
    bounds: Option<Vec<(String, u64, u64)>>,
    order: Option<Vec<String>>,
    code: Option<u16>,
    healthy: Option<bool>,
    checks: Option<Vec<f64>>,
}

/// A year, in seconds.
const LATEST_S: f64 = 31_536_000.0;

impl Line {
    /// All lines but the first.
    pub(super) fn read_all(
        lines: &[Value],
        settings: &Settings,
    ) -> Result<Vec<Self>, RecordingError> {
        let read = |(index, line): (usize, &Value)| {
            Self::read(line, index + 1, settings).map_err(|text| problem(index, &text))
        };
        lines.iter().enumerate().skip(1).map(read).collect()
    }

    fn read(line: &Value, number: usize, settings: &Settings) -> Result<Self, String> {
        let seconds = line.get("t").and_then(Value::as_f64).ok_or("t: missing, or no number")?;
        if !(0.0..=LATEST_S).contains(&seconds) {
            return Err(format!("t: must be from 0 to {LATEST_S} s, got {seconds}"));
        }
        let op = line.get("op").and_then(Value::as_str).ok_or("op: missing, or no name")?;
        let what = What::read(op, line, settings)?;
        Ok(Self { number, at: SimTime::from_secs_f64(seconds), what })
    }

    /// Where it is, for those who read of a difference.
    pub(super) fn place(&self) -> String {
        match &self.what {
            What::Send(send) => format!("line {} (request {})", self.number, send.rid),
            _ => format!("line {}", self.number),
        }
    }
}

impl What {
    fn read(op: &str, line: &Value, settings: &Settings) -> Result<Self, String> {
        if op == "send" {
            return Send::read(line, settings).map(|send| Self::Send(Box::new(send)));
        }
        let fields = Fields::deserialize(line).map_err(|error| error.to_string())?;
        let worker = || settings.worker(&needed(fields.w.clone(), "w")?);
        let order = || settings.order(&needed(fields.order.clone(), "order")?);
        Ok(match op {
            "finish" => Self::Finish(needed(fields.rid, "rid")?),
            "hangup" => Self::HangUp(needed(fields.rid, "rid")?),
            "router_loads" => Self::Loads(by_worker(fields.loads, "loads", settings)?),
            "get_load" => Self::Polled(by_worker(fields.tokens, "tokens", settings)?),
            "evict" => Self::Evict {
                before: by_worker(fields.before, "before", settings)?,
                after: by_worker(fields.after, "after", settings)?,
            },
            "adjust" => Self::Adjust(bounds(fields.bounds, settings)?),
            "init_bounds" => Self::InitBounds(needed(bounds(fields.bounds, settings)?, "bounds")?),
            "add_worker" => Self::Add(worker()?, order()?),
            "remove_worker" => Self::Remove(worker()?, order()?),
            "set_health" => Self::SetHealth(worker()?, needed(fields.code, "code")?),
            "health" => Self::Health {
                worker: worker()?,
                is_healthy: needed(fields.healthy, "healthy")?,
                checks: needed(fields.checks, "checks")?,
            },
            "break" | "repair" => worker().map(|_| Self::Nothing)?,
            "polls" | "sleep" | "state" => Self::Nothing,
            other => return Err(format!("op: unknown kind of line `{other}`")),
        })
    }
}

impl Send {
    fn read(line: &Value, settings: &Settings) -> Result<Self, String> {
        let line = SendLine::deserialize(line).map_err(|error| error.to_string())?;
        let prompt = Prompt::read(&line.api, &line.text)?;
        let worker = |name: &String| settings.worker(name);
        let attempts = line.att.iter().map(|(name, status)| Ok((worker(name)?, *status)));
        let boot = line
            .boot
            .iter()
            .map(|(name, host, port, room)| Ok((worker(name)?, host.clone(), port.clone(), *room)));
        let times = [&line.att_dt_ms[..], line.ms.as_slice()].concat();
        if let Some(time) = times.iter().find(|time| !(0.0..=LATEST_S).contains(*time)) {
            return Err(format!("ms, att_dt_ms: must be from 0 to {LATEST_S}, got {time}"));
        }
        Ok(Self {
            prompt,
            is_generate: matches!(line.api.as_str(), "generate" | "ids"),
            holds: line.hold > 0,
            streams: line.stream > 0,
            refused: line.refused.iter().map(worker).collect::<Result<_, _>>()?,
            attempts: attempts.collect::<Result<_, String>>()?,
            boot: boot.collect::<Result<_, String>>()?,
            headers: line.headers.into_iter().collect(),
            rid: line.rid,
            attempts_ms: line.att_dt_ms,
            status: line.status,
            ms: line.ms,
        })
    }
}

fn needed<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{name}: missing"))
}

fn by_worker<T: Copy>(
    values: Option<BTreeMap<String, T>>,
    name: &str,
    settings: &Settings,
) -> Result<Vec<(Worker, T)>, String> {
    let values = needed(values, name)?;
    values.iter().map(|(worker, value)| Ok((settings.worker(worker)?, *value))).collect()
}

type Bounds = Vec<(Worker, u64, u64)>;

fn bounds(
    values: Option<Vec<(String, u64, u64)>>,
    settings: &Settings,
) -> Result<Option<Bounds>, String> {
    let read = |values: Vec<(String, u64, u64)>| {
        values.iter().map(|(name, low, high)| Ok((settings.worker(name)?, *low, *high))).collect()
    };
    values.map(read).transpose()
}
