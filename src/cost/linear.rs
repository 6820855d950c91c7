//! An affine law: a constant per step, and so much for each token, sequence and token of context.
//!
//! The law of the recorded schedules and of servers with a GPU of known step time, and the simplest law a user
//! may give by hand.

use serde::{Deserialize, Serialize};

use super::{CostModel, StepShape};
use crate::units::SimDuration;

/// Step time = `base` + `prefill_token`·tokens prefilled + `prefill_seq`·sequences prefilling +
/// `decode_seq`·sequences decoding + `context_token_picos`·tokens in all contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Linear {
    /// Every step.
    pub base: SimDuration,
    /// Every token prefilled.
    pub prefill_token: SimDuration,
    /// Every sequence that decodes.
    pub decode_seq: SimDuration,
    /// Every step that prefills, in place of `base`.
    pub prefill_base: Option<SimDuration>,
    /// Every sequence that prefills, in ns: where its first token takes less than the others, less than 0.
    pub prefill_seq_nanos: i64,
    /// Every token of the contexts as they are after the step, in ps.
    pub context_token_picos: u64,
}

impl Linear {
    /// What so many tokens of context take.
    fn context(&self, tokens: u64) -> SimDuration {
        SimDuration::from_nanos(self.context_token_picos.saturating_mul(tokens) / 1000)
    }
}

impl CostModel for Linear {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        let prefills = shape.prefill_seqs > 0;
        let base = self.prefill_base.filter(|_| prefills).unwrap_or(self.base);
        let new = shape.decode_seqs + shape.prefill_tokens;
        let context = shape.decode_context_tokens + shape.prefill_context_tokens + u64::from(new);
        let work = base
            + self.prefill_token * u64::from(shape.prefill_tokens)
            + self.decode_seq * u64::from(shape.decode_seqs)
            + self.context(context);
        let seqs = self.prefill_seq_nanos * i64::from(shape.prefill_seqs);
        SimDuration::from_nanos(work.as_nanos().saturating_add_signed(seqs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_its_base_its_prefilled_tokens_and_its_decoding_sequences() {
        let law = Linear {
            base: SimDuration::from_micros(2000),
            prefill_token: SimDuration::from_micros(20),
            decode_seq: SimDuration::from_micros(30),
            ..Linear::default()
        };
        let mut shape = StepShape::default();
        shape.add_prefill(100, 0, true);
        shape.add_decode(7, 0);
        shape.add_decode(900, 0);
        // 2000 + 20·100 + 30·2
        assert_eq!(law.step_duration(&shape), SimDuration::from_micros(4060));
    }

    #[test]
    fn steps_that_prefill_have_a_constant_of_their_own_and_contexts_are_counted_with_new_tokens() {
        let law = Linear {
            base: SimDuration::from_micros(6300),
            prefill_base: Some(SimDuration::from_micros(5000)),
            prefill_token: SimDuration::from_micros(27),
            prefill_seq_nanos: -7_000,
            decode_seq: SimDuration::from_micros(10),
            context_token_picos: 45_000,
        };
        let mut shape = StepShape::default();
        shape.add_decode(99, 0);
        // 6300 + 10 + 0.045·100
        assert_eq!(law.step_duration(&shape), SimDuration::from_nanos(6_314_500));
        let mut shape = StepShape::default();
        shape.add_prefill(100, 900, true);
        // 5000 + 27·100 − 7 + 0.045·1000
        assert_eq!(law.step_duration(&shape), SimDuration::from_nanos(7_738_000));
    }
}
