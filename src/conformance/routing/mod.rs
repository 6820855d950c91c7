//! Decisions recorded from real routers and planners, replayed one by one.
//!
//! A schedule has one right answer. A router draws in places: there the replay knows the set that the real program
//! drew from, takes what it drew, and goes on.

mod dynamo;

/// How replayed decisions compare with recorded ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// The maker's name of the policy: `cache_aware`.
    pub policy: String,
    /// Decisions that could only be the recorded one, and are.
    pub exact: usize,
    /// Decisions drawn from a set that has the recorded one in it.
    pub drawn: usize,
    /// Decisions that are neither.
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
            _ => {
                self.wrong += 1;
                self.first.get_or_insert_with(|| Difference {
                    place: place(),
                    recorded: format!("{recorded:?}"),
                    replayed: format!("{allowed:?}"),
                });
            }
        }
    }
}

/// Replays the recorded decisions of a router.
///
/// # Errors
/// When a line is not what its format says, or the recording is of something that is not modelled.
pub fn check(text: &str) -> Result<Tally, super::RecordingError> {
    let lines: Result<Vec<serde_json::Value>, _> = (text.lines().enumerate())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| super::RecordingError::Line {
                line: at + 1,
                problem: error.to_string(),
            })
        })
        .collect();
    dynamo::replay(&lines?)
}
