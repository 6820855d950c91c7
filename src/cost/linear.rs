//! An affine law: a constant per step, per prefilled token and per decoding sequence.
//!
//! The law of the recorded schedules, and the simplest law a user may give by hand.

use serde::{Deserialize, Serialize};

use super::{CostModel, StepShape};
use crate::units::SimDuration;

/// Step time = `base` + `prefill_token`·tokens prefilled + `decode_seq`·sequences decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linear {
    /// Every step.
    pub base: SimDuration,
    /// Every token prefilled.
    pub prefill_token: SimDuration,
    /// Every sequence that decodes.
    pub decode_seq: SimDuration,
}

impl CostModel for Linear {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        self.base
            + self.prefill_token * u64::from(shape.prefill_tokens)
            + self.decode_seq * u64::from(shape.decode_seqs)
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
        };
        let mut shape = StepShape::default();
        shape.add_prefill(100, 0, true);
        shape.add_decode(7, 0);
        shape.add_decode(900, 0);
        // 2000 + 20·100 + 30·2
        assert_eq!(law.step_duration(&shape), SimDuration::from_micros(4060));
    }
}
