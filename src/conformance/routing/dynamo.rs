//! Decisions of NVIDIA Dynamo's KV router 1.6.1, as recorded from its selection service and from its offline replay.
//!
//! * `settings.rs`: the maker's settings, by environment variable and by key
//! * `selection.rs`, `lines.rs`: arrivals, decisions, life cycles and events of engines, one by one
//! * `offline.rs`: whole runs with mocked engines, whose signals drive the router
//! * `ties.rs`: many draws of one decision
//!
//! The first line says which of them it is.

mod draws;
mod lines;
mod offline;
mod selection;
mod settings;
mod ties;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Tally;
use crate::conformance::RecordingError;
use crate::units::SimTime;

/// Milliseconds in thirty years.
const MOST_MS: f64 = 1e12;

/// Replays a recording.
///
/// # Errors
/// When a line is not what the format says, or the recording is of something that is not modelled.
pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let first = lines.first().ok_or_else(|| wrong(1, "is missing"))?;
    let text = |key: &str| first.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("k"), text("source")) {
        ("ties", _) => ties::replay(lines),
        ("settings", source) if source.starts_with("dynamo.replay offline") => {
            offline::replay(lines)
        }
        ("settings", "SelectionService") => selection::replay(lines),
        ("settings", source) => {
            Err(not_modelled(1, format!("recordings of the source \"{source}\"")))
        }
        (kind, _) => Err(wrong(1, format!("is of no kind that is known: \"{kind}\""))),
    }
}

/// A line by its type.
fn read<T: DeserializeOwned>(line: usize, value: &Value) -> Result<T, RecordingError> {
    serde_json::from_value(value.clone()).map_err(|error| wrong(line, error.to_string()))
}

fn wrong(line: usize, problem: impl Into<String>) -> RecordingError {
    RecordingError::Line { line, problem: problem.into() }
}

fn not_modelled(line: usize, problem: impl Into<String>) -> RecordingError {
    RecordingError::NotModelled { line, problem: problem.into() }
}

/// A time in milliseconds.
fn time(line: usize, ms: f64) -> Result<SimTime, RecordingError> {
    if !(0.0..=MOST_MS).contains(&ms) {
        return Err(wrong(
            line,
            format!("a time must be at least 0 and at most {MOST_MS} ms, got {ms}"),
        ));
    }
    Ok(SimTime::from_secs_f64(ms / 1e3))
}
