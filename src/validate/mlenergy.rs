//! What the `ML.ENERGY` benchmark starts and sends, where its leaderboard leaves it out.
//!
//! Its scripts are public (ml-energy/benchmark, Apache-2.0; `mlenergy/benchmark/llm/benchmark.py` of commit c1d6557 and the
//! files in `configs`, read 2026-11). They start vLLM 0.11.1 with a batch limit of 8,192 tokens and asynchronous scheduling
//! over all GPUs of a run, and send the prompts of a data set at one instant, several times over where batches are large.
//! The throughput is that of the steady state: from the first token of the request that fills the batch of B until all but
//! B + 1 requests have finished.

use serde_json::{Value, json};

use super::flags;
use super::record::{Record, count, is_unlimited, number};
use super::skip::Skip;
use crate::metrics::RequestRecord;
use crate::metrics::bench::{BenchSummary, Figure, MetricKey};
use crate::scenario::{
    ClusterConfig, Communication, LengthConfig, Sampler, StepTimeConfig, TokenDistribution,
    WorkloadConfig,
};

/// A data set of the benchmark whose prompts are known about.
#[derive(Debug)]
struct Task {
    name: &'static str,
    /// Different prompts.
    prompts: u32,
    /// Tokens of a prompt at the mean.
    prompt_tokens: u32,
    /// Tokens of an answer at most.
    most_output: u32,
    /// Standard deviation of the lengths of answers over their mean: the median of the models on the leaderboard.
    spread: f64,
    /// The longest sequence of a server.
    max_model_len: u32,
    /// Up to which batch size all prompts are sent how many times.
    repeats: &'static [(u32, u32)],
}

const TASKS: [Task; 2] = [
    // 44,473 prompt tokens of 198 questions, as a result file says.
    Task {
        name: "gpqa",
        prompts: 198,
        prompt_tokens: 225,
        most_output: 32_768,
        spread: 0.7,
        max_model_len: 40_960,
        repeats: &[
            (128, 1),
            (256, 2),
            (384, 3),
            (512, 4),
            (768, 5),
            (1024, 6),
            (1536, 9),
            (2048, 12),
        ],
    },
    // As in the example of `docs/analyzing-results.md`.
    Task {
        name: "lm-arena-chat",
        prompts: 1024,
        prompt_tokens: 245,
        most_output: 4096,
        spread: 1.1,
        max_model_len: 20_480,
        repeats: &[(512, 1), (1024, 2), (2048, 3), (3072, 4)],
    },
];

const VERSION: &str = "0.11.1";
const BATCHED_TOKENS: u32 = 8192;
/// The flag that tells how many requests run at a time.
const PLACES: &str = "max-num-seqs";

const FLAGS_ASSUMED: &str = "flags not stated: those of ML.ENERGY's scripts";
const LENGTHS_ASSUMED: &str =
    "lengths: prompts all as long as at the mean of the task, answers log-normal about their mean";

/// Whether a record is of this benchmark.
pub(super) fn is_of(record: &Record) -> bool {
    let is_client = record.workload_text("client").to_lowercase().contains("ml.energy");
    is_client && record.engine.name.eq_ignore_ascii_case("vllm")
}

