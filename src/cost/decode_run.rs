//! The steps of a decode run, priced one after the other.
//!
//! From one step of a run to the next only the contexts grow, and of the parts of a step only the
//! attention of its decodes. All else is worked out once; each step comes out with the very bits of
//! [`CostModel::step_duration`].

use super::calibration::StepSum;
use super::{CostModel, StepShape, StepTime, layers, operators, roofline};
use crate::units::SimDuration;

/// Prices steps that decode the same sequences, one token each.
#[derive(Debug)]
pub struct DecodeRun<'a> {
    shape: StepShape,
    law: Law<'a>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one on the stack while a run is priced")]
enum Law<'a> {
    /// Every step lasts as long.
    Constant(SimDuration),
    /// The attention of decodes in this sum.
    Attention(StepSum, DecodeAttention<'a>),
    Model(&'a dyn CostModel),
}

/// The attention of the decodes of one step after the other, in seconds.
#[derive(Debug)]
pub(super) enum DecodeAttention<'a> {
    Roofline(roofline::DecodeTokens),
    Operators(operators::DecodeReads<'a>),
    Layers(layers::DecodeLine<'a>),
}

impl<'a> DecodeRun<'a> {
    /// The run whose first step has this shape.
    pub fn new(model: &'a StepTime, shape: &StepShape) -> Self {
        let attention = |(sum, attention)| Law::Attention(sum, attention);
        let law = match model {
            StepTime::Linear(linear) => Law::Constant(linear.step_duration(shape)),
            StepTime::Roofline(model) => attention(model.decode_law(shape)),
            StepTime::Operators(model) => attention(model.decode_law(shape)),
            StepTime::LayerTable(table) => {
                table.decode_law(shape).map_or(Law::Model(table), attention)
            }
            StepTime::StepTable(table) => Law::Model(table),
            StepTime::Pipeline(pipeline) => Law::Model(pipeline),
            StepTime::Custom(model) => Law::Model(model.as_ref()),
        };
        Self { shape: *shape, law }
    }

    /// How long the device works on the next step.
    #[inline]
    pub fn next_step(&mut self) -> SimDuration {
        let duration = match &mut self.law {
            Law::Constant(duration) => *duration,
            Law::Attention(sum, attention) => {
                let tokens = self.shape.decode_context_tokens;
                sum.with_decode_attention(match attention {
                    DecodeAttention::Roofline(tokens_of) => tokens_of.secs(tokens),
                    DecodeAttention::Operators(reads) => reads.secs(tokens),
                    DecodeAttention::Layers(line) => {
                        line.secs(tokens, self.shape.decode_context_max)
                    }
                })
            }
            Law::Model(model) => model.step_duration(&self.shape),
        };
        self.shape.advance_decodes();
        duration
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes of any contexts, the longest of them at least their mean.
    pub(in crate::cost) fn any_decodes() -> impl Strategy<Value = StepShape> {
        let graph = proptest::option::of(0_u32..600);
        (0_u32..9000, 0_u32..9000, 0_u32..70_000, graph).prop_map(
            |(seqs, mean, further, cuda_graph)| {
                let mut shape = StepShape { cuda_graph, ..StepShape::default() };
                let tokens = u64::from(seqs) * u64::from(mean) + u64::from(seqs / 2);
                shape.add_decodes(seqs, tokens, if seqs > 0 { mean + further } else { 0 });
                shape
            },
        )
    }

    /// Whether so many steps from this shape on are priced as each on its own.
    pub(in crate::cost) fn prices_as_on_their_own(
        model: &StepTime,
        first: &StepShape,
        steps: usize,
    ) -> Result<(), TestCaseError> {
        let mut run = DecodeRun::new(model, first);
        let mut shape = *first;
        for _ in 0..steps {
            prop_assert_eq!(run.next_step(), model.step_duration(&shape), "{:?}", shape);
            shape.advance_decodes();
        }
        Ok(())
    }
}
