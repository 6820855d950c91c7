//! What is expected of a server of which nothing was measured.
//!
//! Times of kernels are measured one by one, on a GPU that does nothing else, with tokens spread evenly over
//! experts. Servers take longer. By how much, and how far servers differ, was fitted to published runs of many
//! sources (`profiles/priors.toml`, `profiles/fit_priors.py`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::hardware::GpuSpec;
use crate::metrics::bench::{Figure, Latency, MetricKey, Statistic};
use crate::model::{ModelSpec, Module, Scheme};
use crate::profiles::{self, ModelTable};
use crate::scenario::{Calibration, ClusterConfig};

/// What is expected of servers of one class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Factors of parts of a step.
    pub factors: Calibration,
    /// Measured over simulated, of which 5 % of servers are below the first and 5 % above the second.
    ratios: BTreeMap<Quantity, [f64; 2]>,
}

/// Classes of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A dense model.
    Dense,
    /// A mixture of experts.
    Experts,
    /// Experts in 4-bit floats that the GPU multiplies in 16 bits.
    UnpackedExperts,
    /// Experts in 4-bit floats that the GPU multiplies as they are.
    NarrowExperts,
    /// GPUs of other vendors than NVIDIA, whose kernels nobody measured.
    Unmeasured,
}

/// Figures that vary alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    Throughput,
    Ttft,
    TailTtft,
    Tpot,
}

static PRIORS: LazyLock<BTreeMap<Class, Prior>> = LazyLock::new(|| {
    let text = include_str!("../../profiles/priors.toml");
    toml::from_str(text).expect("priors.toml is read by a test")
});

impl Class {
    /// The class of servers of a model on a GPU.
    pub fn of(model: &ModelSpec, gpu: &GpuSpec) -> Self {
        let scheme = || model.weights.scheme(Module::Experts);
        match model.moe {
            _ if gpu.vendor != "NVIDIA" => Self::Unmeasured,
            None => Self::Dense,
            Some(_) if !matches!(scheme(), Some(Scheme::Mxfp4)) => Self::Experts,
            Some(_) if gpu.fp4_tflops.is_none() => Self::UnpackedExperts,
            Some(_) => Self::NarrowExperts,
        }
    }

    /// Has kernels of a cluster take as long as in servers of its class; nothing where it says itself how long, has
    /// adapters, whose constants were fitted to such servers, or where layers of this model were measured on the GPU.
    pub fn expect(cluster: &mut ClusterConfig, model: &ModelSpec, gpu: &GpuSpec) -> Option<Self> {
        let tp = cluster.tensor_parallel_size;
        let is_measured =
            ModelTable::of(profiles::layer_tables(), &model.name, &gpu.name, tp).is_some();
        let calibration = cluster.step_time.calibration_mut()?;
        if is_measured || cluster.lora.is_some() || !calibration.is_neutral() {
            return None;
        }
        let class = Self::of(model, gpu);
        *calibration = class.prior().factors;
        Some(class)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Experts => "experts",
            Self::UnpackedExperts => "unpacked_experts",
            Self::NarrowExperts => "narrow_experts",
            Self::Unmeasured => "unmeasured",
        }
    }

    /// What is expected of it.
    pub fn prior(self) -> &'static Prior {
        &PRIORS[&self]
    }
}

impl Prior {
    /// Where nine of ten servers are, of which one value was simulated; nothing for figures of which too little
    /// is known.
    pub fn interval(&self, key: MetricKey, simulated: f64) -> Option<[f64; 2]> {
        let quantity = match key {
            MetricKey::Figure(
                Figure::RequestThroughput
                | Figure::InputThroughput
                | Figure::OutputThroughput
                | Figure::TotalThroughput,
            ) => Quantity::Throughput,
            MetricKey::Latency(Latency::Ttft, Statistic::Mean | Statistic::Median) => {
                Quantity::Ttft
            }
            MetricKey::Latency(Latency::Ttft, Statistic::Percentile(_)) => Quantity::TailTtft,
            MetricKey::Latency(Latency::Tpot, Statistic::Mean | Statistic::Median) => {
                Quantity::Tpot
            }
            _ => return None,
        };
        self.ratios.get(&quantity).map(|ratios| ratios.map(|ratio| ratio * simulated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_prior() {
        for class in [
            Class::Dense,
            Class::Experts,
            Class::UnpackedExperts,
            Class::NarrowExperts,
            Class::Unmeasured,
        ] {
            let prior = class.prior();
            assert!(prior.factors.entries().iter().all(|(_, value)| (0.0..10.0).contains(value)));
            for [low, high] in prior.ratios.values() {
                assert!(0.0 < *low && low < high, "{}: {low} to {high}", class.name());
            }
        }
    }

    #[test]
    fn classes_follow_the_model_and_the_gpu() {
        let class = |model: &str, gpu: &str| {
            Class::of(&profiles::model(model).expect(model), &profiles::gpu(gpu).expect(gpu))
        };
        assert_eq!(class("Qwen/Qwen3-8B", "H100"), Class::Dense);
        assert_eq!(class("deepseek-ai/DeepSeek-R1", "H200"), Class::Experts);
        assert_eq!(class("openai/gpt-oss-120b", "H100"), Class::UnpackedExperts);
        assert_eq!(class("openai/gpt-oss-120b", "B200"), Class::NarrowExperts);
        assert_eq!(class("Qwen/Qwen3-8B", "MI300X"), Class::Unmeasured);
    }
}
