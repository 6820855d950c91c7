//! Odd inputs: what is said of them, and what becomes of them in terminals, tables and folders.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use super::{Cli, SCENARIO};

#[test]
fn numbers_are_told_as_people_read_them() {
    let cli = Cli::with_scenario();
    for setting in [
        "workload.arrivals.rate_per_s=1e-308",
        "workload.arrivals.rate_per_s=-1e-300",
        "cluster.step_time.decode_seq_us=1e300",
        "cluster.api_delay_ms=1e307",
    ] {
        let refused = cli.words(&format!("run s.toml --no-files --set {setting}")).expect_exit(2);
        let number = setting.split_once('=').unwrap().1;
        refused.stderr_has(&format!("got {number}"));
    }
    let tiny = "bench --tool vllm --model Qwen/Qwen3-8B --gpu H100 --gpu-memory-utilization 1e-308";
    cli.words(tiny).expect_exit(2).stderr_has(": 1e-308 of ");
    let window = "plan s.toml --gpu H100 --resamples 0 --slo p99_ttft_ms<=500 --window 1e-9";
    let refused = cli.words(window).expect_exit(2);
    let said = String::from_utf8_lossy(&refused.0.stderr).into_owned();
    assert!(
        said.contains("--window: must be at least ") && !said.contains("least 0.000 "),
        "{said}"
    );
    let slo = "plan s.toml --gpu H100 --resamples 0 --slo p99_ttft_ms<=1e-9";
    cli.words(slo).stdout_has("P99 TTFT ≤ 1e-9 ms");
}

#[test]
fn names_move_no_cursor_and_long_lines_have_an_end() {
    let name = "red\u{1b}[31m\u{9b}2J\u{202e}\rover";
    let text =
        SCENARIO.replace("\"small\"", &format!("{name:?}").replace("\\u{", "\\u").replace('}', ""));
    let text = text.replace("\\u1b", "\\u001b").replace("\\u9b", "\\u009b");
    let cli = Cli::with_scenario().file("odd.toml", text);
    let ran = cli.words("run odd.toml --no-files").expect_exit(0);
    for stream in [&ran.0.stdout, &ran.0.stderr] {
        let text = String::from_utf8_lossy(stream);
        let moves = |c: &char| (c.is_control() && !matches!(c, '\n' | '\t')) || *c == '\u{202e}';
        assert_eq!(text.chars().find(moves), None, "{text}");
    }
    ran.stderr_has("red\\u001b[31m");
    let long = format!("workload.arrivals.rate_per_s={}", "x".repeat(100_000));
    let refused = cli.run(["run", "s.toml", "--no-files", "--set", &long]).expect_exit(2);
    let said = String::from_utf8_lossy(&refused.0.stderr).into_owned();
    assert!(said.lines().all(|line| line.chars().count() < 1_100), "{said}");
    let escaped = cli.run(["run", "s.toml", "--no\u{1b}[31m"]).expect_exit(2);
    escaped.stderr_has("unexpected argument '--no' found");
}

