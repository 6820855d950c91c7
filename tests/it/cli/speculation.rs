//! Speculative decoding in scenarios: how many drafts are accepted, and what is reported of it.

use serde_json::{Value, json};

use super::{Cli, SCENARIO};

/// The small scenario with three drafts a step, accepted as this table says.
fn scenario(acceptance: &str) -> String {
    format!(
        "{SCENARIO}\n[cluster.engine]\ntype = \"vllm_v1\"\nasync_scheduling = false\n\
         [cluster.engine.speculation]\nmethod = \"ngram\"\nnum_speculative_tokens = 3\n\
         acceptance = {acceptance}\n"
    )
}

fn summary(cli: &Cli, words: &str) -> Value {
    let ran = cli.words(words).expect_exit(0);
    serde_json::from_str(&ran.stdout()).expect("the report is JSON")
}

fn refused(acceptance: &str, message: &str) {
    let cli = Cli::new().file("s.toml", scenario(acceptance));
    cli.words("run s.toml").expect_exit(2).stdout_is_empty().stderr_has(message);
}

#[test]
fn a_recorded_acceptance_is_followed_and_reported() {
    // The prompt's step brings out one token; 4 + 1 + 4 + 1 follow.
    let recorded = "{\"request\": 0, \"accepted\": [3, 0, 3, 0]}\n";
    let cli = Cli::new()
        .file("accepted.jsonl", recorded)
        .file("s.toml", scenario("{ type = \"recorded\", path = \"accepted.jsonl\" }"));
    let set = "--set workload.num_requests=1 --set workload.lengths.output_tokens=11";
    let sglang = "--set report.format=sglang";
    let report =
        summary(&cli, &format!("run s.toml {set} {sglang} --format json --output-dir out"));
    let expected = json!({
        "verifications": 4,
        "draft_tokens": 12,
        "accepted_tokens": 6,
        "acceptance_rate_pct": 50.0,
        "acceptance_length": 2.5,
        "acceptance_per_position": [0.5, 0.5, 0.5],
    });
    assert_eq!(report["engine"]["speculation"], expected);
    assert_eq!(report["benchmark"]["accept_length"], json!(2.5));
    assert_eq!(report["engine"]["steps"], json!(5));
    let vllm = "--set report.format=vllm";
    let ran = cli.words(&format!("run s.toml {set} {vllm} --output-dir vllm")).expect_exit(0);
    ran.stdout_has("Acceptance length:                       2.50");
    let ran = cli.words(&format!("run s.toml {set} {sglang} --output-dir sglang")).expect_exit(0);
    ran.stdout_has("Accept length:                           2.50");
    // The resolved scenario finds the recording from where it lies.
    let again = summary(&cli, "run out/scenario.resolved.toml --format json --output-dir again");
    assert_eq!(again["benchmark"], report["benchmark"]);
    assert_eq!(again["engine"]["speculation"], expected);
}

/// The same of SGLang: the prompt's step brings out one token, 4 + 1 + 4 + 1 follow, and the resolved scenario has what
/// SGLang fills in.
#[test]
fn sglang_follows_a_recorded_acceptance_too() {
    let engine = "[cluster.engine]\ntype = \"sglang\"\ndisable_overlap_schedule = true\n\
                  [cluster.engine.speculation]\nspeculative_algorithm = \"NGRAM\"\n\
                  speculative_num_draft_tokens = 4\n\
                  acceptance = { type = \"recorded\", path = \"accepted.jsonl\" }\n";
    let cli = Cli::new()
        .file("accepted.jsonl", "{\"request\": 0, \"accepted\": [3, 0, 3, 0]}\n")
        .file("s.toml", format!("{SCENARIO}\n{engine}"));
    let set = "--set workload.num_requests=1 --set workload.lengths.output_tokens=11";
    let report = summary(&cli, &format!("run s.toml {set} --format json --output-dir out"));
    assert_eq!(report["engine"]["steps"], json!(5));
    assert_eq!(report["engine"]["speculation"]["acceptance_length"], json!(2.5));
    let again = summary(&cli, "run out/scenario.resolved.toml --format json --output-dir again");
    assert_eq!(again["benchmark"], report["benchmark"]);
    let cli = cli.file("accepted.jsonl", "{\"request\": 0, \"accepted\": [4]}\n");
    let ran = cli.words(&format!("run s.toml {set}")).expect_exit(2).stdout_is_empty();
    ran.stderr_has("request 0 has 4 drafts accepted in step 0, of 3");
}

#[test]
fn a_plan_asks_how_many_drafts_sglang_should_make() {
    let engine = "[cluster.engine]\ntype = \"sglang\"\n[cluster.engine.speculation]\n\
                  speculative_algorithm = \"EAGLE\"\nspeculative_num_steps = 1\n\
                  acceptance = { type = \"per_position\", probability = 0.9 }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}\n{engine}"));
    let vary = "--vary cluster.engine.speculation.speculative_num_steps=0,1,3";
    let priced = "--set cluster.step_time={type=\"roofline\"} --set cluster.gpu=\"H100\"";
    let plan = format!("plan s.toml --slo mean_tpot_ms<=50 {vary} {priced}");
    let told = cli.words(&plan).expect_exit(0).stdout();
    for steps in [0, 1, 3] {
        assert!(told.contains(&format!("speculative_num_steps={steps}")), "{told}");
    }
}

