//! A scenario as it is typed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bill::{GpuPower, GpuPrice};
use super::cluster::ClusterConfig;
use super::faults::FaultConfig;
use super::workload::WorkloadConfig;
use crate::rng::Seed;

/// Characters of the name of a scenario, variant or class, which titles, folders and columns carry.
pub const NAME_MAX: usize = 200;

/// A scenario file: what is served, by what, and what is reported. Keys name their units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// A title for reports.
    pub name: String,
    /// The seed of every random stream.
    #[serde(default)]
    pub seed: Seed,
    /// The recorded trace that the workload reads, if it reads one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceConfig>,
    /// The requests.
    pub workload: WorkloadConfig,
    /// The engines.
    pub cluster: ClusterConfig,
    /// What fails, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultConfig>,
    /// What is printed.
    #[serde(default)]
    pub report: ReportConfig,
    /// Measured figures to print beside the simulated ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredConfig>,
}

/// A recorded trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// The file, or the folder for formats of several files, relative to the scenario file.
    pub path: String,
    /// Its format (`servecast trace describe --help` lists them); recognised by its first line if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The unit of its clock (`wall-clock`, `s`, `ms`, `us`, `ns`) where neither format nor column
    /// says, or says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<String>,
    /// Tokens per block of its hash ids, where the format does not say or says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_block_tokens: Option<u32>,
    /// Columns whose names differ from the format's.
    #[serde(default, skip_serializing_if = "TraceColumns::is_empty")]
    pub columns: TraceColumns,
    /// Which row becomes time zero.
    #[serde(default, skip_serializing_if = "TraceOrigin::is_default")]
    pub origin: TraceOrigin,
}

/// Names of columns as the user states them; what is not stated goes by the format's own names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TraceColumns {
    /// The time a request arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// The length of its prompt in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<String>,
    /// The length of its answer in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<String>,
    /// The conversation it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The class it is of, by its name in `workload.classes`; read only where it is stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The LoRA adapter that it uses, by its name in `workload.adapters` or by its number; read only
    /// where it is stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// The ids of its prompt's blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_ids: Option<String>,
}

impl TraceColumns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which row of a trace becomes time zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TraceOrigin {
    /// The first; a row before it in time is an error.
    FirstRow,
    /// The earliest, found in a pass of its own: files need not be in order of time.
    #[default]
    EarliestRow,
}

impl TraceOrigin {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReportConfig {
    /// Whose benchmark block; that of the engine's maker if absent: `vllm` for vLLM's engines, else `sglang`,
    /// which it is also for arrivals of type `sglang`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ReportFormat>,
    /// Latency limits in ms: `ttft`, `tpot`, `e2el`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub goodput: BTreeMap<String, f64>,
    /// What an hour of a GPU costs, by its name: US dollars, or an offer of the catalogue.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, GpuPrice>,
    /// What a GPU draws, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub power: BTreeMap<String, GpuPower>,
    /// vLLM's `--percentile-metrics`.
    pub percentile_metrics: Vec<String>,
    /// vLLM's `--metric-percentiles`.
    pub metric_percentiles: Vec<f64>,
    /// Whether the client reads answers as they come; if not, TTFT is E2E.
    pub streaming: bool,
}

impl Default for ReportConfig {
    fn default() -> Self {
        Self {
            format: None,
            goodput: BTreeMap::new(),
            prices: BTreeMap::new(),
            power: BTreeMap::new(),
            percentile_metrics: ["ttft", "tpot", "itl"].map(str::to_owned).to_vec(),
            metric_percentiles: vec![99.0],
            streaming: true,
        }
    }
}

/// Whose benchmark block is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReportFormat {
    /// `sglang.bench_serving` of SGLang 0.5.23.
    #[default]
    Sglang,
    /// The forks of early 2025.
    #[serde(rename = "sglang_early_2025", alias = "sglang_a")]
    SglangEarly2025,
    /// SGLang 0.4.10.
    #[serde(rename = "sglang_0.4.10", alias = "sglang_b")]
    Sglang0410,
    /// SGLang about 0.5.8.
    #[serde(rename = "sglang_0.5.8", alias = "sglang_c")]
    Sglang058,
    /// SGLang 0.5.9.
    #[serde(rename = "sglang_0.5.9", alias = "sglang_d")]
    Sglang059,
    /// `vllm bench serve` of vLLM 0.33.
    Vllm,
    /// `benchmark_serving.py` of late 2024.
    #[serde(rename = "vllm_2024")]
    Vllm2024,
}

/// Measured figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MeasuredConfig {
    /// Where they were published or logged.
    pub source: String,
    /// By the names of the benchmark JSON (`mean_ttft_ms`, `output_throughput`, …).
    pub metrics: BTreeMap<String, f64>,
    /// Whether `servecast calibrate` keeps the run out of the fit and scores it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold_out: bool,
}
