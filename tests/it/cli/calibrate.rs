//! `servecast calibrate` finds the law that made the figures.

use serde_json::Value;

use super::Cli;

/// A server whose law is not known to the scenario: 5 ms on the way in, 2 ms a step, 40 µs a
/// sequence.
const TRUTH: [&str; 3] = [
    "cluster.api_delay_ms=5.0",
    "cluster.step_time.base_us=2000.0",
    "cluster.step_time.decode_seq_us=40.0",
];

const FIT: &str = r#"
[[fit]]
path = "cluster.api_delay_ms"
kind = "amount"
centre = 1.0
spread = 5.0
[[fit]]
path = "cluster.step_time.base_us"
kind = "factor"
centre = 1000.0
spread = 0.5
[[fit]]
path = "cluster.step_time.decode_seq_us"
kind = "factor"
centre = 10.0
spread = 1.0
"#;

fn scenario(rate_per_s: f64) -> String {
    format!(
        r#"
name = "at {rate_per_s}"
[workload]
num_requests = 300
tool_seed = 1
arrivals = {{ type = "sglang", rate_per_s = {rate_per_s:?} }}
lengths = {{ type = "fixed", input_tokens = 100, output_tokens = 50 }}
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
step_time = {{ type = "linear", base_us = 1000.0, prefill_token_us = 1.0, decode_seq_us = 10.0 }}
"#
    )
}

/// The block that the true server prints at a rate.
fn measure(rate_per_s: f64) -> String {
    let cli = Cli::new().file("s.toml", scenario(rate_per_s));
    let sets = TRUTH.iter().flat_map(|set| ["--set", set]);
    let ran = cli.run(["run", "s.toml", "--output-dir", "out"].into_iter().chain(sets));
    ran.expect_exit(0);
    cli.read("out/benchmark.jsonl")
}

fn calibration() -> Cli {
    let server = scenario(50.0) + FIT;
    Cli::new()
        .file("server.toml", server)
        .file("low.jsonl", measure(20.0))
        .file("high.jsonl", measure(150.0))
        .file("middle.jsonl", measure(80.0))
}

#[test]
fn the_law_behind_measured_runs_is_found_and_predicts_the_one_held_out() {
    let cli = calibration();
    let words = "calibrate --server server.toml low.jsonl high.jsonl --hold-out middle.jsonl \
                 --within 1 \
                 --fit cluster.api_delay_ms=1+-5 --fit cluster.step_time.base_us=1000*/0.5 \
                 --fit cluster.step_time.decode_seq_us=10*/1 --format json --output found.toml";
    let ran = cli.words(words).expect_exit(0);
    let value: Value = serde_json::from_str(&ran.stdout()).unwrap();
    for (index, truth) in [5.0, 2000.0, 40.0].into_iter().enumerate() {
        let parameter = &value["parameters"][index];
        let found = parameter["value"].as_f64().unwrap();
        assert!((found / truth - 1.0).abs() < 0.03, "{parameter}");
        let [low, high] = ["low", "high"].map(|key| parameter[key].as_f64().unwrap());
        assert!(low < found && found < high, "{parameter}");
    }
    assert_eq!(value["held_out"].as_array().unwrap().len(), 1);
    let found = cli.read("found.toml");
    assert!(found.contains("cluster.step_time.base_us"), "{found}");
    let run = "run server.toml --calibration found.toml --output-dir out";
    cli.words(run).expect_exit(0);
    let resolved: toml::Table = toml::from_str(&cli.read("out/scenario.resolved.toml")).unwrap();
    let base = resolved["cluster"]["step_time"]["base_us"].as_float().unwrap();
    assert!((base / 2000.0 - 1.0).abs() < 0.03, "{base}");
}

#[test]
fn a_law_that_cannot_explain_the_runs_gets_a_negative_verdict() {
    let cli = calibration();
    // Nothing but the delay may change.
    let words = "calibrate --server server.toml low.jsonl --fit cluster.api_delay_ms=1+-5";
    cli.words(words).expect_exit(1).stdout_has("verdict on the fitted runs:").stdout_has("off by");
}