#[test]
fn a_recording_that_ends_before_the_answer_begins_again() {
    let run = |accepted: &str| {
        let cli = Cli::new()
            .file("a.jsonl", format!("{{\"request\": 0, \"accepted\": {accepted}}}\n"))
            .file("s.toml", scenario("{ type = \"recorded\", path = \"a.jsonl\" }"));
        summary(&cli, "run s.toml --set workload.num_requests=1 --format json")
    };
    assert_eq!(run("[2, 0]"), run("[2, 0, 2, 0, 2, 0, 2, 0, 2]"));
}

#[test]
fn a_mean_length_comes_out_on_average() {
    let cli = Cli::new().file("s.toml", scenario("{ type = \"mean_length\", tokens = 2.5 }"));
    let set = "--set workload.num_requests=100 --set workload.lengths.output_tokens=500";
    let report = summary(&cli, &format!("run s.toml {set} --format json"));
    let length = report["engine"]["speculation"]["acceptance_length"].as_f64().unwrap();
    // About 20 000 verifications of a deviation of at most 1.5: five standard errors.
    assert!((length - 2.5).abs() < 5.0 * 1.5 / 20_000_f64.sqrt(), "{length}");
}

#[test]
fn without_speculation_nothing_is_said_of_it() {
    let cli = Cli::with_scenario();
    let report = summary(&cli, "run s.toml --format json");
    assert_eq!(report["engine"].get("speculation"), None);
    assert!(!cli.words("run s.toml").stdout().contains("Accept"));
}

#[test]
fn what_contradicts_itself_is_refused() {
    refused("0.5", "s.toml: cluster.engine");
    refused("{ type = \"mean_length\", tokens = 4.5 }", "must be from 1 to");
    refused("{ type = \"mean_length\", tokens = 4.5 }", "which is 4, got 4.5");
    refused("{ type = \"mean_length\", tokens = 0.5 }", "acceptance.tokens: must be from 1");
    refused("{ type = \"mean_length\", tokens = nan }", "acceptance.tokens: must be from 1");
    refused("{ type = \"mean_length\", tokens = 2.5, probability = 0.5 }", "unknown key");
    refused("{ type = \"per_position\", probability = 1.5 }", "above 0 and at most 1, got 1.5");
    refused("{ type = \"recorded\", path = \"\" }", "acceptance.path: must be the name of a file");
    refused("{ type = \"recorded\", path = \"none.jsonl\" }", "none.jsonl: no such file");
    let rate = "{ type = \"per_position\", probability = 0.5 }\nacceptance_rate = 0.5";
    refused(rate, "unknown key `acceptance_rate`");
}

#[test]
fn a_recording_without_all_requests_is_refused() {
    let cli = Cli::new()
        .file("a.jsonl", "{\"request\": 0, \"accepted\": [1]}\n")
        .file("s.toml", scenario("{ type = \"recorded\", path = \"a.jsonl\" }"));
    let ran = cli.words("run s.toml").expect_exit(2).stdout_is_empty();
    ran.stderr_has(
        "cluster.engine.speculation.acceptance: request 1 of 20 is not in the recording",
    );
    let cli = cli.file("a.jsonl", "{\"request\": 0, \"accepted\": [1, 4]}\n");
    let ran = cli.words("run s.toml").expect_exit(2).stdout_is_empty();
    ran.stderr_has("a.jsonl:1: request 0 has 4 drafts accepted in step 1");
}

const EAGLE: &str = "[cluster.engine]\ntype = \"vllm_v1\"\n[cluster.engine.speculation]\n\
                     method = \"eagle\"\nnum_speculative_tokens = 50\n\
                     acceptance = { type = \"per_position\", probability = 0.9 }\n";
const FREE: &str = "speculation with 50 drafts a step: a `linear` law has no time for making them";

#[test]
fn drafts_that_cost_nothing_are_warned_of_once_in_every_command_that_simulates() {
    let suite = format!("{SCENARIO}\n{EAGLE}");
    let studied =
        format!("{suite}\n[sweep]\naxes = [{{ path = \"cluster.replicas\", values = [1, 2] }}]\n");
    let cli = Cli::new().file("s.toml", &suite).file("suite/one.toml", &suite);
    let cli = cli.file("study.toml", studied).file("other.toml", suite.replace("50", "40"));
    for words in [
        "run s.toml --no-files",
        "compare s.toml other.toml --seeds 3..3",
        "check suite --update",
        "sweep study.toml --output-dir swept",
    ] {
        let said = cli.words(words).expect_exit(0).stderr();
        assert_eq!(said.matches(FREE).count(), 1, "{words}: {said}");
    }
    let report = summary(&cli, "run s.toml --no-files --format json");
    assert_eq!(report["warnings"]["figures"]["caveats"][0]["num_speculative_tokens"], json!(50));
}

#[test]
fn drafts_that_cost_nothing_are_not_planned_with() {
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}\n{EAGLE}"));
    let ran = cli.words("plan s.toml --slo p99_ttft_ms<=1000 --max-gpus 2").expect_exit(2);
    ran.stdout_is_empty().stderr_has("cluster.engine.speculation").stderr_has(FREE);
}

#[test]
fn a_plan_tells_whether_drafts_pay() {
    let drafts = EAGLE.replace("50", "2").replace("0.9", "0.6");
    let priced = format!("{SCENARIO}\n{drafts}");
    let cli = Cli::new().file("s.toml", priced);
    let set = "--set cluster.step_time={type=\"roofline\"} --slo p99_ttft_ms<=1000 --max-gpus 2 --resamples 0";
    let vary = "--vary cluster.engine.speculation.num_speculative_tokens=0,2";
    let ran = cli.words(&format!("plan s.toml {set} {vary}")).expect_exit(0);
    ran.stdout_has("num_speculative_tokens=0").stdout_has("num_speculative_tokens=2");
}