/// A record with the version and the flags that its server had, if it is of this benchmark and tells no command.
///
/// # Errors
/// When its ranks do not share the batch evenly, as the scripts demand.
pub(super) fn completed(record: &Record) -> Result<Option<Record>, Skip> {
    if !is_of(record) || record.server_command.is_some() {
        return Ok(None);
    }
    let mut whole = record.clone();
    whole.engine.version.get_or_insert_with(|| VERSION.to_owned());
    let mut put = |name: &str, value: Value| {
        if flag(record, name).is_none() {
            whole.engine_flags.insert(name.to_owned(), value);
        }
    };
    put("async-scheduling", json!(true));
    put("max-num-batched-tokens", json!(BATCHED_TOKENS));
    if let Ok(task) = task(record) {
        put("max-model-len", json!(task.max_model_len));
    }
    // Its client is a copy of vLLM's that talks to the endpoint of chats.
    let client = format!("{} openai-chat", whole.workload_text("client"));
    whole.workload.insert("client".to_owned(), json!(client));
    let told = |key: &str| record.parallel.get(key).and_then(count).unwrap_or(1);
    let (ranks, gpus) = (told("dp"), record.hardware.gpus_used.or(record.hardware.count));
    match places(record) {
        Some(places) if ranks > 1 && !places.is_multiple_of(ranks) => {
            let what = format!("{places} sequences over {ranks} ranks");
            return Err(Skip::Contradiction(what));
        }
        Some(places) if ranks > 1 => {
            whole.engine_flags.retain(|name, _| flags::normal(name) != flags::normal(PLACES));
            whole.engine_flags.insert(PLACES.to_owned(), json!(places / ranks));
        }
        _ => {}
    }
    // `tp` and `ep` there are of the experts: attention is over all GPUs, unless each is a rank of its own.
    let is_short = record.parallel.keys().all(|key| ["tp", "ep", "dp"].contains(&key.as_str()));
    if let Some(gpus) = gpus.filter(|_| is_short && told("tp") == 1 && ranks == 1) {
        whole.parallel.insert("tp".to_owned(), json!(gpus));
    }
    Ok(Some(whole))
}

fn task(record: &Record) -> Result<&'static Task, Skip> {
    let name = record.workload_text("dataset");
    TASKS.iter().find(|task| task.name == name).ok_or_else(|| Skip::Dataset(name.to_owned()))
}

/// Requests that run at a time, over all ranks, if a record is of this benchmark.
pub(super) fn places(record: &Record) -> Option<u32> {
    if !is_of(record) {
        return None;
    }
    flag(record, PLACES).and_then(count).filter(|places| *places > 0)
}

/// A flag of a record, however its words are joined.
fn flag<'a>(record: &'a Record, name: &str) -> Option<&'a Value> {
    let is_it = |(key, _): &(&String, &Value)| flags::normal(key) == flags::normal(name);
    record.engine_flags.iter().find(is_it).map(|(_, value)| value)
}

/// Tells how long steps take where tokens are drawn as its requests ask, with top-p of 0.95, if a record is of this
/// benchmark.
pub(super) fn complete(
    record: &Record,
    cluster: &mut ClusterConfig,
    assumed: &mut Vec<&'static str>,
) {
    if is_of(record) {
        assumed.extend(record.server_command.is_none().then_some(FLAGS_ASSUMED));
        cluster.step_time = StepTimeConfig::Auto {
            engine_version: None,
            sampler: Sampler::TopPTopK,
            communication: Communication::default(),
            calibration: None,
            tuned: false,
        };
    }
}

/// The prompts of the task, as often as they are sent to a server that runs so many at a time.
pub(super) fn workload(
    record: &Record,
    places: Option<u32>,
    assumed: &mut Vec<&'static str>,
) -> Result<WorkloadConfig, Skip> {
    let task = task(record)?;
    let is_same = |(key, value): &(&String, &Value)| match key.as_str() {
        "dataset" | "client" => true,
        "request_rate" | "max_concurrency" => is_unlimited(value),
        _ => false,
    };
    if let Some((key, _)) = record.workload.iter().find(|one| !is_same(one)) {
        return Err(Skip::Setting(key.clone()));
    }
    let places = places.ok_or(Skip::Lengths("number of requests not stated"))?;
    let basis = record.others.get("workload_basis");
    let mean = basis.and_then(|basis| number(basis.get("output_len_mean")?));
    let mean = mean
        .filter(|mean| (1.0..f64::from(task.most_output)).contains(mean))
        .ok_or(Skip::Lengths("lengths of answers not stated"))?;
    let sent = task.repeats.iter().find(|(batch, _)| places <= *batch);
    let (_, repeats) = sent.ok_or_else(|| Skip::Setting(format!("{PLACES}={places}")))?;
    let variance = task.spread.mul_add(task.spread, 1.0).ln();
    assumed.push(LENGTHS_ASSUMED);
    Ok(WorkloadConfig {
        lengths: LengthConfig::Sampled {
            input_tokens: TokenDistribution::Fixed { tokens: task.prompt_tokens },
            output_tokens: TokenDistribution::LogNormal {
                median_tokens: mean / (variance / 2.0).exp(),
                sigma: variance.sqrt(),
                min_tokens: 1,
                max_tokens: task.most_output,
            },
        },
        ..WorkloadConfig::at_once(Some(task.prompts * repeats))
    })
}

