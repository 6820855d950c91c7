//! How long the requests of a record are.
//!
//! Lengths are those of the benchmark tools where they draw them from a seed; otherwise they follow
//! from the totals that the tool printed, which is said beside the result.

use super::record::Record;
use super::sharegpt::{self, Law};
use super::skip::Skip;
use super::workload::{Means, is_blis, is_inferencex, is_sglang, is_vllm_bench, tool_seed};
use crate::model::ModelSpec;
use crate::scenario::{
    ContentConfig, LengthConfig, RowOrder, SglangRandomConfig, Vllm2024RandomConfig,
    VllmRandomConfig, WorkloadConfig,
};
use crate::workload::Workload;

/// How lengths are spread by `InferenceX`, where a record does not say.
const INFERENCEX_RANGE_RATIO: f64 = 0.8;
/// How far a drawn total may be from the printed one, as a share.
const SAME_TOTAL: f64 = 0.005;
/// A data set of another mean than ShareGPT's by more than this factor is another data set.
const STRETCH_MAX: f64 = 2.0;

/// The lengths of the requests of a record.
pub(super) fn lengths(
    record: &Record,
    requests: u32,
    means: Option<Means>,
    model: &ModelSpec,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let lower = record.workload_text("dataset").to_lowercase();
    let dataset = lower.as_str();
    match dataset {
        _ if dataset.starts_with("random") && is_sglang(record) => {
            sglang_random(record, requests, means, assumed)
        }
        _ if dataset.starts_with("random") && is_inferencex(record) => {
            inferencex_random(record, requests, means, model, assumed)
        }
        "sharegpt" | "sharegpt_v3_unfiltered_cleaned_split.json" => {
            let law = if is_sglang(record) { sharegpt::SGLANG } else { sharegpt::VLLM };
            sharegpt(law, requests, means, assumed)
        }
        "random" if is_vllm_bench(record) && range_ratio(record).is_some() => {
            vllm_random(record, requests, means, assumed)
        }
        // Prompts and answers of one length: drawn so, or one text again and again, or lines of
        // one poem.
        "random" | "custom file in sharegpt format" | "sonnet" => fixed(record, means, assumed),
        _ if dataset.starts_with("dummy_dataset") => fixed(record, means, assumed),
        "" if is_blis(record) => fixed(record, means, assumed),
        _ => Err(Skip::Dataset(record.workload_text("dataset").to_owned())),
    }
}

/// How far lengths go either side, where they do.
fn range_ratio(record: &Record) -> Option<f64> {
    record.workload_number("random_range_ratio").filter(|ratio| *ratio != 0.0)
}

/// The draws of `sglang.bench_serving --dataset-name random`. How many tokens the tokeniser adds
/// to a prompt is told by the total.
fn sglang_random(
    record: &Record,
    requests: u32,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let length = |key: &str| record.workload_count(key).unwrap_or(1024);
    let config = |special_tokens: u32| {
        LengthConfig::SglangRandom(SglangRandomConfig {
            input_tokens: length("input_len"),
            output_tokens: length("output_len"),
            range_ratio: record.workload_number("random_range_ratio").unwrap_or(0.0),
            special_tokens,
            vocabulary_size: None,
        })
    };
    with_special_tokens(config, record, requests, means, assumed)
}

/// The draws of `vllm bench serve --dataset-name random` with a range.
fn vllm_random(
    record: &Record,
    requests: u32,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let length = |key: &str| {
        let told = record.workload_count(key).filter(|tokens| *tokens > 2);
        told.ok_or(Skip::Lengths("input_len and output_len not stated"))
    };
    let (input_tokens, output_tokens) = (length("input_len")?, length("output_len")?);
    let ratio = range_ratio(record).unwrap_or(0.0);
    if !(0.0..1.0).contains(&ratio) {
        return Err(Skip::Setting(format!("random_range_ratio={ratio}")));
    }
    let config = |special_tokens: u32| {
        LengthConfig::VllmRandom(VllmRandomConfig {
            input_tokens,
            output_tokens,
            range_ratio: ratio,
            output_range_ratio: None,
            prefix_tokens: 0,
            special_tokens,
        })
    };
    with_special_tokens(config, record, requests, means, assumed)
}

/// The draw with as many tokens that the tokeniser adds as the printed total tells.
fn with_special_tokens(
    config: impl Fn(u32) -> LengthConfig,
    record: &Record,
    requests: u32,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let Some(means) = means else { return Ok(config(0)) };
    let off_by = |special: u32| {
        let (prompts, _) = totals(&config(special), requests, tool_seed(record));
        (prompts as f64 - means.prompt * f64::from(means.requests)).abs()
    };
    let special = (0..=2).min_by(|a, b| off_by(*a).total_cmp(&off_by(*b))).unwrap_or(0);
    accept(config(special), record, requests, means, assumed)
}

