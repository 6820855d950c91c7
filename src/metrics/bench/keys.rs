//! The names of the figures: the keys of both tools' JSON, the labels of both tools' blocks, and
//! the headings of published tables.

use super::goodput::SloMetric;
use super::json::python_repr;

/// A latency the tools report on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latency {
    /// End to end.
    E2e,
    /// Time to first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Gap between tokens.
    Itl,
}

impl Latency {
    /// All of them, in SGLang's order.
    pub const ALL: [Self; 4] = [Self::E2e, Self::Ttft, Self::Tpot, Self::Itl];
}

/// What is told of a latency.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// The middle value.
    Median,
    /// Population standard deviation.
    StdDev,
    /// Percentile, 0 to 100.
    Percentile(f64),
    /// The largest value.
    Max,
}

/// A figure that is no latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// Length of the benchmark in seconds.
    Duration,
    /// Successful requests.
    Completed,
    /// Failed requests.
    Failed,
    /// Prompt tokens.
    InputTokens,
    /// Prompt tokens of text.
    InputTextTokens,
    /// Prompt tokens of images.
    InputVisionTokens,
    /// Generated tokens.
    OutputTokens,
    /// Generated tokens, encoded again.
    RetokenizedTokens,
    /// Requests per second.
    RequestThroughput,
    /// Good requests per second.
    RequestGoodput,
    /// Share of requests that met every SLO.
    SloAttainment,
    /// Share of requests that met this SLO.
    MetricAttainment(SloMetric),
    /// Prompt tokens per second.
    InputThroughput,
    /// Generated tokens per second.
    OutputThroughput,
    /// Most tokens within a second.
    PeakOutputTokens,
    /// Most requests within a second.
    PeakRequests,
    /// Prompt and generated tokens per second.
    TotalThroughput,
    /// Mean number in flight.
    Concurrency,
    /// Accepted drafts per draft in percent.
    AcceptanceRate,
    /// Tokens that come out of a verification step.
    AcceptLength,
    /// Verification steps.
    Drafts,
    /// Drafts verified.
    DraftTokens,
    /// Drafts accepted.
    AcceptedTokens,
    /// Prompt tokens, as the cache report counts them.
    PromptTokens,
    /// Prompt tokens from a cache.
    CachedTokens,
    /// Cached share of prompt tokens in percent.
    CacheHitRate,
}

/// The name of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKey {
    /// A latency in milliseconds.
    Latency(Latency, Statistic),
    /// Anything else.
    Figure(Figure),
}

/// Which benchmark tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// `sglang.bench_serving`.
    Sglang,
    /// `vllm bench serve` and its ancestor `benchmark_serving.py`.
    Vllm,
}

