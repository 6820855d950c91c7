//! What a point's time is made of.

use super::point::{Observed, Point};
use crate::calibration::Parameter;
use crate::cost::{CostModel, StepParts, StepTime};

/// The law whose parameters are found.
#[derive(Debug, Clone, Copy)]
pub enum Law<'a> {
    /// Factors and constants of a cost model (`cluster.step_time.calibration`).
    Calibrated(&'a StepTime),
    /// The affine law (`cluster.step_time`, type `linear`).
    Affine,
}

/// A term that the measurements show and the affine law does not have, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideOfLaw {
    /// Per 1000 tokens of context of sequences that decode.
    DecodeContext,
    /// Per 10⁶ token² of prefill attention.
    PrefillAttention,
}

impl OutsideOfLaw {
    /// What it is of, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::DecodeContext => "µs per 1000 tokens of context that decode",
            Self::PrefillAttention => "µs per 10^6 token^2 of prefill attention",
        }
    }
}

/// What a parameter multiplies.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Requests on their way, in ms.
    Request,
    /// Every step, in µs.
    Step,
    /// Every sequence in a step, in µs.
    Sequence,
    /// Every prompt token, in µs.
    PrefillToken,
    /// Every sequence that decodes, in µs.
    DecodeSeq,
    /// Every step that prefills, in µs.
    PrefillStep,
    /// A part of a step.
    Part(fn(&StepParts) -> f64),
    Outside(OutsideOfLaw),
}

/// A parameter with what it multiplies.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) parameter: Parameter,
    pub(super) outside: Option<OutsideOfLaw>,
    of: Of,
}

impl Law<'_> {
    /// The parameters, those that no point depends on left out.
    pub(super) fn terms(self, points: &[Point]) -> Vec<Term> {
        let amount = |path: &str, of, spread| Term {
            parameter: Parameter::amount(path, spread),
            outside: if let Of::Outside(term) = of { Some(term) } else { None },
            of,
        };
        let delay = amount("cluster.api_delay_ms", Of::Request, 50.0);
        let mut terms = vec![delay];
        match self {
            Self::Affine => terms.extend([
                amount("cluster.step_time.base_us", Of::Step, 1e6),
                amount("cluster.step_time.prefill_token_us", Of::PrefillToken, 1e4),
                amount("cluster.step_time.decode_seq_us", Of::DecodeSeq, 1e5),
                amount("decode context", Of::Outside(OutsideOfLaw::DecodeContext), 1e5),
                amount("prefill attention", Of::Outside(OutsideOfLaw::PrefillAttention), 1e6),
            ]),
            Self::Calibrated(_) => {
                let own = |key: &str| format!("cluster.step_time.calibration.{key}");
                terms.extend([
                    amount(&own("per_step_us"), Of::Step, 2000.0),
                    amount(&own("per_prefill_step_us"), Of::PrefillStep, 5000.0),
                    amount(&own("per_sequence_us"), Of::Sequence, 50.0),
                ]);
                let factor = |key: &str, spread, part| Term {
                    parameter: Parameter::factor(own(key), spread),
                    outside: None,
                    of: Of::Part(part),
                };
                terms.extend([
                    factor("products", 0.3, |parts| parts.products),
                    factor("experts", 0.3, |parts| parts.experts),
                    factor("decode_attention", 0.5, |parts| parts.decode_attention),
                    factor("prefill_attention", 0.5, |parts| parts.prefill_attention),
                    factor("all_reduce", 0.7, |parts| parts.all_reduce),
                ]);
            }
        }
        terms.retain(|term| points.iter().any(|point| self.share(term, point) > 0.0));
        terms
    }

    /// Time of a point that no parameter changes, in ms.
    pub(super) fn fixed_ms(self, point: &Point) -> f64 {
        let Self::Calibrated(cost) = self else { return 0.0 };
        let parts = cost.parts(&point.shape);
        (parts.elementwise + parts.head + parts.sampler) * 1e3
    }

    /// Time of a point per unit of a parameter, in ms.
    pub(super) fn share(self, term: &Term, point: &Point) -> f64 {
        let shape = &point.shape;
        let us = match term.of {
            Of::Request => 1e3 * f64::from(u8::from(point.observed == Observed::FirstToken)),
            Of::Step => 1.0,
            Of::Sequence => f64::from(shape.seqs()),
            Of::PrefillToken => f64::from(shape.prefill_tokens),
            Of::DecodeSeq => f64::from(shape.decode_seqs),
            Of::PrefillStep => f64::from(u8::from(shape.prefill_seqs > 0)),
            Of::Part(part) => match self {
                Self::Calibrated(cost) => 1e6 * part(&cost.parts(shape)),
                Self::Affine => 0.0,
            },
            Of::Outside(OutsideOfLaw::DecodeContext) => shape.decode_context_tokens as f64 / 1e3,
            Of::Outside(OutsideOfLaw::PrefillAttention) => shape.prefill_attention as f64 / 1e6,
        };
        us / 1e3
    }
}
