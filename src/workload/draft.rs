//! A request in the making, and the streams of tokens that prompts are made of.

use std::sync::Arc;

use crate::ids::AdapterId;
use crate::ids::SessionId;
use crate::request::Segment;
use crate::rng::mix;
use crate::units::SimTime;

/// What a source of lengths knows of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Draft {
    /// When it arrives, if the source says.
    pub arrival: SimTime,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// What its prompt is made of, if it may share anything.
    pub segments: Option<Arc<[Segment]>>,
    pub session: Option<SessionId>,
    /// The adapter that the source names.
    pub adapter: Option<AdapterName>,
    /// The class that the source names.
    pub class: Option<Arc<str>>,
}

/// An adapter as a source of requests knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AdapterName {
    Number(AdapterId),
    Text(Arc<str>),
}

impl Draft {
    pub(super) fn of_lengths(prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { prompt_tokens, output_tokens, ..Self::default() }
    }
}

/// A stream of tokens of a workload. Workloads own the streams below 2⁶²; two bits of those tell
/// the kinds apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tokens {
    /// A hash id of a trace, as seen by the copy of that number.
    Recorded { hash: u64, copy: u32 },
    /// A system prompt or other shared prefix.
    Prefix(u64),
    /// The part of a request's prompt that it shares with nobody.
    Body(u64),
    /// What the user of a session says after the first turn.
    Messages(u64),
}

const KIND_SHIFT: u32 = 60;

impl Tokens {
    /// The number of this stream. A trace's own ids are kept where they fit 60 bits; others, and
    /// those of copies, are spread over 60 bits by a hash.
    pub(super) fn stream(self) -> u64 {
        match self {
            Self::Recorded { hash, copy: 0 } if hash >> KIND_SHIFT == 0 => hash,
            Self::Recorded { hash, copy } => {
                mix(hash ^ mix(u64::from(copy))) >> (u64::BITS - KIND_SHIFT)
            }
            Self::Prefix(group) => 1 << KIND_SHIFT | group,
            Self::Body(request) => 2 << KIND_SHIFT | request,
            Self::Messages(session) => 3 << KIND_SHIFT | session,
        }
    }

    /// Positions `start .. start + len` of this stream.
    #[inline]
    pub(super) fn segment(self, start: u32, len: u32) -> Segment {
        Segment { stream: self.stream(), start, len }
    }
}
