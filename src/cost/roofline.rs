//! Step time from first principles: what must be read and multiplied, at the share of the GPU's
//! rates that measured kernels reach.
//!
//! A step is the sum over its layers of matrix products, attention, element-wise kernels and
//! all-reduces, and of the output head. A matrix product takes the longer of reading its operands
//! and multiplying them, plus a fixed part; decode attention reads the KV cache; prefill attention
//! multiplies; a mixture of experts reads the experts that its rows touch, E·(1 − (1 − k/E)^rows)
//! of them under uniform routing. Sums over the batch are enough for all of it, so a step is
//! priced by one table look-up and a few products.
//!
//! Left out: LoRA adapters, sliding windows (full attention is assumed), unequal contexts inside a
//! decode batch, pipeline and expert parallelism, tensor parallelism across nodes. Efficiencies
//! come from operator tables ([`KernelEfficiency`](crate::hardware::KernelEfficiency)); the small
//! constants below were measured with vLLM 0.15.1 on H100.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use super::Calibration;
use super::CostModel;
use super::StepParts;
use super::StepShape;
use crate::hardware::AllReduce;
use crate::hardware::GpuSpec;
use crate::model::Attention;
use crate::model::ComputeRate;
use crate::model::KvDtype;
use crate::model::LayerKind;
use crate::model::Matrix;
use crate::model::ModelError;
use crate::model::ModelSpec;
use crate::model::Module;
use crate::scenario::Communication;
use crate::scenario::Sampler;
use crate::units::SimDuration;

/// Rows that are priced by a look-up; larger steps are summed when they occur.
const TABLE_ROWS: u32 = 8192;
/// Fixed time of the element-wise kernels of a layer: 1.6 kernels of 3 µs.
pub(super) const ELEMENTWISE_SECS: f64 = 4.8e-6;
/// Share of the memory bandwidth that element-wise kernels reach.
const ELEMENTWISE_BANDWIDTH: f64 = 0.8;
/// Fixed time of the expert kernels of a layer.
const EXPERT_SECS: f64 = 24e-6;
/// Share of the compute rate that expert kernels reach.
const EXPERT_COMPUTE: f64 = 0.6;
/// Bytes of an activation.
const ACTIVATION_BYTES: f64 = 2.0;
/// GPUs in a node without a link of its own.
const GPUS_PER_NODE: u32 = 8;
/// Fixed time of the sampler's sort, and its time per row and entry of the vocabulary.
const SAMPLER_SECS: f64 = 52e-6;
const SAMPLER_SECS_PER_ENTRY: f64 = 17e-6 / 128_000.0;

/// How an engine runs a model on its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RooflineOptions {
    /// GPUs that share every matrix, in one node.
    pub tensor_parallel_size: u32,
    /// Type of the KV cache.
    pub kv_cache_dtype: KvDtype,
    /// Factors and constants of the machine.
    pub calibration: Calibration,
    /// How tokens are drawn.
    pub sampler: Sampler,
    /// Whether all-reduces take time.
    pub communication: Communication,
}

impl Default for RooflineOptions {
    fn default() -> Self {
        Self {
            tensor_parallel_size: 1,
            kv_cache_dtype: KvDtype::Auto,
            calibration: Calibration::default(),
            sampler: Sampler::Greedy,
            communication: Communication::Counted,
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
    rows: Arc<[LayerParts]>,
    layers: Arc<Layers>,
    head: Product,
    attention: AttentionSecs,
    sampling: Sampling,
    calibration: Calibration,
    provenance: Arc<str>,
}

/// Attention of all layers, in seconds: fixed, per token of context, per pair of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionSecs {
    fixed: f64,
    decode_token: f64,
    prefill_token: f64,
    prefill_pair: f64,
}

impl AttentionSecs {
    /// Of the sequences that decode, with what every step takes, and of those that prefill.
    pub(super) fn of(&self, shape: &StepShape) -> (f64, f64) {
        let fixed = if shape.seqs() > 0 { self.fixed } else { 0.0 };
        let decode = self.decode_token * shape.decode_context_tokens as f64;
        let prefill = (self.prefill_token * shape.prefill_context_tokens as f64)
            .max(self.prefill_pair * shape.prefill_attention as f64);
        (fixed + decode, prefill)
    }
}

/// The sampler, in seconds: fixed and per row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    fixed: f64,
    row: f64,
}

