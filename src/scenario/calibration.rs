//! Factors and constants that adapt a cost model to a machine.

use serde::{Deserialize, Serialize};

/// One factor for each part of a step, and time that no part holds. The defaults change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Calibration {
    /// Factor of the matrix products of the layers, experts apart.
    pub products: f64,
    /// Factor of the multiplications of these products. It counts where they take longer than
    /// reading the operands, beside `products`.
    pub products_compute: f64,
    /// Factor of the routed experts.
    pub experts: f64,
    /// Factor of the multiplications of the routed experts, as `products_compute` is of products.
    pub experts_compute: f64,
    /// Factor of the attention of sequences that decode.
    pub decode_attention: f64,
    /// Factor of the attention of sequences that prefill.
    pub prefill_attention: f64,
    /// Factor of the all-reduces.
    pub all_reduce: f64,
    /// Factor of norms, rotary positions, activations and residuals.
    pub elementwise: f64,
    /// Factor of the projection to the vocabulary.
    pub head: f64,
    /// Factor of the sampler.
    pub sampler: f64,
    /// Time of every step, in µs.
    pub per_step_us: f64,
    /// Time of every step that prefills, in µs.
    pub per_prefill_step_us: f64,
    /// Time of every sequence in a step, in µs.
    pub per_sequence_us: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            products: 1.0,
            products_compute: 1.0,
            experts: 1.0,
            experts_compute: 1.0,
            decode_attention: 1.0,
            prefill_attention: 1.0,
            all_reduce: 1.0,
            elementwise: 1.0,
            head: 1.0,
            sampler: 1.0,
            per_step_us: 0.0,
            per_prefill_step_us: 0.0,
            per_sequence_us: 0.0,
        }
    }
}

impl Calibration {
    /// The same for a stage with this share of the layers: it has that share of the constants.
    #[must_use]
    pub fn of_stage(self, share: f64) -> Self {
        Self {
            per_step_us: share * self.per_step_us,
            per_prefill_step_us: share * self.per_prefill_step_us,
            per_sequence_us: share * self.per_sequence_us,
            ..self
        }
    }

    /// The same for kernels that all take so many times as long.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            products: factor * self.products,
            experts: factor * self.experts,
            decode_attention: factor * self.decode_attention,
            prefill_attention: factor * self.prefill_attention,
            all_reduce: factor * self.all_reduce,
            elementwise: factor * self.elementwise,
            head: factor * self.head,
            sampler: factor * self.sampler,
            ..self
        }
    }

    /// Whether it changes nothing.
    pub fn is_neutral(&self) -> bool {
        *self == Self::default()
    }

    /// Its numbers with their keys.
    pub(crate) fn entries(&self) -> [(&'static str, f64); 13] {
        [
            ("products", self.products),
            ("products_compute", self.products_compute),
            ("experts", self.experts),
            ("experts_compute", self.experts_compute),
            ("decode_attention", self.decode_attention),
            ("prefill_attention", self.prefill_attention),
            ("all_reduce", self.all_reduce),
            ("elementwise", self.elementwise),
            ("head", self.head),
            ("sampler", self.sampler),
            ("per_step_us", self.per_step_us),
            ("per_prefill_step_us", self.per_prefill_step_us),
            ("per_sequence_us", self.per_sequence_us),
        ]
    }
}
