//! What a plan says that it assumes.

use serde_json::Value;

use super::{STUDY, plan, study};
use crate::cli::Cli;

const SLO: [&str; 4] = ["--slo", "p99_ttft_ms<=4000", "--resamples", "0"];

/// What is assumed of a kind.
fn assumed<'a>(answer: &'a Value, what: &str) -> Vec<&'a Value> {
    let all = answer["assumptions"].as_array().unwrap();
    all.iter().filter(|one| one["what"] == what).collect()
}

fn text<'a>(answer: &'a Value, what: &str) -> &'a str {
    let found = assumed(answer, what);
    assert_eq!(found.len(), 1, "{what}: {answer:#}");
    found[0]["text"].as_str().unwrap()
}

fn of(one: &Value) -> Vec<&str> {
    one["of"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn every_gpu_has_one_of_each_assumption_and_none_is_told_twice() {
    let gpus = ["--gpu", "H100,A100,L4", "--price", "L4=0.5", "--tp", "1,2"];
    let cli = Cli::new().file("study.toml", STUDY.replace("host = \"none\"\n", ""));
    let layouts = ["--layout", "mixed,disaggregated", "--max-gpus", "8"];
    let answer = plan(&cli, &[&SLO[..], &gpus, &layouts].concat());
    for what in ["step_times", "servers", "host", "kv_memory"] {
        let found = assumed(&answer, what);
        let mut names: Vec<&str> = found.iter().flat_map(|one| of(one)).collect();
        names.sort_unstable();
        assert_eq!(names, ["A100-SXM4-80GB", "H100-SXM5-80GB", "L4"], "{what}: {answer:#}");
        let mut texts: Vec<&Value> = found.iter().map(|one| &one["text"]).collect();
        texts.dedup();
        assert_eq!(texts.len(), found.len(), "{what}: {answer:#}");
    }
}

#[test]
fn a_gpu_whose_kernels_are_those_of_another_says_so() {
    let answer = plan(&study(), &[&SLO[..], &["--gpu", "H100,L4", "--price", "L4=0.5"]].concat());
    let step_times = assumed(&answer, "step_times");
    let about = |gpu: &str| step_times.iter().find(|one| of(one) == [gpu]).unwrap();
    assert_eq!(about("L4")["is"]["kernels_of"], "L40S", "{answer:#}");
    assert!(about("L4")["text"].as_str().unwrap().contains("of L40S's kernels"), "{answer:#}");
    let measured = &about("H100-SXM5-80GB")["is"];
    assert_eq!(measured["type"], "operator_table", "{answer:#}");
    assert_eq!(measured["measured_on"], "H100-SXM5-80GB", "{answer:#}");
}

#[test]
fn what_the_scenario_states_is_told_apart_from_what_is_derived() {
    let bare = plan(&study(), &SLO);
    assert_eq!(text(&bare, "host"), "costs nothing");
    assert_eq!(text(&bare, "servers"), "not calibrated against a run");
    assert!(text(&bare, "kv_memory").starts_with("derived from"), "{bare:#}");
    let given = ["--set", "cluster.engine.num_gpu_blocks=20000", "--set", "cluster.api_delay_ms=5"];
    let given = plan(&study(), &[&SLO[..], &given].concat());
    assert_eq!(text(&given, "kv_memory"), "given by the scenario");
    assert_eq!(text(&given, "host"), "the times that the scenario states");
    let cli = Cli::new().file("study.toml", STUDY.replace("host = \"none\"\n", ""));
    let (slow, point) = (plan(&cli, &SLO), plan(&cli, &[&SLO[..], &["--point"]].concat()));
    assert!(text(&slow, "host").starts_with("the processes of vLLM"), "{slow:#}");
    let servers = text(&slow, "servers");
    assert!(servers.contains("90 % of servers of dense models have"), "{servers}");
    assert!(servers.contains("; planned for one slower than 19 of 20, so"), "{servers}");
    assert_eq!(text(&point, "servers"), servers.split("; planned").next().unwrap());
    let law = "cluster.step_time={ type = 'linear', base_us = 5000.0, prefill_token_us = 10.0, decode_seq_us = 20.0 }";
    let law = plan(&study(), &[&SLO[..], &["--set", law]].concat());
    assert_eq!(assumed(&law, "step_times")[0]["is"]["type"], "linear", "{law:#}");
}

#[test]
fn an_answer_says_how_many_of_its_steps_nobody_measured() {
    let long = [
        "--set",
        "workload.lengths.input_tokens=120000",
        "--set",
        "cluster.engine.max_model_len=131072",
        "--set",
        "cluster.engine.max_num_batched_tokens=65536",
        "--set",
        "workload.num_requests=40",
        "--set",
        "workload.arrivals.rate_per_s=0.05",
        "--slo",
        "p99_ttft_ms<=60000",
        "--resamples",
        "0",
    ];
    let answer = plan(&study(), &long);
    let found = assumed(&answer, "extrapolation");
    assert_eq!(found.len(), 1, "{answer:#}");
    let counted = |key: &str| found[0]["is"][key].as_u64().unwrap();
    assert!(counted("steps_extrapolated") > 0, "{answer:#}");
    assert!(counted("steps") >= counted("steps_extrapolated"), "{answer:#}");
    let replicas = &answer["layouts"][0]["replicas"][0];
    assert_eq!(of(found[0]), [format!("{replicas} x H100-SXM5-80GB TP1")]);
    assert!(assumed(&plan(&study(), &SLO), "extrapolation").is_empty());
}

#[test]
fn layouts_with_prefill_and_decode_apart_say_how_kv_caches_go_and_others_do_not() {
    assert!(assumed(&plan(&study(), &SLO), "hand_over").is_empty());
    let apart = ["--layout", "mixed,disaggregated", "--max-gpus", "6"];
    let answer = plan(&study(), &[&SLO[..], &apart].concat());
    let found = &assumed(&answer, "hand_over")[0]["is"];
    assert_eq!(found["protocol"]["type"], "pull", "{answer:#}");
    assert_eq!(
        (&found["nic"]["gb_per_s"], &found["nic"]["from"]),
        (&50.0.into(), &"nobody".into())
    );
    assert_eq!(
        text(&answer, "hand_over"),
        "`pull` over NICs of 50 GB/s each way for each GPU, assumed (state yours in cluster.disaggregation.transfer). \
         Of all layouts, those with prefill and decode apart are predicted least exactly"
    );
    let asked = plan(&study(), &[&SLO[..], &apart, &["--nic-gb-per-s", "25"]].concat());
    assert!(text(&asked, "hand_over").contains("of 25 GB/s each way for each GPU, as asked."));
    let engines = ["--vary", "cluster.engine.type=vllm_v1,sglang"];
    let cli = Cli::new().file("study.toml", STUDY.replace(", max_model_len = 4096", ""));
    let several = plan(&cli, &[&SLO[..], &apart, &engines].concat());
    let named: Vec<Vec<&str>> = assumed(&several, "hand_over").into_iter().map(of).collect();
    assert_eq!(named.len(), 2, "{several:#}");
    assert!(named[0][0].ends_with("decode, type=vllm_v1"), "{named:?}");
    assert!(named[1][0].ends_with("decode, type=sglang"), "{named:?}");
}

#[test]
fn a_network_that_the_scenario_states_is_that_of_its_layouts() {
    // 40 prompts of 400 tokens a second have 2.1 GB of KV caches, at 131,072 bytes for each token: more than the NICs of
    // three replicas carry.
    let slow = "cluster.disaggregation={ prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 0.5 } }";
    let in_turn = "cluster.router={ type = 'round_robin' }";
    let quick = ["--slo", "p99_ttft_ms<=500", "--resamples", "0", "--max-gpus", "40"];
    let answer = plan(&study(), &[&quick[..], &["--set", slow, "--set", in_turn]].concat());
    let told = text(&answer, "hand_over");
    assert!(
        told.contains("of 0.5 GB/s each way for each replica, as the scenario says."),
        "{told}"
    );
    for replicas in answer["layouts"][0]["replicas"].as_array().unwrap() {
        assert!(replicas.as_u64().unwrap() >= 4, "{answer:#}");
    }
    let both =
        study().run(["plan", "study.toml", "--slo", SLO[1], "--set", slow, "--nic-gb-per-s", "25"]);
    both.expect_exit(2).stderr_has("--nic-gb-per-s: the scenario says what NICs carry");
    let mixed = study().run(["plan", "study.toml", "--slo", SLO[1], "--nic-gb-per-s", "25"]);
    mixed.expect_exit(2).stderr_has("--nic-gb-per-s: no layout has prefill and decode apart");
}

#[test]
fn copies_of_a_trace_say_how_they_are_shifted() {
    let rows: Vec<String> = (0..300).map(|place| format!("{},300,10", place / 3)).collect();
    let rows = rows.join("\n");
    let trace = "[trace]\npath = \"trace.csv\"\n[workload]\narrivals = { type = \"trace\", copies = 2 }\n\
                 lengths = { type = \"trace\" }\n[cluster]";
    let (head, tail) = STUDY.split_once("[workload]").unwrap();
    let (_, cluster) = tail.split_once("[cluster]").unwrap();
    let cli = Cli::new()
        .file("study.toml", format!("{head}{trace}{cluster}"))
        .file("trace.csv", format!("arrival_s,input_tokens,output_tokens\n{rows}\n"));
    let together = plan(&cli, &SLO);
    assert_eq!(
        text(&together, "traffic"),
        "each request of the trace comes 2 times, all at one instant (workload.arrivals.jitter_s is 0); so bursts of \
         the trace are 2 times as large. With another jitter_s the answer may be another"
    );
    let spread = plan(&cli, &[&SLO[..], &["--set", "workload.arrivals.jitter_s=10"]].concat());
    assert!(text(&spread, "traffic").contains("each time up to 10 s late"), "{spread:#}");
    let once = plan(&cli, &[&SLO[..], &["--set", "workload.arrivals.copies=1"]].concat());
    assert!(assumed(&once, "traffic").is_empty(), "{once:#}");
}

#[test]
fn assumptions_are_printed_and_on_the_page() {
    let cli = study();
    let arguments = [&["plan", "study.toml"], &SLO[..], &["--output-dir", "out"]].concat();
    let printed = cli.run(arguments).expect_exit(0).stdout();
    let line = "step times: kernels of vllm ";
    assert!(printed.contains("\nAssumptions\n") && printed.contains(line), "{printed}");
    cli.run(["report", "out"]).expect_exit(0);
    let page = cli.read("out/report.html");
    for part in ["Assumptions", "kernels of vllm ", "Prices", "low offer"] {
        assert!(page.contains(part), "`{part}` is not on the page");
    }
}
