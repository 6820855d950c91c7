//! Conformance: schedules recorded from the real engines, replayed step by step.
//!
//! A recording holds requests with their arrival times, every step the real scheduler decided, and
//! what became of every request, all in virtual time under a known law of step durations. Here the
//! project's own engines get the same requests under the same law; every line has to come out the
//! same.
//!
//! * `recording.rs`: the file format
//! * `drive.rs`: requests in, step and result lines out
//! * `vllm.rs`, `sglang.rs`: configuration and lines of one engine
//! * `groups.rs`: groups of layers with KV memory of their own
//! * `images.rs`: prompts with images
//! * `offload.rs`: KV in host memory
//! * `stages.rs`: step times of several pipeline stages

mod drive;
mod groups;
mod images;
mod offload;
mod recording;
pub mod routing;
mod sglang;
mod stages;
mod vllm;

use serde_json::Value;

use crate::engine::scheduler::Acceptance;

pub use recording::{Recording, RecordingError};

/// Drafts of a step, as in scenarios.
const DRAFTS_MAX: u32 = 1000;

/// The acceptance of the recordings: (5·i + 3·v) mod (k+1), which repeats every k+1 verifications.
fn acceptance(requests: usize, drafts: u32) -> Acceptance {
    let period = drafts + 1;
    let counts = |i: u32| (0..period).map(|v| (5 * i + 3 * v) % period).collect();
    Acceptance::Recorded((0..requests as u32).map(counts).collect())
}

/// How a replay compares with its recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Every line is the same.
    Exact {
        /// Steps compared.
        steps: usize,
    },
    /// The first line that is not.
    Differs {
        /// What kind of line, and which: `step 17`, `result r0003`.
        place: String,
        /// The names of the fields that differ.
        fields: Vec<String>,
        /// The line as recorded; empty if the replay has one more.
        recorded: String,
        /// The line as replayed; empty if the replay ended before.
        replayed: String,
    },
}

/// Replays a recording on the project's engine and compares every step and every result.
///
/// # Errors
/// When the recording names an engine, a version or a setting that is not modelled.
pub fn check(recording: &Recording) -> Result<Verdict, RecordingError> {
    let replay = drive::replay(recording)?;
    let steps = compare("step", "i", &recording.steps, &replay.steps);
    Ok(steps
        .or_else(|| compare("result", "id", &recording.results, &replay.results))
        .unwrap_or(Verdict::Exact { steps: recording.steps.len() }))
}

fn compare(kind: &str, key: &str, recorded: &[Value], replayed: &[Value]) -> Option<Verdict> {
    let lines = recorded.len().max(replayed.len());
    (0..lines).find_map(|index| {
        let (a, b) = (recorded.get(index), replayed.get(index));
        let fields = differing_fields(a, b);
        let name = a.or(b).and_then(|line| line.get(key)).map(ToString::to_string);
        (!fields.is_empty()).then(|| Verdict::Differs {
            place: format!("{kind} {}", name.unwrap_or_default().trim_matches('"')),
            fields,
            recorded: a.map(ToString::to_string).unwrap_or_default(),
            replayed: b.map(ToString::to_string).unwrap_or_default(),
        })
    })
}

fn differing_fields(a: Option<&Value>, b: Option<&Value>) -> Vec<String> {
    let empty = serde_json::Map::new();
    let fields = |line: Option<&Value>| line.and_then(Value::as_object).unwrap_or(&empty).clone();
    let (a, b) = (fields(a), fields(b));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}
