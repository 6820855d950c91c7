//! `servecast run --seeds`.

use serde_json::Value;

use super::Cli;

fn figures(cli: &Cli, words: &str) -> Vec<(String, f64, f64)> {
    let ran = cli.words(&format!("run s.toml --format json {words}")).expect_exit(0);
    let value: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let rows = value["seeds"]["figures"].as_array().unwrap();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    rows.iter()
        .map(|row| {
            let name = row["metric"].as_str().unwrap().to_owned();
            (name, number(row, "mean"), number(row, "within_90_pct"))
        })
        .collect()
}

fn mean_e2e(figures: &[(String, f64, f64)]) -> (f64, f64) {
    let found = figures.iter().find(|(name, ..)| name.starts_with("mean_e2e")).unwrap();
    (found.1, found.2)
}

const CALIBRATION: &str = r#"
servecast = "0.1.0"
fitted_to = ["a run"]
held_out = []
misfit = 1.0
covariance = [[VARIANCE]]
[[parameters]]
path = "cluster.step_time.base_us"
kind = "factor"
centre = 1000.0
spread = 0.1
value = 2000.0
low = 1900.0
high = 2100.0
determined = true
"#;

#[test]
fn what_a_calibration_does_not_know_widens_the_interval() {
    let with = |variance: &str| {
        let file = CALIBRATION.replace("VARIANCE", variance);
        let cli = Cli::with_scenario().file("c.toml", file);
        mean_e2e(&figures(&cli, "--calibration c.toml --seeds 40 --output-dir out"))
    };
    let (sure, narrow) = with("1e-12");
    let (unsure, wide) = with("1.0");
    // Ten steps of 2 ms and 100 prompt tokens of 1 µs; one request in five finds another there and
    // waits for two steps at most. A factor known within 10 % moves them by about 16 % in nine of ten
    // draws.
    assert!((20.19..20.99).contains(&sure), "{sure}");
    assert!((unsure - sure).abs() < 0.1 * sure, "{unsure}");
    assert!(wide > 3.0 * narrow, "{narrow} {wide}");
    assert!((wide / sure - 0.165).abs() < 0.06, "{wide}");
}

#[test]
fn draws_of_a_benchmark_tool_vary_with_the_seed() {
    let lengths =
        "workload.lengths={type=\"vllm_random\",input_tokens=100,output_tokens=10,range_ratio=0.5}";
    let cli = Cli::with_scenario();
    let arguments = ["run", "s.toml", "--no-files", "--seeds", "3", "--set", lengths];
    cli.run(arguments).expect_exit(0).stdout_has("3 runs with other seeds");
}

#[test]
fn seeds_do_not_change_the_run_itself_and_repeat() {
    let cli = Cli::with_scenario();
    let once = cli.words("run s.toml --output-dir a").expect_exit(0).stdout();
    let again = |dir: &str| {
        let words = format!("run s.toml --seeds 5 --output-dir {dir}");
        cli.words(&words).expect_exit(0).stdout()
    };
    let (first, second) = (again("b"), again("c"));
    assert_eq!(first, second);
    assert!(first.starts_with(&once), "{first}");
}

#[test]
fn a_setting_given_by_hand_is_not_drawn() {
    let file = CALIBRATION.replace("VARIANCE", "1.0");
    let cli = Cli::with_scenario().file("c.toml", file);
    let words = "--calibration c.toml --set cluster.step_time.base_us=2000.0 --seeds 20 \
                 --output-dir out";
    let (_, within) = mean_e2e(&figures(&cli, words));
    assert!(within < 1.0, "{within}");
}

#[test]
fn bad_calibrations_are_refused_with_their_place() {
    let broken = CALIBRATION.replace("VARIANCE", "-1.0");
    let cli = Cli::with_scenario().file("c.toml", broken).file("d.toml", "name = 'x'\n");
    for (file, message) in [
        ("c.toml", "c.toml: covariance: must be positive definite"),
        ("d.toml", "d.toml: is not a calibration"),
        ("e.toml", "e.toml: "),
    ] {
        let words = format!("run s.toml --calibration {file}");
        cli.words(&words).expect_exit(2).stdout_is_empty().stderr_has(message);
    }
    cli.words("run s.toml --seeds 2")
        .expect_exit(2)
        .stderr_has("must be a whole number from 3 to 100000");
    let meant =
        "`--set cluster.replicas=4` sets the replicas of the cluster, `--seeds 4` runs with";
    cli.words("run s.toml --replicas 4").expect_exit(2).stdout_is_empty().stderr_has(meant);
}
