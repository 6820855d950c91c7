//! What a report says of faults.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Cli, SCENARIO};

/// All of the small scenario's requests on one replica, of which a crash loses some.
fn crashing(client: &str) -> Cli {
    let faults = "[[faults]]\ntype = \"crash\"\nreplica = 0\nat_s = 0.003\ndown_s = 60.0\n";
    let at_once = SCENARIO
        .replace(
            "arrivals = { type = \"poisson\", rate_per_s = 10.0 }",
            "arrivals.type = \"all_at_once\"",
        )
        .replace("[cluster]\n", &format!("{client}\n[cluster]\n"));
    Cli::new().file("s.toml", format!("{at_once}{faults}"))
}

#[test]
fn requests_without_an_answer_are_printed_and_written() {
    let cli = crashing("");
    // Without an answer there is no result, but all that there is to see.
    let ran = cli.words("run s.toml --output-dir out").expect_exit(1);
    let stdout = ran.stdout();
    assert!(
        stdout.contains("20 requests: 0 finished, 0 rejected, 0 stuck, 20 failed;"),
        "{stdout}"
    );
    assert!(stdout.contains("\n1 crash, replicas down for 0.0 s together; "), "{stdout}");
    let summary: Value = serde_json::from_str(&cli.read("out/summary.json")).unwrap();
    let requests = &summary["requests"];
    assert_eq!((&requests["failed"], &requests["retried"]), (&20.into(), &0.into()));
    assert_eq!(summary["faults"]["crashes"], 1);
    assert_eq!(summary["benchmark"]["completed"], 0);
}

#[test]
fn retries_are_printed_and_those_that_are_answered_succeed() {
    // Four waits of 30 s together outlast the crash.
    let client = "client.retries = { max_retries = 4, backoff_s = 30.0, max_backoff_s = 30.0 }";
    let ran = crashing(client).words("run s.toml --no-files").expect_exit(0);
    ran.stdout_has("20 requests: 20 finished, 0 rejected, 0 stuck, 60 retries;");
}

#[test]
fn a_fault_of_an_unknown_replica_is_refused_before_anything_is_written() {
    let cli = Cli::with_scenario();
    let fault = "faults=[{type='crash',replica=7,at_s=1.0,down_s=1.0}]";
    let ran = cli.run(["run", "s.toml", "--set", fault]).expect_exit(2).stdout_is_empty();
    ran.stderr_has("faults[0].replica: must be below the 1 replicas of the cluster, got 7");
    assert_eq!(cli.left_behind(&["s.toml"]), [""; 0]);
}

#[test]
fn the_shipped_scenario_of_faults_runs_with_all_its_variants() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/faults.toml");
    let cli = Cli::new().file("s.toml", fs::read(path).unwrap());
    let stdout = cli
        .run(["run", "s.toml", "--no-files", "--set", "workload.num_requests=600"])
        .expect_exit(0)
        .stdout();
    let lines: Vec<&str> =
        stdout.lines().filter(|line| line.starts_with("600 requests:")).collect();
    assert_eq!(lines.len(), 5, "{stdout}");
    assert!(lines[0].contains("600 finished"), "{}", lines[0]);
    assert!(lines[1].contains(" failed"), "{}", lines[1]);
    assert!(lines[2].contains("600 finished") && lines[2].contains(" retries"), "{}", lines[2]);
}

#[test]
fn a_workload_is_drawn_from_a_scenario_with_faults() {
    let cli = crashing("");
    cli.words("trace generate s.toml --to csv -o out.csv").expect_exit(0);
    assert_eq!(cli.read("out.csv").lines().count(), 21, "a header and 20 rows");
}
