//! `servecast compare`.

use serde_json::Value;

use super::{Cli, SCENARIO, names};

/// Random lengths, so that figures vary with the seed, and half the speed of the engine as a variant.
const DRAWN: &str = r#"
name = "drawn"
[workload]
num_requests = 30
arrivals = { type = "poisson", rate_per_s = 40.0 }
[workload.lengths]
type = "sampled"
input_tokens = { type = "log_normal", median_tokens = 200.0, sigma = 1.0, max_tokens = 2000 }
output_tokens = { type = "uniform", min_tokens = 4, max_tokens = 40 }
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
step_time = { type = "linear", base_us = 2000.0, prefill_token_us = 10.0, decode_seq_us = 50.0 }
"#;

const TWICE_AS_FAST: &str = r#"
[[variants]]
name = "twice as fast"
set = { "cluster.step_time" = { type = "linear", base_us = 1000.0, prefill_token_us = 5.0, decode_seq_us = 25.0 } }
"#;

fn compared(cli: &Cli, words: &str) -> Value {
    let ran = cli.words(&format!("compare {words} --format json")).expect_exit(0);
    serde_json::from_str(&ran.stdout()).unwrap()
}

fn figure<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let figures = comparison["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["metric"] == name).unwrap()
}

#[test]
fn an_engine_twice_as_fast_is_better_by_half() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let found = compared(&cli, "d.toml --seeds 5..40 --within 5%");
    assert_eq!(found["scenarios"][1]["changed"][0], "cluster.step_time.base_us");
    assert!(found["scenarios"][1]["other_requests"].as_array().unwrap().is_empty());
    let one = &found["comparisons"][0];
    for name in ["mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms", "p99_e2el_ms"] {
        let figure = figure(one, name);
        assert_eq!(figure["verdict"], "better", "{figure}");
        assert_eq!(figure["verdict_of_all_together"], "better", "{figure}");
        // Half the step time, and shorter batches on top.
        let change = figure["relative"].as_f64().unwrap();
        assert!((-0.8..-0.5).contains(&change), "{figure}");
    }
    let text = cli.words("compare d.toml --seeds 5..40 --within 5%").expect_exit(0);
    text.stdout_has("B lowers Mean TPOT by ").stdout_has("better in Mean TTFT");
}

#[test]
fn parts_of_the_mean_add_up_to_it() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let found = compared(&cli, "d.toml --seeds 4");
    let one = &found["comparisons"][0];
    let parts = one["mean_e2e_parts"].as_object().unwrap();
    for side in ["a", "b"] {
        let sum: f64 = parts.values().map(|part| part[side].as_f64().unwrap()).sum();
        let mean = figure(one, "mean_e2el_ms")[side].as_f64().unwrap();
        assert!((sum / mean - 1.0).abs() < 1e-9, "{sum} {mean}");
    }
}

#[test]
fn a_scenario_against_itself_is_identical() {
    let cli = Cli::new().file("d.toml", DRAWN);
    let found = compared(&cli, "d.toml d.toml --seeds 3");
    for figure in found["comparisons"][0]["figures"].as_array().unwrap() {
        assert_eq!(figure["verdict"], "identical");
        assert_eq!(figure["p_value"], 1.0);
    }
    cli.words("compare d.toml d.toml --seeds 3")
        .expect_exit(0)
        .stdout_has("differs in nothing")
        .stdout_has("B has the same Mean TTFT in every run (95 %, 3 seeds).");
}

#[test]
fn a_scenario_against_itself_under_other_seeds_is_no_different_in_93_of_100() {
    let cli = Cli::new().file("d.toml", DRAWN);
    let (mut together, mut alone, mut figures) = (0, 0, 0);
    for seed in 0..100 {
        let words = format!("d.toml d.toml --independent --seed {seed} --seeds 5..12 --within 5%");
        let found = compared(&cli, &words);
        let found = found["comparisons"][0]["figures"].as_array().unwrap().clone();
        let alike = |key: &str| {
            let alike = found.iter().filter(|figure| figure[key] == "no difference");
            alike.count()
        };
        together += usize::from(alike("verdict_of_all_together") == found.len());
        alone += alike("verdict");
        figures += found.len();
    }
    assert!(together >= 93, "all together: {together} of 100");
    assert!(alone * 100 >= figures * 93, "each alone: {alone} of {figures}");
}

#[test]
fn seeds_are_added_until_intervals_are_narrow_or_there_are_no_more() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let narrow = compared(&cli, "d.toml --seeds 4..500 --within 10%");
    let seeds = narrow["seeds"].as_u64().unwrap();
    assert!((5..500).contains(&seeds), "{seeds}");
    assert_eq!((narrow["intervals_too_wide"].as_u64(), &narrow["within"]), (Some(0), &0.1.into()));
    for figure in narrow["comparisons"][0]["figures"].as_array().unwrap() {
        assert!(figure["relative_half_width"].as_f64().unwrap() <= 0.1, "{figure}");
    }
    let capped = compared(&cli, "d.toml --seeds 4..6 --within 0.01%");
    assert_eq!(capped["seeds"], 6);
    assert!(capped["intervals_too_wide"].as_u64().unwrap() > 0);
}

