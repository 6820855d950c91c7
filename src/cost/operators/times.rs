//! Attention of a step: of heads and kinds that were measured, and the rest from the roofline.

use super::grid::Surface;
use super::reads::DecodeReads;
use crate::cost::StepShape;
use crate::cost::decode_run::DecodeAttention;
use crate::cost::roofline::{AttentionSecs, DecodeTokens};
use crate::cost::window::Window;

/// Attention of all layers: of heads that were measured, and the rest from the roofline.
#[derive(Debug, Clone)]
pub(super) struct AttentionTimes {
    pub(super) measured: Vec<MeasuredAttention>,
    pub(super) rest: Option<AttentionSecs>,
    /// Of measured layers whose prefill was not.
    pub(super) prefills: Option<AttentionSecs>,
    /// Keys that prefills visit at most in the layers with the smallest bound.
    pub(super) window: Option<Window>,
}

/// Attention of layers with the same heads.
#[derive(Debug, Clone)]
pub(super) struct MeasuredAttention {
    /// By sequences and mean context.
    pub(super) decode: Surface,
    /// By prompts and their length; the roofline's where absent.
    pub(super) prefill: Option<Surface>,
    pub(super) prefills: Prefills,
    /// The share of the layers that have a window, and the window.
    pub(super) windowed: Option<(f64, Window)>,
}

/// What of the time of whole prompts a step with parts of prompts takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefills {
    /// In proportion to the pairs of tokens, of as many prompts of the mean length.
    OfMeans,
    /// In proportion to the pairs of tokens, of as many equal prompts as take as much.
    ByPairs,
    /// That of such prompts up to where the step ends less that of prompts up to where it begins.
    ByParts,
}

impl MeasuredAttention {
    fn prefill_secs(&self, shape: &StepShape) -> f64 {
        if shape.prefill_attention == 0 {
            return 0.0;
        }
        let Some(surface) = &self.prefill else { return 0.0 };
        match self.prefills {
            Prefills::OfMeans => {
                let (prompts, prompt) = (f64::from(shape.prefill_seqs), mean_prompt(shape));
                // The pairs of a whole prompt are half its square.
                let secs = |pairs: f64| {
                    2.0 * pairs / (prompts * prompt * prompt) * surface.at(prompts, prompt)
                };
                let pairs = shape.prefill_attention as f64;
                let Some((share, window)) = &self.windowed else { return secs(pairs) };
                secs((1.0 - share) * pairs + share * window.pairs(shape) as f64)
            }
            Prefills::ByPairs => {
                let Some([prompts, new, cached]) = shape.equal_prefills() else { return 0.0 };
                let whole = cached + new;
                let share = (new * cached + new * new / 2.0) / (whole * whole / 2.0);
                share * surface.at(prompts, whole)
            }
            Prefills::ByParts => {
                let Some([prompts, new, cached]) = shape.equal_prefills() else { return 0.0 };
                let before = if cached > 0.0 { surface.at(prompts, cached) } else { 0.0 };
                // A few tokens take as long as a sequence that decodes at least.
                let least = self.decode.at(1.0, cached.max(1.0));
                (surface.at(prompts, cached + new) - before).max(least)
            }
        }
    }

    fn reads(&self, shape: &StepShape) -> DecodeReads<'_> {
        DecodeReads::new(&self.decode, self.windowed, shape)
    }
}

impl AttentionTimes {
    /// Of the sequences that decode, and of those that prefill.
    pub(super) fn of(&self, shape: &StepShape) -> (f64, f64) {
        let (mut decode, mut prefill) = self.rest.map_or((0.0, 0.0), |rest| rest.of(shape));
        if let Some(prefills) = &self.prefills {
            prefill += prefills.of(shape).1;
        }
        for part in &self.measured {
            decode += part.reads(shape).secs(shape.decode_context_tokens);
            prefill += part.prefill_secs(shape);
        }
        (decode, prefill)
    }

    pub(super) fn decodes(&self, shape: &StepShape) -> DecodeAttention<'_> {
        match (&self.measured[..], self.rest) {
            ([part], None) => DecodeAttention::Operators(part.reads(shape)),
            ([], Some(rest)) => DecodeAttention::Roofline(rest.decodes(shape)),
            (parts, rest) => DecodeAttention::Several(SeveralReads {
                rest: rest.map(|rest| rest.decodes(shape)),
                parts: parts.iter().map(|part| part.reads(shape)).collect(),
            }),
        }
    }
}

/// The reads of layers of several kinds.
#[derive(Debug, Clone)]
pub(in crate::cost) struct SeveralReads<'a> {
    rest: Option<DecodeTokens>,
    parts: Vec<DecodeReads<'a>>,
}

impl SeveralReads<'_> {
    #[inline]
    pub(in crate::cost) fn secs(&mut self, decode_tokens: u64) -> f64 {
        let mut secs = self.rest.as_ref().map_or(0.0, |rest| rest.secs(decode_tokens));
        for part in &mut self.parts {
            secs += part.secs(decode_tokens);
        }
        secs
    }
}

/// The mean prompt so far of the sequences that prefill.
pub(super) fn mean_prompt(shape: &StepShape) -> f64 {
    let whole = shape.prefill_context_tokens as f64 + f64::from(shape.prefill_tokens);
    let prefills = f64::from(shape.prefill_seqs);
    if prefills > 0.0 { whole / prefills } else { 0.0 }
}
