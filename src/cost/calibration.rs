//! What a step's time is made of, and how calibration puts it together.
//!
//! step = Σ factor·part + time per step, per step that prefills and per sequence, rounded once to
//! whole nanoseconds. `products_compute` is no factor of a part: it counts inside the products, where
//! these are worked out.

use super::StepShape;
use crate::units::SimDuration;

pub use crate::scenario::Calibration;

/// The parts of a step, in seconds, before calibration.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepParts {
    /// Matrix products of the layers, experts apart.
    pub products: f64,
    /// Routed experts.
    pub experts: f64,
    /// Attention of sequences that decode, and of cached contexts.
    pub decode_attention: f64,
    /// Attention of sequences that prefill.
    pub prefill_attention: f64,
    /// All-reduces.
    pub all_reduce: f64,
    /// Norms, rotary positions, activations and residuals.
    pub elementwise: f64,
    /// Projection to the vocabulary.
    pub head: f64,
    /// Sampler.
    pub sampler: f64,
}

impl StepParts {
    /// Their sum.
    pub fn total(&self) -> f64 {
        self.products
            + self.experts
            + self.decode_attention
            + self.prefill_attention
            + self.all_reduce
            + self.elementwise
            + self.head
            + self.sampler
    }

    /// Each part of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            products: self.products + other.products,
            experts: self.experts + other.experts,
            decode_attention: self.decode_attention + other.decode_attention,
            prefill_attention: self.prefill_attention + other.prefill_attention,
            all_reduce: self.all_reduce + other.all_reduce,
            elementwise: self.elementwise + other.elementwise,
            head: self.head + other.head,
            sampler: self.sampler + other.sampler,
        }
    }
}

impl Calibration {
    /// The time of a step of this shape that is made of these parts.
    #[inline]
    pub fn step_duration(&self, parts: &StepParts, shape: &StepShape) -> SimDuration {
        self.sum(parts, shape).with_decode_attention(parts.decode_attention)
    }

    /// The same but for the attention of decodes.
    pub(super) fn sum(&self, parts: &StepParts, shape: &StepShape) -> StepSum {
        let prefills = f64::from(u8::from(shape.prefill_seqs > 0));
        let constants = self.per_step_us
            + self.per_prefill_step_us * prefills
            + self.per_sequence_us * f64::from(shape.seqs());
        StepSum {
            before: self.products * parts.products + self.experts * parts.experts,
            decode_attention: self.decode_attention,
            after: [
                self.prefill_attention * parts.prefill_attention,
                self.all_reduce * parts.all_reduce,
                self.elementwise * parts.elementwise,
                self.head * parts.head,
                self.sampler * parts.sampler,
                1e-6 * constants,
            ],
        }
    }
}

/// A step but for the attention of its decodes, in seconds. Float sums depend on their order: the
/// terms behind it stay apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSum {
    before: f64,
    /// Factor of the attention.
    decode_attention: f64,
    after: [f64; 6],
}

impl StepSum {
    #[inline]
    pub(super) fn with_decode_attention(&self, secs: f64) -> SimDuration {
        let begun = self.before + self.decode_attention * secs;
        let secs = self.after.iter().fold(begun, |sum, term| sum + term);
        // A falling line goes below zero far beyond what was measured; steps end one after the other.
        SimDuration::from_secs_f64(secs.max(1e-9))
    }
}

/// How far a step is from what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Coverage {
    /// The model needs no measurement of steps: a law or a bound.
    #[default]
    Law,
    /// Between measured points.
    Interpolated,
    /// Beyond the measured range in some part.
    Extrapolated,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: StepParts = StepParts {
        products: 1e-3,
        experts: 2e-3,
        decode_attention: 3e-3,
        prefill_attention: 4e-3,
        all_reduce: 5e-3,
        elementwise: 6e-3,
        head: 7e-3,
        sampler: 8e-3,
    };

    #[test]
    fn without_calibration_a_step_takes_the_sum_of_its_parts() {
        let mut shape = StepShape::default();
        shape.add_prefill(100, 0, true);
        let duration = Calibration::default().step_duration(&PARTS, &shape);
        assert_eq!(duration, SimDuration::from_secs_f64(PARTS.total()));
    }

    #[test]
    fn every_factor_scales_its_part_and_every_constant_counts_what_it_is_named_after() {
        let mut shape = StepShape::default();
        shape.add_decode(10, 0);
        shape.add_decode(20, 0);
        let calibration = Calibration {
            products: 2.0,
            products_compute: 1.0,
            experts: 3.0,
            experts_compute: 1.0,
            decode_attention: 4.0,
            prefill_attention: 5.0,
            all_reduce: 6.0,
            elementwise: 7.0,
            head: 8.0,
            sampler: 9.0,
            per_step_us: 10.0,
            per_prefill_step_us: 1000.0,
            per_sequence_us: 100.0,
        };
        // 2·1 + 3·2 + 4·3 + 5·4 + 6·5 + 7·6 + 8·7 + 9·8 = 240 ms, no prefill, two sequences.
        let decodes = SimDuration::from_micros(240_000 + 10 + 200);
        assert_eq!(calibration.step_duration(&PARTS, &shape), decodes);
        shape.add_prefill(1, 0, true);
        let mixed = SimDuration::from_micros(240_000 + 10 + 1000 + 300);
        assert_eq!(calibration.step_duration(&PARTS, &shape), mixed);
    }
}