#[test]
fn other_requests_and_other_seeds_are_said_loudly() {
    let more = DRAWN
        .replace("rate_per_s = 40.0", "rate_per_s = 20.0")
        .replace("name = \"drawn\"", "name = \"slower\"\nseed = 5");
    let cli = Cli::new().file("a.toml", DRAWN).file("b.toml", more);
    cli.words("compare a.toml b.toml --seeds 3")
        .expect_exit(0)
        .stderr_has("warning: B has other requests than A (workload.arrivals.rate_per_s)")
        .stderr_has("notice: B has seed 5; it is run with that of A, 0")
        .stdout_has("Pairs share the seed and not the requests.");
}

#[test]
fn results_repeat_and_lie_in_their_folder() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let words = "compare d.toml --seeds 3..5";
    let first = cli.words(&format!("{words} --output-dir out")).expect_exit(0).stdout();
    assert_eq!(cli.words(words).expect_exit(0).stdout(), first);
    let mut files =
        vec!["A.resolved.toml", "B.resolved.toml", "compare.json", "run.json", "seeds.csv"];
    if cfg!(feature = "plot") {
        files.insert(3, "figures");
        assert_eq!(names(&cli.path("out/figures")), ["differences.svg", "latencies.svg"]);
    }
    assert_eq!(names(&cli.path("out")), files);
    // A row for each run, under the names of the figures.
    let rows = cli.read("out/seeds.csv");
    let json = cli.read("out/compare.json");
    let seeds = serde_json::from_str::<Value>(&json).unwrap()["seeds"].as_u64().unwrap();
    assert_eq!(rows.lines().count() as u64, 1 + 2 * seeds);
    cli.words(&format!("{words} --output-dir out")).expect_exit(2).stderr_has("is not empty");
    cli.words(&format!("{words} --output-dir out --overwrite")).expect_exit(0);
}

#[test]
fn many_scenarios_stand_beside_each_other_and_some_are_chosen_by_name() {
    let more = TWICE_AS_FAST.replace("twice as fast", "twice as fast again");
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}{more}"));
    let words = "compare d.toml --seeds 3 --metric p99_ttft_ms,cache_hit_rate --output-dir out";
    let table = cli.words(words).expect_exit(0).stdout();
    let (_, table) = table.split_once("# All beside each other\n").expect("three have a table");
    let rows: Vec<&str> = table.lines().take(4).collect();
    assert!(
        rows[0].contains("P99 TTFT (ms)  ") && rows[0].contains("Cache hit rate (%)"),
        "{table}"
    );
    assert!(rows[1].starts_with("A  drawn ") && !rows[1].contains('±'), "{table}");
    assert!(rows[2].contains('±') && rows[3].starts_with("C  twice as fast again"), "{table}");
    if cfg!(feature = "plot") {
        assert!(cli.read("out/figures/scenarios.svg").contains("twice as fast again"));
    }
    let chosen = ["compare", "d.toml", "--seeds", "3", "--only", "*again", "--only", "drawn"];
    cli.run(chosen)
        .expect_exit(0)
        .stdout_has("A  twice as fast again  (baseline)")
        .stdout_has("B  drawn ");
    let absent = ["sweep", "d.toml", "--only", "slow", "--output-dir", "swept"];
    cli.run(absent)
        .expect_exit(2)
        .stderr_has("--only: no scenario is called `slow`; there are `drawn`, `twice as fast`");
    let one = ["sweep", "d.toml", "--only", "drawn", "--seeds", "2", "--output-dir", "swept"];
    cli.run(one).expect_exit(0).stdout_has("1 point with 2 seeds");
}

#[test]
fn figures_are_judged_by_name() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let found = compared(&cli, "d.toml --seeds 3 --metric p90_ttft_ms,steps");
    let judged = found["comparisons"][0]["figures"].as_array().unwrap();
    let names: Vec<&str> = judged.iter().map(|one| one["metric"].as_str().unwrap()).collect();
    assert_eq!(names, ["p90_ttft_ms", "steps"]);
    // More steps are no better or worse.
    assert!(["higher", "lower"].contains(&judged[1]["verdict"].as_str().unwrap()));
    cli.words("compare d.toml --seeds 3 --metric p42_ttft_ms")
        .expect_exit(2)
        .stderr_has("--metric: p42_ttft_ms: is not a figure that every run has, such as arrived");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let cli = Cli::new().file("s.toml", SCENARIO);
    for (words, message) in [
        ("s.toml", "s.toml: has no variants to compare with"),
        ("s.toml absent.toml", "absent.toml"),
        ("s.toml s.toml --confidence 1.5", "must be within 0.5 and 0.9999, got 1.5"),
        ("s.toml s.toml --confidence often", "`often` is not a share"),
        ("s.toml s.toml --seeds 1", "an interval takes at least 3 seeds, got 1"),
        ("s.toml s.toml --seeds 9..5", "MAX must be within 9..=100000, got 5"),
        ("s.toml s.toml --seeds few", "`few` is not a number of seeds"),
        ("s.toml s.toml --within 0", "must be more than 0"),
        ("s.toml s.toml --overwrite", "--output-dir"),
        ("", "SCENARIOS"),
    ] {
        let ran = cli.words(&format!("compare {words}"));
        ran.expect_exit(2).stdout_is_empty().stderr_has(message);
    }
}
