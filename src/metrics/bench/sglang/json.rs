//! The JSON line of each generation, keys in the tool's order.

use crate::metrics::bench::goodput::Goodput;
use crate::metrics::bench::input::BenchRecord;
use crate::metrics::bench::json::Json;
use crate::metrics::bench::json::JsonLayout;
use crate::metrics::bench::json::NonFinite;
use crate::metrics::bench::keys::Latency;
use crate::metrics::bench::keys::MetricKey;
use crate::metrics::bench::keys::Tool;
use crate::metrics::bench::summary::BenchSummary;

use super::RequestRate;
use super::SglangGeneration;
use super::SglangRun;

impl SglangRun {
    /// The JSON line, without its line break.
    pub fn json(&self, summary: &BenchSummary, non_finite: NonFinite) -> String {
        Json::Object(self.items(summary)).to_text(JsonLayout::Line, non_finite)
    }

    /// The JSON line with the arrays of `--output-details`: one entry a request, in seconds.
    /// Simulated answers have no text, so that `generated_texts` holds empty strings.
    pub fn json_with_details(
        &self,
        summary: &BenchSummary,
        records: &[BenchRecord],
        non_finite: NonFinite,
    ) -> String {
        let mut items = self.items(summary);
        items.extend(details(records, &["input_lens", "output_lens", "ttfts", "itls"]));
        if self.reports_cache() {
            let cached = records.iter().map(|record| record.request.cached_tokens);
            items.push(("cached_tokens".to_owned(), Json::array(cached)));
        }
        Json::Object(items).to_text(JsonLayout::Line, non_finite)
    }

    fn items(&self, summary: &BenchSummary) -> Vec<(String, Json)> {
        if self.generation == SglangGeneration::Early2025 {
            return self.items_of_generation_a(summary);
        }
        let mut items = Items::default();
        if self.generation >= SglangGeneration::V0_5_8 {
            items.push("tag", Json::or_null(self.tag.clone()));
        }
        items.push("backend", self.backend.as_str());
        items.push("dataset_name", self.dataset_name.as_str());
        items.push("request_rate", self.rate());
        items.push("max_concurrency", Json::or_null(self.max_concurrency));
        items.push("sharegpt_output_len", Json::or_null(self.sharegpt_output_len));
        items.push("random_input_len", Json::or_null(self.random_input_len));
        items.push("random_output_len", Json::or_null(self.random_output_len));
        items.push("random_range_ratio", Json::or_null(self.random_range_ratio));
        if self.generation >= SglangGeneration::V0_5_8 {
            items.push("server_info", self.server_info.clone());
        }
        items.push("duration", summary.duration_s);
        items.push("completed", summary.completed);
        items.push("total_input_tokens", summary.input_tokens);
        if self.generation >= SglangGeneration::V0_5_8 {
            let text_tokens = summary.input_tokens.saturating_sub(summary.input_vision_tokens);
            items.push("total_input_text_tokens", text_tokens);
            items.push("total_input_vision_tokens", summary.input_vision_tokens);
        }
        items.push("total_output_tokens", summary.output_tokens);
        items.push("total_output_tokens_retokenized", summary.retokenized_output_tokens);
        items.push("request_throughput", summary.request_throughput());
        items.push("input_throughput", summary.input_throughput());
        items.push("output_throughput", summary.output_throughput());
        if self.generation >= SglangGeneration::V0_5_8 {
            items.push("total_throughput", summary.total_throughput());
        }
        for latency in Latency::ALL {
            items.latency(self.generation, latency, summary);
        }
        items.push("concurrency", summary.concurrency);
        items.push("accept_length", Json::or_null(summary.drafts.acceptance_length()));
        if self.generation.prints_peaks() {
            items.push("max_output_tokens_per_s", summary.peak_output_tokens_per_s);
            items.push("max_concurrent_requests", summary.peak_concurrent_requests);
        }
        if self.generation == SglangGeneration::V0_5_23
            && let Some(goodput) = &summary.goodput
        {
            items.goodput(goodput);
        }
        if self.reports_cache() {
            items.push("cache_report", cache_json(summary));
        }
        items.0
    }

