//! A place in a sequence of tokens, and what follows it.

use crate::kv::BlockHash;
use crate::kv::names::BlockRuns;
use crate::request::Segment;

/// What is left of a sequence of tokens.
#[derive(Debug, Clone, Copy)]
pub(in crate::kv) struct Rest<'a> {
    segments: &'a [Segment],
    /// Tokens of the first segment that are gone.
    offset: u32,
    pub(in crate::kv) left: u32,
}

impl<'a> Rest<'a> {
    pub(in crate::kv) fn new(segments: &'a [Segment], left: u32) -> Self {
        Self { segments, offset: 0, left }
    }

    /// The first so many tokens of it.
    pub(in crate::kv) fn first(self, tokens: u32) -> Self {
        Self { left: tokens, ..self }
    }

    /// The tokens up to the end of the current segment.
    pub(in crate::kv) fn run(&self) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }
        let Segment { stream, start, len } = self.segments[0];
        let len = (len - self.offset).min(self.left);
        Some(Segment { stream, start: start + self.offset, len })
    }

    pub(in crate::kv) fn skip(&mut self, tokens: u32) {
        self.left -= tokens;
        self.offset += tokens;
        let mut whole = 0;
        for segment in self.segments {
            if self.offset < segment.len {
                break;
            }
            self.offset -= segment.len;
            whole += 1;
        }
        self.segments = &self.segments[whole..];
    }

    /// Skips the whole segments with which both begin; they are most of what sequences share.
    pub(super) fn skip_whole_in_common(&mut self, other: &mut Rest<'_>) -> u32 {
        if self.offset != 0 || other.offset != 0 {
            return 0;
        }
        let most = self.left.min(other.left);
        let (mut common, mut whole) = (0, 0);
        for (a, b) in self.segments.iter().zip(other.segments) {
            if a != b || a.len > most - common {
                break;
            }
            common += a.len;
            whole += 1;
        }
        (self.segments, other.segments) = (&self.segments[whole..], &other.segments[whole..]);
        (self.left, other.left) = (self.left - common, other.left - common);
        common
    }

    /// These tokens as a page behind what has the name `before`.
    pub(super) fn block(mut self, before: BlockHash) -> BlockRuns {
        let mut block = BlockRuns::behind(before);
        while let Some(run) = self.run() {
            self.skip(run.len);
            block.add(run);
        }
        block
    }

    pub(in crate::kv) fn collect_into(mut self, key: &mut Vec<Segment>) {
        key.clear();
        while let Some(run) = self.run() {
            key.push(run);
            self.skip(run.len);
        }
    }
}
