//! What is expected of a server of which nothing was measured.
//!
//! Times of kernels are measured one by one, on a GPU that does nothing else. Servers take longer. By how much, and how far servers differ, was fitted to published runs of many
//! sources (`profiles/priors.toml`, `profiles/fit_priors.py`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::hardware::GpuSpec;
use crate::model::{ModelSpec, Module, Packing};
use crate::profiles::{self, ModelTable};
use crate::scenario::{
    Calibration, ClusterConfig, HostConfig, ServerHost, ServerHostConfig, ServerHostProfile,
    StepTimeConfig,
};

/// What a server is like of which a scenario says nothing: whose step times are `auto` without a calibration, and
/// whose host is not `"none"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Unstated {
    /// Its GPUs and its scheduler, and nothing else takes time.
    Bare,
    /// One of its class.
    Server {
        /// By so many standard deviations slower than the typical one, which are a normal law of the logarithm
        /// of its step times; below 0 it is faster.
        slower: f64,
    },
}

/// Standard deviations above which 5 % of a normal law lies.
const ONE_IN_20: f64 = 1.644_853_626_951_472_6;

impl Unstated {
    /// Like most of its class.
    pub const TYPICAL: Self = Self::Server { slower: 0.0 };

    /// Slower than 19 of 20 of its class.
    pub const SLOW: Self = Self::Server { slower: ONE_IN_20 };

    /// Faster than 19 of 20 of its class.
    pub const FAST: Self = Self::Server { slower: -ONE_IN_20 };

    /// It in a word; nothing of one that was drawn.
    pub fn word(self) -> Option<&'static str> {
        let words = [(Self::TYPICAL, "typical"), (Self::SLOW, "slow"), (Self::FAST, "fast")];
        words.into_iter().find(|(one, _)| *one == self).map(|(_, word)| word)
    }

    /// How it compares with others of its class.
    pub fn title(self) -> &'static str {
        match self.word() {
            Some("slow") => "a server slower than 19 of 20",
            Some("fast") => "a server faster than 19 of 20",
            Some(_) => "a typical server",
            None => "a server drawn from those",
        }
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerClass {
    /// A dense model.
    Dense,
    /// A dense model on a GPU that multiplies no 8-bit floats, such as A100.
    DenseWithoutFp8,
    /// A mixture of experts, by the kernels that the engine chooses.
    Experts,
    /// A mixture of experts, by kernels that somebody chose for it on this GPU.
    TunedExperts,
    /// Experts in 4-bit floats that the GPU multiplies in 16 bits.
    UnpackedExperts,
    /// Experts in 4-bit floats that the GPU multiplies as they are.
    NarrowExperts,
    /// GPUs of other vendors than NVIDIA, whose kernels nobody measured.
    Unmeasured,
}

/// Figures that vary alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Requests or tokens per second.
    Throughput,
    /// Mean and median time to first token.
    Ttft,
    /// High percentiles of it.
    TailTtft,
    /// Mean and median time per output token.
    Tpot,
}

static PRIORS: LazyLock<BTreeMap<ServerClass, Prior>> = LazyLock::new(|| {
    let text = include_str!("../../profiles/priors.toml");
    toml::from_str(text).expect("priors.toml is read by a test")
});

impl ServerClass {
    const ALL: [Self; 7] = [
        Self::Dense,
        Self::DenseWithoutFp8,
        Self::Experts,
        Self::TunedExperts,
        Self::UnpackedExperts,
        Self::NarrowExperts,
        Self::Unmeasured,
    ];

    /// The class of servers of a model on a GPU, whose kernels somebody chose for it or not.
    pub fn of(model: &ModelSpec, gpu: &GpuSpec, is_tuned: bool) -> Self {
        let packing = || model.packing_of_module(Module::Experts);
        match model.experts() {
            _ if gpu.vendor != "NVIDIA" => Self::Unmeasured,
            None if gpu.fp8_tflops.is_none() => Self::DenseWithoutFp8,
            None => Self::Dense,
            Some(_) if !matches!(packing(), Some(Packing::Mxfp4)) => {
                if is_tuned {
                    Self::TunedExperts
                } else {
                    Self::Experts
                }
            }
            Some(_) if gpu.fp4_tflops.is_none() => Self::UnpackedExperts,
            Some(_) => Self::NarrowExperts,
        }
    }

    /// The class of servers of which something is expected: not of those with adapters, whose constants were fitted
    /// to such servers, nor where layers of this model were measured on the GPU.
    pub(super) fn expected(
        cluster: &ClusterConfig,
        model: &ModelSpec,
        gpu: &GpuSpec,
    ) -> Option<Self> {
        let tp = cluster.tensor_parallel_size;
        let table = ModelTable::of(profiles::layer_tables(), &model.name, &gpu.name, tp);
        let is_tuned = cluster.step_time.is_tuned();
        (table.is_none() && cluster.lora.is_none()).then(|| Self::of(model, gpu, is_tuned))
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::DenseWithoutFp8 => "dense_without_fp8",
            Self::Experts => "experts",
            Self::TunedExperts => "tuned_experts",
            Self::UnpackedExperts => "unpacked_experts",
            Self::NarrowExperts => "narrow_experts",
            Self::Unmeasured => "unmeasured",
        }
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Its servers in words.
    pub const fn servers(self) -> &'static str {
        match self {
            Self::Dense => "servers of dense models",
            Self::DenseWithoutFp8 => "servers of dense models on GPUs without FP8",
            Self::Experts => "servers of mixtures of experts",
            Self::TunedExperts => "servers of tuned mixtures of experts",
            Self::UnpackedExperts => "servers of MXFP4 experts on GPUs without FP4",
            Self::NarrowExperts => "servers of MXFP4 experts on GPUs with FP4",
            Self::Unmeasured => "servers with GPUs of other vendors than NVIDIA",
        }
    }

    /// What is expected of it.
    pub fn prior(self) -> &'static Prior {
        &PRIORS[&self]
    }
}