#[test]
fn what_cannot_be_fitted_is_refused_by_name() {
    let result = |more: &str| format!("{{\"mean_ttft_ms\": 20.0, \"max_concurrency\": {more}}}\n");
    let varied = scenario(1.0) + "[[variants]]\nname = 'other'\nset = { 'cluster.replicas' = 2 }\n";
    let cli = calibration()
        .file("plain.toml", scenario(1.0))
        .file("empty.txt", "nothing here\n")
        .file("varied.toml", varied)
        .file("result.json", result("null"))
        .file("odd.json", result("\"four\""))
        .file("none.json", result("4, \"completed\": 0"));
    let cases = [
        ("plain.toml", "plain.toml: has no table [measured]"),
        (
            "empty.txt",
            "empty.txt: is not a scenario; what a benchmark tool printed or wrote needs --server",
        ),
        ("result.json", "result.json: is not a scenario; what a benchmark tool printed"),
        ("--server varied.toml low.jsonl", "varied.toml: variants: must be absent with --server"),
        (
            "--server server.toml low.jsonl --hold-out ./low.jsonl",
            "is both calibrated on and held out",
        ),
        ("--server server.toml low.jsonl --within nan", "--within: must be above 0"),
        ("--server server.toml none.json", "none.json:1: no request succeeded"),
        ("--server server.toml odd.json", "odd.json:1: max_concurrency: must be a whole number"),
        ("--server server.toml empty.txt", "empty.txt: holds no benchmark block"),
        ("--server server.toml low.jsonl --fit cluster.api_delay_ms", "write PATH=CENTRE*/SPREAD"),
        (
            "--server server.toml low.jsonl --fit cluster.api_delay_ms=1+-0",
            "must be positive, got 0",
        ),
        ("--server server.toml low.jsonl --fit cluster.nothing=1+-1", "cluster.nothing"),
        ("--server server.toml --hold-out low.jsonl -- missing.jsonl", "missing.jsonl"),
    ];
    for (words, message) in cases {
        cli.words(&format!("calibrate {words}"))
            .expect_exit(2)
            .stdout_is_empty()
            .stderr_has(message);
    }
}

/// Requests far apart: `api` before the first step, then steps of `base`, in ms.
fn requests(api: f64, base: f64) -> String {
    let row = |index: u32| {
        let output = 3 + index % 5;
        let (ttft, e2e) = (api + base, api + base * f64::from(output));
        format!("{},8,{output},{ttft},{e2e}\n", 10 * index)
    };
    format!("at,in,out,ttft,e2e\n{}", (0..20).map(row).collect::<String>())
}

const EXPERIMENT: &str = r#"
name = "one at a time"
[requests]
files = ["requests.csv"]
columns = { arrival_s = "at", prompt_tokens = "in", output_tokens = "out", ttft_ms = "ttft", e2e_ms = "e2e" }
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
step_time = { type = "linear", base_us = 1000.0, prefill_token_us = 0.0, decode_seq_us = 0.0 }
[limits]
mean_e2el_ms = 0.5
[[fit]]
path = "cluster.api_delay_ms"
kind = "amount"
centre = 1.0
spread = 5.0
[[fit]]
path = "cluster.step_time.base_us"
kind = "factor"
centre = 1000.0
spread = 0.5
[[variants]]
name = "another day"
set = { hold_out = true, "requests.files" = ["other.csv"] }
"#;

