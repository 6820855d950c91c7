//! From a record to something that can be run.

use super::flags::Settings;
use super::record::Record;
use super::shared::SharedPrompts;
use super::skip::{self, Skip};
use super::{adapters, engine, fields, heading, measured, mlenergy, names, servers, workload};
use crate::metrics::bench::MetricKey;
use crate::model::Format;
use crate::request::Request;
use crate::rng::Seed;
use crate::scenario::{ReportConfig, ReportFormat, ScenarioFile};

/// A record as a scenario.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is simulated.
    pub scenario: ScenarioFile,
    /// The requests, where no workload of a scenario draws them.
    pub requests: Option<Vec<Request>>,
    /// What was measured.
    pub measured: Vec<(MetricKey, f64)>,
    /// What the record does not say and had to be assumed, each in a few words.
    pub assumed: Vec<&'static str>,
    /// Requests that the server runs at a time, where only the time in which it is full was measured.
    pub(super) full_at: Option<u32>,
}

impl Plan {
    /// The scenario of a record.
    ///
    /// # Errors
    /// Why the record cannot be run.
    pub fn of(record: &Record) -> Result<Self, Skip> {
        let full_at = mlenergy::places(record);
        let completed = mlenergy::completed(record)?;
        let record = completed.as_ref().unwrap_or(record);
        let mut assumed = Vec::new();
        engine::check(record)?;
        let (model, format) = names::served(record)?;
        let page = names::gpu(record);
        let (gpu, form_assumed) = match heading::gpu(record) {
            Some(headed) if !page.as_ref().is_ok_and(|(gpu, _)| *gpu == headed) => {
                assumed.push("GPU: that of the heading over the figures");
                (headed, false)
            }
            _ => page?,
        };
        if form_assumed {
            assumed.push("form factor of the GPU not stated: SXM");
        }
        assumed.extend(servers::assumed_gpu(record));
        let settings = Settings::read(record, &gpu)?;
        if settings.is_of_script {
            assumed.push("flags not stated: those of InferenceX's script");
        }
        let mut cluster = engine::cluster(record, &settings, &model, &gpu, &mut assumed)?;
        mlenergy::complete(record, &mut cluster, &mut assumed);
        let is_quantised = format.is_some() || model.quantization.is_some();
        let format = match settings.quantization.as_deref() {
            None => format,
            // Checkpoints say more exactly what they are.
            Some(_) if is_quantised => format,
            Some("fp8" | "w8a8_fp8") => Some(Format::Fp8),
            Some(other) => {
                let (flag, value) = ("quantization".to_owned(), other.to_owned());
                return Err(Skip::Flag { flag, value });
            }
        };
        cluster.quantization = format;
        if format.is_some() {
            assumed
                .push("checkpoint: the known model with its matrices in the format of the record");
        }
        let shared = SharedPrompts::of(record)?;
        if form_assumed && cluster.gpus_per_replica() > 1 {
            assumed.push("link between the GPUs not stated: that of the SXM module");
        }
        let workload = match &shared {
            Some(shared) => {
                assumed.push("arrivals: another draw of the same process");
                shared.workload()
            }
            None if adapters::are_listed(record) => adapters::workload(record, &mut assumed)?,
            None if cluster.lora.is_some() => return Err(skip::LORA),
            None if mlenergy::is_of(record) => mlenergy::workload(record, full_at, &mut assumed)?,
            None => workload::workload(record, &model, &mut assumed)?,
        };
        let requests = shared.map(|shared| shared.requests(Seed::default()));
        fields::check(record)?;
        let mut measured = measured::metrics(record);
        if full_at.is_some() {
            measured.retain(|(key, _)| mlenergy::is_compared(*key));
        }
        if measured.is_empty() {
            return Err(Skip::NoMetrics);
        }
        if gpu.efficiency.measured_on != gpu.name {
            assumed.push("kernels: those of another GPU stand in");
        }
        if model
            .window()
            .is_some_and(|window| window.chunked || window.layers == model.num_layers())
        {
            assumed.push("KV memory: whole contexts where layers have a window");
        }
        // Where every expert is cut over all GPUs, they all compute all tokens.
        if cluster.expert_parallel.is_some_and(|parallel| parallel.size != Some(1)) {
            assumed.push("experts: tokens spread evenly over the GPUs, but for chance");
        }
        if warmed(record) {
            assumed.push("prefix cache: empty at the start, not warmed by earlier runs");
        }
        if record.metrics.contains_key("tpot_ms") {
            assumed.push("statistic of TTFT and TPOT not stated: the mean");
        }
        let report = ReportConfig { format: Some(ReportFormat::Vllm), ..ReportConfig::default() };
        let mut scenario = ScenarioFile {
            name: record.id.clone(),
            seed: Seed::default(),
            trace: None,
            workload,
            cluster,
            report,
            faults: Vec::new(),
            measured: None,
        };
        if engine::take_sampler_that_fits(&mut scenario) {
            assumed
                .push("sampler: FlashInfer's, as the server would not have started with another");
        }
        Ok(Self { scenario, requests, measured, assumed, full_at })
    }
}

/// Whether the server had answered some of the prompts before.
fn warmed(record: &Record) -> bool {
    let hits = record.server_side_metrics.get("prefix_cache_hit_rate_pct_shortly_after");
    hits.and_then(super::record::number).is_some_and(|percent| percent > 1.0)
}