#[test]
fn keys_and_columns_that_come_twice_are_refused() {
    let mooncake = r#"{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]"#;
    let cli = Cli::with_scenario()
        .file("first.jsonl", format!("{mooncake}, \"input_length\": 8}}\n"))
        .file("later.jsonl", format!("{mooncake}}}\n{mooncake}, \"output_length\": 2}}\n"))
        .file(
            "two.csv",
            "arrived_at,num_prefill_tokens,num_decode_tokens,num_decode_tokens\n0,1,1,1\n",
        )
        .file("config.json", r#"{"model_type": "llama", "hidden_size": 8, "hidden_size": 16}"#);
    for (file, words) in [
        ("first.jsonl", "first.jsonl:1: two columns are called `input_length`"),
        (
            "later.jsonl",
            "later.jsonl:2: a line must hold one JSON object: the key `output_length` comes",
        ),
        ("two.csv", "two.csv:1: two columns are called `num_decode_tokens`"),
    ] {
        cli.words(&format!("trace describe {file}")).expect_exit(2).stderr_has(words);
    }
    let local = cli.words("run s.toml --no-files --set cluster.model=config.json").expect_exit(2);
    local.stderr_has("the key `hidden_size` comes twice");
}

#[test]
fn a_dash_is_no_file_and_results_pass_no_link() {
    let cli = Cli::with_scenario()
        .file("t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n");
    for words in [
        "run s.toml --output-dir -",
        "run s.toml --no-files --timeline -",
        "trace convert t.csv --to csv -o -",
        "trace generate s.toml --to csv -o -",
        "report out -o -",
        "sweep s.toml --vary cluster.replicas=1,2 --output-dir -",
    ] {
        let refused = cli.words(words).expect_exit(2);
        if !words.starts_with("report") {
            refused.stderr_has("not written to standard output");
        }
        assert!(!cli.path("-").exists(), "{words}");
    }
    cli.words("run s.toml --output-dir out").expect_exit(0);
    let outside = cli.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(cli.path("out/figures")).unwrap();
    std::os::unix::fs::symlink(&outside, cli.path("out/figures")).unwrap();
    let refused = cli.words("run s.toml --output-dir out --overwrite");
    assert_ne!(refused.0.status.code(), Some(0));
    refused.stderr_has("figures: is a symbolic link");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn names_are_no_formulas_of_a_spreadsheet() {
    let variant = "\n[[variants]]\nname = \"=cmd|' /C calc'!A0\"\n[variants.set]\n\"seed\" = 2\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{variant}"));
    cli.words("sweep s.toml --vary cluster.replicas=1,2 --output-dir out").expect_exit(0);
    let table = cli.read("out/results.csv");
    assert!(table.contains("'=cmd"), "{table}");
    assert!(!table.contains(",=cmd") && !table.contains("\n=cmd"), "{table}");
}

#[test]
fn a_number_of_replicas_that_is_given_is_the_one_or_refused() {
    let scaled = "autoscaler = { max_replicas = 4, signal = { type = \"outstanding_per_replica\", target = 4.0 } }";
    let cli = Cli::new()
        .file("s.toml", format!("{SCENARIO}{scaled}\n"))
        .file("one.toml", format!("{SCENARIO}replicas = 1\n{scaled}\n"))
        .file("four.toml", format!("{SCENARIO}replicas = 4\n{scaled}\n"));
    for file in ["s.toml", "four.toml"] {
        cli.words(&format!("run {file} --no-files")).expect_exit(0);
    }
    let told = "cluster.replicas: must be absent, or the 4 replicas of cluster.autoscaler, got 1";
    cli.words("run one.toml --no-files").expect_exit(2).stderr_has(told);
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 2, transfer = { nic_gb_per_s = 10.0 } }";
    let cli = cli.file("parts.toml", format!("{SCENARIO}replicas = 1\n{parts}\n"));
    let told =
        "cluster.replicas: must be absent, or the 3 replicas of cluster.disaggregation, got 1";
    cli.words("run parts.toml --no-files").expect_exit(2).stderr_has(told);
}

#[test]
fn a_sweep_without_a_scenario_has_bad_input() {
    let cli = Cli::with_scenario();
    let bad = "sweep s.toml --vary workload.arrivals.rate_per_s=-1,-2 --output-dir out";
    cli.words(bad).expect_exit(2).stderr_has("all 2 runs failed");
}

#[test]
fn plans_take_the_engines_word_for_tensor_parallelism() {
    let cli = Cli::with_scenario();
    for flag in ["--tp", "--tensor-parallel", "--tensor-parallel-size"] {
        let plan = format!("plan s.toml --slo p99_ttft_ms<=900 --gpu H100 --resamples 0 {flag} 2");
        cli.words(&plan).expect_exit(0).stdout_has("H100-SXM5-80GB TP2");
    }
}

#[test]
fn a_probe_sends_keys_and_tells_none() {
    let cli = Cli::new();
    let secret = "profile probe --url http://me:hunter2@127.0.0.1:9";
    let refused = cli.words(secret).expect_exit(2);
    let said = String::from_utf8_lossy(&refused.0.stderr).into_owned();
    refused.stderr_has("must hold no user name or password");
    assert!(!said.contains("hunter2") && !said.contains("me:"), "{said}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut asked = Vec::new();
        let mut byte = [0];
        while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            asked.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8(asked).unwrap().to_lowercase()
    });
    let words = format!("profile probe --url {url} --api-key hunter2 --header X-Tenant=test");
    let refused = cli.words(&words).expect_exit(2);
    assert!(!String::from_utf8_lossy(&refused.0.stderr).contains("hunter2"));
    refused.stderr_has("401");
    let asked = server.join().unwrap();
    assert!(asked.contains("authorization: bearer hunter2\r\n"), "{asked}");
    assert!(asked.contains("x-tenant: test\r\n"), "{asked}");
}