#[test]
fn an_experiment_is_fitted_to_and_its_variant_held_out_is_predicted() {
    let cli = Cli::new()
        .file("x.toml", EXPERIMENT)
        .file("data/requests.csv", requests(5.0, 2.0))
        .file("data/other.csv", requests(5.0, 2.0));
    let words = "calibrate x.toml --data data --within 1 --format json --output found.toml";
    let ran = cli.words(words).expect_exit(0);
    let value: Value = serde_json::from_str(&ran.stdout()).unwrap();
    for (index, truth) in [5.0, 2000.0].into_iter().enumerate() {
        let found = value["parameters"][index]["value"].as_f64().unwrap();
        assert!((found / truth - 1.0).abs() < 0.02, "{value}");
    }
    assert_eq!(value["held_out"][0]["name"], "another day");
    cli.words("validate x.toml --data data").expect_exit(1);
    cli.words("validate x.toml --data data --calibration found.toml").expect_exit(0);
}

#[test]
fn the_parameters_of_the_server_are_fitted_and_lengths_that_differ_are_told() {
    let cli = calibration();
    let words = "calibrate --server server.toml low.jsonl --within 1 --format json";
    let ran = cli.words(words).expect_exit(0);
    let value: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(value["parameters"].as_array().unwrap().len(), 3);
    let longer = (scenario(50.0) + FIT).replace("input_tokens = 100", "input_tokens = 110");
    let cli = cli.file("longer.toml", longer);
    let ran = cli.words("calibrate --server longer.toml low.jsonl");
    ran.stderr_has("total_input_tokens: the workload has 33000, the tool counted 30000");
}

#[test]
fn a_verdict_on_nothing_is_no_verdict() {
    let figures = "{\"p99_ttft_ms\": 20.0, \"request_throughput\": 9.0}\n";
    let cli = calibration().file("little.json", figures);
    let ran = cli.words("calibrate --server server.toml little.json").expect_exit(1);
    ran.stdout_has("nothing to judge").stderr_has("nothing to judge");
}

/// The calibration of the server above, with another misfit and value.
fn calibrated(misfit: f64, value: f64, made_on: &str) -> String {
    format!(
        "servecast = \"0\"\nfitted_to = [\"a\"]\nheld_out = []\nmisfit = {misfit:?}\ncovariance = [[0.1]]\n\
         {made_on}\n[[parameters]]\npath = \"cluster.step_time.base_us\"\nkind = \"factor\"\n\
         centre = 1000.0\nspread = 0.3\nvalue = {value:?}\nlow = 1.0\nhigh = 2.0\ndetermined = true\n"
    )
}

#[test]
fn a_calibration_whose_parameters_are_none_is_refused_with_its_name() {
    let whole = calibrated(1.0, 1000.0, "");
    let place = "c.toml: cluster.step_time.base_us: ";
    for (from, to, rule) in [
        ("spread = 0.3", "spread = -1", "the spread must be positive, got -1"),
        ("value = 1000.0", "value = -4", "value must be at least 0, got -4"),
        ("low = 1.0", "low = 9.0", "low must be at most high, which is 2, got 9"),
    ] {
        let calibration = whole.replace(from, to);
        let cli = Cli::new().file("s.toml", scenario(1.0)).file("c.toml", calibration);
        let ran = cli.words("run s.toml --no-files --calibration c.toml").expect_exit(2);
        ran.stdout_is_empty().stderr_has(&format!("{place}{rule}"));
    }
}

#[test]
fn a_path_that_a_calibration_misspells_is_not_blamed_on_the_scenario() {
    for (wrong, told) in [
        (
            "step_time.bas_us",
            "cluster.step_time.bas_us: unknown key `bas_us`; did you mean `base_us`?",
        ),
        ("steptime.base_us", "cluster.steptime: unknown key `steptime`; did you mean `step_time`?"),
    ] {
        let misspelt = calibrated(1.0, 1000.0, "").replace("step_time.base_us", wrong);
        let cli = Cli::new().file("s.toml", scenario(1.0)).file("c.toml", misspelt);
        let ran = cli.words("run s.toml --no-files --calibration c.toml").expect_exit(2);
        ran.stdout_is_empty().stderr_has(&format!("error: s.toml: calibration: {told}"));
    }
}

