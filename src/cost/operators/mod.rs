//! Step time from measured times of single operators ("operator tables").
//!
//! A step is the sum over its layers of matrix products, experts, attention, element-wise kernels
//! and all-reduces, and of the output head, each taken from tables that were measured on the GPU
//! with the kernels of one engine version, for shapes of any model. Between measured shapes the
//! share of the roofline is interpolated; beyond the largest measured size times go on in
//! proportion to the work, and the step counts as extrapolated.
//!
//! Decode attention counts every decoding sequence and, of prefilling ones, the share of their
//! context that was computed before; the rest is priced by the prefill kernel, whose time for n
//! whole prompts of S tokens is shared out in proportion to the pairs of tokens that are left. Layers
//! with a sliding window are priced by the same tables, of what lies in the window.
//!
//! Latent, sparse and compressed attention and layers with states have tables of their own
//! ([`MixerTable`], [`StateTable`]).
//!
//! What no table holds falls back to the [roofline](super::Roofline): formats and shapes of
//! experts that were not measured, attention of a kind that the GPU has no table of, more GPUs than
//! all-reduces were measured with.
//! Left out: what the roofline leaves out, and the quantisation of activations apart from products.

mod attention;
mod build;
mod grid;
mod latent;
mod mixers;
mod products;
mod profile;
mod reads;
mod sparse;
mod states;
mod tables;
mod times;

use std::sync::Arc;

use super::calibration::{Calibration, Coverage, StepParts, StepSum};
use super::decode_run::DecodeAttention;
use super::roofline::{
    Device, Experts as ExpertSecs, Product, RooflineError, RooflineOptions, Sampling,
};
use super::states::States;
use super::{CostModel, StepShape, StepTimeSource};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::units::SimDuration;
use build::Build;
use grid::Polyline;
use reads::Reads;
use times::{AttentionTimes, mean_prompt};

pub(super) use reads::DecodeReads;
pub(super) use times::SeveralReads;

pub use mixers::MixerTimes;
pub use states::StateTimes;

pub use profile::{
    AllReduceTable, Codes, DecodeTable, ExpertTable, OperatorProfile, PrefillTable, ProductTable,
    ProfileError, Rates,
};
pub use tables::{MixerKind, MixerTable, StateKind, StateTable};

/// Rows that are priced by a look-up; larger steps are summed when they occur.
const TABLE_ROWS: u32 = 8192;
/// Some tables hold the time of a launch, or of a kernel that no engine would choose: beyond this
/// many times the roofline at a typical number of rows they are not believed (8-bit products in
/// blocks of vLLM 0.24 take 60 to 90 µs whatever their size, those of SGLang 6 to 24 µs).
const SLOWEST: f64 = 2.0;
const TYPICAL_ROWS: u32 = 64;
/// Rows of the output head that are priced by a look-up.
const HEAD_ROWS: u32 = 2048;

/// Prices steps of one model on one kind of GPU from measured operators.
#[derive(Debug, Clone)]
pub struct OperatorModel {
    rows: Arc<[StepParts]>,
    layers: Arc<Layers>,
    head: Arc<[f64]>,
    attention: Arc<AttentionTimes>,
    sampling: Sampling,
    states: StateSecs,
    calibration: Calibration,
    reach: Reach,
    provenance: Arc<str>,
    source: Arc<StepTimeSource>,
}

/// A term of the layers: so many times this function of the rows.
#[derive(Debug, Clone)]
struct Term {
    times: f64,
    secs: Rows,
}

/// A function of rows, measured or from the roofline.
#[derive(Debug, Clone)]
enum Rows {
    Measured(Polyline),
    Product(Product),
    Experts(ExpertSecs),
}

impl Term {
    fn secs(&self, rows: u32) -> f64 {
        self.times
            * match &self.secs {
                Rows::Measured(line) => line.at(f64::from(rows)),
                Rows::Product(product) => product.secs(f64::from(rows)),
                Rows::Experts(experts) => experts.secs(rows),
            }
    }
}

/// All layers as functions of the rows.
#[derive(Debug, Clone, Default)]
struct Layers {
    products: Vec<Term>,
    experts: Vec<Term>,
    elementwise: f64,
    elementwise_row: f64,
    all_reduce: Vec<Term>,
}

