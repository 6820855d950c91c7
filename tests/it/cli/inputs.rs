//! Bad input: a message with place, rule, value and what would be right, exit code 2, and nothing
//! written.

use super::{Cli, SCENARIO};

/// Runs the small scenario after a change that makes it wrong.
fn refused(from: &str, to: &str, message: &str) {
    assert!(SCENARIO.contains(from), "{from}");
    let cli = Cli::new().file("s.toml", SCENARIO.replacen(from, to, 1));
    cli.words("run s.toml").expect_exit(2).stdout_is_empty().stderr_has(message);
    assert!(cli.left_behind(&["s.toml"]).is_empty());
}

#[test]
fn an_unknown_key_finds_its_neighbour() {
    refused("gpu =", "replica = 2\ngpu =", "s.toml: cluster.replica: unknown key `replica`");
    refused("gpu =", "replica = 2\ngpu =", "did you mean `replicas`?");
    refused("\"poisson\"", "\"poison\"", "did you mean `poisson`?");
}

#[test]
fn names_have_a_bound() {
    let long = "x".repeat(201);
    let class = format!("classes = [{{ name = \"{long}\" }}]\n");
    refused(
        "num_requests",
        &format!("{class}num_requests"),
        "s.toml: workload.classes[0].name: must be of at most 200 characters, got 201",
    );
    refused(
        "name = \"small\"",
        &format!("name = \"{long}\""),
        "s.toml: name: must be of at most 200 characters, got 201",
    );
    let measured =
        format!("[measured]\nsource = \"{}\"\nmetrics = {{}}\n[cluster]", "x".repeat(1001));
    refused(
        "[cluster]",
        &measured,
        "s.toml: measured.source: must be of at most 1000 characters, got 1001",
    );
}

#[test]
fn a_wrong_unit_is_refused() {
    refused("rate_per_s", "rate_per_min", "did you mean `rate_per_s`?");
    let change = "gpu = \"H100\"\napi_delay_ms = \"10ms\"";
    refused(
        "gpu = \"H100\"",
        change,
        "s.toml: cluster.api_delay_ms: must be a number, got \"10ms\"",
    );
}

#[test]
fn a_wrong_key_is_named_within_a_table_that_has_a_type() {
    let arrivals = "rate_per_s = \"10\"";
    refused(
        "rate_per_s = 10.0",
        arrivals,
        "s.toml: workload.arrivals.rate_per_s: must be a number, got \"10\"",
    );
    let engine =
        |setting: &str| format!("engine = {{ type = \"vllm_v1\", {setting} }}\ngpu = \"H100\"");
    refused(
        "gpu = \"H100\"",
        &engine("host = { schedule_us = true }"),
        "s.toml: cluster.engine.host.schedule_us: must be a number, got",
    );
    refused(
        "gpu = \"H100\"",
        &engine("block_sizes = 3"),
        "s.toml: cluster.engine.block_sizes: unknown key `block_sizes`",
    );
}

#[test]
fn what_an_override_breaks_is_blamed_on_it() {
    let cli = Cli::new().file("s.toml", SCENARIO);
    let refused = |words: &str, message: &str| {
        cli.words(words).expect_exit(2).stdout_is_empty().stderr_has(message);
    };
    for (setting, problem) in [
        ("cluster.replica=2", "cluster.replica: unknown key"),
        ("workload.arrivals.rate_per_s=-2", "workload.arrivals.rate_per_s: must be"),
        ("cluster.engine.block_size=1.5", "cluster.engine.block_size: must be a whole number"),
        ("clutser.replicas=2", "clutser: unknown key `clutser`; did you mean `cluster`?"),
        ("cluster.replicas.x=2", "cluster.replicas: must be a whole number"),
        ("report.goodput.tff=5", "report.goodput.tff: unknown limit `tff`"),
    ] {
        let message = format!("--set {setting}: {problem}");
        refused(&format!("run s.toml --set {setting}"), &message);
    }
    let broken = SCENARIO.replacen("rate_per_s = 10.0", "rate_per_s = -2.0", 1);
    let cli = Cli::new().file("s.toml", broken);
    let ran = cli.words("run s.toml --set cluster.replicas=2").expect_exit(2);
    ran.stderr_has("s.toml: workload.arrivals.rate_per_s: must be");
}

