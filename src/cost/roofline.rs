//! Step time from first principles: what must be read and multiplied, at the share of the GPU's
//! rates that measured kernels reach.
//!
//! A step is the sum over its layers of matrix products, attention, element-wise kernels and
//! all-reduces, and of the output head. A matrix product takes the longer of reading its operands
//! and multiplying them, plus a fixed part; decode attention reads the KV cache; prefill attention
//! multiplies; a mixture of experts reads the experts that its rows touch, E·(1 − (1 − k/E)^rows)
//! of them under uniform routing; with whole experts on each GPU, those of the GPU that chance and
//! imbalance leave the busiest. Sums over the batch are enough for all of it, so a step is
//! priced by one table look-up and a few products.
//!
//! Layers with a sliding window read and multiply what lies in it. Left out: LoRA adapters, unequal
//! contexts inside a decode batch (those of layers with a window too, where some are longer and some
//! shorter), tensor parallelism across nodes. Efficiencies
//! come from operator tables ([`KernelEfficiency`](crate::hardware::KernelEfficiency)); the small
//! constants below were measured with vLLM 0.15.1 on H100.

mod device;
mod experts;
mod terms;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::calibration::StepSum;
use super::decode_run::DecodeAttention;
use super::states::States;
use super::{Calibration, CostModel, StepParts, StepShape, StepTimeSource};
use crate::hardware::GpuSpec;
use crate::model::{KvDtype, ModelError, ModelSpec};
use crate::scenario::{AllReduceConfig, Communication, ExpertParallelConfig, Sampler};
use crate::units::SimDuration;
use terms::{Layers, TABLE_ROWS};

pub(super) use device::Device;
pub(super) use experts::Experts;
pub(super) use terms::{AttentionSecs, DecodeTokens, ELEMENTWISE_SECS, Product, Sampling, power};

/// How an engine runs a model on its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RooflineOptions {
    /// GPUs that share every matrix, in one node.
    pub tensor_parallel_size: u32,
    /// Ranks of so many GPUs each, over which the experts lie too.
    pub data_parallel_size: u32,
    /// Experts spread over the GPUs of all ranks, or some of them; cut if absent.
    pub expert_parallel: Option<ExpertParallelConfig>,
    /// Type of the KV cache.
    pub kv_cache_dtype: KvDtype,
    /// Factors and constants of the machine.
    pub calibration: Calibration,
    /// How tokens are drawn.
    pub sampler: Sampler,
    /// Whether all-reduces take time.
    pub communication: Communication,
    /// How long they take on this host; what the GPU was measured to take if absent.
    pub all_reduce: Option<AllReduceConfig>,
}

impl Default for RooflineOptions {
    fn default() -> Self {
        Self {
            tensor_parallel_size: 1,
            data_parallel_size: 1,
            expert_parallel: None,
            kv_cache_dtype: KvDtype::Auto,
            calibration: Calibration::default(),
            sampler: Sampler::Greedy,
            communication: Communication::Counted,
            all_reduce: None,
        }
    }
}

/// Why a model cannot be priced on a GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RooflineError {
    /// The model cannot be shared like this.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The GPUs are not in one node.
    #[error("tensor parallel size on {gpu} must be at most {most} (one node), got {tp}")]
    SpansNodes {
        /// The GPU.
        gpu: String,
        /// GPUs of a node.
        most: u32,
        /// The size asked for.
        tp: u32,
    },
}

/// Prices steps of one model on one kind of GPU.
#[derive(Debug, Clone)]
pub struct Roofline {
    /// All layers but attention, by rows.
    rows: Arc<[StepParts]>,
    layers: Arc<Layers>,
    head: Product,
    attention: AttentionSecs,
    sampling: Sampling,
    states: States,
    calibration: Calibration,
    provenance: Arc<str>,
    source: Arc<StepTimeSource>,
}

impl Roofline {
    /// Prices a model on a GPU.
    ///
    /// # Errors
    /// When the heads cannot be shared by so many GPUs, or these are not in one node.
    pub fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        options: &RooflineOptions,
    ) -> Result<Self, RooflineError> {
        let device = Device::new(model, gpu, options)?;
        let layers = device.layers(options.communication);
        Ok(Self {
            rows: (0..=TABLE_ROWS).map(|rows| layers.parts(rows)).collect(),
            layers: Arc::new(layers),
            head: device.product(&model.lm_head(device.tp)),
            attention: device.attention(options.kv_cache_dtype),
            sampling: device.sampling(options.sampler),
            states: device.states(),
            calibration: options.calibration,
            provenance: device.provenance().into(),
            source: Arc::new(device.source()),
        })
    }

    /// Where the figures come from and what was assumed, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(super) fn source(&self) -> &StepTimeSource {
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
        self.attention.window().map_or(0, |window| window.prefill_keys())
    }

    /// The steps that follow one of this shape in a decode run.
    pub(super) fn decode_law(&self, shape: &StepShape) -> (StepSum, DecodeAttention<'_>) {
        let sum = self.calibration.sum(&self.parts(shape), shape);
        (sum, DecodeAttention::Roofline(self.attention.decodes(shape)))
    }
}

impl CostModel for Roofline {
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
        let head = match shape.logit_rows {
            0 => 0.0,
            rows => self.head.secs(f64::from(rows)),
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
}

#[cfg(test)]
mod tests;
