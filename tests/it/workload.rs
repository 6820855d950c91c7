//! Workloads against what the real benchmark tools drew, and against recorded traces.

use std::path::PathBuf;

use serde_json::Value;
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::scenario::{LengthConfig, SglangRandomConfig, Vllm2024RandomConfig, WorkloadConfig};
use servecast::units::SimTime;
use servecast::workload::numpy::{Generator, LegacyRandom};
use servecast::workload::{Tools, TraceRow, VllmRate, Workload, WorkloadError, vllm_arrivals_s};

use crate::support::data;

fn json(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(path).expect("the reference file is readable");
    serde_json::from_str(&text).expect("the reference file is JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    let items = value.as_array().expect("a list");
    items.iter().map(|item| item.as_f64().expect("a number")).collect()
}

/// The scenario of a golden case, as a user would write it.
fn config(case: &Value) -> WorkloadConfig {
    let sglang = case["tool"] == "sglang.bench_serving";
    let mut lengths = serde_json::json!({
        "type": if sglang { "sglang_random" } else { "vllm_random" },
        "input_tokens": case["random_input_len"],
        "output_tokens": case["random_output_len"],
        "range_ratio": case["random_range_ratio"],
        "special_tokens": case["num_special_tokens"],
    });
    if sglang && case["dataset"] == "random-ids" {
        lengths["vocabulary_size"] = case["vocab_size"].clone();
    }
    let rate = &case["request_rate"];
    let arrivals = if let Some(ramp) = case.get("ramp").and_then(Value::as_array) {
        serde_json::json!({"type": "vllm", "burstiness": case["burstiness"], "ramp_up": {
            "strategy": ramp[0], "start_rate_per_s": ramp[1], "end_rate_per_s": ramp[2],
        }})
    } else if rate == "inf" {
        serde_json::json!({"type": "all_at_once"})
    } else if sglang {
        serde_json::json!({"type": "sglang", "rate_per_s": rate})
    } else {
        let burstiness = &case["burstiness"];
        serde_json::json!({"type": "vllm", "rate_per_s": rate, "burstiness": burstiness})
    };
    serde_json::from_value(serde_json::json!({
        "num_requests": case["num_prompts"].as_u64().unwrap_or(32),
        "tool_seed": case["seed"], "arrivals": arrivals, "lengths": lengths,
    }))
    .expect("the scenario is well formed")
}

fn requests(config: &WorkloadConfig) -> Vec<Request> {
    let workload = Workload::open(config, Seed(99), None).expect("the workload opens");
    workload.collect::<Result<_, _>>().expect("every request is drawn")
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn lengths_and_arrivals_are_those_the_tools_drew() {
    let folder = data();
    let cases = json(folder.join("bench-goldens/arrivals_and_lengths.json"));
    let cases = cases.as_array().expect("a list of cases");
    assert_eq!(cases.len(), 10);
    for (index, case) in cases.iter().enumerate() {
        let requests = requests(&config(case));
        let inputs: Vec<f64> = requests.iter().map(|r| f64::from(r.prompt_tokens)).collect();
        let outputs: Vec<f64> = requests.iter().map(|r| f64::from(r.output_tokens)).collect();
        assert_eq!(inputs, numbers(&case["input_lens"]), "inputs of case {index}");
        assert_eq!(outputs, numbers(&case["output_lens"]), "outputs of case {index}");
        let theirs = numbers(&case["arrival_s"]);
        assert_eq!(requests.len(), theirs.len());
        for (ours, theirs) in requests.iter().zip(theirs) {
            // Simulated time is whole nanoseconds.
            assert_eq!(ours.arrival, SimTime::from_secs_f64(theirs), "arrivals of case {index}");
        }
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn arrivals_are_equal_to_one_part_in_a_trillion_before_rounding() {
    let folder = data();
    let cases = json(folder.join("bench-goldens/arrivals_and_lengths.json"));
    let close = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-12 * theirs.abs();
    let mut checked = 0;
    for case in cases.as_array().expect("a list of cases") {
        let (Some(rate), Some(seed)) = (case["request_rate"].as_f64(), case["seed"].as_u64())
        else {
            continue;
        };
        let theirs = numbers(&case["arrival_s"]);
        let ours: Vec<f64> = if let Some(burstiness) = case["burstiness"].as_f64() {
            let mut numpy = LegacyRandom::new(seed as u32);
            vllm_arrivals_s(VllmRate::Steady(rate), burstiness, theirs.len(), &mut numpy)
        } else {
            let config = config(case);
            let LengthConfig::SglangRandom(random) = &config.lengths else {
                panic!("a case of SGLang");
            };
            let mut tools = Tools::new(seed as u32);
            tools.sglang_random(random, theirs.len());
            let mut now = 0.0;
            let mut next = || {
                let arrival = now;
                now += tools.numpy.exponential(1.0 / rate);
                arrival
            };
            theirs.iter().map(|_| next()).collect()
        };
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!(close(*ours, *theirs), "{ours} is not {theirs}");
        }
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn vllms_generator_goes_on_to_the_offsets_of_the_prompts() {
    let folder = data();
    let cases = json(folder.join("bench-goldens/arrivals_and_lengths.json"));
    let case = &cases[4];
    // With a ratio of 0 no length takes a draw, so the offsets come first.
    let mut generator = Generator::new(0);
    let ours: Vec<f64> = (0..32).map(|_| f64::from(generator.integers(0, 151_643))).collect();
    assert_eq!(ours, numbers(&case["offsets"]));
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn lengths_of_measured_runs_are_drawn_again() {
    let folder = data();
    let runs = json(folder.join("real-runs/random-lengths.json"));
    let mut checked = 0;
    for (key, lens) in runs.as_object().expect("a map of runs") {
        if lens.get("note").is_some() {
            continue; // too long to list
        }
        let fields: Vec<&str> = key.split('|').collect();
        let number = |prefix: &str| -> f64 {
            let field = fields[1..].iter().find_map(|field| field.strip_prefix(prefix));
            field.and_then(|field| field.parse().ok()).expect("a number")
        };
        let (tool, count) = (fields[0], number("n") as usize);
        let (input_tokens, output_tokens) = (number("in") as u32, number("out") as u32);
        let range_ratio = number("r");
        let mut tools = Tools::new(number("seed") as u32);
        let ours = match tool {
            "sglang" => tools.sglang_random(
                &SglangRandomConfig {
                    input_tokens,
                    output_tokens,
                    range_ratio,
                    special_tokens: 0,
                    vocabulary_size: None,
                },
                count,
            ),
            "inferencex" => tools.vllm_2024_random(
                &Vllm2024RandomConfig {
                    input_tokens,
                    output_tokens,
                    range_ratio,
                    prefix_tokens: 0,
                    vocabulary_size: 151_643,
                },
                count,
            ),
            other => panic!("{key}: no rule for {other}"),
        };
        let (inputs, outputs): (Vec<u32>, Vec<u32>) = ours.into_iter().unzip();
        let theirs = |name: &str| -> Vec<u32> {
            numbers(&lens[name]).into_iter().map(|len| len as u32).collect()
        };
        assert_eq!(inputs, theirs("input"), "inputs of {key}");
        assert_eq!(outputs, theirs("output"), "outputs of {key}");
        checked += 1;
    }
    assert!(checked >= 30, "{checked}");
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn a_recorded_trace_keeps_its_blocks_and_loses_nothing() {
    let folder = data();
    let path = folder.join("traces/mooncake/conversation_trace.jsonl");
    let text = std::fs::read_to_string(path).expect("the trace is readable");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len();
    let rows = lines.into_iter().map(|line| -> Result<TraceRow, WorkloadError> {
        let row: Value = serde_json::from_str(&line).expect("a row is JSON");
        let number = |name: &str| row[name].as_u64().expect("a whole number");
        let ids = row["hash_ids"].as_array().expect("a list");
        Ok(TraceRow {
            arrival: Some(SimTime::from_nanos(number("timestamp") * 1_000_000)),
            prompt_tokens: number("input_length") as u32,
            output_tokens: number("output_length") as u32,
            hash_ids: ids.iter().map(|id| id.as_u64().expect("an id")).collect(),
            hash_block_tokens: 512,
            session: None,
            class: None,
            adapter: None,
        })
    });
    let config: WorkloadConfig = toml::from_str(
        "arrivals = { type = 'trace', jitter_s = 3.0 }\nlengths = { type = 'trace' }",
    )
    .expect("the scenario is well formed");
    let workload = Workload::open(&config, Seed(4), Some(Box::new(rows))).expect("it opens");
    let requests: Vec<Request> = workload.collect::<Result<_, _>>().expect("every row is good");
    assert_eq!(requests.len(), count);
    assert!(requests.is_sorted_by_key(|request| request.arrival));
    for request in requests {
        let segments = request.content.segments.expect("hash ids");
        assert_eq!(segments.iter().map(|s| s.len).sum::<u32>(), request.prompt_tokens);
        assert_eq!(segments.len() as u32, request.prompt_tokens.div_ceil(512));
    }
}

#[test]
fn a_million_requests_stream_by() {
    let config: WorkloadConfig = toml::from_str(
        "num_requests = 1_000_000\narrivals = { type = 'poisson', rate_per_s = 100.0 }\n\
         lengths = { type = 'fixed', input_tokens = 500, output_tokens = 100 }",
    )
    .expect("the scenario is well formed");
    let workload = Workload::open(&config, Seed(1), None).expect("it opens");
    let last = workload.map(|request| request.expect("it is drawn").arrival).last();
    // 10 000 s; four standard errors of a sum of a million exponential gaps are 40 s.
    let last = last.expect("a million requests").as_secs_f64();
    assert!((last - 10_000.0).abs() < 40.0, "{last}");
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    let unknown: Result<WorkloadConfig, _> = toml::from_str(
        "arrivals = { type = 'poisson', rate = 4.0 }\n\
         lengths = { type = 'fixed', input_tokens = 5, output_tokens = 1 }",
    );
    let message = unknown.expect_err("a key without its unit").to_string();
    assert!(message.contains("rate_per_s"), "{message}");
}
