//! The requests of a record.
//!
//! How many, when they arrive, and how many are in flight; how long they are is in `lengths.rs`.

use super::engine;
use super::lengths::lengths;
use super::record::{Record, count, is_unlimited, number, shown};
use super::skip::Skip;
use crate::model::ModelSpec;
use crate::scenario::{ArrivalConfig, ClientConfig, WorkloadConfig};
use serde_json::Value;

/// Settings of a workload that are used, or that say the same as others, or nothing about results.
const KNOWN: [&str; 31] = [
    "dataset",
    "dataset_file",
    "dataset_basis",
    "num_prompts",
    "request_rate",
    "client",
    "client_backend",
    "seed",
    "seed_basis",
    "input_len",
    "output_len",
    "profile",
    "max_concurrency",
    "ignored_flags",
    "random_range_ratio",
    "random_range_ratio_basis",
    "lengths_reproducible",
    "num_warmups",
    "num_warmups_basis",
    "ignore_eos",
    "burstiness",
    "input_len_avg",
    "context_lines",
    "arrival",
    "duration_s",
    "num_tenants",
    "tenant_rate_fractions",
    "variant",
    "date",
    "note",
    "sonnet_prefix_len",
];

/// Requests that `blis observe` keeps in flight at most unless told otherwise.
const BLIS_IN_FLIGHT: u32 = 256;
/// What `InferenceX` sends for each place in flight, where a record does not say.
const INFERENCEX_REQUESTS_PER_PLACE: u32 = 10;

/// More requests of one record are not simulated, so that no record takes the memory of the others.
pub(super) const MOST_REQUESTS: f64 = 4e6;
/// A longer load is no measurement; three years.
const LONGEST_S: f64 = 1e8;

/// The totals a tool printed, per request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub(super) requests: u32,
    pub(super) prompt: f64,
    pub(super) output: f64,
}

/// The workload of a record, and what of it is assumed.
pub(super) fn workload(
    record: &Record,
    model: &ModelSpec,
    assumed: &mut Vec<&'static str>,
) -> Result<WorkloadConfig, Skip> {
    if let Some(key) = record.workload.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let dataset = record.workload_text("dataset");
        return Err(match dataset {
            "" | "trace" => Skip::Dataset(dataset.to_owned()),
            _ => Skip::Setting(key.clone()),
        });
    }
    check_arrivals(record)?;
    let means = means(record);
    let requests = requests(record, means, assumed)?;
    let arrivals = arrivals(record)?;
    let poisson = matches!(arrivals, ArrivalConfig::Poisson { .. });
    let duration_s = record.workload_number("duration_s").filter(|_| poisson);
    bounded(requests, duration_s, rate(record)?)?;
    let lengths = lengths(record, requests, means, model, assumed)?;
    if poisson {
        assumed.push("arrivals: another draw of the same process");
    }
    let max_concurrency = max_concurrency(record)?.or(is_blis(record).then_some(BLIS_IN_FLIGHT));
    Ok(WorkloadConfig {
        duration_s,
        tool_seed: Some(tool_seed(record)),
        arrivals,
        lengths,
        client: ClientConfig { max_concurrency, ..ClientConfig::default() },
        ..WorkloadConfig::at_once(duration_s.is_none().then_some(requests))
    })
}

/// Refuses arrivals of other kinds than those that [`arrivals`] makes.
fn check_arrivals(record: &Record) -> Result<(), Skip> {
    let told = record.workload.contains_key("arrival");
    let is_poisson = record.workload_text("arrival").starts_with("poisson") && is_blis(record);
    let burstiness =
        record.workload_number("burstiness").is_some_and(|b| (b - 1.0).abs() > f64::EPSILON);
    let has_rate = matches!(rate(record), Ok(Some(_)));
    match () {
        () if told && !is_poisson => Err(Skip::Setting("arrival".to_owned())),
        () if burstiness && has_rate => Err(Skip::Setting("burstiness".to_owned())),
        () => Ok(()),
    }
}

pub(super) fn is_sglang(record: &Record) -> bool {
    client(record).contains("sglang.bench_serving")
}

pub(super) fn is_inferencex(record: &Record) -> bool {
    let told = |key: &str| record.workload_text(key).to_lowercase().contains("inferencex");
    told("client") || told("dataset")
}

pub(super) fn is_blis(record: &Record) -> bool {
    client(record).starts_with("blis")
}

/// Whether `vllm bench serve` sent the requests, not the `benchmark_serving.py` before it.
pub(super) fn is_vllm_bench(record: &Record) -> bool {
    let client = client(record);
    client.contains("vllm bench") && !client.contains("benchmark_serving")
}