impl Layers {
    /// Seconds of all layers at so many rows, attention apart.
    fn parts(&self, rows: u32) -> StepParts {
        if rows == 0 {
            return StepParts::default();
        }
        let sum = |terms: &[Term]| terms.iter().map(|term| term.secs(rows)).sum();
        StepParts {
            products: sum(&self.products),
            experts: sum(&self.experts),
            elementwise: self.elementwise + self.elementwise_row * f64::from(rows),
            all_reduce: sum(&self.all_reduce),
            ..StepParts::default()
        }
    }
}

impl Layers {
    /// The experts, where the busiest GPU has so many times its usual share: only those of the
    /// roofline lie on GPUs of their own.
    fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let secs = |term: &Term| match &term.secs {
            Rows::Experts(experts) => term.times * experts.skewed(by).secs(rows),
            Rows::Measured(_) | Rows::Product(_) => term.secs(rows),
        };
        self.experts.iter().map(secs).sum()
    }
}

/// The largest shapes that were measured.
#[derive(Debug, Clone, Copy)]
struct Reach {
    rows: f64,
    sequences: f64,
    context: f64,
    prompt: f64,
}

impl Reach {
    /// Shapes that are within both.
    fn meet(&mut self, [sequences, context, prompt]: [f64; 3]) {
        self.sequences = self.sequences.min(sequences);
        self.context = self.context.min(context);
        self.prompt = self.prompt.min(prompt);
    }
}

/// Layers with states: of kinds that were measured, and the rest at shares of the rates.
#[derive(Debug, Clone)]
struct StateSecs {
    measured: Arc<[StateTimes]>,
    rest: States,
}

impl StateSecs {
    fn secs(&self, shape: &StepShape) -> f64 {
        let mut secs = self.rest.secs(shape);
        for times in &*self.measured {
            secs += times.decode_secs(f64::from(shape.decode_seqs));
            if let Some([prompts, tokens, _]) = shape.equal_prefills() {
                secs += times.prefill_secs(prompts, tokens);
            }
        }
        secs
    }
}

impl OperatorModel {
    /// Prices a model on a GPU whose operators were measured.
    ///
    /// # Errors
    /// When the heads cannot be shared by so many GPUs, or these are not in one node.
    pub fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        profile: &OperatorProfile,
        options: &RooflineOptions,
    ) -> Result<Self, RooflineError> {
        let device = Device::new(model, gpu, options)?;
        let build = Build { device, profile, options, gaps: Vec::new() };
        Ok(build.model())
    }

    /// Where the figures come from and what was assumed, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(in crate::cost) fn source(&self) -> &StepTimeSource {
        &self.source
    }

    pub(super) fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        if by.to_bits() != 1.0_f64.to_bits() {
            return self.layers.expert_secs(rows, by);
        }
        let priced = self.rows.get(rows as usize).map(|parts| parts.experts);
        priced.unwrap_or_else(|| self.layers.parts(rows).experts)
    }

    pub(super) fn prefill_window(&self) -> u32 {
        self.attention.window.map_or(0, |window| window.prefill_keys())
    }

    /// The steps that follow one of this shape in a decode run.
    pub(super) fn decode_law(&self, shape: &StepShape) -> (StepSum, DecodeAttention<'_>) {
        let sum = self.calibration.sum(&self.parts(shape), shape);
        (sum, self.attention.decodes(shape))
    }
}

impl CostModel for OperatorModel {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        self.calibration.step_duration(&self.parts(shape), shape)
    }

    fn parts(&self, shape: &StepShape) -> StepParts {
        let rows = shape.padded_tokens();
        let layers = match self.rows.get(rows as usize) {
            Some(parts) => *parts,
            None => self.layers.parts(rows),
        };
        let (decode_attention, prefill_attention) = self.attention.of(shape);
        let head = if let Some(secs) = self.head.get(shape.logit_rows as usize) {
            *secs
        } else {
            let last = self.head.len() - 1;
            self.head[last] * f64::from(shape.logit_rows) / last as f64
        };
        StepParts {
            decode_attention,
            prefill_attention,
            head,
            sampler: self.sampling.secs(shape.logit_rows),
            products: layers.products + self.states.secs(shape),
            ..layers
        }
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        let reads = Reads::of(shape);
        let is_inside = f64::from(shape.tokens()) <= self.reach.rows
            && reads.sequences <= self.reach.sequences
            && reads.context(shape.decode_context_tokens) <= self.reach.context
            && mean_prompt(shape) <= self.reach.prompt;
        if is_inside { Coverage::Interpolated } else { Coverage::Extrapolated }
    }
}

#[cfg(test)]
mod tests;
