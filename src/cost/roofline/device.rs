//! From the shapes of a model and the rates of a GPU to the terms of a step.

use super::experts::{Experts, Spread};
use super::terms::{
    AttentionSecs, BOUNDS, ELEMENTWISE_SECS, Layer, Layers, Product, Rates, Sampling,
};
use super::{RooflineError, RooflineOptions};
use crate::cost::StepTimeSource;
use crate::cost::contexts::{self, Reading, readings};
use crate::cost::states::States;
use crate::cost::window::Window;
use crate::hardware::GpuSpec;
use crate::model::{
    ComputeRate, Experts as ExpertShape, KvDtype, Layer as LayerShape, LayersAlike, Matrix, Mixer,
    ModelSpec, Module,
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
    /// GPUs over which the experts lie.
    pub(in crate::cost) expert_gpus: u32,
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
        let experts = model.experts();
        let expert_gpus = tp * options.data_parallel_size;
        let of = |shape| Spread::of(shape, options.expert_parallel, expert_gpus);
        let spread = experts.map(of);
        Ok(Self {
            model,
            gpu,
            tp,
            expert_gpus,
            spread: spread.unwrap_or(Spread::NONE),
            products_compute: options.calibration.products_compute,
            experts_compute: options.calibration.experts_compute,
            own_all_reduce: options.all_reduce,
        })
    }

    /// Attention of all layers.
    pub(in crate::cost) fn attention(&self, kv_dtype: KvDtype) -> AttentionSecs {
        self.attention_of(&readings(self.model, self.tp, kv_dtype))
    }

    /// Attention of some of the layers.
    pub(in crate::cost) fn attention_of(&self, readings: &[Reading]) -> AttentionSecs {
        let overhead = self.gpu.efficiency.attention_overhead_us * 1e-6;
        let fixed = |reading: &Reading| reading.layers * reading.fixed_secs(overhead);
        let mut secs = AttentionSecs {
            fixed: readings.iter().map(fixed).sum(),
            full: Rates::default(),
            bounded: [None; BOUNDS],
        };
        let mut bounds: Vec<(Window, Rates)> = Vec::new();
        for reading in readings {
            let rates = self.reading_rates(reading);
            match reading.window {
                None => secs.full.add(rates),
                Some(window) => match bounds.iter_mut().find(|(other, _)| *other == window) {
                    Some((_, all)) => all.add(rates),
                    None => bounds.push((window, rates)),
                },
            }
        }
        bounds.sort_by(|(a, _), (b, _)| a.context().total_cmp(&b.context()));
        while bounds.len() > BOUNDS {
            let (_, rates) = bounds.remove(bounds.len() - 2);
            bounds[BOUNDS - 1].1.add(rates);
        }
        for (slot, bound) in secs.bounded.iter_mut().zip(bounds) {
            *slot = Some(bound);
        }
        secs
    }

    /// Of all layers of a reading.
    fn reading_rates(&self, reading: &Reading) -> Rates {
        let efficiency = &self.gpu.efficiency;
        let [bandwidth, decode, prefill] = reading.shares([
            efficiency.attention_bandwidth,
            efficiency.gemm_compute,
            efficiency.attention_compute,
        ]);
        let bandwidth = bandwidth * self.gpu.memory_bandwidth();
        let tflops =
            self.gpu.fp8_tflops.filter(|_| reading.is_narrow()).unwrap_or(self.gpu.bf16_tflops);
        let flops = tflops * 1e12;
        let read = reading.layers * reading.bytes / bandwidth;
        let multiply = reading.layers * reading.decode_flops / (decode * flops);
        Rates {
            decode_token: read.max(multiply),
            decode_multiply: multiply,
            prefill_token: read,
            prefill_pair: reading.layers * reading.prefill_flops / (prefill * flops),
        }
    }

    /// Layers with states, beside their matrices.
    pub(in crate::cost) fn states(&self) -> States {
        States::of_mixers(&self.model.distinct_mixers(), self.gpu, self.tp)
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
        let kinds = self.model.layers_alike().iter().map(|alike| self.layer(alike)).collect();
        let reductions = self.parts();
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

    /// Mixers, MLPs and mixtures of experts of all layers: behind each there is an all-reduce.
    pub(in crate::cost) fn parts(&self) -> f64 {
        self.model.layers.iter().map(parts).sum()
    }

    fn layer(&self, alike: &LayersAlike) -> Layer {
        let (experts, others) = self.matrices(alike);
        Layer {
            count: f64::from(alike.count),
            products: others.iter().map(|matrix| self.layer_product(matrix)).collect(),
            experts: alike.layer.experts.map(|shape| self.layer_experts(&shape, &experts)),
            elementwise: ELEMENTWISE_SECS * parts(&alike.layer),
            elementwise_row: self
                .elementwise_secs(self.attention_elements(alike) + self.mlp_elements(alike)),
        }
    }

    /// The matrices of a layer on one GPU: of routed experts, and others.
    pub(in crate::cost) fn matrices(&self, alike: &LayersAlike) -> (Vec<Matrix>, Vec<Matrix>) {
        let is_expert = |matrix: &Matrix| matrix.module == Module::Experts;
        let mut experts = self.model.layer_matrices(alike, self.spread.cut(self.expert_gpus));
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
        let compute = efficiency.gemm_compute * self.flops(matrix);
        Product {
            read: matrix.weight_bytes as f64 / bandwidth,
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
    pub(in crate::cost) fn experts(&self, shape: &ExpertShape, matrices: &[Matrix]) -> Experts {
        let bandwidth = self.gpu.efficiency.expert_bandwidth * self.gpu.memory_bandwidth();
        let visits = self.spread.visits(f64::from(shape.per_token));
        let count = self.spread.held(shape.count);
        let sum = |figure: &dyn Fn(&Matrix) -> f64| matrices.iter().map(figure).sum::<f64>();
        let rate =
            matrices.first().map_or(self.gpu.bf16_tflops * 1e12, |matrix| self.flops(matrix));
        let compute = EXPERT_COMPUTE * rate;
        Experts {
            count,
            idle_share: (1.0 - visits / count).max(0.0),
            spread: self.spread,
            product: Product {
                read: sum(&|matrix| matrix.weight_bytes as f64) / bandwidth,
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
    pub(in crate::cost) fn layer_experts(
        &self,
        shape: &ExpertShape,
        matrices: &[Matrix],
    ) -> Experts {
        let mut experts = self.experts(shape, matrices);
        experts.product.multiply_row *= self.experts_compute;
        experts
    }

    /// The rate at which products with a matrix run; the 16-bit rate, after conversion,
    /// where the GPU has no rate of its own for the format.
    fn flops(&self, matrix: &Matrix) -> f64 {
        let gpu = self.gpu;
        let own = match matrix.compute() {
            ComputeRate::Half => None,
            ComputeRate::Fp8 => gpu.fp8_tflops,
            ComputeRate::Int8 => gpu.int8_tops,
            ComputeRate::Fp4 => gpu.fp4_tflops,
        };
        own.unwrap_or(gpu.bf16_tflops) * 1e12
    }

    /// Elements per row that the residual, norms and rotary positions of a layer move.
    pub(in crate::cost) fn attention_elements(&self, alike: &LayersAlike) -> f64 {
        let tp = f64::from(self.tp);
        let of_heads = alike.layer.mixer.map_or(0.0, |mixer| {
            let heads = f64::from(mixer.heads()) / tp;
            let kv_heads = |count: u32| f64::from(count.div_ceil(self.tp));
            match mixer {
                Mixer::Grouped(grouped) => {
                    (heads + kv_heads(grouped.kv_heads)) * 2.0 * f64::from(grouped.head_dim)
                }
                Mixer::Latent(latent) => {
                    let per_head = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
                    heads * 2.0 * f64::from(per_head)
                }
                Mixer::Compressed(compressed) => heads * 2.0 * f64::from(compressed.head_dim),
                // Norm and gate of the output.
                Mixer::Delta(delta) => heads * 2.0 * f64::from(delta.value_dim),
                Mixer::KimiDelta(delta) => heads * 2.0 * f64::from(delta.head_dim),
                Mixer::StateSpace(state) => heads * 2.0 * f64::from(state.head_dim),
                Mixer::Selective(_) | Mixer::ShortConv(_) => heads * 2.0,
            }
        });
        let streams = f64::from(self.model.streams);
        4.0 * parts(&alike.layer) * streams * f64::from(self.model.hidden) + of_heads
    }

    /// Elements per row that the activation function of a layer moves.
    pub(in crate::cost) fn mlp_elements(&self, alike: &LayersAlike) -> f64 {
        let dense = alike.layer.dense.map_or(0.0, |dense| f64::from(dense.width));
        let experts = alike.layer.experts.map_or(0.0, |experts| {
            f64::from(experts.per_token) * f64::from(experts.width)
                + f64::from(experts.shared_width)
        });
        3.0 * (dense + experts) / f64::from(self.tp)
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

    pub(super) fn source(&self) -> StepTimeSource {
        let efficiency = &self.gpu.efficiency;
        StepTimeSource::Roofline {
            gpu: self.gpu.name.clone(),
            kernels_of: efficiency.measured_on.clone(),
            source: efficiency.source.clone(),
        }
    }

    pub(super) fn provenance(&self) -> String {
        let efficiency = &self.gpu.efficiency;
        let borrowed = if efficiency.measured_on == self.gpu.name {
            String::new()
        } else {
            format!(" (kernels of {} stand in)", efficiency.measured_on)
        };
        let window = contexts::said(self.model) + &States::said(self.model);
        format!(
            "roofline of {} on {}×{}{borrowed}, {}{window}",
            self.model.name, self.tp, self.gpu.name, efficiency.source
        )
    }
}

/// The mixer, the MLP and the mixture of experts of a layer, those that it has.
fn parts(layer: &LayerShape) -> f64 {
    let has = [layer.mixer.is_some(), layer.dense.is_some(), layer.experts.is_some()];
    f64::from(has.into_iter().map(u32::from).sum::<u32>())
}