fn client(record: &Record) -> String {
    record.workload_text("client").to_lowercase()
}

/// The seed of the record, or the default of its tool (SGLang: 1, later 42; vLLM: 0).
pub(super) fn tool_seed(record: &Record) -> u32 {
    let default = match () {
        () if is_sglang(record) && engine::seeds_with_42(record) => 42,
        () => u32::from(is_sglang(record)),
    };
    record.workload_count("seed").unwrap_or(default)
}

fn means(record: &Record) -> Option<Means> {
    let requests = record.metric("successful_requests").filter(|count| *count >= 1.0)?;
    Some(Means {
        requests: requests as u32,
        prompt: record.metric("total_input_tokens")? / requests,
        output: record.metric("total_generated_tokens")? / requests,
    })
}

fn requests(
    record: &Record,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<u32, Skip> {
    let told = match record.workload.get("num_prompts") {
        Some(value) => {
            let unread = || Skip::Setting(format!("num_prompts={}", shown(value)));
            Some(count(value).filter(|count| *count > 0).ok_or_else(unread)?)
        }
        None => means.map(|means| means.requests),
    };
    if let (Some(told), Some(means)) = (told, means)
        && told != means.requests
    {
        assumed.push("some requests failed: only those that succeeded are sent");
        return Ok(means.requests);
    }
    if let Some(told) = told {
        return Ok(told);
    }
    let places = max_concurrency(record)?.filter(|_| is_inferencex(record));
    let places = places.ok_or(Skip::Lengths("number of requests not stated"))?;
    assumed.push("number of requests not stated: ten for each in flight, as InferenceX sends");
    Ok(places.saturating_mul(INFERENCEX_REQUESTS_PER_PLACE))
}

/// A setting of the client, which some sources tell only as the tool printed it; nothing where there is
/// no limit.
fn told<'a>(record: &'a Record, key: &str, printed: &str) -> Option<&'a Value> {
    let told = record.workload.get(key).or_else(|| record.metrics.get(printed));
    told.filter(|value| !is_unlimited(value))
}

fn unread(key: &str, value: &Value) -> Skip {
    Skip::Setting(format!("{key}={}", shown(value)))
}

/// The limit of requests in flight.
pub(super) fn max_concurrency(record: &Record) -> Result<Option<u32>, Skip> {
    let key = "max_concurrency";
    let Some(value) = told(record, key, "max_request_concurrency") else { return Ok(None) };
    let limit = count(value).filter(|limit| *limit > 0);
    limit.map(Some).ok_or_else(|| unread(key, value))
}

/// Requests per second; nothing where all are sent at once.
fn rate(record: &Record) -> Result<Option<f64>, Skip> {
    let key = "request_rate";
    let Some(value) = told(record, key, "traffic_request_rate") else { return Ok(None) };
    let rate = number(value).filter(|rate| *rate > 0.0);
    rate.map(Some).ok_or_else(|| unread(key, value))
}

/// Refuses a load that no machine could hold, or no bench could have sent.
fn bounded(requests: u32, duration_s: Option<f64>, rate: Option<f64>) -> Result<(), Skip> {
    let rate_per_s = rate.unwrap_or(f64::INFINITY);
    let sent = duration_s.map_or(f64::from(requests), |seconds| seconds * rate_per_s);
    if sent > MOST_REQUESTS {
        return Err(Skip::Setting(format!("{sent} requests are more than {MOST_REQUESTS}")));
    }
    if sent / rate_per_s > LONGEST_S {
        return Err(Skip::Setting(format!("request_rate={rate_per_s}")));
    }
    Ok(())
}

fn arrivals(record: &Record) -> Result<ArrivalConfig, Skip> {
    let Some(rate_per_s) = rate(record)? else { return Ok(ArrivalConfig::AllAtOnce {}) };
    let client = client(record);
    Ok(match () {
        () if is_sglang(record) => ArrivalConfig::Sglang { rate_per_s },
        () if is_blis(record) => ArrivalConfig::Poisson { rate_per_s },
        () if client.starts_with("guidellm") => ArrivalConfig::Constant { rate_per_s },
        () if is_vllm_bench(record) => {
            ArrivalConfig::Vllm { rate_per_s: Some(rate_per_s), burstiness: 1.0, ramp_up: None }
        }
        () if client.contains("benchmark_serving") => ArrivalConfig::Vllm2024 { rate_per_s },
        () => return Err(Skip::Setting("request_rate".to_owned())),
    })
}
