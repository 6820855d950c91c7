//! What a report says of replicas that come and go.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Cli, SCENARIO};

const SCALED: &str = "[cluster.autoscaler]\nmax_replicas = 3\ninterval_s = 0.1\n\
                      signal = { type = \"utilisation\", target = 0.01 }\n";

#[test]
fn replicas_over_time_are_printed_and_written() {
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{SCALED}"));
    let ran = cli.words("run s.toml --output-dir out").expect_exit(0);
    let stdout = ran.stdout();
    assert!(
        stdout.contains("\nAutoscaler: ") && stdout.contains(" of 1 to 3 replicas"),
        "{stdout}"
    );
    assert!(stdout.contains(" GPU-hours taken; "), "{stdout}");
    assert!(stdout.contains("\n  up, of the run (%) "), "{stdout}");
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    assert_eq!(summary["autoscaler"]["max_replicas"], 3);
    assert_eq!(summary["autoscaler"]["gpu_hours"], summary["bill"]["gpu_hours"]);
    assert!(cli.read("out/autoscaler.csv").starts_with("time_s,provisioning,loading,serving,"));
    assert!(cli.read("out/scenario.resolved.toml").contains("initial_replicas = 1\n"));
    if cfg!(feature = "plot") {
        assert!(cli.read("out/figures/autoscaler.svg").contains("draining, mean"));
        assert!(cli.read("out/figures/replica_activity.svg").contains("starting"));
    }
    // What is written runs again to the same.
    let again = cli.words("run out/scenario.resolved.toml --no-files").expect_exit(0);
    assert_eq!(again.stdout(), stdout);
}

#[test]
fn a_scenario_without_an_autoscaler_says_nothing_of_it() {
    let cli = Cli::with_scenario();
    let stdout = cli.words("run s.toml --output-dir out").expect_exit(0).stdout();
    assert!(!stdout.contains("utoscaler"), "{stdout}");
    assert!(!cli.read("out/summary.json").contains("autoscaler"));
    assert!(!cli.read("out/summary.json").contains("\"up\""));
}

#[test]
fn bounds_that_cross_are_refused_before_anything_is_written() {
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{SCALED}min_replicas = 4\n"));
    let ran = cli.words("run s.toml").expect_exit(2).stdout_is_empty();
    ran.stderr_has("cluster.autoscaler.max_replicas: must be at least min_replicas, 4, got 3");
    assert_eq!(cli.left_behind(&["s.toml"]), [""; 0]);
}

#[test]
fn the_shipped_scenario_of_autoscalers_saves_gpu_hours_with_every_signal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/autoscaler.toml");
    let cli = Cli::new().file("s.toml", fs::read(path).unwrap());
    // A shorter day.
    let stdout = cli
        .run([
            "run",
            "s.toml",
            "--no-files",
            "--format",
            "json",
            "--set",
            "workload.duration_s=300.0",
            "--set",
            "workload.arrivals.period_s=300.0",
        ])
        .expect_exit(0)
        .stdout();
    let runs: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(runs.len(), 5);
    for run in &runs[1..] {
        let hours = |key: &str| run["autoscaler"][key].as_f64().unwrap();
        let most = hours("gpu_hours_of_max_replicas");
        assert!(hours("gpu_hours") < 0.95 * most, "{}", run["name"]);
        assert!(run["autoscaler"]["scale_ups"].as_u64().unwrap() > 0, "{}", run["name"]);
    }
}
