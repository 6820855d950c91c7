//! `servecast bench`: pasted commands of the benchmark tools.

use serde_json::Value;

use super::Cli;

const SERVER: &str = "bench --model Qwen/Qwen2.5-0.5B --gpu H100";

/// With SGLang's tool, where the flags name no other.
fn bench(cli: &Cli, flags: &str) -> super::Ran {
    let is_told = flags.contains("--tool") || flags.contains("--backend");
    cli.words(&format!("{SERVER} {} {flags}", if is_told { "" } else { "--tool sglang" }))
}

#[test]
fn a_measured_run_of_deepseek_has_its_token_totals() {
    // sglang-deepseek-v3-tp8.txt of the reference runs: 256 prompts of exactly 1000 and 1000
    let cli = Cli::new();
    let ran = cli.words(
        "bench --backend sglang --dataset-name random --random-input-len 1000 \
         --random-output-len 1000 --random-range-ratio 1 --num-prompts 256 --max-concurrency 32 \
         --model deepseek-ai/DeepSeek-V3 --gpu H200 --tp 8",
    );
    ran.expect_exit(0)
        .stdout_has("Max request concurrency:                 32        \n")
        .stdout_has("Total input tokens:                      256000    \n")
        .stdout_has("Total generated tokens:                  256000    \n");
}

#[test]
fn random_lengths_are_those_the_tool_draws() {
    // The log of sglang-qwen2.5-0.5b-short.txt has 5661 and 1653 tokens.
    let cli = Cli::new();
    let flags = "--backend sglang --dataset-name random --seed 1 --random-input-len 64 \
                 --random-output-len 16 --num-prompts 200";
    bench(&cli, flags)
        .expect_exit(0)
        .stdout_has("Total input tokens:                      5661      \n")
        .stdout_has("Total generated tokens:                  1653      \n");
}

#[test]
fn a_range_ratio_of_zero_means_opposite_things_to_the_tools() {
    let cli = Cli::new();
    let flags =
        "--dataset-name random --random-input-len 50 --random-output-len 10 --num-prompts 40";
    let exact = "Total input tokens:                      2000      \n";
    bench(&cli, &format!("{flags} --tool vllm --backend vllm")).expect_exit(0).stdout_has(exact);
    let drawn = bench(&cli, &format!("{flags} --backend sglang")).expect_exit(0).stdout();
    assert!(!drawn.contains(exact));
}

#[test]
fn stdout_begins_as_the_tools_own_block() {
    let cli = Cli::new();
    let flags = "--dataset-name random --num-prompts 3 --random-output-len 4";
    let title = "============ Serving Benchmark Result ============\n";
    let sglang = bench(&cli, &format!("{flags} --backend sglang-oai")).expect_exit(0).stdout();
    let backend = "Backend:                                 sglang-oai\n";
    assert!(sglang.starts_with(&format!("{title}{backend}")), "{sglang}");
    let vllm = bench(&cli, &format!("{flags} --tool vllm --backend vllm")).expect_exit(0).stdout();
    let requests = "Successful requests:                     3         \n";
    assert!(vllm.starts_with(&format!("{title}{requests}")), "{vllm}");
}

#[test]
fn sglang_appends_a_line_and_names_the_file_itself() {
    let cli = Cli::new();
    let flags = "--dataset-name random --num-prompts 3 --random-output-len 4 --tag mine \
                 --output-dir out --overwrite";
    for _ in 0..2 {
        bench(&cli, &format!("{flags} --output-file log.jsonl")).expect_exit(0);
    }
    let lines: Vec<String> = cli.read("log.jsonl").lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
    assert!(lines[0].starts_with(
        "{\"tag\": \"mine\", \"backend\": \"sglang\", \"dataset_name\": \"random\", \
         \"request_rate\": Infinity, \"max_concurrency\": null"
    ));
    bench(&cli, &format!("{flags} --output-file")).expect_exit(0);
    let made = cli.left_behind(&["log.jsonl", "out"]);
    // sglang_MMDD_3_1024_4.jsonl
    assert!(made.len() == 1 && made[0].starts_with("sglang_"), "{made:?}");
    assert!(made[0].ends_with("_3_1024_4.jsonl"), "{made:?}");
}