impl Sampling {
    pub(super) fn secs(&self, rows: u32) -> f64 {
        if rows == 0 { 0.0 } else { self.fixed + self.row * f64::from(rows) }
    }
}

/// A matrix product of `rows` rows: max(`read` + `read_row`·rows, `multiply_row`·rows) + `fixed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    read: f64,
    read_row: f64,
    multiply_row: f64,
    fixed: f64,
}

impl Product {
    pub(super) fn secs(&self, rows: f64) -> f64 {
        (self.read + self.read_row * rows).max(self.multiply_row * rows) + self.fixed
    }
}

/// The expert kernels of a layer. `read` is the time to read one expert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Experts {
    count: f64,
    idle_share: f64,
    product: Product,
}

impl Experts {
    fn touched(&self, rows: u32) -> f64 {
        // Beyond the table no expert is idle.
        if rows > TABLE_ROWS {
            return self.count;
        }
        self.count * (1.0 - power(self.idle_share, rows))
    }

    pub(super) fn secs(&self, rows: u32) -> f64 {
        let read = self.product.read * self.touched(rows);
        Product { read, ..self.product }.secs(f64::from(rows))
    }
}

/// What a layer does to its rows, attention apart.
#[derive(Debug, Clone)]
struct Layer {
    count: f64,
    products: Vec<Product>,
    experts: Option<Experts>,
    elementwise_row: f64,
}

/// Seconds of all layers, attention apart.
#[derive(Debug, Clone, Copy, Default)]
struct LayerParts {
    products: f64,
    experts: f64,
    elementwise: f64,
    all_reduce: f64,
}

/// All layers and their all-reduces.
#[derive(Debug, Clone)]
struct Layers {
    kinds: Vec<Layer>,
    all_reduce: f64,
    all_reduce_row: f64,
}

impl Layers {
    fn parts(&self, rows: u32) -> LayerParts {
        if rows == 0 {
            return LayerParts::default();
        }
        let count = f64::from(rows);
        let mut parts = LayerParts {
            all_reduce: self.all_reduce + self.all_reduce_row * count,
            ..LayerParts::default()
        };
        for layer in &self.kinds {
            let products: f64 = layer.products.iter().map(|product| product.secs(count)).sum();
            let experts = layer.experts.map_or(0.0, |experts| experts.secs(rows));
            let elementwise = ELEMENTWISE_SECS + layer.elementwise_row * count;
            parts.products += layer.count * products;
            parts.experts += layer.count * experts;
            parts.elementwise += layer.count * elementwise;
        }
        parts
    }
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
            calibration: options.calibration,
            provenance: device.provenance().into(),
        })
    }

    /// Where the figures come from and what was assumed, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }
}

impl CostModel for Roofline {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        self.calibration.step_duration(&self.parts(shape), shape)
    }

    fn parts(&self, shape: &StepShape) -> StepParts {
        let rows = shape.tokens().max(shape.cuda_graph.unwrap_or(0));
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
            products: layers.products,
            experts: layers.experts,
            decode_attention,
            prefill_attention,
            all_reduce: layers.all_reduce,
            elementwise: layers.elementwise,
            head,
            sampler: self.sampling.secs(shape.logit_rows),
        }
    }
}

/// A model on one of `tp` GPUs, while its figures are worked out.
pub(super) struct Device<'a> {
    pub(super) model: &'a ModelSpec,
    pub(super) gpu: &'a GpuSpec,
    pub(super) tp: u32,
    /// Factor of the multiplications of the layers' products.
    pub(super) products_compute: f64,
}

impl<'a> Device<'a> {
    pub(super) fn new(
        model: &'a ModelSpec,
        gpu: &'a GpuSpec,
        options: &RooflineOptions,
    ) -> Result<Self, RooflineError> {
        let tp = options.tensor_parallel_size;
        model.check_tensor_parallel(tp)?;
        let most = gpu.gpus_per_domain.max(GPUS_PER_NODE);
        if tp > most {
            return Err(RooflineError::SpansNodes { gpu: gpu.name.clone(), most, tp });
        }
        let products_compute = options.calibration.products_compute;
        Ok(Self { model, gpu, tp, products_compute })
    }

