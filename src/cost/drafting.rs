//! What it takes to make the drafts of speculative decoding.
//!
//! Once a step has verified its drafts, those of the next are made: on the GPU in as many passes as there are drafts,
//! one after the other. The first goes over all tokens of the step, prompts included, whose keys and values the draft
//! needs too; each further one over one token of every sequence. All sequences of a step draft, those whose prompt is
//! not complete among them, and what was refused is passed over like what was accepted (vLLM 0.33.0,
//! `vllm/v1/spec_decode/eagle.py`, with padded batches). Tokens are chosen greedily. Graphs are captured for the same
//! sizes as the model's; a pass that none covers is launched kernel by kernel, while the device is still busy with
//! what came before. Drafts that are looked up take the CPU a time for each sequence instead, after the outcome is known.
//!
//! `SGLang` makes them when they are about to be verified (0.5.23, `sglang/srt/speculative/eagle_worker_v2.py`): a step
//! that decodes begins with all passes but the first, and ends with the first of the next drafts, over all tokens that it
//! verified; a step that prefills has that one pass, over its prompts.
//!
//! Left out: what the host takes to prepare a pass that replays a graph; that a model on its own passes over one token
//! more of each sequence in its first pass.

use std::sync::Arc;

use super::roofline::{Device, Product};
use super::{CostModel, CudaGraphs, RooflineError, RooflineOptions, StepShape, StepTime};
use crate::hardware::GpuSpec;
use crate::model::Drafter;
use crate::units::SimDuration;

/// Prices the drafts that are made in a step.
#[derive(Debug, Clone)]
pub enum Drafting {
    /// On the GPU.
    Passes(Box<DraftPasses>),
    /// On the CPU, in this time for each sequence.
    LookUps(SimDuration),
}

/// Passes through what drafts.
#[derive(Debug, Clone)]
pub struct DraftPasses {
    /// A pass through the layers, with the head behind them.
    layers: StepTime,
    /// Products in front of the layers in each pass, and in the first alone.
    joins: Arc<[Product]>,
    fuses: Arc<[Product]>,
    count: u32,
    turn: Turn,
    graphs: CudaGraphs,
    launch: SimDuration,
}

/// When the passes after the first are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// At once, by all sequences of a step.
    AtOnce,
    /// In the step that verifies the drafts, by the sequences that decode in it.
    AheadOfVerification,
}

/// What drafts add to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftTime {
    /// Work of the device, behind that of the step.
    pub device: SimDuration,
    /// Launches of kernels by the host, beside the device.
    pub launches: SimDuration,
    /// Work of the host once the outcome is known.
    pub host: SimDuration,
}

impl DraftPasses {
    /// So many passes, at least one, of a drafter whose `layers` are priced; `launch` is what the host takes for the
    /// kernels of one.
    ///
    /// # Errors
    /// When so many GPUs cannot share the layers.
    pub fn new(
        drafter: &Drafter,
        (layers, count): (StepTime, u32),
        gpu: &GpuSpec,
        options: &RooflineOptions,
        (graphs, launch): (CudaGraphs, SimDuration),
    ) -> Result<Self, RooflineError> {
        let device = Device::new(&drafter.model, gpu, options)?;
        let products = |matrices: &[_]| {
            let products = matrices.iter().map(|matrix| device.layer_product(matrix));
            products.collect::<Arc<[Product]>>()
        };
        let (joins, fuses) = (products(&drafter.joins), products(&drafter.fuses));
        let (count, turn) = (count.max(1), Turn::AtOnce);
        Ok(Self { layers, joins, fuses, count, turn, graphs, launch })
    }

    /// The same, where passes after the first are made in the step that verifies the drafts.
    #[must_use]
    pub fn ahead_of_verification(self) -> Self {
        Self { turn: Turn::AheadOfVerification, ..self }
    }

    /// Where the figures come from.
    pub fn provenance(&self) -> &str {
        self.layers.provenance()
    }

    fn time(&self, shape: &StepShape) -> DraftTime {
        let mut time = DraftTime::default();
        let first = StepShape {
            logit_rows: shape.seqs(),
            adapters: 0,
            adapter_ranks: 0,
            lora_tokens: 0,
            lora_rank_tokens: 0,
            ..*shape
        };
        self.add_pass(&first, &[&self.joins, &self.fuses], &mut time);
        let mut further = match self.turn {
            Turn::AtOnce => Self::one_token_each(shape),
            Turn::AheadOfVerification if shape.decode_seqs == 0 => return time,
            Turn::AheadOfVerification => Self::one_token_of_decodes(shape),
        };
        for _ in 1..self.count {
            further.cuda_graph = self.graphs.replayed(&further);
            self.add_pass(&further, &[&self.joins], &mut time);
            further.advance_decodes();
        }
        time
    }

    /// The pass after the first where it is made before the step.
    fn one_token_of_decodes(shape: &StepShape) -> StepShape {
        let mut pass = StepShape { prefill_window: shape.prefill_window, ..StepShape::default() };
        let (contexts, longest) = (shape.decode_context_tokens, shape.decode_context_max);
        pass.add_decodes(shape.decode_seqs, contexts, longest);
        pass
    }

    /// The pass after the first.
    fn one_token_each(shape: &StepShape) -> StepShape {
        let mut pass = StepShape { prefill_window: shape.prefill_window, ..StepShape::default() };
        let decoded = shape.decode_context_tokens + u64::from(shape.decode_seqs);
        let longest = shape.decode_context_max + u32::from(shape.decode_seqs > 0);
        pass.add_decodes(shape.decode_seqs, decoded, longest);
        let prompts = shape.prefill_context_tokens + u64::from(shape.prefill_tokens);
        // Of the prompts only the sum is known: the longest is at least their mean.
        let mean = prompts.checked_div(shape.prefill_seqs.into()).unwrap_or(0);
        pass.add_decodes(shape.prefill_seqs, prompts, u32::try_from(mean).unwrap_or(u32::MAX));
        pass
    }

    fn add_pass(&self, pass: &StepShape, products: &[&[Product]], time: &mut DraftTime) {
        let rows = f64::from(pass.padded_tokens());
        let secs: f64 = products.iter().copied().flatten().map(|product| product.secs(rows)).sum();
        time.device += self.layers.step_duration(pass) + SimDuration::from_secs_f64(secs);
        if pass.cuda_graph.is_none() {
            time.launches += self.launch;
        }
    }
}

impl Drafting {
    /// What the drafts take that are made behind a step of this shape.
    pub fn time(&self, shape: &StepShape) -> DraftTime {
        match self {
            Self::Passes(passes) if shape.tokens() > 0 => passes.time(shape),
            Self::Passes(_) => DraftTime::default(),
            Self::LookUps(each) => {
                DraftTime { host: *each * u64::from(shape.seqs()), ..DraftTime::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests;
