//! `servecast validate` as its users meet it.

use super::Cli;

const RECORD: &str = r#"{"id": "a", "family": "f/x", "engine": {"name": "vLLM", "version": "0.11.0"},
"hardware": {"gpu": "H100", "gpus_used": 1}, "model": {"name": "Qwen/Qwen3-8B"},
"workload": {"dataset": "random", "client": "vllm bench serve", "num_prompts": 4, "input_len": 64,
"output_len": 8}, "metrics": {"mean_ttft_ms": 20.0, "mean_tpot_ms": 7.0}}"#;

const EXPERIMENT: &str = "name = 'one request'
[requests]
files = ['requests.csv']
columns = { arrival_s = 'at', prompt_tokens = 'in', output_tokens = 'out', ttft_ms = 'ttft', \
e2e_ms = 'e2e' }
[cluster]
model = 'Qwen/Qwen3-8B'
gpu = 'H100'
[cluster.step_time]
type = 'linear'
base_us = 1000.0
prefill_token_us = 0.0
decode_seq_us = 0.0
[limits]
mean_ttft_ms = 5.0
";

fn runs() -> Cli {
    let line = RECORD.replace('\n', " ");
    let other = line.replace("vLLM", "MindIE").replace("f/x", "g/y");
    Cli::new().file("runs.jsonl", format!("{line}\n{other}\n"))
}

#[test]
fn published_runs_are_scored_by_family() {
    let law = "cluster.step_time={type='linear',base_us=1000.0,prefill_token_us=0.0,\
               decode_seq_us=0.0}";
    let ran = runs().run(["validate", "--runs", "runs.jsonl", "--set", law]);
    insta::assert_snapshot!(ran.expect_exit(0).stdout());
}

/// Starts whose memory lines are made up: 16 · 0.5 − 2 − 1 − 0.5 = 4.5 GiB of KV.
const STARTS: &str = r#"{"id": "s1", "engine": "vllm", "engine_version": "0.10.2", "model": "Qwen/Qwen3-0.6B", "gpu": "T4", "tp": 1, "gpu_memory_utilization": 0.5, "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 16, "requested_bytes": 8589934592, "weights_bytes": 2147483648, "activation_peak_bytes": 1073741824, "non_torch_bytes": 536870912, "kv_bytes": 4831838208, "quality": "good"}
{"id": "s2", "engine": "vllm", "model": "nobody/knows-me", "gpu": "T4", "tp": 1, "quality": "good"}
{"id": "s3", "engine": "vllm", "engine_version": "0.10.2", "model": "Qwen/Qwen3-0.6B", "gpu": "T4", "tp": 1, "speculative": "eagle", "quality": "partial"}
{"engine": "vllm"}
"#;

fn json_of(starts: &str, words: &str) -> serde_json::Value {
    let ran = Cli::new().file("starts.jsonl", starts).words(words).expect_exit(0);
    serde_json::from_str(&ran.stdout()).expect("JSON")
}

/// What is predicted of the first of some starts.
fn first_start(starts: &str) -> serde_json::Value {
    json_of(starts, "validate --memory starts.jsonl --format json")["starts"][0].clone()
}

#[test]
fn parts_that_the_log_gives_add_up_to_its_kv_memory() {
    let parts = "--given memory,weights,activation,non_torch";
    let json = json_of(STARTS, &format!("validate --memory starts.jsonl --format json {parts}"));
    assert_eq!(json["starts"][0]["kv_bytes"], 4_831_838_208_u64);
    assert_eq!(json["starts"][0]["error_gib"], 0.0);
}