const ELSEWHERE: &str = "[made_on]\nmodels = [\"Qwen/Qwen3-8B\"]\ngpus = [\"A100-SXM4-80GB\"]\n\
                         engines = [\"sglang\"]\ntensor_parallel_sizes = [2]\n";
const HERE: &str = "[made_on]\nmodels = [\"Qwen/Qwen2.5-7B\"]\ngpus = [\"H100-SXM5-80GB\"]\n\
                    engines = [\"vllm_v1\"]\ntensor_parallel_sizes = [1]\n";

#[test]
fn a_calibration_that_fits_nothing_or_was_made_elsewhere_is_warned_of_in_every_command() {
    let cli = Cli::new()
        .file("s.toml", scenario(50.0))
        .file("c.toml", calibrated(7.2, 33_000.0, ELSEWHERE));
    let study =
        scenario(50.0) + "[sweep]\naxes = [{ path = \"cluster.replicas\", values = [1, 2] }]\n";
    let cli = cli.file("study.toml", study);
    for words in [
        "run s.toml --no-files --calibration c.toml",
        "sweep study.toml --output-dir swept --calibration c.toml",
        "plan s.toml --slo p99_ttft_ms<=1e6 --max-gpus 1 --resamples 0 --calibration c.toml",
    ] {
        let said = cli.words(words).stderr();
        let said = said.replace("2 of 2 points; the first is point 0: ", "");
        for part in [
            "warning: the calibration does not fit: it misses its own runs by 7.2 times the noise",
            "warning: the calibration sets cluster.step_time.base_us to 33000.0000, 12 spreads from the 1000",
            "warning: the calibration was made on another model: Qwen/Qwen3-8B, not Qwen/Qwen2.5-7B",
            "warning: the calibration was made on another GPU: A100-SXM4-80GB, not H100-SXM5-80GB",
            "warning: the calibration was made on another engine: sglang, not vllm_v1",
            "warning: the calibration was made on another tensor-parallel size: 2, not 1",
        ] {
            assert_eq!(said.matches(part).count(), 1, "{words}: {part}\n{said}");
        }
    }
    let ran = cli.words("run s.toml --no-files --format json --calibration c.toml");
    let report: Value = serde_json::from_str(&ran.expect_exit(0).stdout()).expect("it is JSON");
    assert_eq!(report["warnings"]["figures"]["caveats"][0]["misfit"], 7.2);
}

#[test]
fn a_calibration_that_fits_this_server_is_taken_without_a_word_and_a_nameless_one_is_not() {
    let said = |made_on: &str| {
        let cli = Cli::new()
            .file("s.toml", scenario(50.0))
            .file("c.toml", calibrated(1.2, 1100.0, made_on));
        cli.words("run s.toml --no-files --calibration c.toml").expect_exit(0).stderr()
    };
    assert!(!said(HERE).contains("warning: the calibration"), "{}", said(HERE));
    assert!(said("").contains("warning: the calibration does not say which model"), "{}", said(""));
}

