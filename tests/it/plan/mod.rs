//! Plans: what they answer, against searches that try everything, and what they refuse.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail with their test")]

mod adapters;
mod assumptions;
mod exhaustive;
mod laws;
mod prices;
mod refused;
mod servers;

use serde_json::Value;

use crate::cli::{Cli, Ran};

/// Two kinds of GPU that cost what they cost, for traffic that some of each serve.
pub(super) const STUDY: &str = r#"
name = "study"
seed = 5
[workload]
num_requests = 240
arrivals = { type = "poisson", rate_per_s = 40.0 }
lengths = { type = "fixed", input_tokens = 400, output_tokens = 20 }
[cluster]
model = "meta-llama/Llama-3.1-8B"
gpu = "H100"
host = "none"
router = { type = "least_outstanding_requests" }
engine = { type = "vllm_v1", max_model_len = 4096 }
"#;

/// The plan as JSON.
pub(super) fn plan(cli: &Cli, arguments: &[&str]) -> Value {
    let ran = cli.run([&["plan", "study.toml", "--format", "json"], arguments].concat());
    serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap()
}

pub(super) fn study() -> Cli {
    Cli::new().file("study.toml", STUDY)
}

pub(super) fn refused(arguments: &[&str]) -> Ran {
    let ran = study().run([&["plan", "study.toml"], arguments].concat());
    ran.expect_exit(2).stdout_is_empty()
}

#[test]
fn the_built_in_scenario_can_be_planned_for() {
    let arguments = ["plan", "--slo", "p99_ttft_ms<=2000", "--resamples", "1"];
    let text = Cli::new().run(arguments).expect_exit(0).stdout();
    assert!(text.contains("Cheapest: "), "{text}");
}

#[test]
fn the_plan_says_what_binds_and_what_one_replica_less_misses() {
    let text = study()
        .run([
            "plan",
            "study.toml",
            "--slo",
            "p99_tpot_ms<=9",
            "--slo",
            "p99_ttft_ms<=400",
            "--resamples",
            "3",
            "--window",
            "2",
        ])
        .expect_exit(0)
        .stdout();
    for part in [
        "study: meta-llama/Llama-3.1-8B, 240 requests",
        "SLOs: P99 TPOT ≤ 9 ms, P99 TTFT ≤ 400 ms",
        "Cheapest: ",
        " x H100-SXM5-80GB TP1 = ",
        "the SLO that limits it",
        " P99 TPOT (",
        "it carries up to ",
        "  3 other draws of the requests: ",
        "A perfect autoscaler, with windows of 2 s, would run ",
        "tokens/s per user",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn what_limits_a_plan_is_an_slo_only_where_one_replica_less_misses_it() {
    let of = |slos: &[&str], more: &[&str]| {
        let slos = slos.iter().flat_map(|slo| ["--slo", slo]);
        let arguments: Vec<&str> =
            slos.chain(["--resamples", "0"]).chain(more.iter().copied()).collect();
        let answer = plan(&study(), &arguments);
        let text =
            study().run([&["plan", "study.toml"], &arguments[..]].concat()).expect_exit(0).stdout();
        (answer["layouts"][0].clone(), text)
    };
    // One replica less misses P99 TPOT; every request is far within the TTFT.
    let (row, text) = of(&["p99_tpot_ms<=9", "p99_ttft_ms<=60000"], &[]);
    assert_eq!(row["limited_by"], "P99 TPOT ≤ 9 ms", "{row:#}");
    assert_eq!(row["slos"][1]["is_kept_by_all"], true, "{row:#}");
    let line = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).to_owned()
    };
    assert!(line("P99 TPOT").ends_with(" % of what is allowed, the SLO that limits it"), "{text}");
    assert!(line("P99 TTFT").ends_with(", 0 % of what is allowed, met by every request"), "{text}");
    // What is asked is kept by far more than need to: the engines' throughput decides.
    let goodput = [
        "--set",
        "report.goodput={ ttft = 60000.0 }",
        "--set",
        "workload.arrivals.rate_per_s=150",
        "--set",
        "workload.num_requests=3000",
    ];
    let (row, text) = of(&["attainment>=0.5"], &goodput);
    assert_eq!(row["limited_by"], "throughput", "{row:#}");
    assert!(text.contains("  Attainment 100.00 %, met by every request\n"), "{text}");
    assert!(
        text.contains("would miss every SLO; so throughput limits it, no SLO does\n"),
        "{text}"
    );
    assert!(!text.contains("the SLO that limits it"), "{text}");
    // One replica is enough.
    let slow = ["--set", "workload.arrivals.rate_per_s=1"];
    let (row, text) = of(&["p99_ttft_ms<=4000"], &slow);
    assert_eq!(row["limited_by"], "there cannot be fewer replicas", "{row:#}");
    assert!(text.contains("  no SLO limits it: there cannot be fewer replicas\n"), "{text}");
}

