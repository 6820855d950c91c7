//! The tokens of one sequence, run by run: its prompt, then its answer.

use std::sync::Arc;

use crate::ids::RequestId;
use crate::request::{Content, Segment};

/// The tokens of one sequence, as far as caches can tell them apart.
#[derive(Debug, Clone)]
pub(super) struct TokenRuns {
    /// The runs of the prompt, where it shares with others.
    pub(super) segments: Option<Arc<[Segment]>>,
    request: RequestId,
    prompt_tokens: u32,
}

/// A token of a sequence: its segment and its place in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    segment: usize,
    offset: u32,
}

impl TokenRuns {
    pub(super) fn new(request: RequestId, content: &Content, prompt_tokens: u32) -> Self {
        Self { segments: content.segments.clone(), request, prompt_tokens }
    }

    /// The request that it is of.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// Whether both are of one request.
    pub(super) fn is_same_sequence(&self, other: &Self) -> bool {
        self.request == other.request
    }

    /// The first token.
    #[inline]
    pub(super) fn start(&self) -> Cursor {
        self.skip(Cursor { segment: 0, offset: 0 }, 0)
    }

    /// The tokens from a place on that are of one segment, `most` at most.
    #[inline]
    pub(super) fn piece(&self, at: Cursor, most: u32) -> Segment {
        let Segment { stream, start, len } = self.segment(at.segment);
        Segment { stream, start: start + at.offset, len: most.min(len - at.offset) }
    }

    /// The place some tokens further.
    #[inline]
    pub(super) fn skip(&self, mut at: Cursor, mut tokens: u32) -> Cursor {
        loop {
            let left = self.segment(at.segment).len - at.offset;
            if tokens < left {
                at.offset += tokens;
                return at;
            }
            tokens -= left;
            at = Cursor { segment: at.segment + 1, offset: 0 };
        }
    }

    /// How many tokens stand before a place.
    pub(super) fn position(&self, at: Cursor) -> u32 {
        (0..at.segment).map(|index| self.segment(index).len).sum::<u32>() + at.offset
    }

    /// The segment after the prompt's last is the answer.
    #[inline]
    fn segment(&self, index: usize) -> Segment {
        let answer =
            Segment { stream: Segment::answer_stream(self.request), start: 0, len: u32::MAX };
        match &self.segments {
            Some(segments) => segments.get(index).copied().unwrap_or(answer),
            None if index == 0 => Segment {
                stream: Segment::unique_stream(self.request),
                start: 0,
                len: self.prompt_tokens,
            },
            None => answer,
        }
    }
}