#[test]
fn all_reduces_that_no_calibrated_run_had_are_those_of_typical_servers() {
    let found = include_str!("../../../docs/tutorial/found.toml");
    let single = "tensor_parallel_sizes = [1]";
    assert!(found.contains(single) && !found.contains("all_reduce"));
    let cli = Cli::new()
        .file("server.toml", include_str!("../../../docs/tutorial/server.toml"))
        .file("found.toml", found)
        .file("two.toml", found.replace(single, "tensor_parallel_sizes = [1, 2]"));
    let run = |more: &str| {
        let words = format!("run server.toml --no-files --point --format json {more}");
        let ran = cli.words(&words).expect_exit(0);
        let report: Value = serde_json::from_str(&ran.stdout()).expect("it is JSON");
        (report["benchmark"]["mean_tpot_ms"].as_f64().expect("a figure"), ran.stderr())
    };
    let told = "no run of the calibration had all-reduces: they take ";
    let tp2 = "--set cluster.tensor_parallel_size=2";
    let (typical, said) = run(&format!("--calibration found.toml {tp2}"));
    let factor = said.split_once(told).unwrap_or_else(|| panic!("{said}")).1;
    let factor = factor.split(' ').next().unwrap();
    assert!(factor.parse::<f64>().unwrap() > 1.0, "{said}");
    let set = format!("--set cluster.step_time.calibration.all_reduce={factor}");
    let (stated, said) = run(&format!("--calibration found.toml {tp2} {set}"));
    assert!(stated.to_bits() == typical.to_bits() && !said.contains(told), "{stated} {typical}");
    let (alone, said) = run(&format!("--calibration two.toml {tp2}"));
    assert!(alone < typical && !said.contains(told), "{alone} {typical}");
    assert!(!run("--calibration found.toml").1.contains(told), "it has none");
    // What is stated holds, if it is what kernels take alone too.
    let set = "--set cluster.step_time.calibration.all_reduce=1";
    let (one, said) = run(&format!("--calibration found.toml {tp2} {set}"));
    assert!(one.to_bits() == alone.to_bits() && !said.contains(told), "{one} {alone}");
    let ignored = "--set cluster.step_time.communication=ignored";
    assert!(!run(&format!("--calibration found.toml {tp2} {ignored}")).1.contains(told));
    // They were measured on no bus of this host, as without a calibration.
    let l40s = format!("--calibration found.toml --set cluster.gpu=L40S {tp2}");
    let (_, said) = run(&l40s);
    assert!(said.contains(told) && said.contains("PCIe"), "{said}");
}

#[test]
fn what_goes_beyond_the_runs_of_a_calibration_is_warned_of() {
    let fit = "calibrate --server server.toml low.jsonl high.jsonl --fit cluster.api_delay_ms=1+-5 \
               --within 1000 --output found.toml";
    let cli = calibration();
    cli.words(fit).expect_exit(0);
    let file: toml::Table = cli.read("found.toml").parse().unwrap();
    let demand = file["made_on"]["demand"].as_table().expect("a table");
    let range = |key: &str| demand[key].clone().try_into::<[f64; 2]>().unwrap();
    assert_eq!((range("prompt_tokens"), range("output_tokens")), ([100.0; 2], [50.0; 2]));
    let [least, most] = range("requests_per_s_per_replica");
    // What is drawn at 20/s and 150/s, less what is answered more slowly.
    assert!((17.0..23.0).contains(&least) && (120.0..170.0).contains(&most), "{least} to {most}");

    let said = |words: &str| -> Vec<String> {
        let ran = cli.words(&format!("{words} --calibration found.toml")).expect_exit(0);
        let fitted = "warning: the calibration was fitted on ";
        let lines = ran.stderr().lines().map(str::to_owned).collect::<Vec<_>>();
        lines.into_iter().filter_map(|line| Some(line.strip_prefix(fitted)?.to_owned())).collect()
    };
    let run = "run server.toml --no-files --set workload.num_requests=3000 --set workload.arrivals.rate_per_s";
    assert!(said(&format!("{run}=150")).is_empty(), "{:?}", said(&format!("{run}=150")));
    assert!(said(&format!("{run}=400 --set cluster.replicas=4")).is_empty(), "100/s each");
    let fast = said(&format!("{run}=400"));
    assert_eq!(fast.len(), 1, "{fast:?}");
    assert!(fast[0].contains(" requests/s per replica, and here there are "), "{fast:?}");
    let lengths =
        "--set workload.lengths.input_tokens=1000 --set workload.lengths.output_tokens=90";
    let long = said(&format!("{run}=20 {lengths}"));
    let expected = [
        "100 tokens a prompt on average, and here there are 1,000: what it says there is extrapolated",
        "50 tokens an answer on average, and here there are 90: what it says there is extrapolated",
    ];
    assert_eq!(long, expected);

    let plan = "plan server.toml --slo p99_ttft_ms<=1e6 --max-gpus 1 --resamples 0 \
                --set workload.num_requests=3000 --set workload.arrivals.rate_per_s=400";
    let beyond = said(plan);
    assert_eq!(beyond.len(), 1, "{beyond:?}");
    let plan = format!("{plan} --calibration found.toml");
    let text = format!("  caveat: the calibration was fitted on {}", beyond[0]);
    cli.words(&plan).expect_exit(0).stdout_has(&text);
    let json = cli.words(&format!("{plan} --format json")).expect_exit(0).stdout();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let mut assumptions = json["assumptions"].as_array().expect("a list").iter();
    let fact = assumptions.find(|one| one["is"]["type"] == "beyond_calibration");
    assert!(
        fact.is_some_and(|fact| fact["is"]["simulated"].as_f64() > Some(1.25 * most)),
        "{json:#}"
    );

    let turned = format!("{HERE}demand = {{ prompt_tokens = [9, 7], output_tokens = [1, 1] }}\n");
    let cli = cli.file("turned.toml", calibrated(1.2, 1100.0, &turned));
    let refused = cli.words("run server.toml --no-files --calibration turned.toml").expect_exit(2);
    refused.stderr_has("turned.toml: made_on.demand.prompt_tokens: must be the least and the most");
}

