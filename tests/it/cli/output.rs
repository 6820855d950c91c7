//! What commands leave behind: whole results or nothing, and the same bytes for the same input.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Cli, SCENARIO, names};

#[test]
fn equal_runs_print_equal_bytes() {
    let cli = Cli::with_scenario();
    for format in ["table", "json"] {
        let run = || cli.run(["run", "s.toml", "--format", format]).expect_exit(0).stdout();
        assert_eq!(run(), run());
    }
    let seeded = |seed| cli.run(["run", "s.toml", "--seed", seed]).expect_exit(0).stdout();
    assert_ne!(seeded("1"), seeded("2"));
}

#[test]
fn a_run_directory_is_whole_and_reruns_from_its_own_scenario() {
    let cli = Cli::with_scenario();
    let first = cli.words("run s.toml --output-dir out").expect_exit(0);
    let files = names(&cli.path("out"));
    for file in ["benchmark.jsonl", "run.json", "scenario.resolved.toml", "summary.json"] {
        assert!(files.contains(&file.to_owned()), "{files:?}");
    }
    let again = cli.words("run out/scenario.resolved.toml --output-dir again").expect_exit(0);
    assert_eq!(first.stdout(), again.stdout());
    assert_eq!(cli.read("out/benchmark.jsonl"), cli.read("again/benchmark.jsonl"));
    assert_eq!(cli.left_behind(&["s.toml"]), ["again", "out"]);
}

#[test]
fn a_derived_kv_capacity_is_one_when_the_resolved_scenario_runs_again() {
    let groups =
        "[[cluster.groups]]\nreplicas = 1\n[[cluster.groups]]\nreplicas = 1\ngpu = \"L40S\"\n";
    let engines = ["vllm_v1", "sglang", "vllm_v0", "sarathi", "orca"];
    let scenarios = engines.map(|engine| {
        super::SCENARIO.replace(
            "[cluster]",
            &format!(
                "[cluster]\nengine = {{ type = \"{engine}\", {} }}",
                match engine {
                    "sglang" => "context_length = 4096",
                    _ => "max_model_len = 4096",
                }
            ),
        )
    });
    let grouped = format!("{}{groups}", scenarios[0]);
    for text in scenarios.into_iter().chain([grouped]) {
        let cli = Cli::new().file("s.toml", &text);
        let first = cli.words("run s.toml --output-dir out").expect_exit(0);
        let again = cli.words("run out/scenario.resolved.toml --output-dir again").expect_exit(0);
        assert_eq!(first.stdout(), again.stdout());
        for file in ["summary.json", "scenario.resolved.toml"] {
            assert_eq!(
                cli.read(&format!("out/{file}")),
                cli.read(&format!("again/{file}")),
                "{text}"
            );
        }
        first.stderr_has(", derived from ");
        again.stderr_has(", derived from ");
        assert!(cli.read("again/summary.json").contains("\"source\": \"derived\""));
    }
}

#[test]
fn a_derived_kv_capacity_follows_its_settings_and_a_changed_one_is_given() {
    let cli = Cli::with_scenario();
    let summary = |words: &str| -> Value {
        cli.words(&format!("run {words} --output-dir new --overwrite")).expect_exit(0);
        serde_json::from_str(&cli.read("new/summary.json")).unwrap()
    };
    let kv = |words: &str| summary(words)["engine"]["kv"].clone();
    cli.words("run s.toml --output-dir out").expect_exit(0);
    let resolved = "out/scenario.resolved.toml";
    let given = kv(&format!("{resolved} --set cluster.engine.num_gpu_blocks=20000"));
    assert_eq!(given["source"], "given");
    let again = cli.read("new/scenario.resolved.toml");
    assert!(again.contains("num_gpu_blocks = 20000") && !again.contains("derived_kv_capacity"));
    let mut capacities = vec![kv("s.toml")];
    for set in [
        "cluster.gpu_memory_utilization=0.8",
        "cluster.gpu=H200",
        "cluster.tensor_parallel_size=2",
        "cluster.kv_cache_dtype=fp8",
    ] {
        let anew = kv(&format!("{resolved} --set {set}"));
        assert_eq!(anew["source"], "derived", "{set}");
        assert_eq!(anew, kv(&format!("s.toml --set {set}")), "{set}");
        assert!(!capacities.contains(&anew), "{set}");
        capacities.push(anew);
    }
    // What no longer fits is told, and does not run with the number of before.
    let small = format!("run {resolved} --set cluster.gpu_memory_utilization=0.1 --no-files");
    cli.words(&small).expect_exit(2).stderr_has("cluster.model: ");
}