    /// Attention of all layers.
    pub(super) fn attention(&self, kv_dtype: KvDtype) -> AttentionSecs {
        let Self { model, gpu, tp, .. } = *self;
        let count = f64::from(model.layers);
        let efficiency = &gpu.efficiency;
        let kv_read = model.kv_bytes_per_token(tp, kv_dtype) as f64
            / (efficiency.attention_bandwidth * gpu.memory_bandwidth());
        let half = gpu.bf16_tflops * 1e12;
        let decode_flops = count * model.attention.decode_flops_per_pair(tp) as f64;
        let prefill_flops = count * model.attention.prefill_flops_per_pair(tp) as f64;
        AttentionSecs {
            fixed: count * efficiency.attention_overhead_us * 1e-6,
            decode_token: kv_read.max(decode_flops / (efficiency.gemm_compute * half)),
            prefill_token: kv_read,
            prefill_pair: prefill_flops / (efficiency.attention_compute * half),
        }
    }

    /// The sampler.
    pub(super) fn sampling(&self, sampler: Sampler) -> Sampling {
        match sampler {
            Sampler::Greedy => Sampling { fixed: 0.0, row: 0.0 },
            Sampler::TopPTopK => Sampling {
                fixed: SAMPLER_SECS,
                row: SAMPLER_SECS_PER_ENTRY * f64::from(self.model.vocab),
            },
        }
    }

    fn layers(&self, communication: Communication) -> Layers {
        let counts = [
            (LayerKind::Dense, self.model.dense_layers()),
            (LayerKind::Sparse, self.model.sparse_layers()),
        ];
        let present = counts.into_iter().filter(|(_, count)| *count > 0);
        let kinds = present.map(|(kind, count)| self.layer(kind, count)).collect();
        let reductions = 2.0 * f64::from(self.model.layers);
        let row_bytes = ACTIVATION_BYTES * f64::from(self.model.hidden);
        let (latency, secs_per_byte) = match communication {
            Communication::Counted => self.all_reduce(),
            Communication::Ignored => (0.0, 0.0),
        };
        Layers {
            kinds,
            all_reduce: reductions * latency,
            all_reduce_row: reductions * row_bytes * secs_per_byte,
        }
    }

    fn layer(&self, kind: LayerKind, count: u32) -> Layer {
        let matrices = self.model.layer_matrices(kind, self.tp);
        let (experts, others): (Vec<Matrix>, Vec<Matrix>) =
            matrices.into_iter().partition(|matrix| matrix.module == Module::Experts);
        Layer {
            count: f64::from(count),
            products: others.iter().map(|matrix| self.layer_product(matrix)).collect(),
            experts: (!experts.is_empty()).then(|| self.experts(&experts)),
            elementwise_row: self
                .elementwise_secs(self.attention_elements() + self.mlp_elements(kind)),
        }
    }

    pub(super) fn product(&self, matrix: &Matrix) -> Product {
        let efficiency = &self.gpu.efficiency;
        let bandwidth = efficiency.gemm_bandwidth * self.gpu.memory_bandwidth();
        let compute = efficiency.gemm_compute * self.flops(matrix.module);
        Product {
            read: self.weight_bytes(matrix) / bandwidth,
            read_row: ACTIVATION_BYTES * (matrix.inputs + matrix.outputs) as f64 / bandwidth,
            multiply_row: 2.0 * (matrix.inputs * matrix.outputs) as f64 / compute,
            fixed: efficiency.gemm_overhead_us * 1e-6,
        }
    }

    /// A product of the layers, at the calibrated rate of its multiplications.
    pub(super) fn layer_product(&self, matrix: &Matrix) -> Product {
        let product = self.product(matrix);
        Product { multiply_row: product.multiply_row * self.products_compute, ..product }
    }

    /// The routed experts of a layer: every row visits `experts_per_token` of them.
    pub(super) fn experts(&self, matrices: &[Matrix]) -> Experts {
        let moe = self.model.moe.expect("a layer with experts is one of a mixture");
        let bandwidth = self.gpu.efficiency.expert_bandwidth * self.gpu.memory_bandwidth();
        let visits = f64::from(moe.experts_per_token);
        let sum = |figure: &dyn Fn(&Matrix) -> f64| matrices.iter().map(figure).sum::<f64>();
        let compute = EXPERT_COMPUTE * self.flops(Module::Experts);
        Experts {
            count: f64::from(moe.experts),
            idle_share: 1.0 - visits / f64::from(moe.experts),
            product: Product {
                read: sum(&|matrix| self.weight_bytes(matrix)) / bandwidth,
                read_row: visits
                    * ACTIVATION_BYTES
                    * sum(&|matrix| (matrix.inputs + matrix.outputs) as f64)
                    / bandwidth,
                multiply_row: visits * 2.0 * sum(&|matrix| (matrix.inputs * matrix.outputs) as f64)
                    / compute,
                fixed: EXPERT_SECS,
            },
        }
    }

