//! A published run as its file tells it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::tidy::tidied;
use crate::metrics::bench::quote_non_finite;

/// Named values whose meaning depends on the tool that wrote them.
pub(super) type Fields = Map<String, Value>;

/// A measured run: one line of a JSONL file. What a source does not state is absent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Record {
    /// The name of the run, not always unique.
    pub id: String,
    /// Runs of one source that belong together: one figure or table of it.
    pub family: String,
    /// Which engine served it.
    pub(super) engine: EngineFields,
    /// On what.
    #[serde(default)]
    pub(super) hardware: HardwareFields,
    /// What was served.
    #[serde(default)]
    pub(super) model: ModelFields,
    /// How it was split over GPUs.
    #[serde(default)]
    pub(super) parallel: Fields,
    /// Flags of the server, and what its log said (`observed_…`).
    #[serde(default)]
    pub(super) engine_flags: Fields,
    /// What was sent.
    #[serde(default)]
    pub(super) workload: Fields,
    /// What the benchmark tool printed.
    #[serde(default)]
    pub(super) metrics: Fields,
    /// The command that started the server.
    #[serde(default)]
    pub(super) server_command: Option<String>,
    /// What the server's own log or dashboard said.
    #[serde(default)]
    pub(super) server_side_metrics: Fields,
    /// What no other field is.
    #[serde(flatten)]
    pub(super) others: Fields,
}

/// The engine of a record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct EngineFields {
    pub(super) name: String,
    #[serde(default)]
    pub(super) version: Option<String>,
    /// A changed copy of the engine.
    #[serde(default)]
    pub(super) fork: Option<String>,
    /// Environment variables of the server.
    #[serde(default)]
    pub(super) env: Option<String>,
    #[serde(flatten)]
    pub(super) others: Fields,
}

/// The hardware of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub(super) struct HardwareFields {
    #[serde(default)]
    pub(super) gpu: Option<String>,
    /// GPUs that the model was served on, of those the machine has.
    #[serde(default)]
    pub(super) gpus_used: Option<u32>,
    #[serde(default)]
    pub(super) count: Option<u32>,
    /// Machines.
    #[serde(default)]
    pub(super) nodes: Option<u32>,
    #[serde(flatten)]
    pub(super) others: Fields,
}

/// The model of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub(super) struct ModelFields {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) precision: Option<String>,
    #[serde(default)]
    pub(super) precision_inferred_from_checkpoint_name: Option<String>,
    #[serde(flatten)]
    pub(super) others: Fields,
}

/// A line that is no record, or an item of a list of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{unit} {number}: {problem}")]
pub struct RecordError {
    /// `line` or `item`.
    pub unit: &'static str,
    /// Which one, from 1.
    pub number: usize,
    /// What the parser says.
    pub problem: String,
}

/// A JSON value; Python writes `NaN` and `Infinity` too.
fn json(text: &str) -> Result<Value, serde_json::Error> {
    crate::json::parse(text).or_else(|_| crate::json::parse(&quote_non_finite(text)))
}

impl Record {
    /// Reads the records of a JSONL text; empty lines are left out.
    ///
    /// # Errors
    /// The first line that is no record.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, RecordError> {
        let (records, broken) = Self::read_all(text);
        broken.into_iter().next().map_or(Ok(records), Err)
    }

    /// Reads the records of a JSONL text or of a JSON list, and the lines or items that are none; empty
    /// lines are left out.
    pub fn read_all(text: &str) -> (Vec<Self>, Vec<RecordError>) {
        let text = text.trim_start_matches('\u{feff}');
        let (mut records, mut broken) = (Vec::new(), Vec::new());
        let mut add = |unit, index: usize, record| match record {
            Ok(record) => records.push(record),
            Err(problem) => broken.push(RecordError { unit, number: index + 1, problem }),
        };
        if text.trim_start().starts_with('[') {
            match json(text) {
                Ok(Value::Array(items)) => {
                    let records = items.into_iter().map(Self::of).enumerate();
                    records.for_each(|(index, record)| add("item", index, record));
                }
                Ok(_) => {}
                Err(problem) => {
                    add("line", problem.line().saturating_sub(1), Err(problem.to_string()));
                }
            }
        } else {
            let lines = text.lines().enumerate();
            for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
                let value = json(line).map_err(|error| error.to_string());
                add("line", index, value.and_then(Self::of));
            }
        }
        (records, broken)
    }

    fn of(value: Value) -> Result<Self, String> {
        serde_json::from_value(tidied(value)?).map_err(|error| error.to_string())
    }

    /// The engine, as the source names it.
    pub fn engine(&self) -> &str {
        &self.engine.name
    }

    /// A number of the workload, also where it is written as text.
    pub(super) fn workload_number(&self, key: &str) -> Option<f64> {
        number(self.workload.get(key)?)
    }

    /// A whole number of the workload.
    pub(super) fn workload_count(&self, key: &str) -> Option<u32> {
        count(self.workload.get(key)?)
    }

    /// A text of the workload.
    pub(super) fn workload_text(&self, key: &str) -> &str {
        self.workload.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number that the tool printed.
    pub(super) fn metric(&self, key: &str) -> Option<f64> {
        number(self.metrics.get(key)?)
    }
}

/// A finite number, also where it is written as text.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => plain(text.trim()).parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// A number without the commas between its thousands.
fn plain(text: &str) -> Cow<'_, str> {
    let whole = text.split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let is_first = |group: &str| (1..=4).contains(&group.len()) && !group.ends_with('-');
    let is_grouped = groups.next().is_some_and(is_first) && groups.all(|group| group.len() == 3);
    if is_grouped && whole.contains(',') { text.replace(',', "").into() } else { text.into() }
}

/// Whether a value says that there is no limit, or nothing at all.
pub(super) fn is_unlimited(value: &Value) -> bool {
    let text = value.as_str().map(|text| text.trim().to_lowercase());
    let words = ["", "inf", "infinity", "none", "null", "not set", "unlimited"];
    value.is_null() || text.is_some_and(|text| words.contains(&text.as_str()))
}

/// A whole number, also where it is written as text.
pub(super) fn count(value: &Value) -> Option<u32> {
    let number = number(value)?;
    let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    whole.then_some(number as u32)
}

/// A switch, also where it is written as text in any case.
pub(super) fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::String(text) => text.to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

/// A value as people would type it after a flag.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