#[test]
fn vllm_writes_an_object_and_names_the_file_itself() {
    let cli = Cli::new();
    let flags = "--tool vllm --backend vllm --num-prompts 3 --output-len 4 --request-rate 2 --output-dir out \
                 --overwrite --metadata a=b --save-result";
    bench(&cli, &format!("{flags} --max-concurrency 2")).expect_exit(0);
    let made = cli.left_behind(&["out"]);
    assert!(made[0].starts_with("vllm-2.0qps-concurrency2-Qwen2.5-0.5B-20"), "{made:?}");
    let json: Value = serde_json::from_str(&cli.read(&made[0])).unwrap();
    assert_eq!(json["a"], "b");
    assert_eq!(json["num_prompts"], 3);
    bench(&cli, &format!("{flags} --result-filename r.json --append-result")).expect_exit(0);
    bench(&cli, &format!("{flags} --result-filename r.json --append-result")).expect_exit(0);
    assert_eq!(cli.read("r.json").lines().count(), 2);
    bench(&cli, &format!("{flags} --result-dir none"))
        .expect_exit(2)
        .stderr_has("the folder none does not exist");
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let cli = Cli::new();
    for (flags, message) in [
        ("--lora-name a b", "--lora-name: ranks are needed; describe adapters in a scenario"),
        ("-dp 2", "--data-parallel-size: only tensor and pipeline parallelism are modelled"),
        ("--engine sglang --pp-size 2", "--pp-size: stages of SGLang are not modelled"),
        ("--engine sglang -pp 2", "--pipeline-parallel-size: is a flag of `--engine vllm`"),
        ("--disable-ignore-eos", "--disable-ignore-eos: every answer has the length"),
        ("--ep-size 2", "--ep-size: is a flag of `--engine sglang`, and the engine here is vllm"),
        ("--enable-expert-parallel", "has no experts"),
        (
            "--page-size 16",
            "--page-size: is a flag of `--engine sglang`, and the engine here is vllm",
        ),
        ("--engine sglang --block-size 8", "--block-size: is a flag of `--engine vllm`"),
        ("--burstiness 2", "--burstiness: is a flag of `vllm bench serve`"),
        ("--dataset-name hf", "--dataset-name: `hf` is not simulated"),
        ("--dataset-name sharegpt", "nothing is downloaded"),
        ("--goodput ttft", "--goodput: `ttft` is not a KEY:VALUE pair"),
        ("--request-rate -1", "must be above 0 requests per second, or inf"),
        ("--request-rate nan", "must be above 0 requests per second, or inf"),
        ("--use-trace-timestamps", "--use-trace-timestamps: `--dataset-name random` has no times"),
        ("--random-range-ratio 2", "--random-range-ratio: must be between 0 and 1, got 2"),
        ("--num-prompts 0", "--num-prompts: must be at least 1, got 0"),
        ("--max-concurrency 0", "--max-concurrency: must be at least 1, got 0"),
        ("--random-output-len 0", "--random-output-len: must be between 1 and"),
        (
            "--set workload.num_requests=0",
            "--set workload.num_requests=0: workload.num_requests: must be at least 1",
        ),
        ("--tp 3", "tensor parallel size must divide"),
        ("--nonsense", "unexpected argument '--nonsense'"),
        ("--engine orca", "[possible values: vllm, sglang]"),
    ] {
        let all = if flags.contains("--dataset-name") {
            flags.to_owned()
        } else {
            format!("--dataset-name random {flags}")
        };
        let backend = if flags.contains("--engine") { "sglang" } else { "vllm" };
        let all = format!("--tool sglang --backend {backend} {all}");
        bench(&cli, &all).expect_exit(2).stdout_is_empty().stderr_has(message);
    }
    cli.words("bench --tool vllm --model Qwen/Qwen2.5-7 --gpu H100")
        .expect_exit(2)
        .stderr_has("--model: `Qwen/Qwen2.5-7` is neither")
        .stderr_has("did you mean `Qwen/Qwen2.5-7B`?");
    assert!(cli.left_behind(&[]).is_empty());
}

