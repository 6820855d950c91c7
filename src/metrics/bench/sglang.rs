//! The block and the JSON line of `sglang.bench_serving`, in the five forms it has had.
//!
//! Sources (SGLang, Apache-2.0): `python/sglang/bench_serving.py` 0.4.10 to 0.5.9,
//! `python/sglang/benchmark/serving.py` 0.5.23, `benchmark/lora/lora_bench.py` for generation A.

mod json;

use super::block::Block;
use super::goodput::Goodput;
use super::json::Json;
use super::json::python_repr;
use super::keys::Figure;
use super::keys::Latency;
use super::keys::Statistic;
use super::keys::Tool;
use super::summary::BenchSummary;

use Statistic::Max;
use Statistic::Mean;
use Statistic::Median;
use Statistic::StdDev;

/// The form of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SglangGeneration {
    /// Early 2025: `Total throughput`, no concurrency, no peaks.
    Early2025,
    /// 0.4.10: concurrency, no TPOT section.
    V0_4_10,
    /// About 0.5.8: text and vision tokens, peaks, TPOT again.
    V0_5_8,
    /// 0.5.9: P90 and P99 of E2E.
    V0_5_9,
    /// 0.5.23: P90, P95 and P99 everywhere, goodput, cache report.
    #[default]
    V0_5_23,
}

/// How requests were sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestRate {
    /// Requests per second; infinite when all are sent at once.
    PerSecond(f64),
    /// At the times of a trace.
    Trace,
}

/// What the block and the JSON tell of the run besides its results.
#[derive(Debug, Clone, PartialEq)]
pub struct SglangRun {
    /// The form to write.
    pub generation: SglangGeneration,
    /// `--tag`.
    pub tag: Option<String>,
    /// `--backend`.
    pub backend: String,
    /// `--dataset-name`.
    pub dataset_name: String,
    /// `--request-rate`.
    pub request_rate: RequestRate,
    /// `--max-concurrency`.
    pub max_concurrency: Option<u64>,
    /// `--sharegpt-output-len` in tokens.
    pub sharegpt_output_len: Option<u64>,
    /// `--random-input-len` in tokens.
    pub random_input_len: Option<u64>,
    /// `--random-output-len` in tokens.
    pub random_output_len: Option<u64>,
    /// `--random-range-ratio`.
    pub random_range_ratio: Option<f64>,
    /// What the server tells of itself.
    pub server_info: Json,
    /// `--cache-report`; generation E only.
    pub cache_report: CacheReportFlag,
}

/// Whether cached tokens are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheReportFlag {
    /// No cache section.
    #[default]
    Absent,
    /// `--cache-report`.
    Present,
}

impl Default for SglangRun {
    /// The tool's defaults: `--backend sglang --dataset-name random`, everything sent at once.
    fn default() -> Self {
        Self {
            generation: SglangGeneration::V0_5_23,
            tag: None,
            backend: "sglang".to_owned(),
            dataset_name: "random".to_owned(),
            request_rate: RequestRate::PerSecond(f64::INFINITY),
            max_concurrency: None,
            sharegpt_output_len: None,
            random_input_len: Some(1024),
            random_output_len: Some(1024),
            random_range_ratio: Some(0.0),
            server_info: Json::Null,
            cache_report: CacheReportFlag::Absent,
        }
    }
}

pub(super) use json::details;

const P90: Statistic = Statistic::Percentile(90.0);
const P95: Statistic = Statistic::Percentile(95.0);
const P99: Statistic = Statistic::Percentile(99.0);

impl SglangGeneration {
    /// The statistics printed of a latency; none where it has no section.
    fn printed(self, latency: Latency) -> &'static [Statistic] {
        match (latency, self) {
            (Latency::Tpot, Self::V0_4_10) => &[],
            (Latency::Itl, Self::V0_5_23) => &[Mean, Median, P90, P95, P99, Max],
            (_, Self::V0_5_23) => &[Mean, Median, P90, P95, P99],
            (Latency::E2e, Self::V0_5_9) => &[Mean, Median, P90, P99],
            (Latency::E2e, _) => &[Mean, Median],
            (Latency::Itl, Self::V0_4_10 | Self::V0_5_8 | Self::V0_5_9) => {
                &[Mean, Median, P95, P99, Max]
            }
            _ => &[Mean, Median, P99],
        }
    }

    /// The statistics within the JSON.
    fn written(self, latency: Latency) -> &'static [Statistic] {
        match (latency, self) {
            (Latency::E2e, Self::Early2025) => &[Mean, Median],
            (Latency::Tpot, Self::Early2025) => &[],
            (_, Self::Early2025) => &[Median],
            (_, Self::V0_5_23) => &[Mean, Median, StdDev, P90, P95, P99],
            (Latency::E2e, Self::V0_5_9) => &[Mean, Median, StdDev, P90, P99],
            (Latency::Itl, _) => &[Mean, Median, StdDev, P95, P99],
            _ => &[Mean, Median, StdDev, P99],
        }
    }

    fn section(self, latency: Latency) -> &'static str {
        match latency {
            Latency::E2e => "End-to-End Latency",
            Latency::Ttft => "Time to First Token",
            Latency::Tpot => "Time per Output Token (excl. 1st token)",
            Latency::Itl if self == Self::Early2025 => "Inter-token Latency",
            Latency::Itl => "Inter-Token Latency",
        }
    }

    fn prints_peaks(self) -> bool {
        self >= Self::V0_5_8
    }
}

