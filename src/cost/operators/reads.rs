//! What decode attention reads: the contexts of sequences that decode, and the share of prompts that
//! was computed before.

use super::grid::{Along, Surface};
use crate::cost::StepShape;
use crate::cost::window::Window;

/// Cached contexts of a step, but for how long those of its decodes are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads {
    /// Sequences whose cached context is read.
    pub(super) sequences: f64,
    decodes: f64,
    cached: f64,
}

impl Reads {
    pub(super) fn of(shape: &StepShape) -> Self {
        let cached = shape.prefill_context_tokens as f64;
        let whole = cached + f64::from(shape.prefill_tokens);
        let prefills = f64::from(shape.prefill_seqs);
        let read = if cached > 0.0 { prefills * cached / whole } else { 0.0 };
        let decodes = f64::from(shape.decode_seqs);
        let sequences = if decodes + read > 0.0 { (decodes + read).max(1.0) } else { 0.0 };
        Self { sequences, decodes, cached }
    }

    /// The mean context, where those of the decodes have so many tokens.
    #[inline]
    pub(super) fn context(&self, decode_tokens: u64) -> f64 {
        if self.sequences == 0.0 {
            return 0.0;
        }
        let tokens = decode_tokens.cast_signed() as f64 + self.decodes + self.cached;
        tokens / self.sequences
    }
}

/// The time of these reads, by the tokens in the contexts of the decodes.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct DecodeReads<'a> {
    reads: Reads,
    line: Along<'a>,
    windowed: Option<(f64, Window, Along<'a>)>,
}

impl<'a> DecodeReads<'a> {
    pub(super) fn new(
        surface: &'a Surface,
        windowed: Option<(f64, Window)>,
        shape: &StepShape,
    ) -> Self {
        let reads = Reads::of(shape);
        let line = surface.along(reads.sequences);
        Self { reads, line, windowed: windowed.map(|(share, window)| (share, window, line)) }
    }

    #[expect(clippy::inline_always, reason = "called for every decode step, from one loop")]
    #[inline(always)]
    pub(in crate::cost) fn secs(&mut self, decode_tokens: u64) -> f64 {
        if self.reads.sequences == 0.0 {
            return 0.0;
        }
        let context = self.reads.context(decode_tokens);
        let full = self.line.at(context);
        let Some((share, window, line)) = &mut self.windowed else { return full };
        (1.0 - *share) * full + *share * line.at(context.min(window.context()))
    }
}