#[test]
fn flags_without_meaning_are_named_once() {
    let cli = Cli::new();
    let flags = "--dataset-name random --num-prompts 3 --random-output-len 4 --host 0.0.0.0 \
                 --port 30000 --disable-tqdm --trust-remote-code";
    bench(&cli, flags).expect_exit(0).stderr_has(
        "notice: no effect on a simulation: --host, --port, --disable-tqdm, --trust-remote-code\n",
    );
}

#[test]
fn flags_that_only_concern_output_are_accepted_with_what_is_there_instead() {
    let cli = Cli::new();
    let flags = "--dataset-name random --num-prompts 3 --random-output-len 4";
    let plain = bench(&cli, flags).expect_exit(0).stdout();
    for (flags, more, notice) in [
        (flags, "--output-details", "--output-details: the lists of single requests are left out"),
        (flags, "--profile --profile-num-steps 5", "--profile: there is no server to profile"),
        (flags, "--plot-throughput", "--plot-throughput: figures are in the run directory"),
    ] {
        let ran = bench(&cli, &format!("{flags} {more}")).expect_exit(0);
        assert_eq!(ran.stderr_has(notice).stdout(), plain, "{more}");
    }
}

#[test]
fn engine_flags_reach_the_engine() {
    let cli = Cli::new();
    let flags = "--tool vllm --dataset-name random --num-prompts 3 --random-output-len 4 --output-dir out \
                 --max-num-seqs 2 --max-num-batched-tokens 4k --block-size 32 --max-model-len 8K \
                 --no-enable-prefix-caching --no-async-scheduling --kv-cache-dtype fp8 \
                 --num-gpu-blocks-override 5000 --scheduling-policy priority --replicas 2 \
                 --gpu-memory-utilization 0.8 --set cluster.api_delay_ms=3.0";
    bench(&cli, flags).expect_exit(0);
    let resolved: toml::Table = toml::from_str(&cli.read("out/scenario.resolved.toml")).unwrap();
    let cluster = resolved["cluster"].as_table().unwrap();
    let engine = cluster["engine"].as_table().unwrap();
    let numbers = [
        ("max_num_seqs", 2),
        ("max_num_batched_tokens", 4000),
        ("block_size", 32),
        ("max_model_len", 8192),
        ("num_gpu_blocks", 5000),
    ];
    for (key, value) in numbers {
        assert_eq!(engine[key].as_integer(), Some(value), "{key}");
    }
    assert_eq!(engine["enable_prefix_caching"].as_bool(), Some(false));
    assert_eq!(engine["async_scheduling"].as_bool(), Some(false));
    assert_eq!(engine["policy"].as_str(), Some("priority"));
    assert_eq!(cluster["kv_cache_dtype"].as_str(), Some("fp8"));
    assert_eq!(cluster["api_delay_ms"].as_float(), Some(3.0));
    assert_eq!(cluster["replicas"].as_integer(), Some(2));
}

#[test]
fn flags_of_expert_parallelism_reach_the_cluster() {
    let cli = Cli::new();
    for (flags, size) in [("--enable-expert-parallel", 4), ("--engine sglang --ep 2", 2)] {
        let run = "--dataset-name random --num-prompts 3 --random-output-len 4 --overwrite";
        cli.words(&format!(
            "bench vllm bench serve --model Qwen/Qwen3-30B-A3B --gpu H100 --tp 4 --output-dir out {run} {flags}"
        ))
        .expect_exit(0)
        .stderr_has(&format!("TP 4, EP {size})"))
        .stderr_has("experts spread over GPUs");
        let resolved: toml::Table =
            toml::from_str(&cli.read("out/scenario.resolved.toml")).unwrap();
        let parallel = &resolved["cluster"]["expert_parallel"];
        assert_eq!(parallel["size"].as_integer(), Some(size));
        assert_eq!(parallel["imbalance"].as_float(), Some(1.0));
    }
}

