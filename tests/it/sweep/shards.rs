//! Parts of a sweep, and the whole that they make.

use std::fs;

use super::resume::results;
use crate::cli::Cli;

const SWEEP: &str = "sweep s.toml --vary cluster.replicas=1,3,2 \
                     --vary cluster.tensor_parallel_size=1,3 --seeds 3";

fn part(cli: &Cli, shard: &str, folder: &str) {
    cli.words(&format!("{SWEEP} --shard {shard} --output-dir {folder}"))
        .expect_exit(0)
        .stdout_has(&format!("part {shard} of the runs"));
}

#[test]
fn four_parts_make_the_whole() {
    let cli = Cli::with_scenario();
    let whole = cli.words(&format!("{SWEEP} --output-dir whole")).expect_exit(0).stdout();
    for index in 1..=4 {
        part(&cli, &format!("{index}/4"), &format!("part-{index}"));
    }
    let merged = cli.words("merge part-3 part-1 part-4 part-2 --output-dir merged").expect_exit(0);
    assert_eq!(merged.stdout(), whole);
    assert_eq!(results(&cli, "merged"), results(&cli, "whole"));
    assert_eq!(cli.read("merged/sweep.json"), cli.read("whole/sweep.json"));
    // The whole goes on where it was merged: only what failed is tried again.
    let again = cli.words(&format!("{SWEEP} --output-dir merged")).expect_exit(0);
    assert_eq!(again.stderr_has("18 runs, 9 of them known before").stdout(), whole);
    let twice = cli.words("merge part-1 part-2 part-3 part-4 whole --output-dir merged");
    assert_eq!(twice.expect_exit(0).stdout(), whole);
}

#[test]
fn a_missing_part_is_named_unless_it_may_be_missing() {
    let cli = Cli::with_scenario();
    part(&cli, "1/3", "a");
    part(&cli, "3/3", "c");
    cli.words("merge a c --output-dir merged")
        .expect_exit(2)
        .stdout_is_empty()
        .stderr_has("6 of 18 runs are missing, the first of them point 0, seed 2")
        .stderr_has("(part 2/3, which is not among the folders)");
    assert!(!cli.path("merged").exists());
    cli.words("merge a c --partial --output-dir merged").expect_exit(0);
    assert_eq!(results(&cli, "merged").lines().count(), 1 + 12);
    part(&cli, "2/3", "b");
    cli.words("merge a b c --output-dir merged").expect_exit(0);
    assert_eq!(results(&cli, "merged").lines().count(), 1 + 18);
    let journal = cli.read("b/runs.jsonl");
    let (_, rest) = journal.split_once('\n').unwrap();
    fs::write(cli.path("b/runs.jsonl"), rest).unwrap();
    cli.words("merge a b c --output-dir again")
        .expect_exit(2)
        .stderr_has("1 of 18 runs are missing")
        .stderr_has("part 2/3, which has not ended");
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let cli = Cli::with_scenario();
    part(&cli, "1/2", "a");
    // The same part of another workload, as if it were of this one.
    let other = cli.read("s.toml").replace("num_requests = 20", "num_requests = 21");
    let cli = cli.file("other.toml", other);
    let words = SWEEP.replace("s.toml", "other.toml");
    cli.words(&format!("{words} --shard 2/2 --output-dir b")).expect_exit(0);
    cli.words("merge a b --output-dir merged")
        .expect_exit(2)
        .stderr_has("b is of another sweep than a: the scenario, or a file that it reads");
    let words = SWEEP.replace("1,3,2", "1,2");
    cli.words(&format!("{words} --shard 2/2 --output-dir c")).expect_exit(0);
    cli.words("merge a c --output-dir merged")
        .expect_exit(2)
        .stderr_has("c is of another sweep than a: other settings are varied");
    fs::create_dir(cli.path("empty")).unwrap();
    cli.words("merge a empty --output-dir merged")
        .expect_exit(2)
        .stderr_has("empty: holds no sweep");
    let older = cli.read("a/sweep.json").replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    fs::write(cli.path("a/sweep.json"), older).unwrap();
    cli.words("merge a --output-dir merged")
        .expect_exit(2)
        .stderr_has("a: was computed by servecast 0.0.1");
}