/// Figure, JSON key, label as the newest block prints it, and unit.
type Entry = (Figure, &'static str, &'static str, &'static str);

const FIGURES: [Entry; 28] = [
    (Figure::Completed, "completed", "Successful requests:", ""),
    (Figure::Failed, "failed", "Failed requests:", ""),
    (Figure::Duration, "duration", "Benchmark duration (s):", "s"),
    (Figure::InputTokens, "total_input_tokens", "Total input tokens:", ""),
    (Figure::InputTextTokens, "total_input_text_tokens", "Total input text tokens:", ""),
    (Figure::InputVisionTokens, "total_input_vision_tokens", "Total input vision tokens:", ""),
    (Figure::OutputTokens, "total_output_tokens", "Total generated tokens:", ""),
    (
        Figure::RetokenizedTokens,
        "total_output_tokens_retokenized",
        "Total generated tokens (retokenized):",
        "",
    ),
    (Figure::RequestThroughput, "request_throughput", "Request throughput (req/s):", "req/s"),
    (Figure::RequestGoodput, "request_goodput", "Request goodput (req/s):", "req/s"),
    (Figure::InputThroughput, "input_throughput", "Input token throughput (tok/s):", "tok/s"),
    (Figure::OutputThroughput, "output_throughput", "Output token throughput (tok/s):", "tok/s"),
    (
        Figure::PeakOutputTokens,
        "max_output_tokens_per_s",
        "Peak output token throughput (tok/s):",
        "tok/s",
    ),
    (Figure::PeakRequests, "max_concurrent_requests", "Peak concurrent requests:", ""),
    (Figure::TotalThroughput, "total_token_throughput", "Total token throughput (tok/s):", "tok/s"),
    (Figure::Concurrency, "concurrency", "Concurrency:", ""),
    (Figure::AcceptanceRate, "spec_decode_acceptance_rate", "Acceptance rate (%):", "%"),
    (Figure::AcceptLength, "accept_length", "Accept length:", "tok"),
    (Figure::Drafts, "spec_decode_num_drafts", "Drafts:", ""),
    (Figure::DraftTokens, "spec_decode_draft_tokens", "Draft tokens:", ""),
    (Figure::AcceptedTokens, "spec_decode_accepted_tokens", "Accepted tokens:", ""),
    (Figure::SloAttainment, "slo_attainment", "SLO attainment (%):", ""),
    (
        Figure::MetricAttainment(SloMetric::Ttft),
        "slo_attainment_by_metric.ttft",
        "TTFT SLO attainment (%):",
        "",
    ),
    (
        Figure::MetricAttainment(SloMetric::Tpot),
        "slo_attainment_by_metric.tpot",
        "TPOT SLO attainment (%):",
        "",
    ),
    (
        Figure::MetricAttainment(SloMetric::E2el),
        "slo_attainment_by_metric.e2el",
        "E2EL SLO attainment (%):",
        "",
    ),
    (Figure::PromptTokens, "cache_report.total_prompt_tokens", "Total prompt tokens:", ""),
    (Figure::CachedTokens, "cache_report.total_cached_tokens", "Total cached tokens:", ""),
    (Figure::CacheHitRate, "cache_report.cache_hit_rate_pct", "Cache hit rate:", "%"),
];

/// vLLM's key of the accept length; SGLang's is `accept_length`.
const VLLM_ACCEPT_LENGTH: &str = "spec_decode_acceptance_length";

/// Keys and labels of other versions, and headings of published tables.
const ALIASES: [(Figure, &str); 8] = [
    (Figure::TotalThroughput, "total_throughput"),
    (Figure::RequestGoodput, "request_goodput:"),
    (Figure::TotalThroughput, "total throughput (tok/s)"),
    (Figure::RequestThroughput, "req throughput (req/s)"),
    (Figure::Duration, "duration (s)"),
    (Figure::AcceptLength, "acceptance length"),
    (Figure::AcceptLength, VLLM_ACCEPT_LENGTH),
    (Figure::OutputTokens, "total output tokens"),
];

impl Latency {
    fn key(self, tool: Tool) -> &'static str {
        match (self, tool) {
            (Self::E2e, Tool::Sglang) => "e2e_latency",
            (Self::E2e, Tool::Vllm) => "e2el",
            (Self::Ttft, _) => "ttft",
            (Self::Tpot, _) => "tpot",
            (Self::Itl, _) => "itl",
        }
    }

    /// The name within a label.
    pub(super) fn label(self, tool: Tool) -> &'static str {
        match (self, tool) {
            (Self::E2e, Tool::Sglang) => "E2E Latency",
            (Self::E2e, Tool::Vllm) => "E2EL",
            (Self::Ttft, _) => "TTFT",
            (Self::Tpot, _) => "TPOT",
            (Self::Itl, _) => "ITL",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "e2e_latency" | "e2el" | "e2e" => Self::E2e,
            "ttft" => Self::Ttft,
            "tpot" => Self::Tpot,
            "itl" => Self::Itl,
            _ => return None,
        })
    }
}

impl Statistic {
    fn key(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Median => "median".to_owned(),
            Self::StdDev => "std".to_owned(),
            Self::Max => "max".to_owned(),
            Self::Percentile(p) => format!("p{}", percentile_word(p)),
        }
    }

    /// The name at the head of a label.
    pub(super) fn label(self) -> String {
        match self {
            Self::Mean => "Mean".to_owned(),
            Self::Median => "Median".to_owned(),
            Self::StdDev => "Std".to_owned(),
            Self::Max => "Max".to_owned(),
            Self::Percentile(p) => format!("P{}", percentile_word(p)),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "mean" | "average" | "avg" => Self::Mean,
            "median" => Self::Median,
            "std" => Self::StdDev,
            "max" => Self::Max,
            _ => {
                let p: f64 = name.strip_prefix('p')?.parse().ok()?;
                return (0.0..=100.0).contains(&p).then_some(Self::Percentile(p));
            }
        })
    }
}