#[test]
fn a_run_that_rejects_every_request_has_failed_and_keeps_its_files() {
    let cli = Cli::with_scenario();
    let longer = "--set workload.lengths.input_tokens=5000 --set cluster.engine.max_model_len=4096";
    let ran = cli.words(&format!("run s.toml {longer} --output-dir out")).expect_exit(1);
    ran.stdout_has("20 requests: 0 finished, 20 rejected").stderr_has(
        "error: small: none of 20 requests was answered (20 rejected); there are no latencies",
    );
    cli.words("report out").expect_exit(0);
    assert!(cli.read("out/report.html").contains("none of 20 requests was answered (20 rejected)"));
    // One that is answered is a result.
    let some = "name = \"some\"\n[workload]\narrivals.type = \"all_at_once\"\nlengths = { type = \"list\", \
                pairs = [[100, 4], [5000, 4]] }\n[cluster]\nmodel = \"Qwen/Qwen2.5-7B\"\n\
                gpu = \"H100\"\nengine = { type = \"vllm_v1\", max_model_len = 4096 }\n";
    let cli = Cli::new().file("s.toml", some);
    let ran = cli.words("run s.toml --no-files --set workload.num_requests=2").expect_exit(0);
    ran.stderr_has("warning: 1 of 2 requests (50.00 %) were not answered (1 rejected)");
}

#[test]
fn answers_that_an_engine_cuts_are_told() {
    // Sequences of 150 tokens leave about 50 of 80 for two of the answers.
    for (engine, limit) in [
        ("vllm_v1", "max_model_len"),
        ("vllm_v0", "max_model_len"),
        ("sglang", "context_length"),
        ("orca", "max_model_len"),
        ("sarathi", "max_model_len"),
        ("faster_transformer", "max_model_len"),
        ("static_batching", "max_model_len"),
    ] {
        let text = format!(
            "name = \"cut\"\n[workload]\nnum_requests = 4\narrivals.type = \"all_at_once\"\n\
             lengths = {{ type = \"list\", pairs = [[100, 80], [100, 20], [100, 80], [100, 20]] }}\n[cluster]\n\
             model = \"Qwen/Qwen2.5-7B\"\ngpu = \"H100\"\n\
             engine = {{ type = \"{engine}\", {limit} = 150 }}\n"
        );
        let ran =
            Cli::new().file("s.toml", text).words("run s.toml --output-dir out").expect_exit(0);
        let stdout = ran.stdout();
        let told = stdout.lines().find(|line| line.starts_with("Total generated tokens:"));
        let told: u64 = told.unwrap().rsplit_once(':').unwrap().1.trim().parse().unwrap();
        let lacking = 200 - told;
        assert!((60..=64).contains(&lacking), "{engine}: {lacking}");
        ran.stderr_has(&format!(
            "warning: 2 answers were cut at the engine's longest sequence, by {lacking} tokens in all"
        ));
    }
}

#[test]
fn studies_tell_of_answers_that_an_engine_cuts() {
    let pairs = "[100, 80], [100, 20], ".repeat(20);
    let text = format!(
        "name = \"cut\"\n[workload]\nnum_requests = 40\narrivals = {{ type = \"poisson\", rate_per_s = 1.0 }}\n\
                lengths = {{ type = \"list\", pairs = [{pairs}] }}\n[cluster]\n\
                model = \"Qwen/Qwen2.5-7B\"\ngpu = \"H100\"\n\
                engine = {{ type = \"vllm_v1\", max_model_len = 150 }}\n"
    );
    let cli = Cli::new().file("s.toml", text);
    let swept = cli
        .words("sweep s.toml --vary cluster.engine.max_model_len=150,200 --output-dir sweep")
        .expect_exit(0);
    swept.stderr_has("warning: in 1 of 2 runs answers were cut at the engine's longest sequence");
    let compared = cli.words("compare s.toml s.toml --seeds 3..3").expect_exit(0);
    compared.stderr_has("warning: in 6 of 6 runs answers were cut at the engine's longest");
    let plan = |format: &str| {
        cli.words(&format!(
            "plan s.toml --slo p99_ttft_ms<=2000 --resamples 0 --gpu H100 --tp 1 --format {format}"
        ))
    };
    plan("table").expect_exit(0).stdout_has("20 answers were cut at the engine's longest sequence");
    let json: serde_json::Value = serde_json::from_str(&plan("json").stdout()).unwrap();
    assert_eq!(json["layouts"][0]["cut"]["answers"], 20, "{json:#}");
}

