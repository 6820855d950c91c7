//! Answers that an engine ended before they were over, because it takes no longer sequence.

use std::fmt;

use serde::Serialize;

use crate::engine::Finish;
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

/// Answers that ended at the longest sequence of their engine, not where the workload ends them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CutAnswers {
    /// How many of them.
    pub answers: u64,
    /// Tokens that they lack together.
    pub tokens: u64,
}

impl CutAnswers {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.answers == 0
    }

    pub(super) fn join(&mut self, other: Self) {
        self.answers += other.answers;
        self.tokens += other.tokens;
    }
}

impl Observer for CutAnswers {
    #[inline]
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Left(_, life, Finish::Done) = what {
            let lacking = life.asked_tokens.saturating_sub(life.generated);
            self.answers += u64::from(lacking > 0);
            self.tokens += u64::from(lacking);
        }
    }
}

impl fmt::Display for CutAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, tokens } = self;
        let plural = if *answers == 1 { " was" } else { "s were" };
        write!(
            f,
            "{answers} answer{plural} cut at the engine's longest sequence, by {tokens} tokens in all; \
             raise its maximum length, or give shorter prompts or answers"
        )
    }
}
