//! The steps of a decode run, priced one after the other.
//!
//! From one step of a run to the next only the contexts grow, and of the parts of a step only the
//! attention of its decodes. All else is worked out once; each step comes out with the very bits of
//! [`CostModel::step_duration`].

use super::calibration::StepSum;
use super::{CostModel, StepShape, StepTime, layers, operators, roofline};
use crate::units::SimDuration;

/// What is done with the steps of a run: a loop that is compiled for each law on its own.
pub trait StepWalk {
    /// Goes from step to step; `next` tells how long the device works on the next one.
    fn walk(self, next: impl FnMut() -> SimDuration);
}

/// The attention of the decodes of one step after the other, in seconds.
#[derive(Debug)]
pub(super) enum DecodeAttention<'a> {
    Roofline(roofline::DecodeTokens),
    Operators(operators::DecodeReads<'a>),
    Several(operators::SeveralReads<'a>),
    Layers(layers::DecodeLine<'a>),
}

impl StepTime {
    /// Prices steps that decode the same sequences, one token each, the first of them of this shape.
    pub fn walk_decodes(&self, shape: &StepShape, walk: impl StepWalk) {
        let model: &dyn CostModel = match self {
            Self::Linear(linear) => {
                if linear.context_token_picos == 0 {
                    let duration = linear.step_duration(shape);
                    return walk.walk(|| duration);
                }
                linear
            }
            Self::Roofline(model) => return walk_attention(model.decode_law(shape), shape, walk),
            Self::Operators(model) => return walk_attention(model.decode_law(shape), shape, walk),
            Self::LayerTable(table) => match table.decode_law(shape) {
                Some(law) => return walk_attention(law, shape, walk),
                None => table,
            },
            Self::StepTable(table) => table,
            Self::Pipeline(pipeline) => pipeline,
            Self::Custom(model) => model.as_ref(),
        };
        let mut shape = *shape;
        walk.walk(|| {
            let duration = model.step_duration(&shape);
            shape.advance_decodes();
            duration
        });
    }
}

/// Steps that differ in the attention of their decodes.
fn walk_attention(
    (sum, attention): (StepSum, DecodeAttention<'_>),
    shape: &StepShape,
    walk: impl StepWalk,
) {
    let (mut tokens, more) = (shape.decode_context_tokens, u64::from(shape.decode_seqs));
    let mut next_tokens = || {
        tokens += more;
        tokens - more
    };
    match attention {
        DecodeAttention::Roofline(law) => {
            walk.walk(|| sum.with_decode_attention(law.secs(next_tokens())));
        }
        DecodeAttention::Operators(mut reads) => {
            walk.walk(|| sum.with_decode_attention(reads.secs(next_tokens())));
        }
        DecodeAttention::Several(mut reads) => {
            walk.walk(|| sum.with_decode_attention(reads.secs(next_tokens())));
        }
        DecodeAttention::Layers(mut line) => {
            let mut longest = shape.decode_context_max;
            walk.walk(|| {
                longest += 1;
                sum.with_decode_attention(line.secs(next_tokens(), longest - 1))
            });
        }
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

    /// So many steps, one after the other.
    struct Collect<'a>(&'a mut Vec<SimDuration>, usize);

    impl StepWalk for Collect<'_> {
        fn walk(self, next: impl FnMut() -> SimDuration) {
            self.0.extend(std::iter::repeat_with(next).take(self.1));
        }
    }

    /// Whether so many steps from this shape on are priced as each on its own.
    pub(in crate::cost) fn prices_as_on_their_own(
        model: &StepTime,
        first: &StepShape,
        steps: usize,
    ) -> Result<(), TestCaseError> {
        let mut priced = Vec::new();
        model.walk_decodes(first, Collect(&mut priced, steps));
        prop_assert_eq!(priced.len(), steps);
        let mut shape = *first;
        for duration in priced {
            prop_assert_eq!(duration, model.step_duration(&shape), "{:?}", shape);
            shape.advance_decodes();
        }
        Ok(())
    }
}