#[test]
fn more_requests_of_the_same_lengths_are_not_beyond_a_calibration() {
    // A median of 400 with σ = 1 is a mean of 660; the longest of 3000 has ten times as many.
    let demand =
        format!("{HERE}demand = {{ prompt_tokens = [660, 660], output_tokens = [50, 50] }}\n");
    let server = "name = 's'\n[workload]\nnum_requests = 3000\n\
                  arrivals = { type = 'poisson', rate_per_s = 50.0 }\n\
                  lengths = { type = 'sampled', input_tokens = { type = 'log_normal', median_tokens = 400, \
                  sigma = 1.0, max_tokens = 20000 }, output_tokens = { type = 'fixed', tokens = 50 } }\n\
                  [cluster]\nmodel = 'Qwen/Qwen2.5-7B'\ngpu = 'H100'\n\
                  step_time = { type = 'linear', base_us = 1000.0, prefill_token_us = 1.0, decode_seq_us = 10.0 }\n";
    let cli = Cli::new().file("s.toml", server).file("c.toml", calibrated(1.2, 1100.0, &demand));
    let run = "run s.toml --no-files --calibration c.toml";
    let said = |words: &str| cli.words(words).expect_exit(0).stderr();
    assert!(!said(run).contains("was fitted on"), "{}", said(run));
    let longer = said(&format!("{run} --set workload.lengths.input_tokens.median_tokens=600"));
    let warning = "fitted on 660 tokens a prompt on average, and here there are ";
    assert!(longer.contains(warning), "{longer}");
}

