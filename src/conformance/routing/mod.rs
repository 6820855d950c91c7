//! Decisions recorded from real routers and planners, replayed one by one.
//!
//! A schedule has one right answer. A router draws in places: there the replay knows the set that the real program
//! drew from, takes what it drew, and goes on.
//!
//! * `planner.rs`: decisions of Dynamo's planner
//! * `sglang.rs`: decisions of `SGLang`'s router and of vLLM's
//! * `dynamo.rs`: decisions of Dynamo's KV router

mod dynamo;
mod planner;
mod sglang;

use serde_json::Value;

use super::RecordingError;

/// How replayed decisions compare with recorded ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// The maker's name of the policy: `cache_aware`.
    pub policy: String,
    /// Decisions that could only be the recorded one, and are.
    pub exact: usize,
    /// Decisions drawn from a set that has the recorded one in it.
    pub drawn: usize,
    /// Read-outs beside decisions that are as recorded: loads, sizes, times, states.
    pub checks: usize,
    /// Decisions and read-outs that are neither.
    pub wrong: usize,
    /// The first of those.
    pub first: Option<Difference>,
}

/// A decision that is not the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What was decided, and on which line of the recording: `line 17 (request r12)`.
    pub place: String,
    /// As recorded.
    pub recorded: String,
    /// What may have been decided by the rules.
    pub replayed: String,
}

impl Tally {
    /// Counts a decision: what was recorded beside all that the rules allow, one if they leave no choice.
    pub(super) fn count<T: PartialEq + std::fmt::Debug>(
        &mut self,
        place: impl FnOnce() -> String,
        recorded: &T,
        allowed: &[T],
    ) {
        match allowed {
            [only] if only == recorded => self.exact += 1,
            several if several.contains(recorded) => self.drawn += 1,
            _ => self.differ(place(), format!("{recorded:?}"), format!("{allowed:?}")),
        }
    }

    /// Counts what was read out beside decisions.
    pub(super) fn check<T: PartialEq + std::fmt::Debug>(
        &mut self,
        place: impl FnOnce() -> String,
        recorded: &T,
        replayed: &T,
    ) {
        if recorded == replayed {
            self.checks += 1;
        } else {
            self.differ(place(), format!("{recorded:?}"), format!("{replayed:?}"));
        }
    }

    fn differ(&mut self, place: String, recorded: String, replayed: String) {
        self.wrong += 1;
        self.first.get_or_insert(Difference { place, recorded, replayed });
    }
}

/// Replays a recording of decisions and counts those that come out as recorded.
///
/// # Errors
/// When a line is not what its format says, or the recording has settings that are not modelled.
pub fn check(text: &str) -> Result<Tally, RecordingError> {
    let lines = lines(text)?;
    let first = lines.first().ok_or_else(|| problem(0, "the file is empty"))?;
    if first.get("scenario").is_some() && first.get("args").is_some() {
        return sglang::replay(&lines);
    }
    let text = |key: &str| first.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("k") {
        "settings" if text("source").starts_with("dynamo.planner") => {
            return planner::replay(&lines);
        }
        "settings" | "ties" => return dynamo::replay(&lines),
        _ => {}
    }
    Err(problem(0, "neither the settings of a router nor those of a planner"))
}

/// Whether a text begins as a recording of decisions, not of a schedule.
pub fn is_recorded(text: &str) -> bool {
    let first = text.lines().next().and_then(|line| crate::json::parse(line).ok());
    first.is_some_and(|line| line.get("args").is_some() || line.get("k").is_some())
}

fn lines(text: &str) -> Result<Vec<Value>, RecordingError> {
    let parse = |(index, line): (usize, &str)| {
        let value = crate::json::parse(line)
            .map_err(|error| problem(index, &format!("not a whole JSON object: {error}")))?;
        if value.is_object() { Ok(value) } else { Err(problem(index, "not a JSON object")) }
    };
    text.trim_end().lines().enumerate().map(parse).collect()
}

/// What is wrong with a line, counted from 0.
fn problem(index: usize, problem: &str) -> RecordingError {
    RecordingError::Line { line: index + 1, problem: problem.to_owned() }
}
