//! From a recorded run to the benchmark report of either tool.

use super::bench::{
    BenchInput, BenchRequest, BenchSummary, ClientMode, Comparison, Latency, MetricKey, NonFinite,
    Outcome, RequestRate, SglangGeneration, SglangRun, Slos, TokenGaps, Tool, VllmGeneration,
    VllmRun,
};
use super::record::{RequestRecord, Status};
use super::recorder::Recorder;
use crate::resolved::Scenario;
use crate::scenario::{ArrivalConfig, LengthConfig, ReportConfig, ReportFormat};
use crate::threads;
use crate::units::SimTime;

/// What a benchmark tool would have reported of a run.
#[derive(Debug, Clone)]
pub struct BenchReport {
    /// The figures.
    pub summary: BenchSummary,
    /// How they are written.
    pub writer: BenchWriter,
}

/// Whose block and JSON are written.
#[derive(Debug, Clone)]
pub enum BenchWriter {
    /// `sglang.bench_serving`.
    Sglang(SglangRun),
    /// `vllm bench serve`.
    Vllm(VllmRun),
}

impl BenchReport {
    /// The report of a run of a resolved scenario.
    pub fn new(recorder: &Recorder, scenario: &Scenario) -> Self {
        let summary = summarise(recorder, &scenario.report);
        Self { summary, writer: BenchWriter::new(scenario) }
    }

    /// Whose names the figures go by.
    pub fn tool(&self) -> Tool {
        self.writer.tool()
    }

    /// The printed block, without a line break at its end.
    pub fn text(&self) -> String {
        match &self.writer {
            BenchWriter::Sglang(run) => run.text(&self.summary),
            BenchWriter::Vllm(run) => run.text(&self.summary),
        }
    }

    /// The JSON the tool writes, on one line.
    pub fn json(&self, non_finite: NonFinite) -> String {
        match &self.writer {
            BenchWriter::Sglang(run) => run.json(&self.summary, non_finite),
            BenchWriter::Vllm(run) => {
                run.json(&self.summary, super::bench::JsonLayout::Line, non_finite)
            }
        }
    }
}

impl BenchWriter {
    /// The writer that a scenario asks for.
    pub fn new(scenario: &Scenario) -> Self {
        let sglang = |generation| Self::Sglang(sglang_run(scenario, generation));
        let vllm = |generation| Self::Vllm(vllm_run(scenario, generation));
        match scenario.report.format.unwrap_or_default() {
            ReportFormat::SglangEarly2025 => sglang(SglangGeneration::Early2025),
            ReportFormat::Sglang0410 => sglang(SglangGeneration::V0_4_10),
            ReportFormat::Sglang058 => sglang(SglangGeneration::V0_5_8),
            ReportFormat::Sglang059 => sglang(SglangGeneration::V0_5_9),
            ReportFormat::Sglang => sglang(SglangGeneration::V0_5_23),
            ReportFormat::Vllm => vllm(VllmGeneration::V0_33),
            ReportFormat::Vllm2024 => vllm(VllmGeneration::Late2024),
        }
    }

    fn tool(&self) -> Tool {
        match self {
            Self::Sglang(_) => Tool::Sglang,
            Self::Vllm(_) => Tool::Vllm,
        }
    }
}

/// The measured figures of a scenario, in the order of the benchmark block, and the tool whose names they go by;
/// nothing where none are given.
pub fn measured(scenario: &Scenario) -> Option<(Tool, Vec<(MetricKey, f64)>)> {
    let told = scenario.measured.as_ref()?.metrics.iter();
    let mut figures: Vec<(MetricKey, f64)> =
        told.filter_map(|(name, value)| Some((MetricKey::parse(name)?, *value))).collect();
    figures.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    Some((BenchWriter::new(scenario).tool(), figures))
}

/// Those figures beside simulated ones; nothing where none are given.
pub fn comparison(scenario: &Scenario, report: &BenchReport) -> Option<Comparison> {
    let (tool, figures) = measured(scenario)?;
    Some(Comparison::of_figures(tool, &figures, &report.summary))
}

fn sglang_run(scenario: &Scenario, generation: SglangGeneration) -> SglangRun {
    let workload = &scenario.workload;
    let request_rate = match &workload.arrivals {
        ArrivalConfig::Trace(_) => RequestRate::Trace,
        arrivals => RequestRate::PerSecond(rate_per_s(arrivals)),
    };
    let mut run = SglangRun {
        generation,
        request_rate,
        max_concurrency: workload.client.max_concurrency.map(u64::from),
        dataset_name: dataset_name(&workload.lengths).to_owned(),
        random_input_len: None,
        random_output_len: None,
        random_range_ratio: None,
        ..SglangRun::default()
    };
    if let LengthConfig::SglangRandom(random) = &workload.lengths {
        run.random_input_len = Some(u64::from(random.input_tokens));
        run.random_output_len = Some(u64::from(random.output_tokens));
        run.random_range_ratio = Some(random.range_ratio);
    }
    run
}