#[test]
fn a_launch_line_of_sglang_reaches_its_engine() {
    let cli = Cli::new();
    let flags = "--engine sglang --dataset-name random --num-prompts 3 --random-output-len 4 \
                 --output-dir out --mem-fraction-static 0.8 --chunked-prefill-size 4096 \
                 --max-running-requests 64 --schedule-policy lpm --page-size 16 \
                 --disable-overlap-schedule --context-length 8192";
    bench(&cli, flags).expect_exit(0).stdout_has("3 requests: 3 finished");
    let resolved: toml::Table = toml::from_str(&cli.read("out/scenario.resolved.toml")).unwrap();
    let cluster = resolved["cluster"].as_table().unwrap();
    let engine = cluster["engine"].as_table().unwrap();
    assert_eq!(engine["type"].as_str(), Some("sglang"));
    assert_eq!(engine["schedule_policy"].as_str(), Some("lpm"));
    for (key, value) in [
        ("chunked_prefill_size", 4096),
        ("max_running_requests", 64),
        ("page_size", 16),
        ("context_length", 8192),
    ] {
        assert_eq!(engine[key].as_integer(), Some(value), "{key}");
    }
    assert!(cluster.get("gpu_memory_utilization").is_none());
    assert_eq!(cluster["engine"]["mem_fraction_static"].as_float(), Some(0.8));
}

#[test]
fn traces_are_replayed_at_their_own_times() {
    let rows = "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [0, 1]}\n\
                {\"timestamp\": 2000, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [0, 2]}\n";
    let cli = Cli::new().file("t.jsonl", rows);
    let mooncake = "--backend sglang --dataset-name mooncake --dataset-path t.jsonl --cache-report";
    bench(&cli, &format!("{mooncake} --use-trace-timestamps"))
        .expect_exit(0)
        .stdout_has("Traffic request rate:                    trace     \n")
        .stdout_has("Total input tokens:                      1200      \n")
        .stdout_has("Total cached tokens:                     512       \n");
    let slow = bench(&cli, &format!("{mooncake} --mooncake-slowdown-factor 2")).expect_exit(0);
    slow.stdout_has("Benchmark duration (s):                  4.0");
    let timed = "--tool vllm --backend vllm --dataset-name timed_trace --dataset-path t.jsonl \
                 --timed-trace-chunk-hash-size 512 --timed-trace-sec-multiplier 0.001";
    bench(&cli, timed)
        .expect_exit(0)
        .stdout_has("Benchmark duration (s):                  2.0")
        .stdout_has("Total input tokens:                      1200      \n");
    bench(&cli, "--tool vllm --backend vllm --dataset-name timed_trace --dataset-path none.jsonl")
        .expect_exit(2)
        .stderr_has("none.jsonl");
}

#[test]
fn shared_prefixes_and_recorded_lengths_are_sent() {
    let lengths = "prompt_len,output_len\n1,5\n10,5\n20,6\n30,1\n";
    let cli = Cli::new().file("l.csv", lengths);
    let gsp = "--dataset-name generated-shared-prefix --gsp-num-groups 2 --gsp-prompts-per-group 3 \
               --gsp-system-prompt-len 64 --gsp-question-len 8 --gsp-output-len 4";
    // (64 + 1 + 8) tokens, six times
    bench(&cli, gsp)
        .expect_exit(0)
        .stdout_has("Total input tokens:                      438       \n");
    // SGLang leaves out prompts and answers of one token.
    bench(&cli, "--dataset-name sharegpt --dataset-path l.csv")
        .expect_exit(0)
        .stderr_has("l.csv has 2 usable rows, all are sent")
        .stdout_has("Total input tokens:                      30        \n");
    // vLLM wants 4 tokens each: the rows (10, 5) and (20, 6).
    bench(
        &cli,
        "--tool vllm --backend vllm --dataset-name sharegpt --dataset-path l.csv --num-prompts 2",
    )
    .expect_exit(0)
    .stdout_has("Total input tokens:                      30        \n");
    bench(&cli, "--tool vllm --backend vllm --dataset-name sharegpt --dataset-path l.csv")
        .expect_exit(2)
        .stderr_has("--num-prompts: l.csv has 2 usable rows, got 1000");
    bench(&cli, "--dataset-name sharegpt --dataset-path l.csv --sharegpt-output-len 3")
        .expect_exit(2)
        .stderr_has("--sharegpt-output-len: must be at least 4, got 3");
    let repeated = "--tool vllm --backend vllm --dataset-name prefix_repetition --num-prompts 6 \
                    --prefix-repetition-num-prefixes 2 --prefix-repetition-output-len 2";
    bench(&cli, repeated)
        .expect_exit(0)
        .stdout_has("Total input tokens:                      3072      \n");
}
