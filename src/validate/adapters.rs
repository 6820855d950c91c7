//! Records whose requests use LoRA adapters: each adapter is asked for at a rate of its own, and the
//! client stops after a fixed time.

use std::ops::Range;

use super::flags::Settings;
use super::record::{Record, count, number};
use super::sharegpt;
use super::skip::Skip;
use super::workload::MOST_REQUESTS;
use crate::model::EngineVersion;
use crate::scenario::{
    AdapterKind, AdapterMix, AdapterPopularity, ArrivalConfig, ClientConfig, ClusterConfig,
    ContentConfig, EngineConfig, LengthConfig, LoraConfig, PortsConfig, RowOrder, WorkloadConfig,
};

/// Settings of such a workload that are used, or that say the same as others.
const KNOWN: [&str; 12] = [
    "dataset",
    "client",
    "seed",
    "total_time_s",
    "num_adapters",
    "adapter_rates",
    "adapter_rate_counts",
    "adapter_ranks",
    "offered_rate_req_s",
    "prompts_available",
    "avg_input_len",
    "avg_output_len",
];

/// Room for a draw of more arrivals than the mean: requests in standard deviations.
const DEVIATIONS: f64 = 6.0;

/// The vLLM whose servers with adapters were calibrated: from the first of these on, before the second.
const CALIBRATED: Range<EngineVersion> = EngineVersion::new(0, 8)..EngineVersion::new(0, 9);
/// What they take beside the kernels of model and adapters: found with
/// [`LoraKernels::VLLM`](crate::scenario::LoraKernels::VLLM)
/// (`profiles/lora/README.md`).
const API_DELAY_MS: f64 = 15.7;
const PER_SEQUENCE_US: f64 = 38.4;
const PER_PREFILL_STEP_US: f64 = 1200.0;

/// Makes the engine of a record serve adapters, if its flags say so.
pub(super) fn serve(
    settings: &Settings,
    version: Option<EngineVersion>,
    cluster: &mut ClusterConfig,
) -> Result<(), Skip> {
    if !settings.enable_lora {
        return Ok(());
    }
    let is_calibrated = version.is_some_and(|version| CALIBRATED.contains(&version));
    if is_calibrated && matches!(cluster.engine, EngineConfig::VllmV1(_)) {
        cluster.api_delay_ms = API_DELAY_MS;
        if let Some(calibration) = cluster.step_time.calibration_mut() {
            calibration.per_sequence_us = PER_SEQUENCE_US;
            calibration.per_prefill_step_us = PER_PREFILL_STEP_US;
        }
    }
    cluster.lora = Some(LoraConfig {
        max_rank: settings.max_lora_rank,
        max_host_adapters: settings.max_cpu_loras,
        ..LoraConfig::default()
    });
    match &mut cluster.engine {
        EngineConfig::VllmV1(vllm) => vllm.max_loras = settings.max_loras,
        EngineConfig::Sglang(sglang) => sglang.max_loras_per_batch = settings.max_loras,
        _ => return Err(Skip::NotModelled("LoRA on vLLM's V0 engine")),
    }
    Ok(())
}

/// Whether a record lists the adapters that its requests use.
pub(super) fn are_listed(record: &Record) -> bool {
    record.workload.contains_key("adapter_rates")
}

/// The workload of a record that lists its adapters.
pub(super) fn workload(
    record: &Record,
    assumed: &mut Vec<&'static str>,
) -> Result<WorkloadConfig, Skip> {
    if let Some(key) = record.workload.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Skip::Setting(key.clone()));
    }
    let told = |key: &str| {
        let value = record.workload_number(key).filter(|value| *value > 0.0);
        value.ok_or_else(|| Skip::Setting(key.to_owned()))
    };
    let (window_s, rate_per_s) = (told("total_time_s")?, told("offered_rate_req_s")?);
    let means = [told("avg_input_len")?, told("avg_output_len")?];
    let expected = window_s * rate_per_s;
    if expected > MOST_REQUESTS || window_s > 1e8 {
        return Err(Skip::Setting(format!("{expected} requests are more than {MOST_REQUESTS}")));
    }
    let requests = (expected + DEVIATIONS * expected.sqrt()).ceil() as u32 + 1;
    assumed.push("arrivals: another draw of the same process");
    Ok(WorkloadConfig {
        duration_s: Some(window_s),
        arrivals: ArrivalConfig::Poisson { rate_per_s },
        lengths: lengths(record, requests, means, assumed)?,
        content: ContentConfig::Unique {},
        adapters: Some(AdapterMix {
            kinds: kinds(record, assumed)?,
            popularity: AdapterPopularity::Weights {},
            drift: None,
        }),
        client: ClientConfig {
            stop_after_s: Some(window_s),
            ports: Some(PortsConfig::default()),
            ..ClientConfig::default()
        },
        ..WorkloadConfig::at_once(None)
    })
}

fn lengths(
    record: &Record,
    requests: u32,
    [prompt, output]: [f64; 2],
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let dataset = record.workload_text("dataset");
    if dataset.starts_with("dummy_dataset") {
        let (input_tokens, output_tokens) = (prompt.round() as u32, output.round() as u32);
        return Ok(LengthConfig::Fixed { input_tokens, output_tokens });
    }
    if !dataset.starts_with("ShareGPT") {
        return Err(Skip::Dataset(dataset.to_owned()));
    }
    assumed.push("lengths: distribution of ShareGPT scaled to the means stated");
    let pairs = sharegpt::VLLM.pairs(requests, prompt, output);
    Ok(LengthConfig::List { pairs, order: RowOrder::Recorded })
}

/// The adapters by rate and rank. Which rank goes with which rate is not stated: ranks are dealt
/// out in turn.
fn kinds(record: &Record, assumed: &mut Vec<&'static str>) -> Result<Vec<AdapterKind>, Skip> {
    let unread = |key: &str| Skip::Setting(key.to_owned());
    let list = |key: &str| record.workload.get(key)?.as_array();
    let rates = list("adapter_rates").ok_or_else(|| unread("adapter_rates"))?;
    let counts = list("adapter_rate_counts").ok_or_else(|| unread("adapter_rate_counts"))?;
    let ranks = list("adapter_ranks").ok_or_else(|| unread("adapter_ranks"))?;
    if ranks.is_empty() || rates.len() != counts.len() {
        return Err(unread("adapter_ranks"));
    }
    if ranks.len() > 1 && rates.len() > 1 {
        assumed.push("adapters: ranks dealt out in turn over the rates");
    }
    let mut kinds = Vec::new();
    let mut dealt = 0;
    for (rate, many) in rates.iter().zip(counts) {
        let weight = number(rate).ok_or_else(|| unread("adapter_rates"))?;
        let many = count(many).filter(|many| f64::from(*many) <= MOST_REQUESTS);
        for _ in 0..many.ok_or_else(|| unread("adapter_rate_counts"))? {
            let rank = count(&ranks[dealt % ranks.len()]).ok_or_else(|| unread("adapter_ranks"))?;
            kinds.push(AdapterKind { weight, ..AdapterKind::of_rank(rank) });
            dealt += 1;
        }
    }
    Ok(kinds)
}
