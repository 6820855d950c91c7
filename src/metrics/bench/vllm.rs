//! The block and the JSON of `vllm bench serve`, and of `benchmark_serving.py` before it.
//!
//! Sources (vLLM, Apache-2.0): `vllm/benchmarks/serve.py` 0.33.0, `benchmarks/benchmark_serving.py`
//! of late 2024. Sections that depend on what is not simulated are not written: audio, probe
//! requests, client queueing.

use crate::engine::DraftCounts;

use super::block::Block;
use super::input::BenchRecord;
use super::json::Json;
use super::json::JsonLayout;
use super::json::NonFinite;
use super::keys::Figure;
use super::keys::Latency;
use super::keys::MetricKey;
use super::keys::Statistic;
use super::keys::Tool;
use super::sglang::details;
use super::summary::BenchSummary;

/// The form of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum VllmGeneration {
    /// `benchmark_serving.py` of late 2024: no failed requests, rates or peaks, `Total Token
    /// throughput`, and the JSON key `request_goodput:` with its stray colon.
    Late2024,
    /// 0.33.0.
    #[default]
    V0_33,
}

/// What the block shows, and what the run was asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmRun {
    /// The form to write.
    pub generation: VllmGeneration,
    /// `--request-rate` per second, infinite when all are sent at once.
    pub request_rate: f64,
    /// `--max-concurrency`.
    pub max_concurrency: Option<u64>,
    /// `--percentile-metrics`; printed in the tool's own order.
    pub percentile_metrics: Vec<Latency>,
    /// `--metric-percentiles`, 0 to 100, printed in this order.
    pub percentiles: Vec<f64>,
    /// What the result file tells of the run.
    pub header: Option<VllmHeader>,
}

/// The head of the result file.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmHeader {
    /// When the run ended, `YYYYmmdd-HHMMSS`.
    pub date: String,
    /// `--backend`.
    pub backend: String,
    /// `--label`.
    pub label: Option<String>,
    /// `--model`.
    pub model_id: String,
    /// `--tokenizer`, or the model.
    pub tokenizer_id: String,
    /// `--num-prompts`.
    pub num_prompts: u64,
    /// `--metadata`, in order.
    pub metadata: Vec<(String, String)>,
    /// `--burstiness`.
    pub burstiness: f64,
    /// `--ramp-up-strategy`, start and end in requests per second.
    pub ramp_up: Option<(String, u64, u64)>,
}

/// Why `--percentile-metrics` or `--metric-percentiles` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VllmFlagError {
    /// An unknown latency.
    #[error("--percentile-metrics: `{0}` is not reported; give ttft, tpot, itl or e2el")]
    Metric(String),
    /// A percentile that is none.
    #[error("--metric-percentiles: `{0}` must be a number from 0 to 100, such as 99")]
    Percentile(String),
}

impl Default for VllmRun {
    fn default() -> Self {
        Self {
            generation: VllmGeneration::V0_33,
            request_rate: f64::INFINITY,
            max_concurrency: None,
            percentile_metrics: vec![Latency::Ttft, Latency::Tpot, Latency::Itl],
            percentiles: vec![99.0],
            header: None,
        }
    }
}

const ORDER: [Latency; 4] = [Latency::Ttft, Latency::Tpot, Latency::Itl, Latency::E2e];

impl VllmRun {
    /// The latencies of `--percentile-metrics ttft,tpot,itl,e2el`.
    ///
    /// # Errors
    /// When a name is unknown, or names what is not simulated.
    pub fn parse_metrics(list: &str) -> Result<Vec<Latency>, VllmFlagError> {
        let latency = |name: &str| match name.trim() {
            "ttft" => Ok(Latency::Ttft),
            "tpot" => Ok(Latency::Tpot),
            "itl" => Ok(Latency::Itl),
            "e2el" => Ok(Latency::E2e),
            other => Err(VllmFlagError::Metric(other.to_owned())),
        };
        list.split(',').map(latency).collect()
    }

