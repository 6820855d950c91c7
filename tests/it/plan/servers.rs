//! Servers of which nothing is said: plans buy for slow ones, and runs simulate those too.

use serde_json::Value;

use super::{STUDY, plan};
use crate::cli::Cli;

fn unstated() -> Cli {
    Cli::new().file("study.toml", STUDY.replace("host = \"none\"\n", ""))
}

const SLOS: [&str; 6] =
    ["--slo", "p99_ttft_ms<=400", "--slo", "p99_tpot_ms<=40", "--resamples", "0"];

fn number(answer: &Value, path: &str) -> f64 {
    answer.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {answer:#}"))
}

/// The figures of a run on so many replicas.
fn run(replicas: f64, servers: &str) -> Value {
    let replicas = format!("cluster.replicas={replicas}");
    let more = ["--no-files", "--format", "json", "--set", &replicas, "--servers", servers];
    let ran = unstated().run([&["run", "study.toml"], &more[..]].concat());
    serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap()
}

/// A figure of a run, under whatever key that holds the figures of the benchmark.
fn figure(run: &Value, name: &str) -> f64 {
    let at = run.pointer(&format!("/benchmark/{name}")).or_else(|| run.get(name));
    at.and_then(Value::as_f64).unwrap_or_else(|| panic!("{name}: {run:#}"))
}

#[test]
fn runs_show_the_servers_that_a_plan_buys_for_and_typical_ones() {
    let answer = plan(&unstated(), &[&SLOS[..], &["--warm-up", "counts"]].concat());
    let replicas = number(&answer, "/layouts/0/replicas/0");
    for (servers, at) in [("slow", "/layouts/0/slos"), ("typical", "/typical_servers/slos")] {
        let run = run(replicas, servers);
        for (place, name) in ["p99_ttft_ms", "p99_tpot_ms"].into_iter().enumerate() {
            let planned = number(&answer, &format!("{at}/{place}/value"));
            let simulated = figure(&run, name);
            assert!(
                (planned / simulated - 1.0).abs() < 0.02,
                "{servers}: {name} {planned} in the plan, {simulated} in the run"
            );
        }
    }
}

#[test]
fn the_first_lines_of_a_plan_tell_slow_servers_from_typical_ones() {
    let answer = plan(&unstated(), &SLOS);
    let lines: Vec<&str> =
        answer["verdict"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let (slow, typical) = (number(&answer, "/layouts/0/replicas/0"), &answer["typical_servers"]);
    assert!(lines[0].starts_with(&format!("Cheapest: {slow} x ")), "{lines:#?}");
    assert!(lines[0].ends_with(", on servers slower than 19 of 20 like them"), "{lines:#?}");
    let needed = format!("Typical servers would need {} x ", number(typical, "/replicas/0"));
    assert!(lines[1].starts_with(&needed), "{lines:#?}");
    assert!(lines[2].contains("; on typical servers "), "{lines:#?}");
    // Of measured servers there is one answer.
    let measured = plan(&unstated(), &[&SLOS[..], &["--set", "cluster.host=none"]].concat());
    let text = measured["verdict"].to_string();
    assert!(!text.contains("typical") && !text.contains("Typical"), "{text}");
}

#[test]
fn a_plan_names_the_layout_that_would_be_cheapest_if_all_servers_were_typical() {
    // Slow servers with GPUs that nobody measured are five times as slow as typical ones, others less than twice.
    let prices = |usd: &str| {
        let gpus = ["--gpu", "H100,MI300X", "--price", "H100=2", "--price", usd].map(str::to_owned);
        let words: Vec<&str> = gpus.iter().map(String::as_str).collect();
        plan(&unstated(), &[&SLOS[..], &words].concat())
    };
    let (mut same, mut other) = (0, 0);
    for usd in ["MI300X=0.4", "MI300X=0.8", "MI300X=1.2", "MI300X=1.6", "MI300X=2"] {
        let answer = prices(usd);
        let typical = &answer["typical_servers"];
        let cheapest = &typical["cheapest"];
        let verdict = answer["verdict"].to_string();
        // It is that of a plan for typical servers.
        let gpus = ["--gpu", "H100,MI300X", "--price", "H100=2", "--price", usd, "--point"];
        let point = plan(&unstated(), &[&SLOS[..], &gpus].concat());
        let best = &point["layouts"][0];
        for key in ["replicas", "usd_per_hour"] {
            assert_eq!(cheapest[key], best[key], "{usd}: {answer:#}");
        }
        assert_eq!(cheapest["layout"], best["layout"], "{usd}");
        if cheapest["layout"] == answer["layouts"][0]["layout"] {
            same += 1;
            assert_eq!(cheapest["usd_per_hour"], typical["usd_per_hour"]);
            assert!(verdict.contains("Typical servers would need "), "{verdict}");
            assert!(!verdict.contains("If all servers were typical"), "{verdict}");
        } else {
            other += 1;
            assert!(verdict.contains("Typical servers of this layout would need "), "{verdict}");
            let told = format!(
                "If all servers were typical, the cheapest would be {} x ",
                number(cheapest, "/replicas/0")
            );
            assert!(verdict.contains(&told), "{verdict}");
        }
    }
    assert!(same > 0 && other > 0, "{same} {other}");
    let rates = plan(&unstated(), &[&SLOS[..], &["--rate", "--gpu", "H100,L40S"]].concat());
    let told = "Typical servers of this layout would carry ";
    assert!(rates["verdict"].to_string().contains(told), "{rates:#}");
}

#[test]
fn a_run_says_which_servers_it_simulates() {
    let text = |arguments: &[&str]| {
        let ran = unstated().run([&["run", "study.toml", "--no-files"], arguments].concat());
        ran.expect_exit(0).stderr()
    };
    let usual = text(&[]);
    assert!(usual.contains("`servecast plan` buys for those slower than 19 of 20"), "{usual}");
    assert!(usual.contains("`--servers slow` simulates"), "{usual}");
    assert!(usual.contains("90 % of servers of dense models have: "), "{usual}");
    let slow = text(&["--servers", "slow"]);
    assert!(slow.contains("as on a server slower than 19 of 20 in published runs"), "{slow}");
    assert!(!slow.contains("90 % of servers") && !slow.contains("--servers slow"), "{slow}");
    let known = text(&["--set", "cluster.host=none"]);
    assert!(!known.contains("servecast plan"), "{known}");
}

#[test]
fn slow_servers_are_refused_where_nothing_is_assumed_of_them() {
    let calibration =
        concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/calibrations/residency-qwen3-14b-h100.toml");
    for (arguments, reason) in [
        (&["--set", "cluster.host=none"][..], "`cluster.host = \"none\"` turns that off"),
        (&["--calibration", calibration], "their parameters come from a calibration"),
        (
            &["--set", "cluster.step_time.calibration.head=1.1"],
            "`cluster.step_time` says how long steps take",
        ),
    ] {
        for command in ["run", "compare"] {
            if command == "compare" && arguments[0] == "--calibration" {
                continue;
            }
            let files: &[&str] =
                if command == "run" { &["study.toml"] } else { &["study.toml", "study.toml"] };
            let ran = unstated()
                .run([&[command], files, arguments, &["--servers", "slow"]].concat())
                .expect_exit(2)
                .stdout_is_empty();
            let words = "--servers: slow: nothing is assumed of the servers of `study`: ";
            assert!(ran.stderr().contains(words), "{}", ran.stderr());
            assert!(ran.stderr().contains(reason), "{}", ran.stderr());
        }
    }
}

#[test]
fn of_the_folder_of_a_run_slow_servers_are_refused_with_what_simulates_them() {
    let cli = unstated();
    let groups =
        "[[cluster.groups]]\nreplicas = 1\n[[cluster.groups]]\ngpu = \"A100\"\nreplicas = 1\n";
    let study = STUDY.replace("host = \"none\"\n", "");
    let cli = cli.file("groups.toml", format!("{study}{groups}"));
    let auto = "={ type = \"auto\" }";
    for (file, paths) in [
        ("study.toml", &["cluster.step_time"][..]),
        ("groups.toml", &["cluster.groups[0].step_time", "cluster.groups[1].step_time"]),
    ] {
        cli.run(["run", file, "--output-dir", "out", "--overwrite"]).expect_exit(0);
        let figures = |words: &[&str]| -> Value {
            let ran = cli.run([words, &["--no-files", "--format", "json"]].concat());
            let found: Value = serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap();
            found["benchmark"].clone()
        };
        // The folder is as good as its file.
        assert_eq!(figures(&["run", "out"]), figures(&["run", file]));
        let quoted: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
        let told = format!("{} say", quoted.join(" and "));
        let ran = cli.run(["run", "out", "--servers", "slow"]).expect_exit(2);
        ran.stdout_is_empty()
            .stderr_has("--servers: slow: nothing is assumed of the servers of `study`: ")
            .stderr_has(&told)
            .stderr_has("to `{ type = \"auto\" }`");
        let set = paths.iter().flat_map(|path| ["--set".to_owned(), format!("{path}{auto}")]);
        let words: Vec<String> = ["run", "out", "--servers", "slow"].map(str::to_owned).into();
        let words: Vec<String> = words.into_iter().chain(set).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(figures(&words), figures(&["run", file, "--servers", "slow"]));
    }
}

#[test]
fn seeds_keep_the_servers_that_are_asked_for() {
    let ran = unstated().run([
        "run",
        "study.toml",
        "--no-files",
        "--servers",
        "slow",
        "--seeds",
        "3",
        "--format",
        "json",
    ]);
    let told: Value = serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap();
    assert!(told.to_string().contains("\"servers_drawn\":false"), "{told:#}");
}

#[test]
fn a_comparison_takes_the_servers_too() {
    let compared = |servers: &str| -> f64 {
        let ran = unstated().run([
            "compare",
            "study.toml",
            "study.toml",
            "--seeds",
            "3",
            "--metric",
            "mean_tpot_ms",
            "--servers",
            servers,
            "--format",
            "json",
        ]);
        let told: Value = serde_json::from_str(&ran.expect_exit(0).stdout()).unwrap();
        number(&told, "/comparisons/0/figures/0/a")
    };
    assert!(compared("fast") < compared("typical") && compared("typical") < compared("slow"));
}

#[test]
fn where_slow_servers_never_do_the_typical_ones_are_told() {
    // Between what a request alone takes on a typical server and on a slow one.
    let alone = |servers| figure(&run(64.0, servers), "p99_ttft_ms");
    let between = f64::midpoint(alone("typical"), alone("slow"));
    let slo = format!("p99_ttft_ms<={between}");
    let arguments = ["plan", "study.toml", "--slo", &slo, "--resamples", "0", "--max-gpus", "80"];
    let said = unstated().run(arguments).expect_exit(1).stdout();
    assert!(said.contains("No layout meets all SLOs on servers slower than"), "{said}");
    let line = said.lines().find(|line| line.starts_with("If all servers were typical, "));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let pinned = [&arguments[..], &["--point"]].concat();
    let pinned = unstated().run(pinned).expect_exit(0).stdout();
    let cheapest = pinned.lines().find_map(|line| line.strip_prefix("Cheapest: ")).unwrap();
    let cluster = cheapest.split(" USD/h").next().unwrap();
    assert!(line.contains(cluster), "{line} beside {cheapest}");
    let none = ["plan", "study.toml", "--slo", "p99_ttft_ms<=1", "--resamples", "0"];
    let said = unstated().run([&none[..], &["--max-gpus", "4"]].concat()).expect_exit(1).stdout();
    assert!(said.contains("None does on typical servers either."), "{said}");
}

#[test]
fn a_layout_that_is_larger_than_allowed_says_so() {
    let few = ["plan", "study.toml", "--tp", "4", "--max-gpus", "2", "--resamples", "0"];
    let said = unstated().run([&few[..], &SLOS[..4]].concat()).expect_exit(1).stdout();
    let told = "its smallest cluster has 4 GPUs, more than the 2 that are allowed (--max-gpus)";
    assert!(said.contains(told) && !said.contains("None does on typical servers"), "{said}");
}