/// vLLM's spelling of a percentile: `99`, `99.9`.
fn percentile_word(p: f64) -> String {
    if p.fract() == 0.0 { format!("{p:.0}") } else { python_repr(p) }
}

impl MetricKey {
    /// Where a block prints the figure: the counts first, then latency by latency. Smaller is
    /// earlier.
    pub fn place(self) -> f64 {
        match self {
            Self::Figure(figure) => {
                let known = FIGURES.iter().position(|entry| entry.0 == figure);
                known.unwrap_or(FIGURES.len()) as f64
            }
            Self::Latency(latency, statistic) => {
                let section = match latency {
                    Latency::Ttft => 100.0,
                    Latency::Tpot => 110.0,
                    Latency::Itl => 120.0,
                    Latency::E2e => 130.0,
                };
                section
                    + match statistic {
                        Statistic::Mean => 0.0,
                        Statistic::Median => 1.0,
                        Statistic::StdDev => 2.0,
                        Statistic::Percentile(p) => 3.0 + p / 101.0,
                        Statistic::Max => 4.0,
                    }
            }
        }
    }

    /// The key within this tool's JSON (a point steps into an object).
    pub fn name(self, tool: Tool) -> String {
        match self {
            Self::Latency(latency, statistic) => {
                format!("{}_{}_ms", statistic.key(), latency.key(tool))
            }
            Self::Figure(Figure::TotalThroughput) if tool == Tool::Sglang => {
                "total_throughput".to_owned()
            }
            Self::Figure(Figure::AcceptLength) if tool == Tool::Vllm => {
                VLLM_ACCEPT_LENGTH.to_owned()
            }
            Self::Figure(figure) => entry(figure).1.to_owned(),
        }
    }

    /// The figure under this JSON key of either tool.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(known) = FIGURES.iter().find(|known| known.1 == name) {
            return Some(Self::Figure(known.0));
        }
        if let Some((figure, _)) = ALIASES.iter().find(|(_, alias)| *alias == name) {
            return Some(Self::Figure(*figure));
        }
        let (statistic, latency) = name.strip_suffix("_ms")?.split_once('_')?;
        Some(Self::Latency(Latency::parse(latency)?, Statistic::parse(statistic)?))
    }

    /// The figure under this label of a block or heading of a table, with or without its colon, in
    /// any capitals.
    pub(super) fn of_label(label: &str) -> Option<Self> {
        let label = label.trim().trim_end_matches(':').to_lowercase();
        let known = |known: &&Entry| known.2.trim_end_matches(':').to_lowercase() == label;
        if let Some(known) = FIGURES.iter().find(known) {
            return Some(Self::Figure(known.0));
        }
        if let Some((figure, _)) = ALIASES.iter().find(|(_, alias)| *alias == label) {
            return Some(Self::Figure(*figure));
        }
        let (statistic, latency) = label.strip_suffix("(ms)")?.trim().split_once(' ')?;
        let latency = Latency::parse(&latency.replace(' ', "_"))?;
        Some(Self::Latency(latency, Statistic::parse(statistic)?))
    }

    /// What a reader calls it, with its unit in brackets.
    pub fn title(self, tool: Tool) -> String {
        match self {
            Self::Latency(latency, statistic) => {
                format!("{} {} (ms)", statistic.label(), latency.label(tool))
            }
            Self::Figure(figure) => {
                let title = entry(figure).2.trim_end_matches(':').trim_end_matches(" (%)");
                match entry(figure).3 {
                    unit if unit.is_empty() || title.ends_with(')') => title.to_owned(),
                    unit => format!("{title} ({unit})"),
                }
            }
        }
    }
}

impl Figure {
    /// Its place in the order of the blocks.
    pub(super) fn rank(self) -> usize {
        FIGURES.iter().position(|known| known.0 == self).unwrap_or(FIGURES.len())
    }

    /// The label in the newest blocks, colon included.
    pub(super) fn label(self) -> &'static str {
        entry(self).2
    }
}

fn entry(figure: Figure) -> &'static Entry {
    FIGURES
        .iter()
        .find(|known| known.0 == figure)
        .unwrap_or_else(|| unreachable!("{figure:?} has no entry"))
}

#[cfg(test)]
mod tests;
