//! What was measured, under the names of the benchmark JSON.

use serde_json::Value;

use super::record::{Record, number};
use crate::metrics::bench::{Figure, Latency, MetricKey, Statistic};

const REQUEST_THROUGHPUT: MetricKey = MetricKey::Figure(Figure::RequestThroughput);

/// The figures that are compared, in the order of the printed blocks. Counts, peaks and deviations
/// are left out: the first are given, the others are noise.
pub(super) fn metrics(record: &Record) -> Vec<(MetricKey, f64)> {
    let mut found: Vec<(MetricKey, f64)> = Vec::new();
    for (name, value) in &record.metrics {
        let Some(value) = told(name, value).filter(|value| *value > 0.0) else { continue };
        let Some((key, value)) = read(name, value) else { continue };
        let key = canonical(key);
        if is_compared(key) && is_told(record, key) && found.iter().all(|(have, _)| *have != key) {
            found.push((key, value));
        }
    }
    found.extend(tpot_of_means(record));
    found.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    found
}

/// The number of a metric, which may repeat the unit of its name: `mean_ttft_ms` of `80 ms`.
fn told(name: &str, value: &Value) -> Option<f64> {
    let bare = value.as_str().and_then(|text| {
        let (_, unit) = name.rsplit_once('_')?;
        let text = text.trim().strip_suffix(unit).filter(|_| ["ms", "s"].contains(&unit))?;
        number(&Value::from(text))
    });
    number(value).or(bare)
}

/// A metric of a record: its own names are those of the printed blocks, some in seconds.
fn read(name: &str, value: f64) -> Option<(MetricKey, f64)> {
    let figure = |figure| Some((MetricKey::Figure(figure), value));
    match name {
        "duration_s" => return figure(Figure::Duration),
        "output_token_throughput" | "output_tokens_per_sec" => {
            return figure(Figure::OutputThroughput);
        }
        "input_token_throughput" | "input_tokens_per_sec" => {
            return figure(Figure::InputThroughput);
        }
        "total_tokens_per_sec" => return figure(Figure::TotalThroughput),
        "requests_per_sec" => return figure(Figure::RequestThroughput),
        // Mean or median is not stated where only these two are.
        "ttft_ms" => return Some((MetricKey::Latency(Latency::Ttft, Statistic::Mean), value)),
        "tpot_ms" => return Some((MetricKey::Latency(Latency::Tpot, Statistic::Mean), value)),
        _ => {}
    }
    if let Some(key) = MetricKey::parse(name) {
        return Some((key, value));
    }
    let key = MetricKey::parse(&format!("{}_ms", name.strip_suffix("_s")?))?;
    matches!(key, MetricKey::Latency(..)).then_some((key, value * 1e3))
}

/// The mean TPOT of equal answers, from the mean times: `inference-perf` divides by the chunks it
/// saw, which are not tokens.
fn tpot_of_means(record: &Record) -> Option<(MetricKey, f64)> {
    if !counts_chunks(record) {
        return None;
    }
    let tokens = record.workload_number("output_len").filter(|tokens| *tokens > 1.0)?;
    let decode_s = record.metric("mean_e2el_s")? - record.metric("mean_ttft_s")?;
    let key = MetricKey::Latency(Latency::Tpot, Statistic::Mean);
    Some((key, decode_s / (tokens - 1.0) * 1e3))
}

/// Whether the mean gap is so much longer than a token takes that it must be one between chunks.
fn gaps_exceed_tpot(record: &Record) -> bool {
    let mean = |ms: &str, s: &str| {
        record.metric(ms).or_else(|| record.metric(s).map(|seconds| seconds * 1e3))
    };
    let gap = mean("mean_itl_ms", "mean_itl_s");
    let token = mean("mean_tpot_ms", "mean_tpot_s");
    matches!((gap, token), (Some(gap), Some(token)) if gap > CHUNK_GAP * token)
}

/// A mean gap of more than so many mean TPOT is one between chunks of several tokens; between single
/// tokens the two means differ by the weight of long answers only.
const CHUNK_GAP: f64 = 2.0;

/// Whether gaps were seen between some of the tokens only, as by a client that does not read what a parser of reasoning
/// takes apart: all gaps together are the time from the first token to the end.
fn gaps_are_missing(record: &Record) -> bool {
    let mean = |name: &str| {
        let ms = record.metric(&format!("mean_{name}_ms"));
        ms.or_else(|| record.metric(&format!("mean_{name}_s")).map(|seconds| seconds * 1e3))
    };
    let gaps = || {
        let tokens = record.metric("total_generated_tokens")?;
        Some(tokens / record.metric("successful_requests")? - 1.0)
    };
    let parts = || Some((mean("itl")? * gaps()?, mean("e2el")? - mean("ttft")?));
    parts().is_some_and(|(told, whole)| told * CHUNK_GAP < whole)
}

fn counts_chunks(record: &Record) -> bool {
    record.workload_text("client") == "inference-perf"
}

/// The 50th percentile is the median.
fn canonical(key: MetricKey) -> MetricKey {
    match key {
        MetricKey::Latency(latency, Statistic::Percentile(50.0)) => {
            MetricKey::Latency(latency, Statistic::Median)
        }
        other => other,
    }
}

fn is_compared(key: MetricKey) -> bool {
    match key {
        MetricKey::Latency(_, Statistic::Mean | Statistic::Median) => true,
        MetricKey::Latency(_, Statistic::Percentile(p)) => p <= 99.0,
        MetricKey::Latency(..) => false,
        MetricKey::Figure(figure) => matches!(
            figure,
            Figure::Duration
                | Figure::RequestThroughput
                | Figure::InputThroughput
                | Figure::OutputThroughput
                | Figure::TotalThroughput
        ),
    }
}

/// Whether the client measured what its name says.
fn is_told(record: &Record, key: MetricKey) -> bool {
    let client = record.workload_text("client");
    let MetricKey::Latency(latency, _) = key else {
        // guidellm divides by another time than it prints; inference-perf counts chunks.
        let counts_tokens = !counts_chunks(record) || key == REQUEST_THROUGHPUT;
        return !client.starts_with("guidellm") && counts_tokens;
    };
    match latency {
        // guidellm's counts the first token too.
        Latency::Tpot => !client.starts_with("guidellm") && !counts_chunks(record),
        // Gaps between chunks: of several tokens where the server gathers them.
        Latency::Itl => {
            let interval = record.engine_flags.get("stream_interval").and_then(number);
            let gathers = interval.is_some_and(|tokens| tokens > 1.0) || gaps_exceed_tpot(record);
            !gathers && !counts_chunks(record) && !gaps_are_missing(record)
        }
        Latency::Ttft | Latency::E2e => true,
    }
}