#[test]
fn a_sweep_tells_what_is_doubted_of_a_calibration_however_its_runs_are_known() {
    let demand = "demand = { requests_per_s_per_replica = [1.0, 6.0], prompt_tokens = [90, 90], \
                  output_tokens = [10, 10] }\n";
    let server = scenario(4.0).replace("tool_seed = 1\n", "").replace("\"sglang\"", "\"poisson\"");
    let cli = Cli::new()
        .file("s.toml", server)
        .file("c.toml", calibrated(7.2, 1100.0, &format!("{ELSEWHERE}{demand}")));
    let words = "sweep s.toml --vary workload.arrivals.rate_per_s=4,20,40 --seeds 2 --calibration c.toml \
                 --output-dir swept --format json";
    let told = |words: &str| {
        let ran = cli.words(words).expect_exit(0);
        let lines = ran.stderr().lines().map(str::to_owned).collect::<Vec<_>>();
        let lines = lines.into_iter().filter(|line| line.contains("the calibration"));
        (lines.collect::<Vec<_>>(), ran.stdout())
    };
    let first = told(words);
    let (lines, report) = &first;
    for part in [
        "warning: 3 of 3 points; the first is point 0, run 1: the calibration does not fit",
        "warning: 3 of 3 points; the first is point 0, run 1: the calibration was made on another GPU",
        "warning: 2 of 3 points; the first is point 1, run 1: the calibration was fitted on 1 to 6 requests/s",
        "warning: 3 of 3 points; the first is point 0, run 1: the calibration was fitted on 10 tokens an answer",
    ] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(part)).count(), 1, "{lines:#?}");
    }
    let report: Value = serde_json::from_str(report).expect("it is JSON");
    let of_point = |point: usize, kind: &str| {
        let warnings = report["points"][point]["warnings"].as_array().expect("a list");
        warnings.iter().filter(|one| one["kind"] == kind).count()
    };
    let counts = |kind| [0, 1, 2].map(|point| of_point(point, kind));
    assert_eq!(counts("beyond_fitted_rate"), [0, 1, 1], "the texts of seeds differ");
    assert_eq!(counts("beyond_fitted_prompts"), [0; 3], "100 is no quarter above 90");
    assert_eq!(counts("beyond_fitted_answers"), [1; 3]);
    assert_eq!(counts("caveat"), [5; 3]);
    assert_eq!(told(words), first, "known before");
    assert_eq!(told("merge swept --output-dir whole --format json"), first, "merged");
}

#[test]
fn a_rate_per_replica_is_of_one_model() {
    let demand = "demand = { requests_per_s_per_replica = [1.0, 6.0], prompt_tokens = [100, 100], \
                  output_tokens = [50, 50] }\n";
    let models = "[[workload.classes]]\nname = 'small'\nshare = 0.5\n\
                  [[workload.classes]]\nname = 'large'\nshare = 0.5\nmodel = 'Qwen/Qwen2.5-14B'\n\
                  [[cluster.groups]]\nreplicas = 1\n\
                  [[cluster.groups]]\nreplicas = 1\nmodel = 'Qwen/Qwen2.5-14B'\n";
    let server = scenario(20.0).replace("tool_seed = 1\n", "").replace("\"sglang\"", "\"poisson\"");
    let cli = Cli::new()
        .file("one.toml", &server)
        .file("two.toml", server.clone() + models)
        .file("c.toml", calibrated(1.2, 1100.0, &format!("{HERE}{demand}")));
    let warns = |file: &str| {
        let ran = cli.words(&format!("run {file} --no-files --calibration c.toml"));
        ran.expect_exit(0).stderr().contains("requests/s per replica, and here")
    };
    assert!(warns("one.toml"), "20 a second are beyond 6");
    assert!(!warns("two.toml"), "nobody can tell whose replicas serve how much");
}

#[test]
fn a_calibration_is_of_one_table_of_step_times() {
    let made_on = format!("{HERE}tables = [\"h100-sxm5-80gb/vllm-0.24.0\"]\n");
    let calibration = calibrated(1.2, 100.0, &made_on)
        .replace("step_time.base_us", "step_time.calibration.per_step_us")
        .replace("kind = \"factor\"\ncentre = 1000.0", "kind = \"amount\"\ncentre = 100.0");
    let server = "name = 's'\n[workload]\nnum_requests = 2\narrivals.type = 'all_at_once'\n\
                  lengths = { type = 'fixed', input_tokens = 10, output_tokens = 2 }\n\
                  [cluster]\nmodel = 'Qwen/Qwen2.5-7B'\ngpu = 'H100'\n";
    let cli = Cli::new().file("s.toml", server).file("c.toml", calibration);
    let run = "run s.toml --no-files --calibration c.toml";
    let warning =
        "another table of step times: h100-sxm5-80gb/vllm-0.24.0, not h100-sxm5-80gb/vllm-0.14.0";
    let same = cli.words(run).expect_exit(0).stderr();
    assert!(!same.contains("warning: the calibration"), "{same}");
    let other = format!("{run} --set cluster.step_time.engine_version=\"0.14.0\"");
    cli.words(&other).expect_exit(0).stderr_has(warning);
}