impl SglangRun {
    /// The printed block, without the blank line the tool prints before it.
    pub fn text(&self, summary: &BenchSummary) -> String {
        let mut block = Block::new();
        self.write_counts(&mut block, summary);
        self.write_rates(&mut block, summary);
        if self.generation == SglangGeneration::V0_5_23
            && let Some(goodput) = &summary.goodput
        {
            write_goodput(&mut block, goodput);
        }
        for latency in Latency::ALL {
            let printed = self.generation.printed(latency);
            if !printed.is_empty() {
                let title = self.generation.section(latency);
                block.latency((Tool::Sglang, title), latency, printed, summary);
            }
        }
        if self.reports_cache() {
            write_cache(&mut block, summary);
        }
        block.close()
    }

    fn write_counts(&self, block: &mut Block, summary: &BenchSummary) {
        block.line("Backend:", &self.backend);
        block.line(
            "Traffic request rate:",
            match self.request_rate {
                RequestRate::PerSecond(rate) => python_repr(rate),
                RequestRate::Trace => "trace".to_owned(),
            },
        );
        if self.generation >= SglangGeneration::V0_4_10 {
            let limit = self.max_concurrency.filter(|limit| *limit > 0);
            let limit = limit.map_or_else(|| "not set".to_owned(), |limit| limit.to_string());
            block.line("Max request concurrency:", limit);
        }
        block.count(Figure::Completed, summary.completed);
        block.figure(Figure::Duration, summary.duration_s);
        block.count(Figure::InputTokens, summary.input_tokens);
        if self.generation >= SglangGeneration::V0_5_8 {
            let text_tokens = summary.input_tokens.saturating_sub(summary.input_vision_tokens);
            block.count(Figure::InputTextTokens, text_tokens);
        }
        let shows_images = matches!(self.dataset_name.as_str(), "image" | "mmmu");
        if self.generation == SglangGeneration::V0_5_8
            || self.generation > SglangGeneration::V0_5_8 && shows_images
        {
            block.count(Figure::InputVisionTokens, summary.input_vision_tokens);
        }
        block.count(Figure::OutputTokens, summary.output_tokens);
        block.count(Figure::RetokenizedTokens, summary.retokenized_output_tokens);
    }

    fn write_rates(&self, block: &mut Block, summary: &BenchSummary) {
        block.figure(Figure::RequestThroughput, summary.request_throughput());
        block.figure(Figure::InputThroughput, summary.input_throughput());
        block.figure(Figure::OutputThroughput, summary.output_throughput());
        if self.generation.prints_peaks() {
            block.figure(Figure::PeakOutputTokens, summary.peak_output_tokens_per_s);
            block.count(Figure::PeakRequests, summary.peak_concurrent_requests);
        }
        if self.generation == SglangGeneration::Early2025 {
            block.decimal("Total throughput (tok/s):", summary.total_throughput());
            return;
        }
        block.figure(Figure::TotalThroughput, summary.total_throughput());
        block.figure(Figure::Concurrency, summary.concurrency);
        if let Some(length) = summary.drafts.acceptance_length() {
            block.figure(Figure::AcceptLength, length);
        }
    }

    fn reports_cache(&self) -> bool {
        self.generation == SglangGeneration::V0_5_23
            && self.cache_report == CacheReportFlag::Present
    }
}

fn write_goodput(block: &mut Block, goodput: &Goodput) {
    block.rule("Goodput", '-');
    block.line("SLOs (ms):", &goodput.slos);
    block.figure(Figure::RequestGoodput, goodput.request_goodput);
    block.figure(Figure::SloAttainment, goodput.attainment * 100.0);
    for (metric, share) in &goodput.attainment_by_metric {
        block.figure(Figure::MetricAttainment(*metric), share * 100.0);
    }
}

fn write_cache(block: &mut Block, summary: &BenchSummary) {
    let cache = &summary.cache;
    block.rule("Cache Hit Details", '-');
    block.count(Figure::PromptTokens, cache.prompt_tokens);
    block.count(Figure::CachedTokens, cache.cached_tokens);
    let tiers = cache.tiers.as_ref().filter(|_| cache.cached_tokens > 0);
    let storage = tiers.filter(|tiers| tiers.storage_tokens > 0).map(|tiers| {
        let name = tiers.storage_backend.as_ref();
        let label = name.map_or_else(|| "  Storage:".to_owned(), |n| format!("  Storage ({n}):"));
        (label, tiers.storage_tokens)
    });
    if let Some(tiers) = tiers {
        block.line("  Device:", tiers.device_tokens);
        block.line("  Host:", tiers.host_tokens);
    }
    if let Some((label, tokens)) = &storage {
        block.line(label, tokens);
    }
    block.percent(Figure::CacheHitRate.label(), cache.hit_rate_pct());
    let percent = |tokens: u64| tokens as f64 / cache.cached_tokens as f64 * 100.0;
    if let Some(tiers) = tiers {
        block.percent("  Device:", percent(tiers.device_tokens));
        block.percent("  Host:", percent(tiers.host_tokens));
    }
    if let Some((label, tokens)) = storage {
        block.percent(&label, percent(tokens));
    }
}

#[cfg(test)]
mod tests;