#[test]
fn a_plan_costs_so_much_a_month_where_prices_are_known() {
    let slo = ["--slo", "p99_ttft_ms<=4000", "--resamples", "0"];
    let text = |more: &[&str]| {
        let ran = study().run([&["plan", "study.toml"], &slo[..], more].concat());
        ran.expect_exit(0).stdout()
    };
    // An hour of 2 USD, 730 times.
    let priced = ["--price", "H100=2", "--set", "workload.arrivals.rate_per_s=1"];
    let told = text(&priced);
    assert!(told.contains("= 1 GPU, 2.00 USD/h, 1460 USD a month of 730 hours\n"), "{told}");
    assert!(told.contains("USD/h  USD/month"), "{told}");
    let answer = plan(&study(), &[&slo[..], &priced].concat());
    assert_eq!(answer["layouts"][0]["usd_per_month"], 1460.0, "{answer:#}");
    assert_eq!(answer["hours_per_month"], 730.0, "{answer:#}");
    let unpriced = text(&["--gpu", "H20"]);
    assert!(unpriced.contains("no price known") && !unpriced.contains("month"), "{unpriced}");
}

#[test]
fn equal_plans_print_equal_bytes_on_any_number_of_threads() {
    let cli = study();
    let arguments = ["--slo", "p99_tpot_ms<=9", "--gpu", "H100,A100,H200", "--resamples", "2"];
    let with = |threads: &str| {
        let mut command = cli.command();
        command.args(["plan", "study.toml"]).args(arguments).env("RAYON_NUM_THREADS", threads);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let one = with("1");
    assert!(one.contains("Cheapest"), "{one}");
    assert_eq!(one, with("3"));
}

#[test]
fn prefill_and_decode_apart_are_planned_too() {
    let cli = study();
    let arguments =
        ["--slo", "p99_tpot_ms<=9", "--layout", "mixed,disaggregated", "--resamples", "1"];
    let answer = plan(&cli, &arguments);
    let rows = answer["layouts"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let apart =
        rows.iter().find(|row| row["layout"].as_str().unwrap().contains("prefill")).unwrap();
    let replicas = apart["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 2, "{apart}");
    assert_eq!(apart["keeps"], true);
}

#[test]
fn the_highest_rate_meets_the_slos_and_one_per_cent_more_does_not() {
    let answer = plan(&study(), &["--slo", "p99_tpot_ms<=9", "--rate", "--resamples", "2"]);
    let row = &answer["layouts"][0];
    assert!(row["requests_per_s"].as_f64().unwrap() > 1.0, "{row}");
    assert!(row["slos"][0]["used"].as_f64().unwrap() <= 1.0, "{row}");
    let misses = &row["misses"];
    assert!(misses["slos"].is_null() || misses["slos"][0]["used"].as_f64().unwrap() > 1.0, "{row}");
    assert_eq!(answer["resampled_requests_per_s"].as_array().unwrap().len(), 2);
}

/// Answers that take about as long as the requests need to come, or longer.
const LONG_ANSWERS: &str = "workload.lengths.output_tokens=1500";

#[test]
fn the_highest_rate_hangs_little_on_how_many_requests_there_are() {
    let rate = |requests: &str| {
        let requests = format!("workload.num_requests={requests}");
        let arguments =
            ["--slo", "p99_ttft_ms<=2000", "--rate", "--resamples", "0", "--set", LONG_ANSWERS];
        let answer = plan(&study(), &[&arguments[..], &["--set", &requests]].concat());
        answer["layouts"][0]["requests_per_s"].as_f64().unwrap()
    };
    // Neither sees the steady state: what is served with all waiting decides.
    let (short, long) = (rate("100"), rate("800"));
    assert!((0.8..1.25).contains(&(short / long)), "{short} and {long} requests/s");
}

#[test]
fn requests_that_take_longer_than_they_come_for_do_not_pile_up_by_that() {
    let arguments = ["--slo", "p99_ttft_ms<=2000", "--resamples", "0", "--set", LONG_ANSWERS];
    let fewest = |requests: &str| {
        let answer = plan(&study(), &[&arguments[..], &["--set", requests]].concat());
        answer["layouts"][0]["replicas"][0].as_u64().unwrap()
    };
    let (short, long) = (fewest("workload.num_requests=150"), fewest("workload.num_requests=1200"));
    assert!(short.abs_diff(long) <= 1 + long / 5, "{short} and {long} replicas");
}

#[test]
fn requests_that_pile_up_are_said_to() {
    // 120 requests come in a second and a replica answers about 110, but they are over before anybody waits long.
    let slo = ["--slo", "p99_ttft_ms<=10000", "--resamples", "0"];
    let load = ["--set", "workload.num_requests=4000", "--set", "workload.arrivals.rate_per_s=120"];
    let answer = plan(&study(), &[slo, load].concat());
    let tried = answer["tried"].as_array().unwrap();
    let alone = tried.iter().find(|one| one["replicas"][0] == 1).unwrap();
    assert_eq!(alone["requests_pile_up"], true, "{answer}");
    assert!(alone["slos"][0]["used"].as_f64().unwrap() < 1.0, "{answer}");
    assert_eq!(answer["layouts"][0]["replicas"][0], 2, "{answer}");
}

#[test]
fn what_no_cluster_keeps_is_a_verdict() {
    let ran = study().run(["plan", "study.toml", "--slo", "p99_tpot_ms<=0.01", "--max-gpus", "16"]);
    ran.expect_exit(1).stdout_has("No layout meets all SLOs").stderr_has("no layout meets");
}

#[test]
fn a_folder_gets_the_plan_and_its_figure() {
    let cli = study();
    let arguments = [
        "plan",
        "study.toml",
        "--slo",
        "p99_tpot_ms<=9",
        "--resamples",
        "0",
        "--output-dir",
        "out",
    ];
    cli.run(arguments).expect_exit(0);
    let written: Value = serde_json::from_str(&cli.read("out/plan.json")).unwrap();
    assert_eq!(written["name"], "study");
    #[cfg(feature = "plot")]
    assert!(cli.read("out/figures/plan_fronts.svg").contains("tokens/s per GPU"));
    cli.run(arguments).expect_exit(2).stderr_has("out");
}

/// A trace of requests at these seconds, and its study.
fn of_trace(seconds: impl Iterator<Item = f64>, tokens: (u32, u32)) -> Cli {
    let row = |second: f64| format!("{second},{},{}", tokens.0, tokens.1);
    let rows = seconds.map(row).collect::<Vec<_>>().join("\n");
    let text = STUDY.replace(
        "[workload]\nnum_requests = 240\narrivals = { type = \"poisson\", rate_per_s = 40.0 }\n\
         lengths = { type = \"fixed\", input_tokens = 400, output_tokens = 20 }\n",
        "[trace]\npath = \"trace.csv\"\n[workload]\narrivals = { type = \"trace\" }\n\
         lengths = { type = \"trace\" }\n",
    );
    let header = "arrival_s,input_tokens,output_tokens\n";
    Cli::new().file("study.toml", text).file("trace.csv", format!("{header}{rows}\n"))
}

#[test]
fn a_trace_that_passes_needs_no_throughput_and_the_cheapest_is_found() {
    // 300 requests within three seconds, and minutes to answer them: one replica of either kind is enough,
    // and the dearer GPU, which is twice as fast, has the smaller bound.
    let cli = of_trace((0..300).map(|place| f64::from(place) / 100.0), (1000, 16));
    let arguments = [
        "--slo",
        "p99_e2el_ms<=280000",
        "--gpu",
        "H100,A100",
        "--price",
        "H100=1.99",
        "--price",
        "A100=1.9",
        "--vary",
        "cluster.engine.max_num_batched_tokens=2048,4096,8192,16384",
        "--resamples",
        "0",
    ];
    let answer = plan(&cli, &arguments);
    assert_eq!(answer["layouts"][0]["replicas"][0], 1, "{answer:#}");
    assert_eq!(answer["layouts"][0]["usd_per_hour"], 1.9, "{answer:#}");
}

#[test]
fn a_perfect_autoscaler_saves_what_is_idle_and_never_needs_more_than_the_plan() {
    let windows = |cli: &Cli| {
        let arguments = ["--slo", "p99_ttft_ms<=400", "--resamples", "0", "--window", "20"];
        let answer = plan(cli, &arguments);
        let replicas = answer["layouts"][0]["replicas"][0].as_f64().unwrap();
        let scaled = &answer["perfect_autoscaler"];
        let most = scaled["replicas_max"].as_f64().unwrap();
        assert!(most <= replicas, "{answer:#}");
        scaled["mean_replicas"].as_f64().unwrap() / replicas
    };
    let flat = windows(&of_trace((0..2000).map(|place| f64::from(place) / 20.0), (2000, 8)));
    // As many in a fifth of the time, and then next to none.
    let bursty =
        (0..2000).map(|place| f64::from(place) / 100.0).chain((1..80).map(|s| 20.0 + f64::from(s)));
    let bursty = windows(&of_trace(bursty, (2000, 8)));
    assert!(flat > 0.5, "{flat}");
    assert!(bursty < 0.6 * flat, "{bursty} against {flat}");
}

#[test]
fn a_trace_of_few_requests_is_planned_without_other_stretches() {
    let cli = of_trace([0.0, 300.0, 600.0].into_iter(), (400, 20));
    let slo = ["plan", "study.toml", "--slo", "p99_ttft_ms<=500"];
    cli.run([&slo[..], &["--resamples", "0"]].concat()).expect_exit(0).stdout_has("Cheapest: 1 x");
}

#[test]
fn a_share_that_is_just_attained_is_kept() {
    // Every tenth prompt is too long for its limit, and a tenth may be.
    let rows = (0..400).map(|place| f64::from(place) * 2.0);
    let cli = of_trace(rows, (100, 4));
    let mut trace = String::from("arrival_s,input_tokens,output_tokens\n");
    for place in 0..400 {
        let tokens = if place % 10 == 0 { 3900 } else { 100 };
        trace +=
            &[f64::from(place * 2).to_string(), tokens.to_string(), "4\n".to_owned()].join(",");
    }
    let cli = cli.file("trace.csv", trace);
    let arguments = [
        "--set",
        "report.goodput.ttft=60",
        "--slo",
        "attainment>=0.9",
        "--resamples",
        "0",
        "--max-gpus",
        "4",
    ];
    let answer = plan(&cli, &arguments);
    assert_eq!(answer["layouts"][0]["keeps"], true, "{answer:#}");
    let value = answer["layouts"][0]["slos"][0]["value"].as_f64().unwrap();
    assert!((value - 0.9).abs() < 1e-9, "{value}");
}

/// A plan for servers of which nothing is said.
fn unstated(arguments: &[&str]) -> Value {
    let cli = Cli::new().file("study.toml", STUDY.replace("host = \"none\"\n", ""));
    let slos = ["--slo", "p99_ttft_ms<=400", "--slo", "p99_tpot_ms<=40", "--resamples", "0"];
    plan(&cli, &[&slos, arguments].concat())
}

#[test]
fn servers_that_nobody_measured_are_taken_to_be_slow() {
    let replicas = |answer: &Value, path: &str| answer.pointer(path).and_then(Value::as_u64);
    let (planned, point) = (unstated(&[]), unstated(&["--point"]));
    let slow = replicas(&planned, "/layouts/0/replicas/0").unwrap();
    let typical = replicas(&planned, "/typical_servers/replicas/0").unwrap();
    let fast = replicas(&planned, "/fast_servers/replicas/0").unwrap();
    assert!(fast <= typical && typical < slow, "{fast} {typical} {slow}");
    assert_eq!(replicas(&point, "/layouts/0/replicas/0"), Some(typical));
    assert!(point["typical_servers"].is_null() && point["fast_servers"].is_null());
    let verdict = planned["verdict"].to_string();
    assert!(verdict.contains("slower than 19 of 20 like them"), "{verdict}");
    // Of measured servers there is one answer.
    let measured = plan(&study(), &["--slo", "p99_ttft_ms<=400", "--resamples", "0"]);
    assert!(measured["typical_servers"].is_null());
}

#[test]
fn a_layout_of_measured_layers_is_planned_for_as_it_is() {
    // Layers of this model were measured on one of these GPUs, not on two of them.
    let cli = Cli::new().file("study.toml", STUDY.replace("host = \"none\"\n", ""));
    for sizes in ["1,2", "2,1"] {
        let arguments =
            ["--gpu", "RTX-4090", "--tensor-parallel", sizes, "--price", "RTX-4090=0.5"];
        let slo = ["--slo", "p99_ttft_ms<=4000", "--resamples", "0"];
        let answer = plan(&cli, &[&arguments[..], &slo].concat());
        let is_measured = answer["layouts"][0]["layout"].as_str().unwrap().ends_with("TP1");
        let typical = &answer["typical_servers"];
        assert_eq!(typical["replicas"].is_null(), is_measured, "{sizes}: {answer}");
        // The other layout is for slow servers: which would be cheapest of typical ones is told.
        assert!(typical["cheapest"]["layout"].is_string(), "{sizes}: {answer}");
        let servers = if is_measured { "typical" } else { "slow" };
        assert_eq!(answer["planned_for"], servers, "{sizes}");
    }
}

#[test]
fn rates_of_servers_that_nobody_measured_have_an_interval() {
    let answer = unstated(&["--rate"]);
    let rate = |path: &str| answer.pointer(path).and_then(Value::as_f64).unwrap();
    let slow = rate("/layouts/0/requests_per_s");
    let typical = rate("/typical_servers/requests_per_s");
    let fast = rate("/fast_servers/requests_per_s");
    assert!(slow < typical && typical < fast, "{slow} {typical} {fast}");
}

/// A question about a server of which the catalogue has a calibration: its cluster, lengths, rate and SLO.
struct Question {
    cluster: &'static str,
    lengths: [u32; 2],
    rate_per_s: f64,
    calibration: &'static str,
    asks: &'static [&'static str],
}

/// A dense model on one GPU.
const QWEN: &str = "model = 'Qwen/Qwen3-14B'\ngpu = 'H100'\nengine = { type = 'vllm_v1', max_num_batched_tokens = 8192 }";

const QUESTIONS: [Question; 5] = [
    Question {
        cluster: QWEN,
        lengths: [986, 128],
        rate_per_s: 40.0,
        calibration: "residency-qwen3-14b-h100",
        asks: &["--slo", "p99_ttft_ms<=500", "--slo", "p99_tpot_ms<=50"],
    },
    Question {
        cluster: QWEN,
        lengths: [986, 128],
        rate_per_s: 10.0,
        calibration: "residency-qwen3-14b-h100",
        asks: &["--slo", "mean_ttft_ms<=250", "--rate"],
    },
    Question {
        cluster: "model = 'Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4'\ngpu = 'A10'\nengine = { type = 'vllm_v0' }",
        lengths: [1024, 32],
        rate_per_s: 8.0,
        calibration: "vllm-mooncake-a10",
        asks: &["--slo", "p99_ttft_ms<=3000"],
    },
    Question {
        cluster: "model = 'openai/gpt-oss-120b'\ngpu = 'H200'\ntensor_parallel_size = 2\nengine = { type = 'sglang' }",
        lengths: [2048, 256],
        rate_per_s: 30.0,
        calibration: "dstack-gpt-oss-120b-h200",
        asks: &["--slo", "p99_ttft_ms<=3000", "--slo", "mean_tpot_ms<=40"],
    },
    Question {
        cluster: "model = 'deepseek-ai/DeepSeek-V3'\ngpu = 'H200'\ntensor_parallel_size = 8\nengine = { type = 'sglang' }",
        lengths: [1024, 256],
        rate_per_s: 6.0,
        calibration: "deepseek-v3-flashinfer",
        asks: &["--slo", "p99_ttft_ms<=5000", "--slo", "mean_tpot_ms<=100"],
    },
];

#[test]
fn plans_for_servers_that_nobody_measured_hold_those_of_measured_ones() {
    for (place, Question { cluster, lengths, rate_per_s, calibration, asks }) in
        QUESTIONS.iter().enumerate()
    {
        let [input, output] = lengths;
        let text = format!(
            "name = 'question'\nseed = 4\n[workload]\nnum_requests = 400\n\
             arrivals = {{ type = 'poisson', rate_per_s = {rate_per_s} }}\n\
             lengths = {{ type = 'vllm_random', input_tokens = {input}, output_tokens = {output}, range_ratio = 0.2 }}\n\
             [cluster]\n{cluster}\nrouter = {{ type = 'least_outstanding_requests' }}\n"
        );
        let cli = Cli::new().file("study.toml", text);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/calibrations/");
        let file = format!("{file}{calibration}.toml");
        let asks = [asks, &["--resamples", "0"][..]].concat();
        let unknown = plan(&cli, &asks);
        let measured = plan(&cli, &[&asks[..], &["--calibration", &file]].concat());
        let number = |answer: &Value, path: &str| {
            let [sizes, rates] = ["replicas/0", "requests_per_s"]
                .map(|key| answer.pointer(&format!("{path}/{key}")).and_then(Value::as_f64));
            let is_rate = asks.contains(&"--rate");
            if is_rate { rates.unwrap() } else { sizes.unwrap() }
        };
        let ends = [number(&unknown, "/layouts/0"), number(&unknown, "/fast_servers")];
        let servers = |answer: &Value| {
            let mut all = answer["assumptions"].as_array().unwrap().iter();
            all.find(|one| one["what"] == "servers").unwrap()["is"]["type"].clone()
        };
        assert_eq!(servers(&unknown), "expected", "question {place}");
        assert_ne!(servers(&measured), "expected", "question {place}");
        let known = number(&measured, "/layouts/0");
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        assert!((low..=high).contains(&known), "question {place}: {known} in {low} to {high}");
    }
}
