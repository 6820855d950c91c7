//! Outputs that cannot be written: every command says so before it works, with exit code 2.

use std::path::Path;

use super::Cli;

fn scenario() -> Cli {
    let cli = Cli::with_scenario();
    let cli = cli.file("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,3\n1,5,3\n");
    cli.file("measured.jsonl", "{\"mean_ttft_ms\": 20.0}\n").file("out/run.json", "{}\n")
}

/// Commands that write one file, up to its name.
const FILES: [&str; 10] = [
    "bench python -m sglang.bench_serving --model Qwen/Qwen2.5-7B --gpu H100 --dataset-name random --num-prompts 4 --no-files --output-file",
    "calibrate --server s.toml measured.jsonl --fit cluster.api_delay_ms=1+-5 --output",
    "profile import --from splitwise nothing.csv --gpu a --model b --output",
    "profile plot h100-sxm5-80gb/vllm-0.14.0 --model llama-3.1-8b --output",
    "profile probe --url http://127.0.0.1:9 --output",
    "report out --output",
    "run s.toml --no-files --timeline",
    "run s.toml --timeline",
    "trace convert t.csv --to jsonl --output",
    "trace generate s.toml --to csv --output",
];

/// Commands that write a folder, up to its name.
const FOLDERS: [&str; 6] = [
    "run s.toml --output-dir",
    "bench vllm bench serve --model Qwen/Qwen2.5-7B --gpu H100 --dataset-name random --num-prompts 4 --output-dir",
    "sweep s.toml --vary cluster.replicas=1,2 --output-dir",
    "merge part --output-dir",
    "plan s.toml --slo p99_ttft_ms<=500 --output-dir",
    "compare s.toml other.toml --output-dir",
];

#[test]
fn a_file_without_a_folder_is_refused_before_the_work() {
    for words in FILES {
        let cli = scenario();
        cli.words(&format!("{words} missing/file.json"))
            .expect_exit(2)
            .stdout_is_empty()
            .stderr_has("missing/file.json: the folder missing does not exist");
        let known = ["s.toml", "t.csv", "measured.jsonl", "out"];
        assert_eq!(cli.left_behind(&known), [""; 0], "{words}");
    }
}

#[test]
fn a_file_with_the_name_of_a_folder_is_refused_before_the_work() {
    for words in FILES {
        let cli = scenario();
        let ran = cli.words(&format!("{words} out")).expect_exit(2).stdout_is_empty();
        ran.stderr_has("out: ").stderr_has("folder");
        // A name as of a folder, though none is there.
        let ran = cli.words(&format!("{words} none/")).expect_exit(2).stdout_is_empty();
        ran.stderr_has("none/: ").stderr_has("folder");
    }
}

#[test]
fn a_file_where_nobody_can_write_is_refused_before_the_work() {
    // Nobody, not even root, makes files there.
    if !Path::new("/proc/self").exists() {
        println!("skipped: no /proc");
        return;
    }
    for words in FILES {
        let ran = scenario().words(&format!("{words} /proc/file.json"));
        ran.expect_exit(2).stdout_is_empty().stderr_has("/proc/file.json: ");
    }
}

#[test]
fn a_folder_that_is_a_file_or_below_one_is_refused_before_the_work() {
    for words in FOLDERS {
        for target in ["t.csv", "t.csv/out"] {
            let cli = scenario().file("other.toml", super::SCENARIO);
            cli.words("sweep s.toml --vary cluster.replicas=1,2 --output-dir part").expect_exit(0);
            let ran = cli.words(&format!("{words} {target}"));
            ran.expect_exit(2).stdout_is_empty().stderr_has("t.csv");
        }
    }
}

#[test]
fn figures_that_cannot_be_recorded_are_told_before_the_scenarios_run() {
    let cli = Cli::new().file("mine/one.toml", super::SCENARIO);
    std::fs::create_dir(cli.path("mine/golden.toml")).expect("a folder");
    let ran = cli.words("check mine --update").expect_exit(2);
    ran.stdout_is_empty().stderr_has("golden.toml");
}

#[test]
fn a_device_is_written_and_not_replaced() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full");
        return;
    }
    // It is full: a failure of the disk and not of the arguments.
    let words = "profile plot h100-sxm5-80gb/vllm-0.14.0 --model llama-3.1-8b --output /dev/full";
    Cli::new().words(words).expect_exit(1).stderr_has("/dev/full: No space left on device");
    assert!(!Path::new("/dev/full").is_file());
}