/// The draws of `InferenceX`'s copy of vLLM's `benchmark_serving.py`.
fn inferencex_random(
    record: &Record,
    requests: u32,
    means: Option<Means>,
    model: &ModelSpec,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let length = |key: &str| {
        record.workload_count(key).ok_or(Skip::Lengths("input_len and output_len not stated"))
    };
    let (input_tokens, output_tokens) = (length("input_len")?, length("output_len")?);
    let told = record.workload_number("random_range_ratio");
    let is_exact = means.is_some_and(|means| is_near(means.prompt, f64::from(input_tokens)));
    if told.is_none() && !is_exact {
        assumed.push("spread of lengths not stated: 0.8 to 1, as InferenceX draws");
    }
    let by_default = if is_exact { 1.0 } else { INFERENCEX_RANGE_RATIO };
    let config = LengthConfig::Vllm2024Random(Vllm2024RandomConfig {
        input_tokens,
        output_tokens,
        range_ratio: told.unwrap_or(by_default),
        prefix_tokens: 0,
        vocabulary_size: model.vocab,
    });
    match means {
        Some(means) => accept(config, record, requests, means, assumed),
        None => Ok(config),
    }
}

/// Keeps a draw whose totals are those of the record; marks one whose are near; refuses others.
fn accept(
    config: LengthConfig,
    record: &Record,
    requests: u32,
    means: Means,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let (prompts, outputs) = totals(&config, requests, tool_seed(record));
    let count = f64::from(means.requests);
    let off = |drawn: u64, mean: f64| (drawn as f64 / (mean * count) - 1.0).abs();
    let worst = off(prompts, means.prompt).max(off(outputs, means.output));
    if worst > 0.05 {
        return Err(Skip::Lengths("the draws of the tool do not give the totals it printed"));
    }
    if worst > SAME_TOTAL {
        assumed.push("lengths: the draws of the tool differ from its totals by 0.5 to 5 %");
    }
    Ok(config)
}

/// Prompt and answer tokens of all requests of a draw.
fn totals(lengths: &LengthConfig, requests: u32, seed: u32) -> (u64, u64) {
    let config = WorkloadConfig {
        tool_seed: Some(seed),
        lengths: lengths.clone(),
        content: ContentConfig::Unique {},
        ..WorkloadConfig::at_once(Some(requests))
    };
    let drawn = Workload::open(&config, crate::rng::Seed::default(), None);
    let requests = drawn.into_iter().flatten().flatten();
    requests.fold((0, 0), |(prompts, outputs), request| {
        (prompts + u64::from(request.prompt_tokens), outputs + u64::from(request.output_tokens))
    })
}

/// Every prompt and every answer of one length: the nominal one, or the mean of the totals.
fn fixed(
    record: &Record,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    if record.workload_number("random_range_ratio").is_some_and(|ratio| ratio != 0.0) {
        return Err(Skip::Setting("random_range_ratio".to_owned()));
    }
    let side = |key: &str, mean: Option<f64>, assumed: &mut Vec<&'static str>| {
        let told = record.workload_count(key).map(f64::from);
        let tokens = match (told, mean) {
            (Some(told), Some(mean)) if is_near(told, mean) => told,
            (Some(told), None) => told,
            (_, Some(mean)) => {
                // The totals of equal lengths divide without rest.
                if mean.fract() != 0.0 || told.is_some() {
                    assumed.push("lengths: all as long as the mean of the totals");
                }
                mean
            }
            (None, None) => return Err(Skip::Lengths("neither lengths nor totals are stated")),
        };
        Ok((tokens.round() as u32).max(1))
    };
    let input_tokens = side("input_len", means.map(|means| means.prompt), assumed)?;
    let output_tokens = side("output_len", means.map(|means| means.output), assumed)?;
    assumed.dedup();
    Ok(LengthConfig::Fixed { input_tokens, output_tokens })
}

fn is_near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= SAME_TOTAL
}

fn sharegpt(
    law: &Law,
    requests: u32,
    means: Option<Means>,
    assumed: &mut Vec<&'static str>,
) -> Result<LengthConfig, Skip> {
    let means = means.ok_or(Skip::Lengths("totals of the data set not stated"))?;
    let (prompts, outputs) = law.stretch(means.prompt, means.output);
    let fits = |stretch: f64| (1.0 / STRETCH_MAX..=STRETCH_MAX).contains(&stretch);
    // Few requests may be longer or shorter by chance.
    if requests >= 100 && !(fits(prompts) && fits(outputs)) {
        return Err(Skip::Lengths("the totals are not those of ShareGPT"));
    }
    assumed.push("lengths: distribution of ShareGPT scaled to the totals");
    let pairs = law.pairs(requests, means.prompt, means.output);
    Ok(LengthConfig::List { pairs, order: RowOrder::Recorded })
}