#[test]
fn a_key_that_stands_in_another_table_is_sent_there() {
    let cli = Cli::with_scenario();
    for (setting, problem) in [
        (
            "cluster.engine.gpu_memory_utilization=0.8",
            "unknown key `gpu_memory_utilization`; write cluster.gpu_memory_utilization\n",
        ),
        ("cluster.engine.max_num_seq=8", "did you mean `max_num_seqs`?"),
        // Its value would not do there either.
        ("cluster.engine.replicas=[1]", "unknown key `replicas`; known keys: "),
    ] {
        let ran = cli.run(["run", "s.toml", "--no-files", "--set", setting]).expect_exit(2);
        ran.stdout_is_empty().stderr_has(problem);
    }
    let engine = "engine = { type = \"vllm_v1\" }\nmax_num_seqs = 8\ngpu =";
    let place = "s.toml: cluster.max_num_seqs: unknown key `max_num_seqs`; write cluster.engine.max_num_seqs";
    refused("gpu =", engine, place);
}

#[test]
fn a_variant_that_is_wrong_is_named() {
    let variant = "\n[[variants]]\nname = \"two\"\nset = { \"cluster.replicas\" = 0 }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{variant}"));
    let ran = cli.words("run s.toml").expect_exit(2).stdout_is_empty();
    ran.stderr_has("s.toml: variant `two`: cluster.replicas: must be");
}

#[test]
fn a_rate_is_above_zero() {
    let place = "s.toml: workload.arrivals.rate_per_s: must be finite and at least 10⁻⁶";
    refused("rate_per_s = 10.0", "rate_per_s = -2.0", place);
    refused("rate_per_s = 10.0", "rate_per_s = nan", place);
    refused("rate_per_s = 10.0", "rate_per_s = -2.0", "got -2");
}

#[test]
fn times_and_sizes_that_no_run_has_are_refused() {
    let rate = "rate_per_s = 10.0";
    refused(rate, "rate_per_s = 1e-9", "arrivals.rate_per_s: must be finite and at least 10⁻⁶");
    let client = |client: &str| format!("client = {client}\nnum_requests = 20");
    refused("num_requests = 20", &client("{ stop_after_s = 1e30 }"), "up to 10⁹ seconds, got 1e30");
    let pause = "{ max_concurrency = 2, think_time_s = 1e9 }";
    refused(
        "num_requests = 20",
        &client(pause),
        "client.think_time_s: must be a time from 0 to 10⁶",
    );
    let cluster = |setting: &str| format!("{setting}\ngpu =");
    let host = "engine = { type = \"vllm_v1\", host = { schedule_us = 1e30 } }";
    refused("gpu =", &cluster(host), "host.schedule_us: must be a time from 0 to 1000 seconds");
    refused("gpu =", &cluster("api_per_request_ms = 1e12"), "api_per_request_ms: must be a time");
    refused(
        "gpu =",
        &cluster("replicas = 1000000000"),
        "cluster.replicas: must be from 1 to 100000",
    );
}

#[test]
fn requests_that_come_too_late_for_any_run_are_refused() {
    let cli = Cli::with_scenario();
    let late = "run s.toml --no-files --set workload.arrivals.rate_per_s=1e-6 --set \
                workload.num_requests=100000";
    cli.words(late).expect_exit(2).stderr_has("comes more than 10⁹ seconds after the first");
}

