//! Plans of clusters whose replicas hold some of the adapters each.

use serde_json::Value;

use crate::cli::Cli;

/// Twelve adapters, four to a replica.
const PLACED: &str = r#"
name = "placed"
seed = 5
[workload]
num_requests = 600
arrivals = { type = "poisson", rate_per_s = 400.0 }
lengths = { type = "fixed", input_tokens = 200, output_tokens = 40 }
[workload.adapters]
kinds = [{ count = 12, rank = 16 }]
popularity = { type = "zipf", exponent = 1.0 }
[cluster]
model = "meta-llama/Llama-3.1-8B"
gpu = "H100"
router = { type = "least_outstanding_requests" }
engine = { type = "vllm_v1", max_model_len = 4096, max_loras = 4 }
[cluster.lora]
placement = { type = "load_balanced" }
"#;

fn cli() -> Cli {
    Cli::new().file("placed.toml", PLACED)
}

fn plan(cli: &Cli, arguments: &[&str]) -> Value {
    let flags = ["plan", "placed.toml", "--format", "json", "--resamples", "0"];
    let ran = cli.run([&flags, arguments].concat());
    serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap()
}

#[test]
fn no_fewer_replicas_than_hold_all_adapters_are_planned() {
    let cli = cli();
    let idle = ["--slo", "p99_ttft_ms<=60000", "--set", "workload.arrivals.rate_per_s=1"];
    let plan = plan(&cli, &idle);
    // Twelve adapters, four to a replica.
    assert_eq!(plan["layouts"][0]["replicas"], serde_json::json!([3]), "{plan:#}");
    assert_eq!(plan["layouts"][0]["replicas_with_room_for_adapters"], 3);
    assert!(plan["perfect_autoscaler"].is_null(), "fewer hold fewer adapters: {plan:#}");
    let text = cli.run([&["plan", "placed.toml", "--resamples", "0"], &idle[..]].concat());
    text.expect_exit(0).stdout_has("fewer replicas have no room for all adapters");
    let few = [&["plan", "placed.toml", "--max-gpus", "2"], &idle[..]].concat();
    let ran = cli.run(few).expect_exit(1);
    ran.stdout_has("room for all adapters takes 3 replicas, 3 GPUs, more than the 2 that are allowed (--max-gpus)");
}

#[test]
fn adapters_are_placed_anew_on_each_number_of_replicas() {
    let cli = cli();
    let slo = ["--slo", "p99_ttft_ms<=60", "--warm-up", "counts"];
    let plan = plan(&cli, &slo);
    let replicas = plan["layouts"][0]["replicas"][0].as_u64().unwrap();
    assert!(replicas > 3, "more than those that hold all adapters: {plan:#}");
    let p99_ttft_ms = |replicas: u64| {
        let size = format!("cluster.replicas={replicas}");
        let ran = cli.run(["run", "placed.toml", "--no-files", "--format", "json", "--set", &size]);
        let summary: Value = serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap();
        summary["benchmark"]["p99_ttft_ms"].as_f64().unwrap()
    };
    assert!(p99_ttft_ms(replicas) <= 60.0);
    let fewer = p99_ttft_ms(replicas - 1);
    assert!(fewer > 60.0, "{} replicas have {fewer} ms", replicas - 1);
}

#[test]
fn rates_of_adapters_that_drift_are_not_scaled() {
    let cli = cli();
    let drift = ["--slo", "p99_ttft_ms<=60000", "--set", "workload.adapters.drift.interval_s=2"];
    let answer = plan(&cli, &drift);
    assert!(answer["carries"].is_null(), "{answer:#}");
    cli.run([&["plan", "placed.toml", "--rate"], &drift[..]].concat())
        .expect_exit(2)
        .stderr_has("workload.adapters.drift: other rates would drift at another pace");
}

#[test]
fn a_placement_that_is_listed_or_of_prefill_and_decode_apart_is_refused() {
    let cli = cli();
    let refused = |set: &str, words: &str| {
        let slo = ["plan", "placed.toml", "--slo", "p99_ttft_ms<=500", "--set", set];
        cli.run(slo).expect_exit(2).stderr_has(words);
    };
    refused(
        "cluster.lora.placement={ type = \"static\", holders = [[0]] }",
        "cluster.lora.placement: a plan has any number of replicas, static is for one",
    );
    let slo = ["plan", "placed.toml", "--slo", "p99_ttft_ms<=500"];
    let apart = [&slo[..], &["--layout", "disaggregated"]].concat();
    cli.run(apart).expect_exit(2).stderr_has("adapters on replicas that prefill or decode only");
}