/// Whether a figure of the benchmark is one of the steady state that a simulation has too.
pub(super) fn is_compared(key: MetricKey) -> bool {
    key == MetricKey::Figure(Figure::OutputThroughput)
}

/// Narrows figures to the steady state of a server that runs so many requests at a time.
///
/// # Errors
/// When there is none.
pub(super) fn narrow(
    summary: &mut BenchSummary,
    requests: &[RequestRecord],
    places: u32,
) -> Result<(), Skip> {
    let answered = requests.iter().filter(|request| request.output_tokens > 0);
    let answers: Vec<Answer> = answered
        .map(|request| Answer {
            first_s: request.first_token.as_secs_f64(),
            last_s: request.finish.as_secs_f64(),
            tokens: request.output_tokens,
        })
        .collect();
    let never = || Skip::Contradiction("a server that is never full".to_owned());
    let (tokens, seconds) = steady(&answers, places as usize).ok_or_else(never)?;
    (summary.output_tokens, summary.duration_s) = (tokens.round() as u64, seconds);
    Ok(())
}

/// When the tokens of an answer came out.
#[derive(Debug, Clone, Copy)]
struct Answer {
    first_s: f64,
    last_s: f64,
    tokens: u32,
}

/// Tokens that come out in the steady state, evenly within an answer, and its seconds.
fn steady(answers: &[Answer], places: usize) -> Option<(f64, f64)> {
    let sorted = |time: fn(&Answer) -> f64| {
        let mut times: Vec<f64> = answers.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let begin = *sorted(|answer| answer.first_s).get(places.checked_sub(1)?)?;
    let end = *sorted(|answer| answer.last_s).get(answers.len().checked_sub(places + 2)?)?;
    let tokens = answers.iter().map(|answer| {
        let Answer { first_s, last_s, tokens } = *answer;
        let is_first_within = first_s > begin && first_s <= end;
        let within_s = (last_s.min(end) - first_s.max(begin)).max(0.0);
        let share = if last_s > first_s { within_s / (last_s - first_s) } else { 0.0 };
        f64::from(u8::from(is_first_within)) + f64::from(tokens - 1) * share
    });
    (end > begin).then(|| (tokens.sum(), end - begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::EngineConfig;
    use crate::validate::Plan;

    fn record(change: impl FnOnce(&mut Value)) -> Record {
        let mut value = json!({
            "id": "a", "family": "a", "engine": {"name": "vLLM", "version": null},
            "hardware": {"gpu": "NVIDIA H100 SXM 80GB", "gpus_used": 4},
            "model": {"name": "Qwen/Qwen3-235B-A22B-FP8", "precision": "fp8"},
            "parallel": {"tp": 1, "ep": 4},
            "engine_flags": {"max-num-seqs": 16},
            "workload": {"dataset": "gpqa", "request_rate": "inf", "max_concurrency": null,
                "client": "ML.ENERGY benchmark v3 (vLLM bench client), saturated"},
            "workload_basis": {"output_len_mean": 40.0},
            "metrics": {"output_throughput": 400.0, "median_itl_ms": 40.0, "mean_batch_size": 16.0},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn servers_are_those_of_its_scripts() {
        let plan = Plan::of(&record(|_| ())).unwrap();
        let cluster = &plan.scenario.cluster;
        assert_eq!((cluster.tensor_parallel_size, cluster.data_parallel_size), (4, 1));
        let EngineConfig::VllmV1(engine) = &cluster.engine else { panic!() };
        assert_eq!(engine.start_up.version.as_deref(), Some(VERSION));
        assert_eq!(engine.max_num_batched_tokens, Some(BATCHED_TOKENS));
        assert!(engine.async_scheduling && engine.max_model_len == Some(40_960));
        assert!(plan.assumed.contains(&FLAGS_ASSUMED) && plan.assumed.contains(&LENGTHS_ASSUMED));
        let names: Vec<_> = plan.measured.iter().map(|(key, _)| *key).collect();
        assert_eq!(names, [MetricKey::Figure(Figure::OutputThroughput)]);
        let ranks = Plan::of(&record(|of| of["parallel"]["dp"] = json!(4))).unwrap();
        let cluster = &ranks.scenario.cluster;
        let EngineConfig::VllmV1(engine) = &cluster.engine else { panic!() };
        assert_eq!((cluster.data_parallel_size, engine.max_num_seqs), (4, Some(4)));
        assert_eq!(ranks.full_at, Some(16));
    }

    #[test]
    fn prompts_are_sent_as_often_as_in_its_sweeps_and_what_is_not_known_is_refused() {
        let sent = |places: u32| {
            let plan = Plan::of(&record(|of| of["engine_flags"]["max-num-seqs"] = json!(places)));
            plan.unwrap().scenario.workload.num_requests.unwrap()
        };
        assert_eq!([sent(8), sent(128), sent(192), sent(1024)], [198, 198, 396, 1188]);
        let refused = |change: fn(&mut Value)| Plan::of(&record(change)).unwrap_err();
        let task = refused(|of| of["workload"]["dataset"] = json!("sourcegraph-fim"));
        assert_eq!(task, Skip::Dataset("sourcegraph-fim".to_owned()));
        let places = refused(|of| of["engine_flags"]["max-num-seqs"] = json!(4_000_000_000_u32));
        assert_eq!(places, Skip::Setting("max-num-seqs=4000000000".to_owned()));
        let uneven = refused(|of| of["parallel"]["dp"] = json!(3));
        assert!(matches!(uneven, Skip::Contradiction(_)), "{uneven:?}");
        for (key, value) in
            [("request_rate", json!(5)), ("max_concurrency", json!(4)), ("input_len", json!(4000))]
        {
            let record = record(|of| of["workload"][key] = value);
            assert_eq!(Plan::of(&record).unwrap_err(), Skip::Setting(key.to_owned()));
        }
        let lengths = refused(|of| of["workload_basis"] = json!({}));
        assert!(matches!(lengths, Skip::Lengths(_)), "{lengths:?}");
    }

    #[test]
    fn in_the_steady_state_a_server_puts_out_what_its_places_do() {
        // Two places, each with an answer of 11 tokens in a second after another.
        let one = |index: u32| {
            let first_s = f64::from(index / 2) + 0.5 * f64::from(index % 2);
            Answer { first_s, last_s: first_s + 1.0, tokens: 11 }
        };
        let answers: Vec<_> = (0..20).map(one).collect();
        let (tokens, seconds) = steady(&answers, 2).unwrap();
        // From the second first token, at 0.5 s, to the end of the 17th answer, at 9 s.
        assert!((seconds - 8.5).abs() < 1e-9, "{seconds}");
        assert!((tokens - 2.0 * 11.0 * 8.5).abs() < 1e-6, "{tokens}");
        assert_eq!(steady(&answers, 19), None);
        assert_eq!(steady(&answers, 0), None);
    }
}