#[test]
fn runs_that_would_share_a_folder_are_refused_before_they_are_simulated() {
    let variants =
        "\n[[variants]]\nname = \"A!\"\nset = {}\n[[variants]]\nname = \"a?\"\nset = {}\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{variants}"));
    cli.words("run s.toml --output-dir out")
        .expect_exit(2)
        .stderr_has("variants: each name must give a folder of its own, got `a?`");
    assert!(cli.left_behind(&["s.toml"]).is_empty());
    // One of them alone has no other to share it with.
    cli.words("run s.toml --output-dir out --only a?").expect_exit(0);
}

#[test]
fn one_of_several_scenarios_runs_alone() {
    let variants = "\n[[variants]]\nname = \"two replicas\"\nset = { \"cluster.replicas\" = 2 }\n\
        [[variants]]\nname = \"broken\"\nset = { \"cluster.replicas\" = 0 }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{variants}"));
    cli.words("run s.toml --no-files").expect_exit(2).stderr_has("cluster.replicas");
    let ran = |only: &[&str]| {
        let flags = only.iter().flat_map(|name| ["--only", name]);
        let words = ["run", "s.toml", "--format", "json", "--no-files"].into_iter().chain(flags);
        let text = cli.run(words).expect_exit(0).stdout();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        // One alone is no list.
        let all = found.as_array().cloned().unwrap_or_else(|| vec![found]);
        all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ran(&["two replicas"]), ["two replicas"]);
    assert_eq!(ran(&["two*", "small"]), ["two replicas", "small"]);
    cli.run(["run", "s.toml", "--only", "two replicas", "--output-dir", "out"]).expect_exit(0);
    assert!(cli.read("out/scenario.resolved.toml").contains("replicas = 2"));
    cli.run(["run", "s.toml", "--no-files", "--only", "two replica"])
        .expect_exit(2)
        .stderr_has(
            "no scenario is called `two replica`; there are `small`, `two replicas`, `broken`",
        )
        .stderr_has("did you mean `two replicas`?");
}

#[test]
fn an_integer_that_overflows_is_refused_with_its_value() {
    refused("num_requests = 20", "num_requests = 4294967296", "s.toml: workload.num_requests:");
    refused("num_requests = 20", "num_requests = 4294967296", "4294967296");
    refused("num_requests = 20", "num_requests = 99999999999999999999", "s.toml:");
}

#[test]
fn unknown_models_and_gpus_find_their_neighbours() {
    refused("Qwen/Qwen2.5-7B\"", "Qwen/Qwen2.5-7\"", "cluster.model: `Qwen/Qwen2.5-7`");
    refused("Qwen/Qwen2.5-7B\"", "Qwen/Qwen2.5-7\"", "did you mean `Qwen/Qwen2.5-7B`?");
    refused(
        "\"H100\"",
        "\"H10O\"",
        "cluster.gpu: `H10O` is neither in the catalogue nor a file ending in .toml; did you mean",
    );
}

#[test]
fn a_router_that_does_not_exist_or_lacks_sense_is_refused() {
    let router = |table: &str| format!("router = {table}\ngpu =");
    let place = "s.toml: cluster.router.type: unknown value `prefix_awar`";
    refused("gpu =", &router("{ type = \"prefix_awar\" }"), place);
    refused("gpu =", &router("{ type = \"prefix_awar\" }"), "did you mean `prefix_aware`?");
    let place = "s.toml: cluster.router.signal_interval_ms: must be a time from 0 to 10⁹ seconds";
    refused("gpu =", &router("{ type = \"weighted\", signal_interval_ms = -1.0 }"), place);
    let place = "s.toml: cluster.router.cache_treshold: unknown key `cache_treshold`";
    refused("gpu =", &router("{ type = \"prefix_aware\", cache_treshold = 0.5 }"), place);
}

#[test]
fn a_model_that_does_not_fit_says_what_would() {
    let change = "model = \"Qwen/Qwen2.5-72B\"";
    refused("model = \"Qwen/Qwen2.5-7B\"", change, "weights need 135.46 GiB");
    refused("model = \"Qwen/Qwen2.5-7B\"", change, "it would fit at tensor parallel size 2");
}