/// Every setting of the schema, with a value of each other type: what is said names no type of Rust.
#[test]
fn wrong_types_are_told_in_the_words_of_files() {
    let cli = Cli::with_scenario();
    let schema = cli.words("schema").expect_exit(0);
    let schema: Value = serde_json::from_slice(&schema.0.stdout).unwrap();
    let mut paths = Vec::new();
    collect(&schema, &schema, &mut Vec::new(), &mut paths);
    paths.sort();
    paths.dedup();
    assert!(paths.len() > 300, "{}", paths.len());
    let values = ["\"odd\"", "-1.5", "true", "[1]", "{ odd = 1 }"];
    let mut told = 0;
    for (index, path) in paths.iter().enumerate() {
        // Each with one of the values, another each time the schema grows.
        let setting = format!("{path}={}", values[index % values.len()]);
        let ran = cli.run(["run", "s.toml", "--no-files", "--set", &setting]);
        let said = String::from_utf8_lossy(&ran.0.stderr).into_owned();
        let is_rust = |word: &str| {
            let numbers = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f32", "f64"];
            let others =
                ["struct", "enum", "variant", "sequence", "map", "newtype", "unit", "field"];
            numbers.contains(&word) || others.contains(&word) || word == "serde"
        };
        let mut words = said.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(is_rust), "{setting}: {said}");
        told += usize::from(said.contains("must be "));
    }
    assert!(told > 100, "{told}");
}

/// The paths of all settings that need no list.
fn collect(root: &Value, node: &Value, path: &mut Vec<String>, into: &mut Vec<String>) {
    if path.len() > 6 {
        return;
    }
    if let Some(there) = node.get("$ref").and_then(Value::as_str) {
        let definition = root.pointer(there.trim_start_matches('#')).unwrap();
        return collect(root, definition, path, into);
    }
    for kind in ["anyOf", "oneOf", "allOf"] {
        for each in node.get(kind).and_then(Value::as_array).into_iter().flatten() {
            collect(root, each, path, into);
        }
    }
    for (key, below) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if path.is_empty() && ["variants", "sweep", "fit"].contains(&key.as_str()) {
            continue;
        }
        path.push(key.clone());
        into.push(path.join("."));
        collect(root, below, path, into);
        path.pop();
    }
}

#[test]
fn prompts_that_no_replica_takes_are_named() {
    let text = SCENARIO
        .replace("input_tokens = 100,", "input_tokens = 5000,")
        .replace("gpu =", "engine = { type = \"vllm_v1\", max_model_len = 4096 }\ngpu =");
    let cli = Cli::new().file("s.toml", text);
    let rejected = cli.words("run s.toml --no-files").expect_exit(1).stderr();
    let why = "there are prompts of 5000 tokens, and replicas reject what does not fit into max_model_len = 4096";
    assert!(rejected.contains(why) && !rejected.contains("90 % of"), "{rejected}");
    let plan = "plan s.toml --gpu H100 --resamples 0 --slo p99_ttft_ms<=500";
    cli.words(plan)
        .expect_exit(1)
        .stdout_has("prompts of 5000 tokens are rejected (max_model_len 4096)");
}

#[test]
fn requests_that_sglang_refuses_for_their_length_are_named() {
    let with = |engine: &str, tokens: u32| {
        let text = SCENARIO
            .replace("input_tokens = 100,", &format!("input_tokens = {tokens},"))
            .replace("gpu =", &format!("engine = {{ type = \"sglang\", {engine} }}\ngpu ="));
        Cli::new().file("s.toml", text).words("run s.toml --no-files")
    };
    with("context_length = 4096", 4089).expect_exit(0);
    // Of 4096 tokens one is left free, 5 are kept for the answer, and a prompt must be below the rest.
    with("context_length = 4096", 4090).expect_exit(1).stderr_has(
        "there are prompts of 4090 tokens, and SGLang rejects those of more than 4089, as it keeps 7 of \
         context_length = 4096 for the answer: give shorter prompts, or set cluster.engine.context_length if the model \
         takes more",
    );
    with("context_length = 4096, max_total_tokens = 2048", 2042).expect_exit(1).stderr_has(
        "rejects those of more than 2041, as it keeps 7 of max_total_tokens = 2048 for the answer: give shorter \
         prompts, or set cluster.engine.max_total_tokens if the memory holds more",
    );
    with("context_length = 4096, refuse_beyond_context = true", 4086).expect_exit(1).stderr_has(
        "there are requests of 4096 tokens of prompt and max_tokens, and refuse_beyond_context rejects those that \
         reach context_length = 4096: ask for fewer tokens, or set",
    );
}

