//! Sweeps that are refused: exit code 2, one line, and nothing written.

use std::fs;

use crate::cli::{Cli, SCENARIO};

#[test]
fn bad_input_is_refused_in_one_line_and_leaves_nothing() {
    let cli = Cli::with_scenario();
    for (words, message) in [
        ("--vary cluster.replcas=1..4", "s.toml: cluster.replcas: unknown key `replcas`"),
        ("--vary cluster.replicas=4..1", "sweep: cluster.replicas: 4..1 is empty"),
        ("--vary cluster.replicas=", "sweep: cluster.replicas: has no values"),
        ("--vary cluster.replicas=1..x", "--vary cluster.replicas=1..x: `x` is not a number"),
        (
            "--vary cluster.replicas=1,two",
            "s.toml: cluster.replicas: must be a whole number up to 4294967295, got \"two\"",
        ),
        ("--vary cluster.replicas=1,1", "sweep: cluster.replicas: lists 1 twice"),
        ("--vary cluster.replicas", "--vary cluster.replicas: has no `=`"),
        ("--vary seed=1,2", "sweep: seed: is not varied; --seeds N"),
        (
            "--vary cluster.replicas.x=1",
            "s.toml: cluster.replicas: must be a whole number up to 4294967295, got a table",
        ),
        (
            "--vary cluster.replicas=1,2 --vary cluster.replicas=3",
            "sweep: cluster.replicas: is varied twice",
        ),
        (
            "--vary workload.arrivals.rate_per_s=1.0..2.0",
            "sweep: workload.arrivals.rate_per_s: how many levels?",
        ),
        (
            "--vary cluster.replicas=1..1000 --seeds 1000",
            "sweep: points: 1000 points with 1000 seeds are 1000000 runs, more than 100000",
        ),
        ("--seeds 0", "sweep: seeds: must be at least 1, got 0"),
        ("--vary cluster.replicas=1..4 --points 3", "sweep: points: 3 are drawn by the designs"),
        ("--vary cluster.replicas=1..4 --design random", "sweep: points: how many?"),
        (
            "--vary cluster.replicas=1..4 --vary cluster.api_delay_ms=1,2 --design zip",
            "sweep: cluster.api_delay_ms: has 2 values, another axis 4",
        ),
        ("", "s.toml: nothing varies; give --vary PATH=VALUES"),
        ("--set cluster.replicas=x --seeds 2", "--set cluster.replicas=x: cluster.replicas: "),
    ] {
        let ran = cli.words(&format!("sweep s.toml {words} --output-dir out"));
        let ran = ran.expect_exit(2).stdout_is_empty().stderr_has(&format!("error: {message}"));
        assert_eq!(ran.stderr().lines().count(), 1, "{}", ran.stderr());
        assert!(!cli.path("out").exists(), "{words}");
    }
    for shard in ["5/4", "0/4", "1/0", "1", "a/b"] {
        cli.words(&format!("sweep s.toml --seeds 2 --shard {shard} --output-dir out"))
            .expect_exit(2)
            .stderr_has("write I/N with I from 1 to N, as in 1/4");
    }
}

#[test]
fn a_table_that_is_no_study_is_refused() {
    for (table, message) in [
        ("seed = 3", "s.toml: sweep: unknown key `seed`"),
        ("axes = [{ path = \"a\" }]", "s.toml: sweep: missing key `values`"),
        ("axes = [{ path = \"a\", values = 3 }]", "sweep: a: must be a list or text, got 3"),
        ("design = \"cube\"", "s.toml: sweep: unknown value `cube`"),
    ] {
        let cli = Cli::new().file("s.toml", format!("{SCENARIO}\n[sweep]\n{table}\n"));
        cli.words("sweep s.toml --output-dir out").expect_exit(2).stderr_has(message);
    }
}

#[test]
fn a_folder_that_holds_something_else_is_refused() {
    let cli = Cli::with_scenario().file("out/mine.txt", "mine");
    cli.words("sweep s.toml --seeds 2 --output-dir out")
        .expect_exit(2)
        .stderr_has("out: is not empty and holds no sweep");
    cli.words("sweep s.toml --seeds 2 --output-dir s.toml")
        .expect_exit(2)
        .stderr_has("s.toml: is a file, not a folder");
    cli.words("sweep s.toml --seeds 2 --output-dir good").expect_exit(0);
    fs::remove_file(cli.path("good/runs.jsonl")).unwrap();
    fs::create_dir(cli.path("good/runs.jsonl")).unwrap();
    cli.words("sweep s.toml --seeds 2 --output-dir good")
        .expect_exit(2)
        .stderr_has("good/runs.jsonl: ");
    let cli = cli.file("good/sweep.json", "{}");
    cli.words("sweep s.toml --seeds 2 --output-dir good")
        .expect_exit(2)
        .stderr_has("good/sweep.json: is none of a sweep");
}