#[test]
fn tensor_parallelism_divides_the_heads() {
    let change = "gpu = \"H100\"\ntensor_parallel_size = 3";
    let message = "cluster.tensor_parallel_size: Qwen/Qwen2.5-7B: tensor parallel size must divide \
                   28 heads and divide, or be a multiple of, 4 KV heads, got 3";
    refused("gpu = \"H100\"", change, message);
}

#[test]
fn an_override_without_an_equals_sign_says_how_to_write_one() {
    let cli = Cli::with_scenario();
    cli.run(["run", "s.toml", "--set", "cluster.replicas"])
        .expect_exit(2)
        .stderr_has("--set: `cluster.replicas` has no `=`; write path=value");
    cli.run(["run", "s.toml", "--set", "cluster.replica=2"])
        .expect_exit(2)
        .stderr_has("did you mean `replicas`?");
    cli.run(["run", "s.toml", "--set", "name.x=2"])
        .expect_exit(2)
        .stderr_has("--set name.x=2: name.x: `name` is a value, not a table");
}

#[test]
fn a_scenario_that_is_not_there_or_no_scenario_is_named() {
    let cli = Cli::new().file("s.txt", SCENARIO).file("broken.toml", "name = \n");
    let stderr = cli.words("trace describe none.csv").expect_exit(2).stderr();
    assert_eq!(stderr.matches("no such file or folder").count(), 1, "{stderr}");
    cli.words("run none.toml").expect_exit(2).stderr_has("none.toml: no such file");
    cli.words("run s.txt").expect_exit(2).stderr_has("use .toml, .yaml or .json");
    cli.words("run broken.toml").expect_exit(2).stderr_has("line 1");
}

#[test]
fn a_latency_that_is_not_reported_is_refused() {
    let change = |key: &str| format!("[report]\n{key}\n[cluster]");
    let message = "report.percentile_metrics: unknown latency `queue`, known are ttft";
    refused("[cluster]", &change("percentile_metrics = [\"queue\"]"), message);
    let message = "report.metric_percentiles: must be from 0 to 100, got 101";
    refused("[cluster]", &change("metric_percentiles = [101.0]"), message);
}

const TRACE: &str = r#"
name = "replay"
[trace]
path = "t.csv"
[workload]
arrivals = { type = "trace" }
lengths = { type = "trace" }
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
"#;

fn replay(name: &str, content: &str) -> Cli {
    let scenario = TRACE.replace("t.csv", name);
    Cli::new().file("s.toml", scenario).file(name, content)
}

#[test]
fn an_empty_trace_is_refused() {
    for content in ["", "\n\n", "arrival_s,prompt_tokens,output_tokens\n"] {
        let cli = replay("t.csv", content);
        cli.words("run s.toml")
            .expect_exit(2)
            .stderr_has("t.csv: the trace is empty; it must have a row");
        assert!(cli.left_behind(&["s.toml", "t.csv"]).is_empty());
    }
}

#[test]
fn a_truncated_line_is_named_by_file_and_line() {
    let rows = "{\"arrival_s\": 0, \"prompt_tokens\": 5, \"output_tokens\": 2}\n\
                {\"arrival_s\": 1, \"prompt_tok";
    let cli = replay("t.jsonl", rows);
    cli.words("run s.toml").expect_exit(2).stdout_is_empty().stderr_has("t.jsonl:2:");
    assert!(cli.left_behind(&["s.toml", "t.jsonl"]).is_empty());
}

#[test]
fn lengths_that_overflow_are_named_by_file_and_line() {
    let cli = replay("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,4294967296,3\n");
    cli.words("run s.toml").expect_exit(2).stderr_has("t.csv:2:").stderr_has("4294967296");
}

#[test]
fn rows_out_of_order_are_sorted_with_a_notice() {
    let cli = replay("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,3\n2,5,3\n1,5,3\n");
    cli.words("run s.toml")
        .expect_exit(0)
        .stderr_has("notice: 1 row of the trace was put in order of time")
        .stdout_has("3 requests: 3 finished");
}

