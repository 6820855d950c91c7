//! GPUs: memory, bandwidth, compute, interconnect, and how much of it kernels reach.
//!
//! Rates are dense figures (no structured sparsity) of the vendor; [`KernelEfficiency`] says what
//! share of them measured kernels reach.

mod pcie;
mod rules;

use serde::{Deserialize, Serialize};

use crate::model::{Card, Generation};
use crate::units::Bytes;

pub use pcie::PcieAllReduce;

/// A kind of GPU (or NPU), one device of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// The name people use.
    pub name: String,
    /// Who makes it.
    pub vendor: String,
    /// Generation and chip.
    pub architecture: String,
    /// Socket or card.
    pub form_factor: String,
    /// Dense products of 16-bit floats, in 10¹² FLOP/s.
    pub bf16_tflops: f64,
    /// Dense products of 8-bit floats, in 10¹² FLOP/s; absent where the GPU has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8_tflops: Option<f64>,
    /// Dense products of 8-bit integers, in 10¹² operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int8_tops: Option<f64>,
    /// Dense products of 4-bit floats, in 10¹² FLOP/s; absent where the GPU has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp4_tflops: Option<f64>,
    /// Memory as the driver reports it to an engine, in bytes.
    pub memory_bytes: u64,
    /// Memory bandwidth in 10⁹ B/s.
    pub memory_bandwidth_gb_s: f64,
    /// Name of the link between GPUs of one domain; `PCIe` where there is none of its own, with `bridge` in it
    /// where no switch joins them.
    pub link: String,
    /// Bandwidth of one GPU to its peers in one direction, in 10⁹ B/s.
    pub link_gb_s: f64,
    /// GPUs that the link joins.
    pub gpus_per_domain: u32,
    /// Bandwidth of the way to the host's memory in one direction, in 10⁹ B/s.
    pub pcie_gb_s: f64,
    /// Design power in W.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdp_w: Option<f64>,
    /// What an hour of one GPU costs to rent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<RentalPrice>,
    /// What kernels reach.
    pub efficiency: KernelEfficiency,
}

/// What an hour of one GPU costs to rent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RentalPrice {
    /// A low offer in US dollars per hour.
    pub usd_per_hour_low: f64,
    /// A high offer in US dollars per hour.
    pub usd_per_hour_high: f64,
    /// Who offers or reports it, and when.
    pub source: String,
}

/// What share of the vendor's figures measured kernels reach, and what a kernel costs beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelEfficiency {
    /// The GPU whose kernels were measured; another one's for a GPU nobody measured.
    pub measured_on: String,
    /// Where the figures come from.
    pub source: String,
    /// Share of the memory bandwidth that matrix products of few rows reach.
    pub gemm_bandwidth: f64,
    /// Share of the compute rate that matrix products of many rows reach.
    pub gemm_compute: f64,
    /// Time of a matrix product beside reading and multiplying, in µs.
    pub gemm_overhead_us: f64,
    /// Share of the memory bandwidth that decode attention reaches.
    pub attention_bandwidth: f64,
    /// Share of the 16-bit compute rate that prefill attention reaches.
    pub attention_compute: f64,
    /// Time of attention in a layer beside reading and multiplying, in µs.
    pub attention_overhead_us: f64,
    /// Share of the memory bandwidth that expert kernels reach.
    pub expert_bandwidth: f64,
    /// All-reduces over the link of a domain; over `PCIe` hosts differ too much for a GPU to have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_reduce: Vec<AllReduce>,
    /// All-gathers and reduce-scatters inside a node.
    #[serde(default)]
    pub all_gather: Vec<Exchanged>,
}

/// The time of an exchange between a number of GPUs: `latency_us` + bytes that one of them gets /
/// `bandwidth_gb_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchanged {
    /// GPUs that take part.
    pub gpus: u32,
    /// Time of a small message, in µs.
    pub latency_us: f64,
    /// Bytes that a GPU gets over time beyond the latency, in 10⁹ B/s.
    pub bandwidth_gb_s: f64,
}

/// The time of an all-reduce over a number of GPUs: `latency_us` + bytes/`bandwidth_gb_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduce {
    /// GPUs that take part.
    pub gpus: u32,
    /// Time of a small message, in µs.
    pub latency_us: f64,
    /// Message bytes over time beyond the latency, in 10⁹ B/s.
    pub bandwidth_gb_s: f64,
}

/// The link of GPUs that have none of their own.
const PCIE: &str = "PCIe";
/// What the link of cards is called that a bridge joins, without a switch.
const BRIDGE: &str = "bridge";
/// GPUs in a node without a link of its own.
const GPUS_PER_NODE: u32 = 8;

impl GpuSpec {
    /// GPUs that talk to each other without a network.
    pub fn gpus_per_node(&self) -> u32 {
        self.gpus_per_domain.max(GPUS_PER_NODE)
    }

    /// Whether nothing but the host bus joins so many of them, and nobody measured them.
    pub fn reduces_over_pcie(&self, gpus: u32) -> bool {
        let has_link = self.link != PCIE && gpus <= self.gpus_per_domain;
        let is_measured = self.efficiency.all_reduce.iter().any(|entry| entry.gpus >= gpus);
        gpus > 1 && !has_link && !is_measured
    }

    /// What is known of all-reduces over the host bus between so many of them.
    pub fn pcie_all_reduce(&self, gpus: u32) -> PcieAllReduce {
        pcie::all_reduce(gpus, self.pcie_gb_s)
    }

    /// All-reduces between so many of them in a node, of which there are at least two.
    pub fn all_reduce(&self, gpus: u32) -> AllReduce {
        if self.reduces_over_pcie(gpus) {
            return AllReduce { gpus, ..self.pcie_all_reduce(gpus).assumed };
        }
        let traffic = |gpus: u32| 2.0 * f64::from(gpus - 1) / f64::from(gpus);
        let measured = &self.efficiency.all_reduce;
        match (measured.iter().find(|entry| entry.gpus >= gpus), measured.last()) {
            (Some(entry), _) => AllReduce { gpus, ..*entry },
            (None, Some(last)) => {
                let slower = traffic(last.gpus.max(2)) / traffic(gpus);
                let bandwidth_gb_s = last.bandwidth_gb_s * slower;
                AllReduce { gpus, bandwidth_gb_s, latency_us: last.latency_us }
            }
            (None, None) => {
                let bandwidth_gb_s = self.link_gb_s / traffic(gpus);
                AllReduce { gpus, bandwidth_gb_s, latency_us: 0.0 }
            }
        }
    }

    /// What an engine's start-up depends on.
    pub fn card(&self) -> Card {
        let generation = match self.vendor.as_str() {
            "NVIDIA" if self.architecture.contains("Hopper") => Generation::Hopper,
            // Of Blackwell only the chips of data centres have NVLink; workstations and desktops run other kernels.
            "NVIDIA" if self.architecture.contains("Blackwell") && self.link != PCIE => {
                Generation::Blackwell
            }
            "NVIDIA" => Generation::OtherNvidia,
            _ => Generation::Other,
        };
        let is_new = matches!(generation, Generation::Hopper | Generation::Blackwell);
        let has_switch = self.link != PCIE && !self.link.contains(BRIDGE);
        Card { generation, has_multicast: is_new && has_switch }
    }

    /// Memory as the driver reports it to an engine.
    pub const fn memory(&self) -> Bytes {
        Bytes(self.memory_bytes)
    }

    /// Memory bandwidth in B/s.
    pub fn memory_bandwidth(&self) -> f64 {
        self.memory_bandwidth_gb_s * 1e9
    }
}
