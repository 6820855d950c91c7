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

/// Prompts that begin alike, on replicas that may keep what they computed.
const SHARED: &str = r#"
name = "spread"
[workload]
num_requests = 60
arrivals = { type = "poisson", rate_per_s = 20.0 }
[workload.lengths]
type = "generated_shared_prefix"
groups = 6
prompts_per_group = 10
system_prompt_tokens = 512
question_tokens = 64
output_tokens = 16
[cluster]
model = "Qwen/Qwen2.5-7B"
gpu = "H100"
replicas = 3
router = { type = "random" }
step_time = { type = "linear", base_us = 2000.0, prefill_token_us = 10.0, decode_seq_us = 50.0 }
[[variants]]
name = "by prefix"
set = { "cluster.router" = { type = "prefix_aware" } }
[[variants]]
name = "by load"
set = { "cluster.router" = { type = "least_outstanding_requests" } }
"#;

#[test]
fn hit_rates_of_prefix_caches_are_told_where_there_are_some_and_judged_where_that_is_asked() {
    let cli = Cli::new().file("s.toml", SHARED).file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let told = cli.words("compare s.toml --seeds 4").expect_exit(0).stdout();
    // Of each of two pairs, and of all beside each other.
    assert_eq!(told.matches("Cache hit rate (%)").count(), 3, "{told}");
    assert!(!told.contains("Cache hit rate by") && !told.contains("in Cache hit rate"), "{told}");
    let count = |words: &str| {
        let told = cli.words(words).expect_exit(0).stdout();
        let line = told.lines().find(|line| line.contains(" differences together"));
        line.expect("it is there").to_owned()
    };
    assert!(count("compare s.toml --seeds 4").starts_with("All 14 "), "seven of each");
    let judged = cli.words("compare s.toml --seeds 4 --metric cache_hit_rate").expect_exit(0);
    judged.stdout_has("B raises Cache hit rate by");
    let without = cli.words("compare d.toml --seeds 3").expect_exit(0).stdout();
    assert!(!without.contains("Cache hit rate"), "{without}");
    let switched_off = "compare s.toml --seeds 3 --set cluster.engine={type=\"vllm_v1\",enable_prefix_caching=false}";
    let ran = cli.words(switched_off).expect_exit(0).stdout();
    assert!(!ran.contains("Cache hit rate"), "{ran}");
}

#[test]
fn a_page_tells_hit_rates_beside_what_is_judged() {
    let cli = Cli::new().file("s.toml", SHARED);
    cli.words("compare s.toml --only spread --only *prefix --seeds 3 --output-dir out")
        .expect_exit(0);
    cli.words("report out").expect_exit(0);
    let page = cli.read("out/report.html");
    let (judged, others) = page.split_once("All other figures").expect("both are there");
    assert!(judged.contains("Cache hit rate (%)"), "{judged}");
    assert!(!others.contains("Cache hit rate (%)"), "{others}");
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
    for (meant, near) in [("twice as fats", "twice as fast"), ("again", "twice as fast again")] {
        let near = format!("`twice as fast again`; did you mean `{near}`?");
        cli.run(["compare", "d.toml", "--only", meant]).expect_exit(2).stderr_has(&near);
    }
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
        .stderr_has("--metric: p42_ttft_ms: is not a figure that every run has; did you mean `p9");
    cli.words("compare d.toml --seeds 3 --metric p99_ttft")
        .expect_exit(2)
        .stderr_has("is not a figure that every run has; did you mean `p99_ttft_ms`?");
    cli.words("compare d.toml --seeds 3 --metric nothing_like_it")
        .expect_exit(2)
        .stderr_has("is not a figure that every run has, such as arrived, ");
}

#[test]
fn a_figure_that_no_run_can_have_is_refused_before_anything_runs() {
    let [first, last] = ["chat", "batch"]
        .map(|name| format!("[[workload.classes]]\nname = \"{name}\"\nshare = 0.5\n"));
    let classes = DRAWN.replace("[workload.lengths]", &format!("{first}{last}[workload.lengths]"));
    let cli = Cli::new()
        .file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"))
        .file("c.toml", format!("{classes}{TWICE_AS_FAST}"));
    for (words, told) in [
        (
            "d.toml --metric steps,p99_ttft",
            "--metric: p99_ttft: is not a figure that every run has; did you mean `p99_ttft_ms`?",
        ),
        (
            "d.toml --metric chat.p99_ttft_ms",
            "--metric: chat.p99_ttft_ms: is not a figure that every run has",
        ),
        ("c.toml --metric chat.p99_tftt_ms", "did you mean `chat.p99_ttft_ms`?"),
        // One of them has no classes.
        ("c.toml d.toml --metric chat.p99_ttft_ms", "is not a figure that every run has"),
    ] {
        let ran = cli.words(&format!("compare {words} --seeds 3 --output-dir out")).expect_exit(2);
        assert!(!ran.stderr().contains("comparing A"), "{}", ran.stderr());
        ran.stderr_has(told).stdout_is_empty();
        assert!(!cli.path("out").exists());
    }
    let found = compared(&cli, "c.toml --seeds 3 --metric chat.p99_ttft_ms,batch.finished");
    assert_eq!(found["comparisons"][0]["figures"].as_array().unwrap().len(), 2);
    // Whether a run has one that some have is seen when it ran.
    let ran = cli.words("compare d.toml --seeds 3 --metric cost_usd").expect_exit(2);
    ran.stderr_has("comparing A").stderr_has("cost_usd: is not a figure that every run has");
}