    /// The percentiles of `--metric-percentiles 50,99.9`.
    ///
    /// # Errors
    /// When one is no number from 0 to 100.
    pub fn parse_percentiles(list: &str) -> Result<Vec<f64>, VllmFlagError> {
        let percentile = |word: &str| {
            let p = word.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p));
            p.ok_or_else(|| VllmFlagError::Percentile(word.trim().to_owned()))
        };
        list.split(',').map(percentile).collect()
    }

    /// The latencies shown, in the tool's order.
    fn shown(&self) -> impl Iterator<Item = Latency> {
        ORDER.into_iter().filter(|latency| self.percentile_metrics.contains(latency))
    }

    fn is_current(&self) -> bool {
        self.generation == VllmGeneration::V0_33
    }

    /// The printed block.
    pub fn text(&self, summary: &BenchSummary) -> String {
        let mut block = Block::new();
        block.count(Figure::Completed, summary.completed);
        if self.is_current() {
            block.count(Figure::Failed, summary.failed);
            if let Some(limit) = self.max_concurrency {
                block.line("Maximum request concurrency:", limit);
            }
            if self.request_rate.is_finite() {
                block.decimal("Request rate configured (RPS):", self.request_rate);
            }
        }
        block.figure(Figure::Duration, summary.duration_s);
        block.count(Figure::InputTokens, summary.input_tokens);
        block.count(Figure::OutputTokens, summary.output_tokens);
        block.figure(Figure::RequestThroughput, summary.request_throughput());
        if let Some(goodput) = &summary.goodput {
            block.figure(Figure::RequestGoodput, goodput.request_goodput);
        }
        block.figure(Figure::OutputThroughput, summary.output_throughput());
        if self.is_current() {
            block.figure(Figure::PeakOutputTokens, summary.peak_output_tokens_per_s);
            block.figure(Figure::PeakRequests, summary.peak_concurrent_requests as f64);
            block.figure(Figure::TotalThroughput, summary.total_throughput());
        } else {
            block.decimal("Total Token throughput (tok/s):", summary.total_throughput());
        }
        let percentiles = self.percentiles.iter().map(|p| Statistic::Percentile(*p));
        let statistics: Vec<Statistic> =
            [Statistic::Mean, Statistic::Median].into_iter().chain(percentiles).collect();
        for latency in self.shown() {
            block.latency((Tool::Vllm, section(latency)), latency, &statistics, summary);
        }
        if self.is_current() && !summary.drafts.is_empty() {
            write_drafts(&mut block, &summary.drafts);
        }
        block.close()
    }

    /// The JSON object. The tool writes its result file on one line.
    pub fn json(
        &self,
        summary: &BenchSummary,
        layout: JsonLayout,
        non_finite: NonFinite,
    ) -> String {
        Json::Object(self.items(summary, None)).to_text(layout, non_finite)
    }

    /// The JSON object with the arrays of `--save-detailed`: one entry a request, in seconds.
    pub fn json_with_details(
        &self,
        summary: &BenchSummary,
        records: &[BenchRecord],
        layout: JsonLayout,
        non_finite: NonFinite,
    ) -> String {
        Json::Object(self.items(summary, Some(records))).to_text(layout, non_finite)
    }

    fn items(
        &self,
        summary: &BenchSummary,
        records: Option<&[BenchRecord]>,
    ) -> Vec<(String, Json)> {
        let mut items: Vec<(String, Json)> = Vec::new();
        let mut push = |key: &str, value: Json| items.push((key.to_owned(), value));
        for (key, value) in self.header.iter().flat_map(|header| self.header_items(header)) {
            push(&key, value);
        }
        push("duration", summary.duration_s.into());
        push("completed", summary.completed.into());
        if self.is_current() {
            push("failed", summary.failed.into());
        }
        push("total_input_tokens", summary.input_tokens.into());
        push("total_output_tokens", summary.output_tokens.into());
        push("request_throughput", summary.request_throughput().into());
        let goodput = summary.goodput.as_ref().map(|goodput| goodput.request_goodput);
        let goodput_key = if self.is_current() { "request_goodput" } else { "request_goodput:" };
        push(goodput_key, Json::or_null(goodput));
        push("output_throughput", summary.output_throughput().into());
        push("total_token_throughput", summary.total_throughput().into());
        if let Some(records) = records {
            let names: &[&str] = if self.is_current() {
                &["input_lens", "output_lens", "ttfts", "itls", "start_times"]
            } else {
                &["input_lens", "output_lens", "ttfts", "itls"]
            };
            for (key, value) in details(records, names) {
                push(&key, value);
            }
        }
        if self.is_current() {
            push("max_output_tokens_per_s", summary.peak_output_tokens_per_s.into());
            push("max_concurrent_requests", summary.peak_concurrent_requests.into());
            // seconds of audio per second: no audio is simulated
            push("rtfx", 0.0.into());
        }
        if self.is_current() && !summary.drafts.is_empty() {
            items.extend(draft_items(&summary.drafts));
        }
        let mut push = |key: &str, value: Json| items.push((key.to_owned(), value));
        let percentiles = self.percentiles.iter().map(|p| Statistic::Percentile(*p));
        let statistics = [Statistic::Mean, Statistic::Median, Statistic::StdDev];
        let statistics: Vec<Statistic> = statistics.into_iter().chain(percentiles).collect();
        for latency in self.shown() {
            for statistic in &statistics {
                let key = MetricKey::Latency(latency, *statistic).name(Tool::Vllm);
                push(&key, summary.latency(latency).statistic_ms(*statistic).into());
            }
        }
        items
    }

    fn header_items(&self, header: &VllmHeader) -> Vec<(String, Json)> {
        let mut items: Vec<(&str, Json)> = vec![("date", header.date.as_str().into())];
        if self.is_current() {
            items.push(("endpoint_type", header.backend.as_str().into()));
        }
        items.push(("backend", header.backend.as_str().into()));
        if self.is_current() {
            items.push(("label", Json::or_null(header.label.clone())));
        }
        items.push(("model_id", header.model_id.as_str().into()));
        items.push(("tokenizer_id", header.tokenizer_id.as_str().into()));
        items.push(("num_prompts", header.num_prompts.into()));
        for (key, value) in &header.metadata {
            items.push((key, value.as_str().into()));
        }
        let rate = self.request_rate;
        items.push(("request_rate", if rate.is_finite() { rate.into() } else { "inf".into() }));
        items.push(("burstiness", header.burstiness.into()));
        items.push(("max_concurrency", Json::or_null(self.max_concurrency)));
        if let Some((strategy, start, end)) = &header.ramp_up {
            items.push(("ramp_up_strategy", strategy.as_str().into()));
            items.push(("ramp_up_start_rps", (*start).into()));
            items.push(("ramp_up_end_rps", (*end).into()));
        }
        items.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The section of the block on speculative decoding.
fn write_drafts(block: &mut Block, drafts: &DraftCounts) {
    block.rule("Speculative Decoding", '-');
    block.figure(Figure::AcceptanceRate, drafts.acceptance_rate_pct().unwrap_or_default());
    block.decimal("Acceptance length:", drafts.acceptance_length().unwrap_or_default());
    block.count(Figure::Drafts, drafts.verifications());
    block.count(Figure::DraftTokens, drafts.draft_tokens());
    block.count(Figure::AcceptedTokens, drafts.accepted_tokens());
    block.bare("Per-position acceptance (%):");
    for (position, share) in drafts.acceptance_per_position().iter().enumerate() {
        block.decimal(&format!("  Position {position}:"), share * 100.0);
    }
}

/// The items of the JSON on speculative decoding.
fn draft_items(drafts: &DraftCounts) -> Vec<(String, Json)> {
    let name = |figure| MetricKey::Figure(figure).name(Tool::Vllm);
    let per_position = drafts.acceptance_per_position();
    vec![
        (name(Figure::AcceptanceRate), Json::or_null(drafts.acceptance_rate_pct())),
        (name(Figure::AcceptLength), Json::or_null(drafts.acceptance_length())),
        (name(Figure::Drafts), drafts.verifications().into()),
        (name(Figure::DraftTokens), drafts.draft_tokens().into()),
        (name(Figure::AcceptedTokens), drafts.accepted_tokens().into()),
        ("spec_decode_per_position_acceptance_rates".to_owned(), Json::array(per_position)),
    ]
}

fn section(latency: Latency) -> &'static str {
    match latency {
        Latency::E2e => "End-to-end Latency",
        Latency::Ttft => "Time to First Token",
        Latency::Tpot => "Time per Output Token (excl. 1st token)",
        Latency::Itl => "Inter-token Latency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::bench::input::BenchInput;

    #[test]
    fn speculation_adds_its_section_after_the_latencies() {
        let mut input = BenchInput::from_records(1.0, &[]);
        for accepted in [3, 0, 1, 2] {
            input.drafts.count(3, accepted);
        }
        let summary = BenchSummary::new(input, None);
        let text = VllmRun::default().text(&summary);
        let section = [
            "---------------Speculative Decoding---------------",
            "Acceptance rate (%):                     50.00     ",
            "Acceptance length:                       2.50      ",
            "Drafts:                                  4         ",
            "Draft tokens:                            12        ",
            "Accepted tokens:                         6         ",
            "Per-position acceptance (%):",
            "  Position 0:                            75.00     ",
            "  Position 1:                            50.00     ",
            "  Position 2:                            25.00     ",
            "==================================================\n",
        ];
        assert!(text.ends_with(&section.join("\n")), "{text}");
        let json = VllmRun::default().json(&summary, JsonLayout::Line, NonFinite::Null);
        let items = "\"rtfx\": 0.0, \"spec_decode_acceptance_rate\": 50.0, \
            \"spec_decode_acceptance_length\": 2.5, \"spec_decode_num_drafts\": 4, \
            \"spec_decode_draft_tokens\": 12, \"spec_decode_accepted_tokens\": 6, \
            \"spec_decode_per_position_acceptance_rates\": [0.75, 0.5, 0.25], \"mean_ttft_ms\"";
        assert!(json.contains(items), "{json}");
        let of_2024 = VllmRun { generation: VllmGeneration::Late2024, ..VllmRun::default() };
        assert!(!of_2024.text(&summary).contains("Speculative"));
    }

    #[test]
    fn without_drafts_nothing_is_said_of_speculation() {
        let summary = BenchSummary::new(BenchInput::from_records(1.0, &[]), None);
        assert!(!VllmRun::default().text(&summary).contains("Speculative"));
        let json = VllmRun::default().json(&summary, JsonLayout::Line, NonFinite::Null);
        assert!(!json.contains("spec_decode"), "{json}");
    }

    #[test]
    fn flags_that_cannot_be_read_say_what_would_be_right() {
        assert_eq!(
            VllmRun::parse_metrics("ttft,queue").unwrap_err().to_string(),
            "--percentile-metrics: `queue` is not reported; give ttft, tpot, itl or e2el"
        );
        assert_eq!(
            VllmRun::parse_percentiles("99,101").unwrap_err().to_string(),
            "--metric-percentiles: `101` must be a number from 0 to 100, such as 99"
        );
        assert_eq!(VllmRun::parse_percentiles("50, 99.9").unwrap(), vec![50.0, 99.9]);
    }
}