#[test]
fn drafts_of_the_prompt_need_no_memory_and_classes_of_equal_cards_are_known() {
    let first = STARTS.lines().next().expect("a start");
    let with = |gpu: &str, drafts: &str| {
        let written = format!(r#""gpu": "{gpu}", "speculative": "{drafts}""#);
        let text = first.replace(r#""gpu": "T4""#, &written);
        first_start(&text)["kv_bytes"].as_u64()
    };
    let ngram = "SpeculativeConfig(draft_model='[ngram]', num_spec_tokens=10)";
    assert!(with("T4", ngram).is_some());
    assert!(with("T4", "SpeculativeConfig(method='mtp')").is_none());
    let class = with("MI355X/MI350X class", ngram);
    assert!(class.is_some());
    assert_eq!(class, with("MI355X", ngram));
    assert!(with("H100/H200 class", ngram).is_none(), "their memories differ");
}

#[test]
fn a_start_without_a_version_has_the_newest_release_of_its_day() {
    let first = STARTS.lines().next().expect("a start");
    let parts = |version: &str| {
        let text = first.replace(r#""engine_version": "0.10.2""#, version);
        first_start(&text)["parts_bytes"].clone()
    };
    assert_eq!(parts(r#""date": "2025-09-20""#), parts(r#""engine_version": "0.10.2""#));
    assert_ne!(parts(r#""date": "2025-09-20""#), parts(r#""engine_version": null"#));
}

#[test]
fn what_the_log_says_of_memory_changes_no_prediction() {
    let of = |text: &str| first_start(text)["parts_bytes"].clone();
    let other = STARTS.replace("2147483648", "5147483648").replace("8589934592", "7589934592");
    assert_eq!(of(STARTS), of(&other.replace("1073741824", "73741824")));
    // 0.6B parameters in 16 bits, and a table of positions of 10 MiB.
    let weights = of(STARTS)["weights"].as_i64().expect("bytes");
    assert!((1_190_000_000..1_210_000_000).contains(&weights), "{weights}");
}

#[test]
fn starts_that_are_not_predicted_are_listed_with_their_reason() {
    let json = json_of(STARTS, "validate --memory starts.jsonl --format json");
    let reasons: Vec<&str> = json["not_predicted"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["reason"].as_str().expect("a text"))
        .collect();
    let expected = [
        "knows-me is neither in the catalogue nor in --models",
        "memory of a draft model is not modelled",
    ];
    assert_eq!(reasons, expected);
    assert_eq!(json["unreadable"][0], "line 4: `id` is missing");
    let bands = json["scores"]["good"].as_array().expect("a list");
    let counts = |band: &serde_json::Value| (band["starts"].as_u64(), band["scored"].as_u64());
    assert_eq!(bands.last().map(counts), Some((Some(2), Some(1))), "all bands together");
    let cli = Cli::new().file("starts.jsonl", STARTS);
    let ran = cli.words("validate --memory starts.jsonl").expect_exit(0);
    assert!(ran.stdout().contains("3 not predicted"), "{}", ran.stdout());
    assert!(ran.stderr().contains("1 of 4 starts predicted"), "{}", ran.stderr());
    cli.words("validate --memory no-such-file.jsonl").expect_exit(2);
}

#[test]
fn runs_are_chosen_by_family_and_engine() {
    let cli = runs();
    let ran = cli.words("validate --runs runs.jsonl --family g/*").expect_exit(0);
    assert!(ran.stdout().starts_with("g/y: 0 of 1 simulated\n"), "{}", ran.stdout());
    let ran = cli.words("validate --runs runs.jsonl --engine VLLM --format csv").expect_exit(0);
    let text = ran.stdout();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("family,id,metric,measured,simulated,error_pct,approximated"));
    assert!(lines.all(|line| line.starts_with("\"f/x\",\"a\",mean_t")), "{text}");
    let ran = cli.words("validate --runs runs.jsonl --family nothing").expect_exit(2);
    assert!(ran.stderr().contains("no run of this family"), "{}", ran.stderr());
}

#[test]
fn a_line_that_is_no_record_is_counted_with_its_reason_and_the_others_run() {
    let line = RECORD.replace('\n', " ");
    let text = format!("{line}\n{{\"id\": 1}}\n{}", &line[..80]);
    let cli = Cli::new().file("runs.jsonl", text).file("empty.jsonl", "\n").file("x.jsonl", "{\n");
    let ran = cli.words("validate --runs runs.jsonl").expect_exit(0);
    let text = ran.stdout();
    assert!(text.contains("unreadable lines: 0 of 2 simulated"), "{text}");
    assert!(text.contains("1 skipped: line 2: missing field `family`"), "{text}");
    assert!(text.contains("all: 1 of 3 simulated"), "{text}");
    ran.stderr_has("runs.jsonl: line 3: EOF");
    let fails = |file: &str, message: &str| {
        cli.words(&format!("validate --runs {file}")).expect_exit(2).stderr_has(message);
    };
    fails("empty.jsonl", "empty.jsonl: holds no run");
    fails("x.jsonl", "x.jsonl: line 1: EOF");
    let misspelt = runs().words("validate --runs runs.jsonl --set cluster.nope=1").expect_exit(2);
    misspelt.stdout_is_empty().stderr_has("cluster.nope");
}

#[test]
fn an_experiment_within_its_limits_succeeds_and_one_beyond_fails() {
    let table = |ttft: &str| format!("at,in,out,ttft,e2e\n0,8,3,{ttft},3\n");
    let cli = Cli::new().file("x.toml", EXPERIMENT).file("requests.csv", table("1.02"));
    let ran = cli.words("validate x.toml").expect_exit(0);
    assert!(ran.stdout().contains("1 of 1 errors within their limits"), "{}", ran.stdout());
    let cli = cli.file("requests.csv", table("1.2"));
    let ran = cli.words("validate x.toml").expect_exit(1);
    assert!(ran.stdout().contains("missed"), "{}", ran.stdout());
    assert!(ran.stderr().contains("1 of 1 errors are beyond their limits"), "{}", ran.stderr());
}

#[test]
fn the_reference_runs_are_judged_by_the_goals() {
    let ran = Cli::new().words("validate");
    let (text, errors) = (ran.stdout(), ran.stderr());
    assert!(text.contains("vLLM on A10, sonnet 256/6 at 8 req/s, chunked prefill"), "{text}");
    assert!(text.contains("within their limits"), "{text}");
    assert!(text.contains("SGLang, DeepSeek-V3 TP8, triton, 16 in flight"), "{text}");
    assert!(text.contains("gpt-oss-120b 3P1D, 32784/2048, 64 in flight"), "{text}");
    assert!(text.contains("SGLang, Llama-2-7B with four adapters"), "{text}");
    assert!(
        !errors.contains("not simulated:") && !text.contains("not simulated:"),
        "{text}{errors}"
    );
}

/// Hosts that take 4 ms for each step, and nothing; kernels of both take what they take alone.
#[cfg(feature = "calibrate")]
const SLOW: &str = "cluster.step_time.calibration.per_step_us=4000";
#[cfg(feature = "calibrate")]
const FAST: &str = "cluster.step_time.calibration.per_step_us=0";

/// A short closed loop of a model.
#[cfg(feature = "calibrate")]
fn closed_loop(id: &str, model: &str, [in_flight, output]: [u32; 2], metrics: &str) -> String {
    let line = RECORD.replace('\n', " ").replace("Qwen/Qwen3-8B", model);
    let (start, _) = line.split_once("\"metrics\"").expect("it has metrics");
    let start = start.replace("\"num_prompts\": 4", "\"num_prompts\": 16");
    let start = start.replace("\"output_len\": 8", &format!("\"output_len\": {output}"));
    let start = start.replace("\"id\": \"a\"", &format!("\"id\": \"{id}\""));
    let client = "\"client\":";
    let start = start.replace(client, &format!("\"max_concurrency\": {in_flight}, {client}"));
    format!("{start}\"metrics\": {metrics}}}\n")
}

/// Six closed loops of a model, whose simulation with these settings stands for the measurement.
#[cfg(feature = "calibrate")]
fn as_if_measured(model: &str, settings: &str) -> Vec<String> {
    let any = r#"{"mean_ttft_ms": 1.0, "mean_tpot_ms": 1.0, "duration": 1.0}"#;
    let cases = (0..6).map(|n| (format!("r{n}"), [1 + 5 * (n % 3), 8 + 12 * (n / 3)]));
    let cases: Vec<(String, [u32; 2])> = cases.collect();
    let blank = |(id, sizes): &(String, [u32; 2])| closed_loop(id, model, *sizes, any);
    let cli = Cli::new().file("blank.jsonl", cases.iter().map(blank).collect::<String>());
    let ran = cli.run(["validate", "--runs", "blank.jsonl", "--set", settings, "--format", "json"]);
    let answer: serde_json::Value =
        serde_json::from_str(&ran.expect_exit(0).stdout()).expect("it is JSON");
    let measured = |(id, sizes): &(String, [u32; 2])| {
        let runs = answer["runs"].as_array().expect("a list");
        let run = runs.iter().find(|run| run["id"] == id.as_str()).expect("it ran");
        let of = |name: &str| run["metrics"][name]["simulated"].as_f64().expect("a figure");
        let [ttft, tpot, duration] = ["mean_ttft_ms", "mean_tpot_ms", "duration"].map(of);
        let metrics = format!(
            r#"{{"mean_ttft_ms": {ttft}, "mean_tpot_ms": {tpot}, "duration": {duration}}}"#
        );
        closed_loop(id, model, *sizes, &metrics)
    };
    cases.iter().map(measured).collect()
}

/// The error of the mean TPOT of the only run.
#[cfg(feature = "calibrate")]
fn error_of_one(ran: &super::Ran) -> f64 {
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout()).expect("it is JSON");
    let error = &answer["runs"][0]["metrics"]["mean_tpot_ms"]["error_pct"];
    error.as_f64().expect("a figure").abs()
}

#[cfg(feature = "calibrate")]
#[test]
fn what_other_servers_take_is_found_in_their_runs() {
    // One record is scored, the five others tell what the host takes.
    let mut others = as_if_measured("Qwen/Qwen3-8B", SLOW);
    let mine = others.remove(2);
    let cli = Cli::new().file("mine.jsonl", mine).file("others.jsonl", others.concat());
    let before =
        error_of_one(&cli.words("validate --runs mine.jsonl --format json").expect_exit(0));
    let words = "validate --runs mine.jsonl --calibrate-on others.jsonl --format json";
    let ran = cli.words(words).expect_exit(0);
    let after = error_of_one(&ran);
    assert!(before > 20.0 && after < 0.2 * before, "{before} {after}");
    let ran = ran.stderr_has("vLLM, f on H100-SXM5-80GB, dense models, fitted to 5 runs: cluster.");
    assert!(ran.stderr().contains("1 of 1 runs simulated"), "{}", ran.stderr());
    cli.words("validate --runs mine.jsonl --calibrate-on nowhere.jsonl").expect_exit(2);
}

#[cfg(feature = "calibrate")]
#[test]
fn servers_that_do_not_predict_each_other_tell_nothing_of_a_third() {
    let slow = as_if_measured("Qwen/Qwen3-8B", SLOW)[..3].concat();
    let same = as_if_measured("Qwen/Qwen3-4B", SLOW)[..3].concat();
    let fast = as_if_measured("Qwen/Qwen3-4B", FAST)[..3].concat();
    let mine = as_if_measured("Qwen/Qwen3-14B", SLOW).remove(2);
    let cli = Cli::new()
        .file("mine.jsonl", mine)
        .file("alike.jsonl", slow.clone() + &same)
        .file("unlike.jsonl", slow + &fast);
    let before =
        error_of_one(&cli.words("validate --runs mine.jsonl --format json").expect_exit(0));
    let on = |file: &str| {
        let words = format!("validate --runs mine.jsonl --calibrate-on {file} --format json");
        cli.words(&words).expect_exit(0)
    };
    // Two others tell little, where servers differ by 25 %.
    let alike = on("alike.jsonl").stderr_has("vLLM, f, fitted to 6 runs: ");
    assert!(!alike.stderr().contains("f: not fitted"), "{}", alike.stderr());
    assert!(error_of_one(&alike) < before - 1.0, "one host of all: {before}");
    let unlike = on("unlike.jsonl");
    assert!((error_of_one(&unlike) - before).abs() < 1e-9, "as without any");
    unlike.stderr_has("vLLM, f: not fitted, as its servers do not predict each other");
}

#[cfg(feature = "calibrate")]
#[test]
fn runs_that_tell_only_throughput_are_no_reason_to_fit_nothing() {
    let blank = closed_loop("t", "Qwen/Qwen3-4B", [1, 8], r#"{"output_throughput": 100.0}"#);
    let mut others = as_if_measured("Qwen/Qwen3-8B", SLOW);
    let mine = others.remove(2);
    let cli = Cli::new()
        .file("mine.jsonl", mine)
        .file("others.jsonl", others.concat() + &blank)
        .file("blank.jsonl", blank);
    let words = "validate --runs mine.jsonl --calibrate-on";
    cli.words(&format!("{words} others.jsonl")).expect_exit(0).stderr_has("fitted to 5 runs: ");
    cli.words(&format!("{words} blank.jsonl"))
        .expect_exit(2)
        .stderr_has("no run to calibrate on tells a latency or a duration");
}

#[test]
fn a_gpu_of_ones_own_takes_the_place_of_the_one_that_was_measured() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/gpus");
    let h100 = std::fs::read_to_string(folder.join("h100-sxm5-80gb.toml")).expect("it is there");
    let own = h100.replace("name = \"H100-SXM5-80GB\"", "name = \"Mine\"");
    let slow = own.replace("memory_bandwidth_gb_s = 3350.0", "memory_bandwidth_gb_s = 335.0");
    let cli = runs().file("slow.toml", slow);
    let tpot = |words: &str| {
        let ran = cli.words(&format!("validate --runs runs.jsonl --format json {words}"));
        let answer: serde_json::Value =
            serde_json::from_str(&ran.expect_exit(0).stdout()).expect("it is JSON");
        answer["runs"][0]["metrics"]["mean_tpot_ms"]["simulated"].as_f64()
    };
    let catalogue = tpot("").expect("it ran");
    let slow = tpot("--set cluster.gpu=slow.toml").expect("it ran");
    assert!(slow > 4.0 * catalogue, "{slow} {catalogue}");
    cli.words("validate --runs runs.jsonl --set cluster.gpu=nowhere.toml")
        .expect_exit(2)
        .stderr_has("--set cluster.gpu=nowhere.toml: cluster.gpu: nowhere.toml: ");
}