    /// Bytes of one copy of a matrix.
    fn weight_bytes(&self, matrix: &Matrix) -> f64 {
        self.model.weights.bytes(matrix.module, matrix.outputs, matrix.inputs) as f64
    }

    /// The rate at which products with a module's weights run; the 16-bit rate, after conversion,
    /// where the GPU has no rate of its own for the format.
    fn flops(&self, module: Module) -> f64 {
        let gpu = self.gpu;
        let own = match self.model.weights.compute(module) {
            ComputeRate::Half => None,
            ComputeRate::Fp8 => gpu.fp8_tflops,
            ComputeRate::Int8 => gpu.int8_tops,
            ComputeRate::Fp4 => gpu.fp4_tflops,
        };
        own.unwrap_or(gpu.bf16_tflops) * 1e12
    }

    /// Elements per row that the residual, norms and rotary positions of a layer move.
    pub(super) fn attention_elements(&self) -> f64 {
        let tp = f64::from(self.tp);
        let heads = f64::from(self.model.attention.heads()) / tp;
        let attention = match &self.model.attention {
            Attention::Grouped(grouped) => {
                let kv_heads = f64::from(grouped.kv_heads.div_ceil(self.tp));
                (heads + kv_heads) * 2.0 * f64::from(grouped.head_dim)
            }
            Attention::Latent(latent) => {
                let per_head = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
                heads * 2.0 * f64::from(per_head)
            }
        };
        8.0 * f64::from(self.model.hidden) + attention
    }

    /// Elements per row that the activation function of a layer moves.
    pub(super) fn mlp_elements(&self, kind: LayerKind) -> f64 {
        let width = match (kind, &self.model.moe) {
            (LayerKind::Sparse, Some(moe)) => {
                moe.experts_per_token * moe.intermediate + moe.shared_intermediate
            }
            _ => self.model.intermediate,
        };
        3.0 * f64::from(width) / f64::from(self.tp)
    }

    /// The time to move elements through memory.
    pub(super) fn elementwise_secs(&self, elements: f64) -> f64 {
        let bandwidth = ELEMENTWISE_BANDWIDTH * self.gpu.memory_bandwidth();
        ACTIVATION_BYTES * elements / bandwidth
    }

    /// Latency in seconds and seconds per byte of an all-reduce. Between measured sizes the next
    /// larger one stands in; beyond them a ring's traffic grows as 2·(T − 1)/T.
    pub(super) fn all_reduce(&self) -> (f64, f64) {
        if self.tp == 1 {
            return (0.0, 0.0);
        }
        let measured = &self.gpu.efficiency.all_reduce;
        let traffic = |gpus: u32| 2.0 * f64::from(gpus - 1) / f64::from(gpus);
        let line = |entry: &AllReduce, scale: f64| {
            (entry.latency_us * 1e-6, scale / (entry.bandwidth_gb_s * 1e9))
        };
        match (measured.iter().find(|entry| entry.gpus >= self.tp), measured.last()) {
            (Some(entry), _) => line(entry, 1.0),
            (None, Some(last)) => line(last, traffic(self.tp) / traffic(last.gpus.max(2))),
            (None, None) => (0.0, traffic(self.tp) / (self.gpu.link_gb_s * 1e9)),
        }
    }

    fn provenance(&self) -> String {
        let efficiency = &self.gpu.efficiency;
        let borrowed = if efficiency.measured_on == self.gpu.name {
            String::new()
        } else {
            format!(" (kernels of {} stand in)", efficiency.measured_on)
        };
        let window = match self.model.sliding_window {
            Some(window) => format!("; window of {} tokens ignored", window.tokens),
            None => String::new(),
        };
        format!(
            "roofline of {} on {}×{}{borrowed}, {}{window}",
            self.model.name, self.tp, self.gpu.name, efficiency.source
        )
    }
}

/// `base` to a whole power by squaring: the same bits on every machine, which `powi` does not promise.
pub(super) fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests;