fn vllm_run(scenario: &Scenario, generation: VllmGeneration) -> VllmRun {
    let report = &scenario.report;
    let latency = |name: &String| match name.as_str() {
        "ttft" => Some(Latency::Ttft),
        "tpot" => Some(Latency::Tpot),
        "itl" => Some(Latency::Itl),
        "e2el" => Some(Latency::E2e),
        _ => None,
    };
    VllmRun {
        generation,
        request_rate: rate_per_s(&scenario.workload.arrivals),
        max_concurrency: scenario.workload.client.max_concurrency.map(u64::from),
        percentile_metrics: report.percentile_metrics.iter().filter_map(latency).collect(),
        percentiles: report.metric_percentiles.clone(),
        header: None,
    }
}

/// The rate as the tools' `--request-rate` would give it, infinite where none applies.
fn rate_per_s(arrivals: &ArrivalConfig) -> f64 {
    match arrivals {
        ArrivalConfig::Constant { rate_per_s }
        | ArrivalConfig::Poisson { rate_per_s }
        | ArrivalConfig::Gamma { rate_per_s, .. }
        | ArrivalConfig::Weibull { rate_per_s, .. }
        | ArrivalConfig::Sine { rate_per_s, .. }
        | ArrivalConfig::Sglang { rate_per_s }
        | ArrivalConfig::Vllm2024 { rate_per_s } => *rate_per_s,
        ArrivalConfig::Vllm { rate_per_s, .. } => rate_per_s.unwrap_or(f64::INFINITY),
        ArrivalConfig::AdapterCounts(counts) => counts.rate_per_s,
        ArrivalConfig::AllAtOnce {} | ArrivalConfig::Trace(_) => f64::INFINITY,
    }
}

fn dataset_name(lengths: &LengthConfig) -> &'static str {
    match lengths {
        LengthConfig::SglangRandom(random) if random.vocabulary_size.is_some() => "random-ids",
        LengthConfig::SglangRandom(_)
        | LengthConfig::VllmRandom(_)
        | LengthConfig::Vllm2024Random(_) => "random",
        LengthConfig::GeneratedSharedPrefix(_) => "generated-shared-prefix",
        LengthConfig::PrefixRepetition(_) => "prefix_repetition",
        LengthConfig::Sonnet(_) => "sonnet",
        LengthConfig::Trace { .. } => "trace",
        LengthConfig::Fixed { .. } => "fixed",
        LengthConfig::Sampled { .. } => "sampled",
        LengthConfig::List { .. } => "list",
    }
}

fn summarise(recorder: &Recorder, report: &ReportConfig) -> BenchSummary {
    let gaps = || {
        if let Some(gaps) = recorder.gaps.in_log_bins() {
            return TokenGaps::LogBinned(gaps);
        }
        match recorder.gaps.binned() {
            Some(gaps) => TokenGaps::Binned(gaps),
            None => TokenGaps::Weighted(recorder.gaps.sample()),
        }
    };
    // Before the first answer, a benchmark has lasted as long as it was watched.
    let end = if recorder.end == SimTime::ZERO { recorder.observed() } else { recorder.end };
    // A run in which nothing took time still has a duration above zero.
    let duration_s = end.max(SimTime::from_nanos(1)).as_secs_f64();
    let peak = recorder.tokens_by_second.peak() as f64;
    let drafts = recorder.drafts.clone();
    if let Some(folded) = recorder.folded() {
        return folded.summary((duration_s, gaps()), peak, drafts);
    }
    let requests = || recorder.seen().iter().map(bench_request).collect();
    let (requests, gaps): (Vec<BenchRequest>, _) = threads::both(requests, gaps);
    let mut input = BenchInput::new(duration_s, requests, gaps, peak);
    (input.drafts, input.client) = (drafts, ClientMode::of(report.streaming));
    BenchSummary::new(input, slos(report))
}

/// The latencies that a report asks about.
pub(super) fn slos(report: &ReportConfig) -> Option<Slos> {
    let limits: Vec<String> =
        report.goodput.iter().map(|(name, limit_ms)| format!("{name}:{limit_ms}")).collect();
    (!limits.is_empty()).then(|| Slos::parse(&limits).expect("limits are validated"))
}

pub(super) fn bench_request(record: &RequestRecord) -> BenchRequest {
    BenchRequest {
        start_s: record.sent.as_secs_f64(),
        ttft_s: record.ttft().as_secs_f64(),
        latency_s: record.e2e().as_secs_f64(),
        prompt_tokens: record.prompt_tokens,
        output_tokens: record.output_tokens,
        cached_tokens: record.cached_tokens,
        outcome: match record.status {
            Status::Finished => Outcome::Succeeded,
            Status::Unfinished
            | Status::Rejected
            | Status::Aborted
            | Status::TimedOut
            | Status::Failed => Outcome::Failed,
        },
    }
}
