//! What the figures of a GPU must be for step times to be made of them.

use super::{GpuSpec, KernelEfficiency, PCIE};
use crate::problem::Problem;

/// Letters of a name: it stands in tables and titles.
const NAME_MAX: usize = 60;
/// Bytes and operations that no device has or does in a second, in 10⁹ and 10¹².
const RATE_MAX: f64 = 1e9;
/// What is paid once for a kernel or an exchange, in µs.
const LATENCY_MAX: f64 = 1e6;
/// GPUs of a domain.
const GPUS_MAX: u32 = 4096;

impl GpuSpec {
    /// Every rule that its figures break, by their keys.
    pub fn broken_rules(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut rule = |holds: bool, at: &str, rule: &str, value: &dyn std::fmt::Display| {
            if !holds {
                problems.push(Problem::must_be(at, rule, value));
            }
        };
        let letters = self.name.chars().count();
        rule((1..=NAME_MAX).contains(&letters), "name", "of 1 to 60 letters", &letters);
        let rates = [
            ("bf16_tflops", Some(self.bf16_tflops)),
            ("fp8_tflops", self.fp8_tflops),
            ("int8_tops", self.int8_tops),
            ("fp4_tflops", self.fp4_tflops),
            ("memory_bandwidth_gb_s", Some(self.memory_bandwidth_gb_s)),
            ("link_gb_s", Some(self.link_gb_s)),
            ("pcie_gb_s", Some(self.pcie_gb_s)),
            ("tdp_w", self.tdp_w),
        ];
        for (key, value) in rates.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let holds = (1e-3..=RATE_MAX).contains(&value);
            rule(holds, key, "from 0.001 to 10⁹", &value);
        }
        let memory = self.memory_bytes;
        let holds = (1 << 20..=1 << 50).contains(&memory);
        rule(holds, "memory_bytes", "from 1 MiB to 1 PiB", &memory);
        let gpus = self.gpus_per_domain;
        rule((1..=GPUS_MAX).contains(&gpus), "gpus_per_domain", "from 1 to 4096", &gpus);
        if let Some(price) = &self.price {
            let (low, high) = (price.usd_per_hour_low, price.usd_per_hour_high);
            rule((0.0..=1e6).contains(&low), "price.usd_per_hour_low", "from 0 to 10⁶", &low);
            let holds = (low..=1e6).contains(&high);
            rule(holds, "price.usd_per_hour_high", "from usd_per_hour_low to 10⁶", &high);
        }
        problems.extend(self.efficiency.broken_rules(&self.link));
        problems
    }
}

impl KernelEfficiency {
    fn broken_rules(&self, link: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut rule = |holds: bool, at: String, rule: &str, value: f64| {
            if !holds {
                problems.push(Problem::must_be(format!("efficiency.{at}"), rule, value));
            }
        };
        let shares = [
            ("gemm_bandwidth", self.gemm_bandwidth),
            ("gemm_compute", self.gemm_compute),
            ("attention_bandwidth", self.attention_bandwidth),
            ("attention_compute", self.attention_compute),
            ("expert_bandwidth", self.expert_bandwidth),
        ];
        for (key, share) in shares {
            rule((1e-3..=1.0).contains(&share), key.to_owned(), "a share from 0.001 to 1", share);
        }
        let times = [
            ("gemm_overhead_us", self.gemm_overhead_us),
            ("attention_overhead_us", self.attention_overhead_us),
        ];
        for (key, us) in times {
            rule((0.0..=LATENCY_MAX).contains(&us), key.to_owned(), "from 0 to 10⁶ µs", us);
        }
        let mut table = |key: &str, entries: &[(u32, f64, f64)]| {
            for (index, &(gpus, latency_us, gb_per_s)) in entries.iter().enumerate() {
                let at = |field: &str| format!("{key}[{index}].{field}");
                let before = index.checked_sub(1).map_or(1, |before| entries[before].0);
                let ascends = gpus > before && gpus <= GPUS_MAX;
                rule(
                    ascends,
                    at("gpus"),
                    "at least 2, and more than in the row before",
                    gpus.into(),
                );
                let is_brief = (0.0..=LATENCY_MAX).contains(&latency_us);
                rule(is_brief, at("latency_us"), "from 0 to 10⁶ µs", latency_us);
                let is_rate = (1e-3..=RATE_MAX).contains(&gb_per_s);
                rule(is_rate, at("bandwidth_gb_s"), "from 0.001 to 10⁹ GB/s", gb_per_s);
            }
        };
        let reduces = self.all_reduce.iter().map(|it| (it.gpus, it.latency_us, it.bandwidth_gb_s));
        table("all_reduce", &reduces.collect::<Vec<_>>());
        let gathers = self.all_gather.iter().map(|it| (it.gpus, it.latency_us, it.bandwidth_gb_s));
        table("all_gather", &gathers.collect::<Vec<_>>());
        if link == PCIE && !self.all_reduce.is_empty() {
            let why = "is not taken over PCIe, where hosts differ; set cluster.all_reduce in the scenario";
            problems.push(Problem::new("efficiency.all_reduce", why));
        }
        problems
    }
}
