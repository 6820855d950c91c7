//! What serving LoRA adapters adds to a step: kernels of unmerged adapters, loads, and changes of the
//! adapter that is merged into the weights.
//!
//! Unmerged, every adapted matrix is followed by two small products for each row, with the factors
//! of its request's adapter (Punica's SGMV and BGMV, Chen et al. 2023; vLLM's and SGLang's Triton
//! kernels). Their time is a constant for the launches, the thread blocks of all slots, the factors of
//! every adapter of the step read once, and the products of the rows.

use super::StepShape;
use crate::hardware::GpuSpec;
use crate::model::LoraShape;
use crate::scenario::LoraConfig;
use crate::units::SimDuration;

/// Rows of a thread block (`BLOCK_M` of vLLM 0.8.5, `vllm/lora/ops/triton_ops/lora_shrink_op.py`).
const BLOCK_ROWS: u32 = 32;

/// Times of adapters on one engine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoraTimes {
    /// Seconds of each step.
    step: f64,
    /// Seconds of each block of rows, over all slots.
    block: f64,
    /// Seconds of each adapter of a step, and for each of its ranks.
    adapter: f64,
    adapter_rank: f64,
    /// Seconds of a row, for each rank.
    row_rank: f64,
    /// The rank that every adapter counts as, if not its own.
    padded_rank: Option<u32>,
    /// Seconds to merge an adapter into the weights, or to take it out.
    merge: f64,
    /// Seconds of the scheduler for a request passed over.
    passed_over: f64,
    /// Seconds from host memory to the GPU, and for each rank.
    to_gpu: [f64; 2],
    /// Seconds from disk to host memory, and for each rank.
    to_host: [f64; 2],
}

impl LoraTimes {
    /// Times of adapters of this shape on an engine with so many slots, of a configuration that leaves nothing of the
    /// kernels out.
    pub fn new(shape: &LoraShape, slots: u32, gpu: &GpuSpec, config: &LoraConfig) -> Option<Self> {
        let (kernels, load) = (&config.kernels, &config.load);
        let (products, tensors) = (f64::from(shape.products), f64::from(shape.tensors));
        let elements = shape.elements_per_rank as f64;
        let bytes = 2.0 * elements;
        Some(Self {
            step: 1e-6 * kernels.per_product_us? * products,
            block: 1e-6 * kernels.per_slot_block_us? * products * f64::from(slots),
            adapter: 1e-6 * kernels.per_adapter_product_us? * products,
            adapter_rank: bytes / (1e9 * gpu.memory_bandwidth_gb_s * kernels.memory_efficiency?),
            row_rank: 2.0 * elements / (1e12 * gpu.bf16_tflops * kernels.compute_efficiency?),
            padded_rank: if kernels.pads_to_max_rank? { Some(config.max_rank?) } else { None },
            merge: 1e-3 * config.batching.switch_ms(),
            passed_over: 1e-6 * config.per_passed_over_us.unwrap_or_default(),
            to_gpu: [
                1e-6 * load.to_gpu_per_tensor_us * tensors,
                1e-9 * bytes / load.to_gpu_gb_per_s.unwrap_or(gpu.pcie_gb_s),
            ],
            to_host: [
                1e-6 * load.to_host_per_tensor_us * tensors,
                1e-9 * bytes / load.to_host_gb_per_s,
            ],
        })
    }

    /// What the kernels add to a step.
    #[inline]
    pub fn kernels(&self, shape: &StepShape) -> SimDuration {
        let adapters = f64::from(shape.adapters);
        let (ranks, rank_rows) = match self.padded_rank {
            Some(rank) => {
                (adapters * f64::from(rank), f64::from(shape.lora_tokens) * f64::from(rank))
            }
            None => (f64::from(shape.adapter_ranks), shape.lora_rank_tokens as f64),
        };
        SimDuration::from_secs_f64(
            self.step
                + self.block * f64::from(shape.padded_tokens().div_ceil(BLOCK_ROWS))
                + self.adapter * adapters
                + self.adapter_rank * ranks
                + self.row_rank * rank_rows,
        )
    }

    /// How long it takes to merge or take out adapters so many times.
    pub fn merges(&self, times: u32) -> SimDuration {
        SimDuration::from_secs_f64(self.merge * f64::from(times))
    }

    /// What the scheduler takes to walk past so many waiting requests.
    #[inline]
    pub fn walk(&self, passed_over: u32) -> SimDuration {
        SimDuration::from_secs_f64(self.passed_over * f64::from(passed_over))
    }

    /// How long it takes to read so many adapters of these ranks in sum from disk, then to copy so
    /// many to the GPU.
    pub fn loads(&self, from_disk: [u32; 2], to_gpu: [u32; 2]) -> SimDuration {
        let secs = |[each, rank]: [f64; 2], [adapters, ranks]: [u32; 2]| {
            each * f64::from(adapters) + rank * f64::from(ranks)
        };
        SimDuration::from_secs_f64(secs(self.to_host, from_disk) + secs(self.to_gpu, to_gpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::LoraKernels;

    #[test]
    fn every_slot_costs_the_same_for_each_block_of_rows_whoever_is_in_the_step() {
        let gpu = crate::profiles::gpu("H100-SXM5-80GB").expect("it is known");
        let shape = LoraShape { elements_per_rank: 0, products: 100, tensors: 0 };
        let kernels = LoraKernels {
            per_product_us: Some(1.0),
            per_adapter_product_us: Some(0.0),
            per_slot_block_us: Some(0.5),
            ..LoraKernels::VLLM
        };
        let config = LoraConfig { max_rank: Some(8), kernels, ..LoraConfig::default() };
        let micros = |slots, rows, adapters| {
            let mut step = StepShape { adapters, lora_tokens: rows, ..StepShape::default() };
            step.add_decodes(rows, 0, 0);
            let time =
                LoraTimes::new(&shape, slots, &gpu, &config).expect("all is given").kernels(&step);
            (time.as_secs_f64() * 1e6).round() as u64
        };
        assert_eq!(micros(8, 32, 1), 100 + 8 * 50);
        assert_eq!(micros(8, 32, 8), micros(8, 1, 1));
        assert_eq!(micros(8, 33, 1), 100 + 2 * 8 * 50);
        assert_eq!(micros(16, 33, 1), 100 + 2 * 16 * 50);
    }
}
