//! A request, as far as it is counted: what comes of its answer, and what it came to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::Life;
use crate::serve::answer::End;
use crate::units::{SimDuration, SimTime};

/// Prompt tokens that need not be computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::serve) struct Cached {
    /// Found in the cache of the replica.
    pub(in crate::serve) local: u32,
    /// Come from elsewhere: another replica, or a tier below the memory of the GPUs.
    pub(in crate::serve) external: u32,
}

/// Tokens of an answer that come out at once.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Came {
    pub(in crate::serve) at: SimTime,
    /// When the request came.
    pub(in crate::serve) arrival: SimTime,
    /// When its first token came out.
    pub(in crate::serve) first: SimTime,
    pub(in crate::serve) new: u32,
    /// Those and all before.
    pub(in crate::serve) tokens: u32,
    /// Whether its client has tokens as they come.
    pub(in crate::serve) streams: bool,
    pub(in crate::serve) prompt_tokens: u32,
    pub(in crate::serve) cached: Cached,
    /// How the answer ends with them, if it does.
    pub(in crate::serve) end: Option<End>,
}

/// The latest output of an answer, as its server sees outputs.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Output {
    pub(super) at: SimTime,
    /// Tokens of the answer up to then.
    pub(super) tokens: u32,
}

impl Output {
    pub(super) fn of(came: &Came) -> Self {
        Self { at: came.at, tokens: came.tokens }
    }
}

/// How long the phases of a request took.
#[derive(Debug)]
pub(in crate::serve) struct Phases {
    pub(super) all: SimDuration,
    pub(super) queue: SimDuration,
    pub(super) prefill: Option<SimDuration>,
    pub(super) decode: Option<SimDuration>,
    pub(super) inference: SimDuration,
}

impl Phases {
    /// Of a request that was queued and got its first token then, and is over at `at`.
    pub(in crate::serve) fn of(
        life: &Life,
        (arrival, queued): (SimTime, SimTime),
        first: Option<SimTime>,
        at: SimTime,
    ) -> Self {
        let scheduled = life.first_scheduled.unwrap_or(at);
        Self {
            all: at.saturating_since(arrival),
            queue: scheduled.saturating_since(queued),
            prefill: first.map(|first| first.saturating_since(scheduled)),
            decode: first.map(|first| at.saturating_since(first)),
            inference: at.saturating_since(scheduled),
        }
    }
}

/// The answers of one prompt.
#[derive(Debug)]
pub(in crate::serve) struct Siblings {
    all: u32,
    over: AtomicU32,
    longest: AtomicU32,
}

impl Siblings {
    /// So many of one prompt.
    pub(in crate::serve) fn of(all: u32) -> Arc<Self> {
        Arc::new(Self { all, over: AtomicU32::new(0), longest: AtomicU32::new(0) })
    }

    /// One is over, with so many tokens: all of them and the tokens of the longest, if it was the last.
    pub(super) fn over(&self, tokens: u32) -> Option<(u32, u32)> {
        let longest = self.longest.fetch_max(tokens, Ordering::Relaxed).max(tokens);
        let over = self.over.fetch_add(1, Ordering::Relaxed) + 1;
        (over == self.all).then_some((self.all, longest))
    }
}

/// A request, as far as it is counted when it is over.
#[derive(Debug)]
pub(in crate::serve) struct Counted<'a> {
    pub(in crate::serve) life: &'a Life,
    pub(in crate::serve) max_tokens: u32,
    /// Prompt tokens that were not computed for it.
    pub(in crate::serve) cached_tokens: u32,
    pub(in crate::serve) streams: bool,
    pub(in crate::serve) siblings: Option<&'a Siblings>,
    /// Whether another server decodes it.
    pub(in crate::serve) is_prompt: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_one_prompt_count_once() {
        let siblings = Siblings::of(3);
        assert_eq!(
            [siblings.over(5), siblings.over(9), siblings.over(7)],
            [None, None, Some((3, 9))]
        );
    }
}