    /// The short line of `lora_bench.py`, which mixes arguments and results.
    fn items_of_generation_a(&self, summary: &BenchSummary) -> Vec<(String, Json)> {
        let mut items = Items::default();
        items.push("backend", self.backend.as_str());
        items.push("request_rate", self.rate());
        items.push("total_input_tokens", summary.input_tokens);
        items.push("total_output_tokens", summary.output_tokens);
        items.push("total_output_tokens_retokenized", summary.retokenized_output_tokens);
        for latency in Latency::ALL {
            items.latency(self.generation, latency, summary);
        }
        items.push("output_throughput", summary.output_throughput());
        items.push("random_input_len", Json::or_null(self.random_input_len));
        items.push("random_output_len", Json::or_null(self.random_output_len));
        items.push("random_range_ratio", Json::or_null(self.random_range_ratio));
        items.push("duration", summary.duration_s);
        items.push("completed", summary.completed);
        items.0
    }

    fn rate(&self) -> Json {
        match self.request_rate {
            RequestRate::PerSecond(rate) => Json::Float(rate),
            RequestRate::Trace => "trace".into(),
        }
    }
}

/// The arrays of one entry a request that both tools write on request.
pub(in crate::metrics::bench) fn details(
    records: &[BenchRecord],
    names: &[&str],
) -> Vec<(String, Json)> {
    let array = |name: &str| match name {
        "input_lens" => Json::array(records.iter().map(|record| record.request.prompt_tokens)),
        "output_lens" => Json::array(records.iter().map(|record| {
            if record.request.succeeded() { record.request.output_tokens } else { 0 }
        })),
        "start_times" => Json::array(records.iter().map(|record| record.request.start_s)),
        "ttfts" => Json::array(records.iter().map(|record| record.request.ttft_s)),
        "itls" => Json::Array(
            records.iter().map(|record| Json::array(record.itl_s.iter().copied())).collect(),
        ),
        "generated_texts" => Json::array(records.iter().map(|_| "")),
        _ => Json::array(records.iter().map(|record| record.error.as_str())),
    };
    let names = names.iter().copied().chain(["generated_texts", "errors"]);
    names.map(|name| (name.to_owned(), array(name))).collect()
}

#[derive(Default)]
struct Items(Vec<(String, Json)>);

impl Items {
    fn push(&mut self, key: &str, value: impl Into<Json>) {
        self.0.push((key.to_owned(), value.into()));
    }

    fn latency(&mut self, form: SglangGeneration, latency: Latency, summary: &BenchSummary) {
        for statistic in form.written(latency) {
            let key = MetricKey::Latency(latency, *statistic).name(Tool::Sglang);
            self.push(&key, summary.latency(latency).statistic_ms(*statistic));
        }
    }

    fn goodput(&mut self, goodput: &Goodput) {
        let object = |pairs: &mut dyn Iterator<Item = (String, f64)>| {
            Json::Object(pairs.map(|(key, value)| (key, Json::Float(value))).collect())
        };
        let limits = goodput.slos.limits_ms().map(|(metric, ms)| (metric.name().to_owned(), ms));
        self.push("goodput_slos_ms", object(&mut { limits }));
        self.push("request_goodput", goodput.request_goodput);
        self.push("slo_attainment", goodput.attainment);
        let shares = goodput.attainment_by_metric.iter();
        let shares = shares.map(|(metric, share)| (metric.name().to_owned(), *share));
        self.push("slo_attainment_by_metric", object(&mut { shares }));
    }
}

fn cache_json(summary: &BenchSummary) -> Json {
    let cache = &summary.cache;
    let tiers = cache.tiers.as_ref();
    let storage = tiers.filter(|tiers| tiers.storage_tokens > 0);
    // round(x, 2) of Python rounds the decimal expansion half to even, as two decimals print
    let hit_rate = format!("{:.2}", cache.hit_rate_pct()).parse().unwrap_or(0.0);
    let mut items = Items::default();
    items.push("total_prompt_tokens", cache.prompt_tokens);
    items.push("total_cached_tokens", cache.cached_tokens);
    items.push("cache_hit_rate_pct", Json::Float(hit_rate));
    items.push("device_cached_tokens", Json::or_null(tiers.map(|tiers| tiers.device_tokens)));
    items.push("host_cached_tokens", Json::or_null(tiers.map(|tiers| tiers.host_tokens)));
    items.push("storage_cached_tokens", Json::or_null(storage.map(|tiers| tiers.storage_tokens)));
    let backend = storage.and_then(|tiers| tiers.storage_backend.clone());
    items.push("storage_backend", Json::or_null(backend));
    Json::Object(items.0)
}
