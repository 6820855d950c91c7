//! From the shapes of a model and the rates of a GPU to the terms of a step.

use super::experts::{Experts, Spread};
use super::terms::{AttentionSecs, Layer, Layers, Product, Sampling};
use super::{RooflineError, RooflineOptions};
use crate::cost::states::States;
use crate::cost::window::Window;
use crate::hardware::GpuSpec;
use crate::model::{
    Attention, ComputeRate, KvDtype, LayerKind, LayersAlike, Matrix, ModelSpec, Module,
};
use crate::scenario::{AllReduceConfig, Communication, Sampler};

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

/// A model on one of `tp` GPUs, while its figures are worked out.
pub(in crate::cost) struct Device<'a> {
    pub(in crate::cost) model: &'a ModelSpec,
    pub(in crate::cost) gpu: &'a GpuSpec,
    pub(in crate::cost) tp: u32,
    /// How the experts lie on the GPUs.
    spread: Spread,
    /// Factors of the multiplications of the layers' products, and of routed experts.
    pub(in crate::cost) products_compute: f64,
    pub(in crate::cost) experts_compute: f64,
    /// All-reduces of this host.
    pub(in crate::cost) own_all_reduce: Option<AllReduceConfig>,
}

impl<'a> Device<'a> {
    pub(in crate::cost) fn new(
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
        let spread = model.moe.map(|moe| Spread::of(&moe, options.expert_parallel, tp));
        Ok(Self {
            model,
            gpu,
            tp,
            spread: spread.unwrap_or(Spread::NONE),
            products_compute: options.calibration.products_compute,
            experts_compute: options.calibration.experts_compute,
            own_all_reduce: options.all_reduce,
        })
    }

    /// Attention of all layers.
    pub(in crate::cost) fn attention(&self, kv_dtype: KvDtype) -> AttentionSecs {
        let Self { model, gpu, tp, .. } = *self;
        let count = f64::from(model.attention_layers());
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
            window: Window::of(model),
        }
    }

    /// Layers with linear attention, beside their matrices.
    pub(in crate::cost) fn states(&self) -> States {
        States::of(self.model, self.gpu, self.tp)
    }

    /// The sampler.
    pub(in crate::cost) fn sampling(&self, sampler: Sampler) -> Sampling {
        match sampler {
            Sampler::Greedy => Sampling { fixed: 0.0, row: 0.0 },
            Sampler::TopPTopK => Sampling {
                fixed: SAMPLER_SECS,
                row: SAMPLER_SECS_PER_ENTRY * f64::from(self.model.vocab),
            },
        }
    }

    pub(super) fn layers(&self, communication: Communication) -> Layers {
        let kinds = self.model.layers_alike().into_iter().map(|alike| self.layer(alike)).collect();
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

    fn layer(&self, alike: LayersAlike) -> Layer {
        let (experts, others) = self.matrices(alike);
        Layer {
            count: f64::from(alike.count),
            products: others.iter().map(|matrix| self.layer_product(matrix)).collect(),
            experts: (!experts.is_empty()).then(|| self.layer_experts(&experts)),
            elementwise_row: self
                .elementwise_secs(self.attention_elements() + self.mlp_elements(alike.kind)),
        }
    }

    /// The matrices of a layer on one GPU: of routed experts, and others.
    pub(in crate::cost) fn matrices(&self, alike: LayersAlike) -> (Vec<Matrix>, Vec<Matrix>) {
        let is_expert = |matrix: &Matrix| matrix.module == Module::Experts;
        let mut experts = self.model.layer_matrices(alike, self.spread.cut(self.tp));
        experts.retain(is_expert);
        let mut others = self.model.layer_matrices(alike, self.tp);
        others.retain(|matrix| !is_expert(matrix));
        (experts, others)
    }

    /// Whether GPUs hold whole experts, or larger parts than all GPUs together would cut.
    pub(in crate::cost) fn spreads_experts(&self) -> bool {
        self.spread != Spread::NONE
    }

    pub(in crate::cost) fn product(&self, matrix: &Matrix) -> Product {
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
    pub(in crate::cost) fn layer_product(&self, matrix: &Matrix) -> Product {
        let product = self.product(matrix);
        Product { multiply_row: product.multiply_row * self.products_compute, ..product }
    }

    /// The routed experts of a layer: every row visits `experts_per_token` of them.
    pub(in crate::cost) fn experts(&self, matrices: &[Matrix]) -> Experts {
        let moe = self.model.moe.expect("a layer with experts is one of a mixture");
        let bandwidth = self.gpu.efficiency.expert_bandwidth * self.gpu.memory_bandwidth();
        let visits = self.spread.visits(f64::from(moe.experts_per_token));
        let count = self.spread.held(moe.experts);
        let sum = |figure: &dyn Fn(&Matrix) -> f64| matrices.iter().map(figure).sum::<f64>();
        let compute = EXPERT_COMPUTE * self.flops(Module::Experts);
        Experts {
            count,
            idle_share: (1.0 - visits / count).max(0.0),
            spread: self.spread,
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

    /// The routed experts of a layer, at the calibrated rate of their multiplications.
    pub(in crate::cost) fn layer_experts(&self, matrices: &[Matrix]) -> Experts {
        let mut experts = self.experts(matrices);
        experts.product.multiply_row *= self.experts_compute;
        experts
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
    pub(in crate::cost) fn attention_elements(&self) -> f64 {
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
    pub(in crate::cost) fn mlp_elements(&self, kind: LayerKind) -> f64 {
        let width = match (kind, &self.model.moe) {
            (LayerKind::Sparse, Some(moe)) => {
                moe.experts_per_token * moe.intermediate + moe.shared_intermediate
            }
            _ => self.model.intermediate,
        };
        3.0 * f64::from(width) / f64::from(self.tp)
    }

    /// The time to move elements through memory.
    pub(in crate::cost) fn elementwise_secs(&self, elements: f64) -> f64 {
        let bandwidth = ELEMENTWISE_BANDWIDTH * self.gpu.memory_bandwidth();
        ACTIVATION_BYTES * elements / bandwidth
    }

    /// Latency in seconds and seconds per byte of an all-reduce.
    pub(in crate::cost) fn all_reduce(&self) -> (f64, f64) {
        if self.tp == 1 {
            return (0.0, 0.0);
        }
        let measured = self.gpu.all_reduce(self.tp);
        let (latency_us, gb_per_s) =
            self.own_all_reduce.map_or((measured.latency_us, measured.bandwidth_gb_s), |own| {
                (own.latency_us, own.gb_per_s)
            });
        (latency_us * 1e-6, 1.0 / (gb_per_s * 1e9))
    }

    pub(super) fn provenance(&self) -> String {
        let efficiency = &self.gpu.efficiency;
        let borrowed = if efficiency.measured_on == self.gpu.name {
            String::new()
        } else {
            format!(" (kernels of {} stand in)", efficiency.measured_on)
        };
        let window = Window::said(self.model) + &States::said(self.model);
        format!(
            "roofline of {} on {}×{}{borrowed}, {}{window}",
            self.model.name, self.tp, self.gpu.name, efficiency.source
        )
    }
}