#[test]
fn a_first_row_that_is_not_the_earliest_is_sorted_unless_it_shall_be_time_zero() {
    let cli = replay("t.csv", "arrival_s,prompt_tokens,output_tokens\n5,5,3\n2,5,3\n");
    cli.words("run s.toml").expect_exit(0).stdout_has("2 requests: 2 finished");
    cli.run(["run", "s.toml", "--set", "trace.origin=first_row"])
        .expect_exit(2)
        .stderr_has("t.csv:3:")
        .stderr_has("earliest_row");
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_accepted() {
    let rows = "\u{feff}arrival_s,prompt_tokens,output_tokens\r\n0,5,3\r\n1,5,3\r\n";
    replay("t.csv", rows).words("run s.toml").expect_exit(0).stdout_has("2 requests: 2 finished");
    let scenario = format!("\u{feff}{}", SCENARIO.replace('\n', "\r\n"));
    let cli = Cli::new().file("s.toml", scenario);
    cli.words("run s.toml").expect_exit(0).stdout_has("20 requests: 20 finished");
}

#[test]
fn a_clock_without_a_unit_is_refused_and_can_be_stated() {
    let cli = replay("t.csv", "time,prompt_tokens,output_tokens\n0,5,3\n1000,5,3\n");
    cli.words("run s.toml").expect_exit(2).stderr_has("--time-unit ms");
    cli.run(["run", "s.toml", "--set", "trace.time_unit=ms"])
        .expect_exit(0)
        .stderr_has("span 1.0 s");
    cli.run(["run", "s.toml", "--set", "trace.time_unit=min"])
        .expect_exit(2)
        .stderr_has("trace.time_unit: a time unit is one of wall-clock, s, ms, us, ns, got `min`");
}

#[test]
fn a_prompt_too_long_for_the_engine_is_rejected_and_counted() {
    let cli =
        Cli::new().file("s.toml", SCENARIO.replace("input_tokens = 100", "input_tokens = 600"));
    cli.run(["run", "s.toml", "--set", "cluster.engine={type=\"vllm_v1\",max_model_len=512}"])
        .expect_exit(1)
        .stdout_has("20 requests: 0 finished, 20 rejected");
}

#[test]
fn an_override_that_overflows_is_told_as_a_number() {
    let cli = Cli::with_scenario();
    let set = "workload.num_requests=99999999999999999999";
    let ran = cli.words(&format!("run s.toml --set {set}")).expect_exit(2).stdout_is_empty();
    ran.stderr_has(&format!("--set {set}: the number is out of range"));
    let broken = "workload.arrivals={ type = \"poisson\", rate_per_s = 1, rate_per_s = 2 }";
    let ran = cli.run(["run", "s.toml", "--set", broken]).expect_exit(2).stdout_is_empty();
    ran.stderr_has(&format!("--set {broken}: is no table or list in TOML: duplicate key"));
    // What only looks a little like one is text.
    cli.words("run s.toml --set name=1.2.3").expect_exit(0);
}

#[test]
fn an_override_within_an_absent_table_takes_its_default_type() {
    let cli = Cli::with_scenario();
    let set = "--set cluster.engine.max_num_seqs=1 --set cluster.step_time.base_us=2000.0";
    cli.words(&format!("run s.toml {set} --output-dir out")).expect_exit(0);
    let resolved = cli.read("out/scenario.resolved.toml");
    assert!(resolved.contains("type = \"vllm_v1\""), "{resolved}");
    assert!(resolved.contains("max_num_seqs = 1\n"), "{resolved}");
    assert!(resolved.contains("base_us = 2000.0"), "{resolved}");
    // A type that is given holds, whichever comes first.
    let set = "--set cluster.engine.page_size=16 --set cluster.engine.type=sglang";
    cli.words(&format!("run s.toml {set} --output-dir sglang")).expect_exit(0);
    assert!(cli.read("sglang/scenario.resolved.toml").contains("type = \"sglang\""));
}