#[test]
fn a_context_beyond_that_of_the_model_is_warned_of() {
    let long = "engine = { type = \"vllm_v1\", max_model_len = 262144 }\ngpu =";
    let cli = Cli::new().file("s.toml", SCENARIO.replace("gpu =", long));
    cli.words("run s.toml --no-files")
        .expect_exit(0)
        .stderr_has("tokens that the model was made for");
}

#[test]
fn gpus_of_several_nodes_do_not_share_a_matrix() {
    let text = SCENARIO
        .replace("Qwen2.5-7B", "Qwen3-8B")
        .replace("gpu =", "tensor_parallel_size = 16\nstep_time = { type = \"roofline\" }\ngpu =");
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("linear")).collect();
    let cli = Cli::new().file("s.toml", text.join("\n"));
    cli.words("run s.toml --no-files").expect_exit(2).stderr_has(
        "cluster.tensor_parallel_size: tensor parallel size on H100-SXM5-80GB must be at most 8 (one node), got 16",
    );
}

#[test]
fn what_stands_for_a_checkpoint_is_warned_of() {
    let served = |name: &str| {
        let text = SCENARIO.replace("Qwen/Qwen2.5-7B", name);
        Cli::new().file("s.toml", text).words("run s.toml --no-files")
    };
    served("Qwen/Qwen3-4B-GPTQ-Int4").expect_exit(0).stderr_has(
        "the catalogue has no checkpoint `Qwen/Qwen3-4B-GPTQ-Int4`: Qwen/Qwen3-4B with weights in int4 stands for it; \
         the path of its config.json says more",
    );
    served("somebody/Qwen3-8B").expect_exit(0).stderr_has(
        "the catalogue has no checkpoint `somebody/Qwen3-8B`: Qwen/Qwen3-8B stands for it",
    );
    served("somebody/Qwen3-8B-GGUF").expect_exit(2).stderr_has("neither in the catalogue nor");
}

#[test]
fn a_makers_policy_says_how_it_is_written() {
    for (policy, maker) in [("cache_aware", "sglang"), ("sticky_least_loaded", "vllm_router")] {
        let router = format!("router = {{ type = \"{policy}\" }}\ngpu =");
        let cli = Cli::new().file("s.toml", SCENARIO.replace("gpu =", &router));
        let written = format!("write `router = {{ {maker} = {{ policy = \"{policy}\" }} }}`");
        cli.words("run s.toml --no-files").expect_exit(2).stderr_has(&written);
    }
}

#[test]
fn what_no_server_measures_and_no_client_does_is_refused() {
    let cli = Cli::with_scenario();
    for (settings, says) in [
        (
            "measured={source='x',metrics={mean_ttft_ms=-5.0}}",
            "measured.metrics.mean_ttft_ms: must be a finite number of at least 0, got -5",
        ),
        (
            "measured={source='x',metrics={mean_ttft_ms=nan}}",
            "measured.metrics.mean_ttft_ms: must be a finite number of at least 0, got NaN",
        ),
        (
            "workload.client={timeout_s=0.001,retries={max_retries=1000000}}",
            "workload.client.retries.max_retries: must be from 1 to 1000, got 1000000",
        ),
        (
            "workload.arrivals={type='trace',copies=4294967295}",
            "workload.arrivals.copies: must be from 1 to 100000, got 4294967295",
        ),
        ("cluster.router=kv_aware", "in the table `sglang`, `vllm_router` or `dynamo`"),
        ("cluster.router.type=kv_aware", "NVIDIA Dynamo's KV router is `router = { dynamo = {} }`"),
    ] {
        let arguments = ["run", "s.toml", "--no-files", "--set", settings];
        cli.run(arguments).expect_exit(2).stderr_has(says);
    }
    let twice = format!("{SCENARIO}\n[[variants]]\nname = \"b\"\n[[variants]]\nname = \"b\"\n");
    let cli = cli.file("twice.toml", twice);
    cli.words("run twice.toml --no-files")
        .expect_exit(2)
        .stderr_has("twice.toml: variants: the name `b` is given twice");
}