#[test]
fn requests_that_are_given_up_are_told_and_a_run_of_nothing_else_has_failed() {
    let cli = Cli::with_scenario();
    let impatient = |timeout_s: f64| {
        format!("run s.toml --no-files --set workload.client.timeout_s={timeout_s}")
    };
    // A prompt takes 1.1 ms and each of nine tokens after it 1 ms: nobody waits for that.
    let ran = cli.words(&impatient(0.005)).expect_exit(1);
    ran.stderr_has("none of 20 requests was answered (20 timed out); there are no latencies");
    let half = "[100, 2], [100, 100], ".repeat(10);
    let fixed = "{ type = \"fixed\", input_tokens = 100, output_tokens = 10 }";
    let listed = SCENARIO.replace(fixed, &format!("{{ type = \"list\", pairs = [{half}] }}"));
    let cli = cli.file("t.toml", listed);
    let ran = cli.words(&impatient(0.05).replace("s.toml", "t.toml")).expect_exit(0);
    ran.stderr_has("warning: 10 of 20 requests (50.00 %) were not answered (10 timed out)");
    let ran = cli.words("run s.toml --no-files --set workload.duration_s=1e-9").expect_exit(1);
    ran.stderr_has("no request arrived; there are no latencies");
    // Studies of nothing have failed too.
    let gone = SCENARIO.replace("[cluster]", "client = { timeout_s = 0.005 }\n[cluster]");
    let study =
        format!("{gone}\n[sweep]\naxes = [{{ path = \"cluster.replicas\", values = [1, 2] }}]\n");
    let cli = cli.file("gone.toml", &gone).file("study.toml", study);
    let ran = cli.words("sweep study.toml --output-dir swept").expect_exit(1);
    ran.stderr_has("no request of any run was answered");
    let ran = cli.words("compare s.toml gone.toml --seeds 3..3").expect_exit(1);
    ran.stderr_has("B: no request of any seed was answered");
}

#[test]
fn without_files_the_same_report_is_printed_and_nothing_is_written() {
    let cli = Cli::with_scenario();
    let bare = cli.words("run s.toml --no-files").expect_exit(0);
    assert_eq!(cli.left_behind(&["s.toml"]), [""; 0]);
    assert_eq!(bare.stdout(), cli.words("run s.toml --output-dir out").expect_exit(0).stdout());
    cli.words("run s.toml --no-files --output-dir out").expect_exit(2);
}

#[test]
fn every_replica_is_in_the_summary_and_the_report_has_a_block() {
    let cli = Cli::with_scenario();
    let set = "--set cluster.replicas=3 --set cluster.router.type=round_robin";
    let ran = cli.words(&format!("run s.toml {set} --output-dir out")).expect_exit(0);
    ran.stdout_has("3 replicas, ").stdout_has("busy (%)").stdout_has("max/mean: busy time");
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    let replicas = summary["cluster"]["replicas"].as_array().unwrap();
    let served = replicas.iter().map(|replica| replica["requests"].as_u64().unwrap());
    assert_eq!(replicas.len(), 3);
    assert_eq!(served.sum::<u64>(), summary["requests"]["finished"].as_u64().unwrap());
    assert!(summary["bill"]["gpu_hours"].as_f64().unwrap() > 0.0);
    assert!(summary["bill"].get("cost").is_none());
}

#[test]
fn slos_are_reported_whichever_block_is_printed() {
    let cli = Cli::with_scenario();
    let limits = "--no-files --set report.goodput.ttft=1000000.0 --set report.goodput.e2el=0.001";
    for format in ["vllm", "sglang"] {
        let run = format!("run s.toml --set report.format={format} {limits} --format json");
        let summary: Value =
            serde_json::from_str(&cli.words(&run).expect_exit(0).stdout()).unwrap();
        let slo = &summary["slo"];
        assert_eq!(slo["limits"]["ttft"], json!({ "limit_ms": 1e6, "attainment": 1.0 }));
        assert_eq!(slo["limits"]["e2el"]["attainment"], json!(0.0));
        assert_eq!((&slo["attainment"], &slo["goodput_per_s"]), (&json!(0.0), &json!(0.0)));
    }
    cli.words(&format!("run s.toml --set report.format=vllm {limits}"))
        .expect_exit(0)
        .stdout_has("Requests that keep their limits: e2el 0.00 %, ttft 100.00 %, all 0.00 %");
}

#[test]
fn a_replayed_trace_is_found_again_from_the_run_directory() {
    let scenario = "name = \"r\"\ntrace.path = \"t.csv\"\n[workload]\narrivals.type = \"trace\"\n\
                    lengths.type = \"trace\"\n[cluster]\nmodel = \"Qwen/Qwen2.5-7B\"\n\
                    gpu = \"H100\"\n";
    let cli = Cli::new().file("s.toml", scenario);
    let cli = cli.file("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,3\n1,5,3\n");
    let first = cli.words("run s.toml --output-dir out").expect_exit(0);
    let again = cli.words("run out/scenario.resolved.toml --output-dir again").expect_exit(0);
    assert_eq!(first.stdout(), again.stdout());
}