#[test]
fn what_is_compared_is_said_first() {
    let cli = Cli::new().file("d.toml", format!("{DRAWN}{TWICE_AS_FAST}"));
    let said = "comparing A  drawn with B  twice as fast: ";
    let ran = cli.words("compare d.toml --seeds 3").expect_exit(0);
    ran.stderr_has(&format!("{said}3 seeds each, 6 runs\n"));
    let ran = cli.words("compare d.toml --seeds 3..5 --within 0.1%").expect_exit(0);
    ran.stderr_has(&format!("{said}3 to 5 seeds each, 6 to 10 runs\n"));
    let quiet = cli.words("compare d.toml --seeds 3 --quiet").expect_exit(0);
    assert_eq!(quiet.stderr(), "");
}

/// A trace of a request every 50 ms, in bursts of four, with lengths that go up and down.
fn trace(requests: u64) -> String {
    let row = |k: u64| {
        let at_s = (k / 4) as f64 * 0.2;
        format!("{at_s},{},{}\n", 100 + 37 * k % 900, 5 + 11 * k % 60)
    };
    let rows: String = (0..requests).map(row).collect();
    format!("arrival_s,prompt_tokens,output_tokens\n{rows}")
}

/// It is played by one engine, and by one twice as fast.
fn played() -> String {
    let (head, rest) = DRAWN.split_once("[workload]").unwrap();
    let (_, cluster) = rest.split_once("[cluster]").unwrap();
    format!(
        "{head}[trace]\npath = 'trace.csv'\nformat = 'csv'\n[workload]\narrivals = {{ type = 'trace' }}\n\
         lengths = {{ type = 'trace' }}\n[cluster]{cluster}{TWICE_AS_FAST}"
    )
}

#[test]
fn stretches_of_a_trace_are_resampled_so_that_differences_have_intervals() {
    let cli = Cli::new().file("d.toml", played()).file("trace.csv", trace(400));
    let found = compared(&cli, "d.toml --seeds 5");
    assert_eq!(
        (&found["is_resampled"], &found["is_without_chance"]),
        (&true.into(), &false.into())
    );
    let mean = figure(&found["comparisons"][0], "mean_ttft_ms");
    assert!(mean["difference_half_width"].as_f64().unwrap() > 0.0, "{mean}");
    assert_eq!(mean["verdict_of_all_together"], "better", "{mean}");
    cli.words("compare d.toml --seeds 5")
        .expect_exit(0)
        .stdout_has("Each seed sends a stretch resampled from the trace;");
    // Pairs have the same stretch: a scenario against itself is identical.
    let own = compared(&cli, "d.toml d.toml --only drawn --seeds 3");
    for figure in own["comparisons"][0]["figures"].as_array().unwrap() {
        assert_eq!(figure["verdict"], "identical");
    }
    // A stretch is as long as what is played of the trace, and no other part of it.
    for part in ["num_requests=100", "duration_s=5", "arrivals.window_end_s=5"] {
        let words = format!("d.toml --seeds 3 --set workload.{part} --metric arrived");
        let part = compared(&cli, &words);
        let arrived = figure(&part["comparisons"][0], "arrived")["a"].as_f64().unwrap();
        assert!((80.0..120.0).contains(&arrived), "{words}: {arrived}");
        assert_eq!(part["is_resampled"], true, "{words}");
    }
    // What is not of the trace is drawn as before.
    let lengths = "{type=\"fixed\",input_tokens=100,output_tokens=9}";
    let set = format!("workload.lengths={lengths}");
    let words = [
        "compare",
        "d.toml",
        "--seeds",
        "3",
        "--format",
        "json",
        "--set",
        &set,
        "--set",
        "workload.num_requests=100",
    ];
    let other: Value = serde_json::from_str(&cli.run(words).expect_exit(0).stdout()).unwrap();
    assert_eq!(other["is_resampled"], false);
}

#[test]
fn a_trace_as_it_was_recorded_says_nothing_of_other_traffic() {
    let cli = Cli::new().file("d.toml", played()).file("trace.csv", trace(400));
    let words = "compare d.toml --seeds 3 --point --output-dir out";
    let ran = cli.words(words).expect_exit(0);
    let ran = ran.stdout_has("Nothing in these runs is drawn");
    let ran = ran.stdout_has("\nOf these requests alone:\n");
    assert!(!ran.stdout().contains('±'), "{}", ran.stdout());
    let arrived = compared(&cli, "d.toml --seeds 3 --point --metric arrived");
    assert_eq!(figure(&arrived["comparisons"][0], "arrived")["a"], 400.0);
    cli.words("report out").expect_exit(0);
    let page = cli.read("out/report.html");
    for told in
        ["Of these requests alone", "for these requests", "none: nothing in these runs is drawn"]
    {
        assert!(page.contains(told), "{told}");
    }
    for untold in ["by itself", "among all", "hold the truth", "±"] {
        assert!(!page.contains(untold), "{untold}");
    }
    // Of a short trace there is no other stretch.
    let cli = Cli::new().file("d.toml", played()).file("trace.csv", trace(20));
    cli.words("compare d.toml --seeds 3")
        .expect_exit(0)
        .stdout_has("Nothing in these runs is drawn");
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
        ("s.toml s.toml --seeds 9..5", "MAX must be from 9 to 100000, got 5"),
        ("s.toml s.toml --seeds few", "`few` is not a number of seeds"),
        ("s.toml s.toml --within 0", "must be more than 0"),
        ("s.toml s.toml --overwrite", "--output-dir"),
        ("", "SCENARIOS"),
    ] {
        let ran = cli.words(&format!("compare {words}"));
        ran.expect_exit(2).stdout_is_empty().stderr_has(message);
    }
}
