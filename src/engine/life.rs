//! The part of a request's life that every engine keeps in the same way: what was asked, what
//! came out, and when.

use crate::ids::RequestId;
use crate::request::Request;
use crate::units::{SimDuration, SimTime};

/// How a request ended. Engines know all but a client's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// All its tokens came out.
    Done,
    /// The client went away.
    Aborted,
    /// The engine refused it on arrival.
    Rejected,
    /// The client's time was over.
    TimedOut,
    /// Its replica failed or ran out of memory for it, or there was none to send it to.
    Failed,
}

/// A request inside an engine.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// Its id.
    pub id: RequestId,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Tokens after which it stops by itself; no policy reads this.
    pub output_tokens: u32,
    /// The same before an engine cut it to what its longest sequence leaves room for.
    pub asked_tokens: u32,
    /// The most tokens it may generate; what policies know.
    pub max_tokens: u32,
    /// Tokens generated so far.
    pub generated: u32,
    /// When a step first worked on it.
    pub first_scheduled: Option<SimTime>,
    /// When its first token came out.
    pub first_token: Option<SimTime>,
    /// When its latest token came out.
    pub last_token: SimTime,
    /// Prompt tokens found in the cache when it was first admitted.
    pub cached_tokens: u32,
    /// Times it lost its memory and started over.
    pub preemptions: u32,
    /// Drafts verified for it, counted as [`DraftCounts`](super::DraftCounts) does.
    pub draft_tokens: u32,
    /// Those of them that were accepted.
    pub accepted_tokens: u32,
}

impl Life {
    /// A request that enters the engine.
    #[inline]
    pub fn new(id: RequestId, request: &Request) -> Self {
        Self {
            id,
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens.min(request.max_tokens),
            asked_tokens: request.output_tokens.min(request.max_tokens),
            max_tokens: request.max_tokens,
            generated: 0,
            first_scheduled: None,
            first_token: None,
            last_token: SimTime::ZERO,
            cached_tokens: 0,
            preemptions: 0,
            draft_tokens: 0,
            accepted_tokens: 0,
        }
    }

    /// One token comes out; the gap to the one before, if there was one.
    pub fn emit(&mut self, now: SimTime) -> Option<SimDuration> {
        self.generated += 1;
        let before = std::mem::replace(&mut self.last_token, now);
        if self.first_token.is_some() {
            return Some(now - before);
        }
        self.first_token = Some(now);
        None
    }

    /// The same as it looks where nobody sees its tokens: on an instance that only prefills.
    #[must_use]
    pub fn unseen(self) -> Self {
        Self { generated: 0, first_token: None, last_token: SimTime::ZERO, ..self }
    }

    /// Whether every token it will ever generate is out.
    pub fn is_done(&self) -> bool {
        self.generated >= self.output_tokens
    }
}