#[test]
fn a_folder_that_is_not_empty_is_refused_unless_overwritten() {
    let cli = Cli::with_scenario();
    fs::create_dir(cli.path("out")).unwrap();
    fs::write(cli.path("out/mine.txt"), "mine").unwrap();
    cli.words("run s.toml --output-dir out")
        .expect_exit(2)
        .stdout_is_empty()
        .stderr_has("out: is not empty; give another folder, or --overwrite");
    assert_eq!(names(&cli.path("out")), ["mine.txt"]);
    cli.words("run s.toml --output-dir out --overwrite").expect_exit(0);
    assert_eq!(cli.read("out/mine.txt"), "mine");
    cli.words("run s.toml --output-dir s.toml")
        .expect_exit(2)
        .stderr_has("is a file, not a folder");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let cli = Cli::with_scenario();
    // Nobody, not even root, makes folders there.
    if Path::new("/proc/self").exists() {
        cli.words("run s.toml --output-dir /proc/servecast/out")
            .expect_exit(2)
            .stdout_is_empty()
            .stderr_has("/proc/servecast/out: ");
    } else {
        println!("skipped: no /proc");
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let cli = Cli::with_scenario();
    let disk = cli.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k", "tmpfs"])
        .arg(&disk)
        .stderr(Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: a small file system cannot be mounted here");
        return;
    }
    let ran = cli.words("run s.toml --output-dir disk/out");
    let left = names(&disk);
    Command::new("umount").arg(&disk).status().unwrap();
    ran.expect_exit(1).stdout_is_empty().stderr_has("No space left on device");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_output_file_is_an_error_and_the_results_are_kept() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full");
        return;
    }
    let cli = Cli::new();
    let command = "bench python -m sglang.bench_serving --model Qwen/Qwen2.5-7B --gpu H100 --dataset-name random --num-prompts 4 \
                   --random-output-len 4 --output-dir out --output-file /dev/full";
    cli.words(command)
        .expect_exit(1)
        .stderr_has("/dev/full: the tool's JSON cannot be written: No space left on device");
    assert!(cli.path("out/summary.json").exists());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let cli = Cli::with_scenario();
    for words in [["run", "s.toml"], ["completions", "bash"], ["profile", "list"]] {
        let mut command = cli.command();
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The pipe is closed before the first byte is in it, or after the first few.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
        assert!(!stderr.contains("error"), "{words:?}: {stderr}");
    }
}

#[test]
fn a_full_stdout_is_a_failure() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full");
        return;
    };
    let cli = Cli::new();
    let output = cli.command().arg("schema").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdout: No space left on device"));
}

#[test]
fn colours_are_for_terminals_and_can_be_declined() {
    let cli = Cli::new();
    let run = |key: &str| {
        let mut command = cli.command();
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.args(["run", "--nonsense"]).env(key, "1").output().unwrap().stderr
    };
    let escapes = |text: Vec<u8>| text.contains(&0x1b);
    assert!(!escapes(run("NO_COLOR")));
    assert!(!escapes(run("SERVECAST_NOTHING")));
}

/// A request takes eleven steps of a millisecond; one at a time, 90 a second are served.
#[test]
fn a_run_says_what_its_result_hangs_on() {
    let cli = Cli::with_scenario();
    let rate = |per_s: &str| {
        let rate = format!("workload.arrivals.rate_per_s={per_s}");
        let one = "cluster.engine={type='vllm_v1',max_num_seqs=1,num_gpu_blocks=10000}";
        let words =
            ["run", "s.toml", "--no-files", "--format", "json", "--set", &rate, "--set", one];
        cli.run(words).expect_exit(0)
    };
    let calm = rate("1.0");
    assert!(!calm.stderr().contains("warning:"), "{}", calm.stderr());
    let busy = rate("1000.0").stderr_has("warning: the load is");
    let value: serde_json::Value = serde_json::from_str(&busy.stdout()).unwrap();
    assert!(value["warnings"]["figures"]["load"].as_f64().unwrap() > 5.0, "{value}");
    assert_eq!(value["warnings"]["texts"].as_array().unwrap().len(), 1, "{value}");
    let derived = cli.words("run s.toml --no-files").expect_exit(0);
    derived.stderr_has("warning: KV capacity is derived");
}
