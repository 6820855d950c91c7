//! Reads the tools' JSON, which Python may have written with `Infinity` and `NaN`.

use serde_json::Map;
use serde_json::Value;

use crate::metrics::bench::keys::Figure;
use crate::metrics::bench::keys::MetricKey;
use crate::metrics::bench::keys::Statistic;
use crate::metrics::bench::keys::Tool;
use crate::metrics::bench::sglang::SglangGeneration;
use crate::metrics::bench::vllm::VllmGeneration;

use super::Found;
use super::Generation;
use super::Measured;
use super::Origin;
use super::parse_number;

pub(super) fn read(text: &str) -> Found {
    let mut found = Found::default();
    for (line, chunk) in chunks(text.trim_start_matches('\u{feff}')) {
        match crate::json::parse(&quote_non_finite(chunk.trim_end())) {
            Ok(Value::Array(items)) => {
                for item in items {
                    read_value(item, line, &mut found);
                }
            }
            Ok(value) => read_value(value, line, &mut found),
            Err(error) => {
                let at = line + error.line().saturating_sub(1);
                let hint = if error.is_eof() { "the object is cut off" } else { "no valid JSON" };
                found.problem(at, format!("{hint}: {error}; expected one object of a benchmark"));
            }
        }
    }
    found
}

/// The text in pieces that hold one value each, with the line they begin on: a new piece begins
/// with every line whose first character is a brace.
fn chunks(text: &str) -> Vec<(usize, &str)> {
    if text.trim_start().starts_with('[') {
        return vec![(1, text)];
    }
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_first = starts.is_empty() && !line.trim().is_empty();
        if is_first || line.starts_with('{') {
            starts.push((index + 1, at));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([text.len()]);
    starts.iter().zip(ends).map(|((line, start), end)| (*line, &text[*start..end])).collect()
}

/// Puts `Infinity`, `-Infinity` and `NaN` outside of strings into quotes.
pub(crate) fn quote_non_finite(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        if let (false, Some(word)) = (in_string, word) {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = &rest[word.len()..];
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn read_value(value: Value, line: usize, found: &mut Found) {
    let Value::Object(object) = value else {
        found.problem(line, "expected an object of a benchmark, such as {\"duration\": 13.5}");
        return;
    };
    let mut measured = Measured::new(Origin::Json, line);
    read_object(&object, "", &mut measured);
    if measured.metrics.is_empty() {
        found.problem(line, "an object without figures: expected keys such as `mean_ttft_ms`");
        return;
    }
    measured.metrics.sort_by_key(|(key, _)| rank(*key));
    classify(&object, &mut measured);
    found.measured.push(measured);
}

fn read_object(object: &Map<String, Value>, above: &str, measured: &mut Measured) {
    for (name, value) in object {
        let path = format!("{above}{name}");
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => parse_number(text),
            _ => None,
        };
        match (path.as_str(), value) {
            ("max_concurrency", Value::Null) => measured.is_unlimited = true,
            (_, Value::Null | Value::Array(_)) => {}
            ("slo_attainment_by_metric" | "cache_report", Value::Object(inner)) => {
                read_object(inner, &format!("{path}."), measured);
            }
            ("backend", Value::String(text)) => measured.backend = Some(text.clone()),
            ("request_rate", Value::String(text)) => measured.set_rate(text),
            ("request_rate", Value::Number(rate)) => measured.set_rate(&rate.to_string()),
            ("max_concurrency", Value::String(limit)) => measured.set_limit(limit),
            ("max_concurrency", Value::Number(limit)) => measured.set_limit(&limit.to_string()),
            _ => {
                if let (Some(key), Some(number)) = (MetricKey::parse(&path), number) {
                    measured.metrics.push((key, number));
                } else {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    measured.facts.push((path, text));
                }
            }
        }
    }
}

/// The tools' order: counts and rates, then each latency.
fn rank(key: MetricKey) -> (u8, u8, u32) {
    match key {
        MetricKey::Figure(figure) => (0, 0, figure.rank() as u32),
        MetricKey::Latency(latency, statistic) => {
            let place = match statistic {
                Statistic::Mean => 0,
                Statistic::Median => 1,
                Statistic::StdDev => 2,
                // percentiles by their value, to three decimals
                Statistic::Percentile(p) => 3 + (p * 1000.0) as u32,
                Statistic::Max => u32::MAX,
            };
            (1, latency as u8, place)
        }
    }
}

fn classify(object: &Map<String, Value>, measured: &mut Measured) {
    let has = |key: &str| object.contains_key(key);
    let is_sglang = has("total_output_tokens_retokenized") || has("total_throughput");
    let is_vllm = has("total_token_throughput") || has("endpoint_type");
    if is_sglang {
        measured.tool = Some(Tool::Sglang);
        measured.generation = Some(Generation::Sglang(match () {
            () if has("p95_e2e_latency_ms") => SglangGeneration::V0_5_23,
            () if has("p90_e2e_latency_ms") => SglangGeneration::V0_5_9,
            () if has("max_concurrent_requests") || has("total_input_text_tokens") => {
                SglangGeneration::V0_5_8
            }
            () if has("concurrency") => SglangGeneration::V0_4_10,
            () => SglangGeneration::Early2025,
        }));
    } else if is_vllm {
        measured.tool = Some(Tool::Vllm);
        let peaks = measured.get(MetricKey::Figure(Figure::PeakRequests)).is_some();
        measured.generation = Some(Generation::Vllm(if peaks || has("failed") {
            VllmGeneration::V0_33
        } else {
            VllmGeneration::Late2024
        }));
    }
}