impl Prior {
    /// Measured over simulated, of which 5 % of servers are below the first and 5 % above the second; nothing of
    /// figures of which too little is known.
    pub fn ratios(&self, quantity: Quantity) -> Option<[f64; 2]> {
        self.ratios.get(&quantity).copied()
    }

    /// The factors of a server.
    pub fn factors_of(&self, server: Unstated) -> Calibration {
        match server {
            Unstated::Bare => Calibration::default(),
            Unstated::Server { slower } => {
                let [fast, slow] = self.ratios(Quantity::Tpot).unwrap_or([1.0; 2]);
                let tail = if slower < 0.0 { fast } else { slow };
                self.factors.times(tail.powf(slower.abs() / ONE_IN_20))
            }
        }
    }
}

/// Fills in what a server of a class is like where the cluster says nothing of it. Returns the class, if the server
/// was given what is expected of that.
pub(super) fn fill(
    cluster: &mut ClusterConfig,
    class: Option<ServerClass>,
    server: Unstated,
) -> Option<ServerClass> {
    let is_open = matches!(cluster.step_time, StepTimeConfig::Auto { calibration: None, .. });
    let is_bare = cluster.host.is_some_and(|host| host.processes().is_none());
    if server == Unstated::Bare || !is_open || is_bare {
        return None;
    }
    if cluster.host.is_none() && has_no_way(cluster) {
        // Requests come from many clients.
        let host = ServerHostConfig { client: false, ..ServerHostConfig::default() };
        cluster.host = Some(ServerHost::Measured(host));
    }
    let class = class?;
    *cluster.step_time.calibration_mut()? = class.prior().factors_of(server);
    Some(class)
}

/// Whether nothing is said of the way to the scheduler of an engine whose processes were measured, nor of its time.
fn has_no_way(cluster: &ClusterConfig) -> bool {
    let is_measured = ServerHostProfile::of(&cluster.engine).is_some();
    let way = cluster.api_delay_ms + cluster.api_per_request_ms;
    is_measured && way <= 0.0 && *cluster.engine.host() == HostConfig::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_prior() {
        for class in ServerClass::ALL {
            let prior = class.prior();
            assert!(prior.factors.entries().iter().all(|(_, value)| (0.0..10.0).contains(value)));
            assert!(prior.ratios(Quantity::Tpot).is_some(), "{}", class.name());
            for [low, high] in prior.ratios.values() {
                assert!(0.0 < *low && low < high, "{}: {low} to {high}", class.name());
            }
        }
    }

    #[test]
    fn servers_are_between_those_that_one_in_20_passes() {
        let prior = ServerClass::Dense.prior();
        let [fast, slow] = prior.ratios(Quantity::Tpot).expect("it has them");
        let products = |server| prior.factors_of(server).products / prior.factors.products;
        assert!((products(Unstated::SLOW) - slow).abs() < 1e-12);
        assert!((products(Unstated::FAST) - fast).abs() < 1e-12);
        assert_eq!(prior.factors_of(Unstated::TYPICAL), prior.factors);
        let each: Vec<f64> = (-4..=4)
            .map(|tenths| products(Unstated::Server { slower: f64::from(tenths) / 2.0 }))
            .collect();
        assert!(each.is_sorted(), "{each:?}");
        let per_step_us = prior.factors_of(Unstated::SLOW).per_step_us;
        assert_eq!(per_step_us.to_bits(), prior.factors.per_step_us.to_bits());
    }

    #[test]
    fn classes_follow_the_model_and_the_gpu() {
        let of = |model: &str, gpu: &str, is_tuned| {
            let (model, gpu) =
                (profiles::model(model).expect(model), profiles::gpu(gpu).expect(gpu));
            ServerClass::of(&model, &gpu, is_tuned)
        };
        let class = |model: &str, gpu: &str| of(model, gpu, false);
        assert_eq!(class("Qwen/Qwen3-8B", "H100"), ServerClass::Dense);
        assert_eq!(class("Qwen/Qwen3-8B", "A100"), ServerClass::DenseWithoutFp8);
        assert_eq!(class("deepseek-ai/DeepSeek-R1", "H200"), ServerClass::Experts);
        assert_eq!(of("deepseek-ai/DeepSeek-R1", "H200", true), ServerClass::TunedExperts);
        assert_eq!(of("Qwen/Qwen3-8B", "H100", true), ServerClass::Dense);
        assert_eq!(class("openai/gpt-oss-120b", "H100"), ServerClass::UnpackedExperts);
        assert_eq!(class("openai/gpt-oss-120b", "B200"), ServerClass::NarrowExperts);
        assert_eq!(class("Qwen/Qwen3-8B", "MI300X"), ServerClass::Unmeasured);
    }
}
