//! `servecast check`.

use serde_json::Value;

use super::{Cli, SCENARIO};

/// A recorded folder of two scenarios, one of them with a variant.
fn recorded() -> Cli {
    let faster =
        "\n[[variants]]\nname = \"faster\"\nset = { \"cluster.step_time.base_us\" = 500.0 }\n";
    let cli = Cli::new()
        .file("mine/one.toml", SCENARIO)
        .file("mine/two.toml", format!("{SCENARIO}{faster}"));
    cli.words("check mine --update")
        .expect_exit(0)
        .stderr_has("recorded 3 scenarios in mine/golden.toml");
    cli
}

#[test]
fn the_suite_of_the_program_passes_wherever_one_is() {
    let ran = Cli::new().words("check --exact").expect_exit(0);
    ran.stdout_has("24 as recorded, 0 changed within tolerance, 0 failed");
    // And as files: they go by the same rules as everybody's.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/checks");
    Cli::new().run(["check", folder, "--exact"]).expect_exit(0).stdout_has("24 as recorded");
    let cli = Cli::new();
    cli.words("check --filter router-*").expect_exit(0).stdout_has("3 as recorded");
    assert!(cli.left_behind(&[]).is_empty());
}

#[test]
fn what_was_recorded_passes_and_repeats() {
    let cli = recorded();
    let first = cli.read("mine/golden.toml");
    cli.words("check mine --exact").expect_exit(0).stdout_has("3 as recorded, 0 changed");
    cli.words("check mine --update").expect_exit(0);
    assert_eq!(cli.read("mine/golden.toml"), first);
    assert_eq!(cli.left_behind(&["mine"]), Vec::<String>::new());
}

#[test]
fn a_slower_engine_fails_with_its_figures() {
    let cli =
        recorded().file("mine/one.toml", SCENARIO.replace("base_us = 1000.0", "base_us = 1100.0"));
    let ran = cli.words("check mine").expect_exit(1);
    let ran = ran.stderr_has("1 of 3 scenarios fail").stdout_has("FAIL       one");
    let text = ran.stdout();
    let line = text.lines().find(|line| line.trim_start().starts_with("mean_tpot_ms")).unwrap();
    assert!(line.contains("2 %") && line.ends_with("WORSE"), "{line}");
    let json = cli.words("check mine --format json").expect_exit(1).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    let one = &json["scenarios"][0];
    assert_eq!((&one["scenario"], &one["passes"]), (&"one".into(), &false.into()));
}

#[test]
fn a_faster_engine_is_a_change_and_no_failure() {
    let cli =
        recorded().file("mine/one.toml", SCENARIO.replace("base_us = 1000.0", "base_us = 900.0"));
    cli.words("check mine").expect_exit(0).stdout_has("changed    one").stdout_has("better");
    cli.words("check mine --exact")
        .expect_exit(1)
        .stderr_has("1 of 3 scenarios are not as recorded");
    cli.words("check mine --exact --filter two*").expect_exit(0);
}

#[test]
fn tolerances_are_the_users_and_are_kept() {
    let cli = recorded();
    let golden = cli.read("mine/golden.toml").replace("default = 0.02", "default = 0.5");
    let golden = golden.replace("p95_ttft_ms = 0.05", "p95_ttft_ms = 0.5");
    let cli = cli
        .file("mine/golden.toml", golden)
        .file("mine/one.toml", SCENARIO.replace("base_us = 1000.0", "base_us = 1030.0"));
    cli.words("check mine").expect_exit(0).stdout_has("worse, within tolerance");
    cli.words("check mine --update").expect_exit(0);
    assert!(cli.read("mine/golden.toml").contains("default = 0.5"));
}

#[test]
fn scenarios_that_come_and_go_fail_until_they_are_recorded() {
    let cli = recorded().file("mine/three.toml", SCENARIO);
    cli.words("check mine").expect_exit(1).stdout_has("UNKNOWN    three");
    std::fs::remove_file(cli.path("mine/two.toml")).unwrap();
    cli.words("check mine").expect_exit(1).stdout_has("recorded, and there is no such scenario");
    cli.words("check mine --update").expect_exit(0);
    cli.words("check mine").expect_exit(0).stdout_has("2 as recorded");
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let cli = Cli::new()
        .file("empty/readme.txt", "nothing")
        .file("new/s.toml", SCENARIO)
        .file("bad/s.toml", SCENARIO)
        .file("bad/golden.toml", "[tolerances]\ndefault = -1.0\n")
        .file("broken/s.toml", "name = 1\n");
    for (words, message) in [
        ("absent", "absent: "),
        ("empty", "empty: holds no scenario files"),
        ("new/s.toml", "new/s.toml: is a file; give the folder of the scenarios"),
        ("new", "new/golden.toml: is missing; `servecast check new --update` records it"),
        ("bad", "bad/golden.toml: tolerances.default: must be 0 or more, or inf, got -1"),
        ("broken --update", "broken/s.toml: "),
        ("--update", "FOLDER"),
        ("--filter nothing", "--filter nothing: no scenario has such a name"),
        ("new --update --exact", "cannot be used with"),
    ] {
        let ran = cli.words(&format!("check {words}"));
        ran.expect_exit(2).stdout_is_empty().stderr_has(message);
    }
}