#[test]
fn results_are_compared_with_a_server_before_and_after_it_is_calibrated() {
    let cli = calibration();
    let words = "calibrate --server server.toml low.jsonl high.jsonl --output found.toml";
    let fit = "--within 1 --fit cluster.api_delay_ms=1+-5 --fit cluster.step_time.base_us=1000*/0.5 \
               --fit cluster.step_time.decode_seq_us=10*/1";
    cli.words(&format!("{words} {fit}")).expect_exit(0);
    let errors = |more: &str| -> Vec<f64> {
        let words =
            format!("validate --server server.toml middle.jsonl high.jsonl --format json {more}");
        let ran = cli.words(&words).expect_exit(0);
        let value: Value = serde_json::from_str(&ran.stdout()).expect("it is JSON");
        let runs = value["runs"].as_array().expect("a list");
        assert_eq!(runs.len(), 2, "{value:#}");
        let error = |run: &Value| run["metrics"]["mean_ttft_ms"]["error_pct"].as_f64().unwrap();
        runs.iter().map(error).collect()
    };
    let (bare, calibrated) = (errors(""), errors("--calibration found.toml"));
    assert!(bare.iter().all(|error| *error < -30.0), "{bare:?}");
    assert!(calibrated.iter().all(|error| error.abs() < 2.0), "{calibrated:?}");

    let two = cli.words("validate middle.jsonl high.jsonl").expect_exit(2);
    two.stderr_has("high.jsonl: is a second file; several need --server");
    let negative = measure(80.0).replace("\"mean_ttft_ms\": ", "\"mean_ttft_ms\": -");
    let other = measure(80.0).replacen('{', "{\"model_id\": \"other/model\", ", 1);
    let cli = cli.file("negative.jsonl", negative).file("other.jsonl", other);
    cli.words("validate --server server.toml negative.jsonl")
        .expect_exit(2)
        .stderr_has("negative.jsonl:1: mean_ttft_ms: must be a finite number of at least 0, got -");
    cli.words("validate --server server.toml other.jsonl")
        .expect_exit(0)
        .stderr_has("names the model `other/model`, and the server has `Qwen/Qwen2.5-7B`");
}

#[test]
fn parameters_of_some_runs_are_set_in_the_results_of_those() {
    let parameter = r#"
servecast = "0.1.0"
fitted_to = ["high.jsonl:1"]
held_out = []
misfit = 1.0
covariance = [[1e-6]]
[[parameters]]
path = "cluster.api_delay_ms"
runs = "high"
kind = "amount"
centre = 1.0
spread = 5.0
value = 500.0
low = 490.0
high = 510.0
determined = true
"#;
    let cli = calibration().file("c.toml", parameter);
    let ttft = |more: &str| -> Vec<f64> {
        let words =
            format!("validate --server server.toml middle.jsonl high.jsonl --format json {more}");
        let ran = cli.words(&words);
        let value: Value = serde_json::from_str(&ran.stdout()).expect("it is JSON");
        let runs = value["runs"].as_array().expect("a list");
        runs.iter()
            .map(|run| run["metrics"]["mean_ttft_ms"]["simulated"].as_f64().unwrap())
            .collect()
    };
    let (bare, own) = (ttft(""), ttft("--calibration c.toml"));
    assert!((own[0] - bare[0]).abs() < 1e-9, "{bare:?} {own:?}");
    assert!((own[1] - bare[1] - 500.0).abs() < 5.0, "{bare:?} {own:?}");
    // What is overridden stays as it was given.
    let set = ttft("--calibration c.toml --set cluster.api_delay_ms=0");
    assert!(set.iter().all(|ttft| *ttft < 100.0), "{set:?}");
}
