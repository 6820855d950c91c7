//! `servecast explain`.

use serde_json::Value;

use super::{Cli, SCENARIO};

const VARIANT: &str = "\n[[variants]]\nname = \"slow\"\n\
    set = { \"cluster.step_time\" = { type = \"linear\", base_us = 4000.0, prefill_token_us = 4.0, decode_seq_us = 40.0 } }\n";

fn answer(cli: &Cli, words: &str) -> Value {
    let ran = cli.words(&format!("explain {words} --format json")).expect_exit(0);
    serde_json::from_str(&ran.stdout()).unwrap()
}

#[test]
fn the_words_say_who_where_and_what() {
    let text = Cli::with_scenario().words("explain s.toml").expect_exit(0);
    text.stdout_has("with 100 prompt tokens. Its answer has 10 tokens.")
        .stdout_has("It is at the P99 of E2E among 20 requests.")
        .stdout_has("to the first token")
        .stdout_has("100.0 %")
        .stdout_has("10 % fewer requests per second")
        .stdout_has("No difference found: ");
    let all = Cli::with_scenario().words("explain s.toml --all").expect_exit(0).stdout();
    assert!(!all.contains("No difference found"), "{all}");
    assert!(all.contains("max_num_seqs 1024 → 2048"), "{all}");
}

#[test]
fn the_first_line_says_which_slo_is_missed() {
    let cli = Cli::with_scenario();
    let first = |words: &str| {
        let printed =
            cli.words(&format!("explain s.toml --seeds 0 {words}")).expect_exit(0).stdout();
        printed.lines().next().unwrap_or_default().to_owned()
    };
    let missed = "--set report.goodput.ttft=0.5 --set report.goodput.e2el=100000";
    let told = "20 of 20 requests miss the SLO of TTFT, 0.5 ms; no other SLO is missed more often.";
    assert_eq!(first(missed), told);
    assert!(first(&format!("{missed} --metric e2el")).starts_with("Request "));
    let told = "All 20 requests meet the SLO of E2E, 100000 ms.";
    assert_eq!(first("--set report.goodput.e2el=100000"), told);
}

#[test]
fn the_parts_of_the_json_add_up() {
    let found = answer(&Cli::with_scenario(), "s.toml 3 --metric ttft");
    let one = &found["request"];
    assert_eq!((&one["request"], &found["metric"]), (&3.into(), &"ttft".into()));
    let parts = one["parts"].as_array().unwrap();
    let sum: f64 = parts.iter().map(|part| part["ms"].as_f64().unwrap()).sum();
    assert!((sum - one["e2e_ms"].as_f64().unwrap()).abs() < 1e-6, "{one:#}");
    let changes = found["ranking"]["changes"].as_array().unwrap();
    assert!(changes.iter().any(|one| one["set"][0] == "cluster.replicas=2"), "{changes:#?}");
    assert!(found["ranking"]["less_load"]["is_load"].as_bool().unwrap());
    assert!(answer(&Cli::with_scenario(), "s.toml --seeds 0")["ranking"].is_null());
}

#[test]
fn the_folder_of_a_run_is_as_good_as_its_scenario() {
    let engine = "engine = { type = \"vllm_v1\" }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{engine}"));
    cli.words("run s.toml --seed 7 --output-dir out").expect_exit(0);
    assert_eq!(answer(&cli, "out"), answer(&cli, "s.toml --seed 7"));
    assert_ne!(answer(&cli, "out --seed 8"), answer(&cli, "out"));
}

#[test]
fn of_several_scenarios_one_is_chosen() {
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{VARIANT}"));
    let [own, slow] =
        ["s.toml --seeds 0", "s.toml --seeds 0 --only sl*"].map(|words| answer(&cli, words));
    assert_eq!((&own["scenario"], &slow["scenario"]), (&"small".into(), &"slow".into()));
    cli.words("run s.toml --output-dir out").expect_exit(0);
    cli.words("explain out")
        .expect_exit(2)
        .stderr_has("out: holds several runs; give the folder of one: ");
    assert_eq!(answer(&cli, "out/slow --seeds 0"), slow);
    cli.words("explain s.toml --only none")
        .expect_exit(2)
        .stderr_has("no scenario is called `none`");
}

/// A trace of bursts that a replica is slow to serve, with lengths that go up and down.
fn played(rows: u64) -> Cli {
    let row = |k: u64| {
        let at_s = (k / 8) as f64 * 0.016;
        format!("{at_s},{},{}\n", 100 + 37 * k % 900, 2 + 7 * k % 10)
    };
    let rows: String = (0..rows).map(row).collect();
    let (head, rest) = SCENARIO.split_once("[workload]").unwrap();
    let (_, cluster) = rest.split_once("[cluster]").unwrap();
    let trace = "[trace]\npath = 'trace.csv'\nformat = 'csv'\n[workload]\narrivals = { type = 'trace' }\n\
                 lengths = { type = 'trace' }\n";
    Cli::new()
        .file("t.toml", format!("{head}{trace}[cluster]{cluster}"))
        .file("trace.csv", format!("arrival_s,prompt_tokens,output_tokens\n{rows}"))
}

#[test]
fn a_trace_is_resampled_so_that_changes_have_intervals() {
    let cli = played(960);
    let found = answer(&cli, "t.toml --metric ttft --percentile 50 --seeds 8");
    let ranking = &found["ranking"];
    assert_eq!(ranking["is_resampled"], true);
    let changes = ranking["changes"].as_array().unwrap();
    let better: Vec<&Value> =
        changes.iter().filter(|one| one["verdict_of_all_together"] == "better").collect();
    assert!(better.len() > 1, "{changes:#?}");
    for (place, one) in better.iter().enumerate() {
        // Better rows come first, the largest difference before the others, each with its interval.
        assert_eq!(*one, &changes[place]);
        let number = |one: &Value, key: &str| one[key].as_f64().unwrap();
        let (difference, half_width) = (number(one, "difference_ms"), number(one, "half_width_ms"));
        assert!(half_width > 0.0 && difference + half_width < 0.0, "{one:#}");
        assert_eq!(one["is_behind_first"].is_null(), place == 0, "{one:#}");
        if place > 0 {
            assert!(number(better[place - 1], "difference_ms") <= difference, "{one:#}");
        }
    }
    let text = cli.words("explain t.toml --metric ttft --percentile 50 --seeds 8").expect_exit(0);
    text.stdout_has("(8 seeds, stretches resampled from the trace; ");
    // What compare finds of the first change over the same seeds.
    let first = better[0];
    let set = first["set"][0].as_str().unwrap();
    let (path, value) = set.split_once('=').unwrap();
    let variant = format!("\n[[variants]]\nname = \"changed\"\nset = {{ \"{path}\" = {value} }}\n");
    let both = std::fs::read_to_string(cli.path("t.toml")).unwrap() + &variant;
    let cli = cli.file("both.toml", both);
    let words = "compare both.toml --seeds 8 --metric median_ttft_ms --format json";
    let compared: Value = serde_json::from_str(&cli.words(words).expect_exit(0).stdout()).unwrap();
    let figure = &compared["comparisons"][0]["figures"][0];
    for (own, other) in
        [("difference_ms", "difference"), ("half_width_ms", "difference_half_width")]
    {
        let [own, other] = [&first[own], &figure[other]].map(|value| value.as_f64().unwrap());
        assert!((own / other - 1.0).abs() < 0.05, "{own} {other}");
    }
}

#[test]
fn a_trace_as_it_was_recorded_says_nothing_of_other_traffic() {
    let cli = played(960);
    let found = answer(&cli, "t.toml --point --seeds 3");
    assert_eq!(found["ranking"]["is_resampled"], false);
    let told = "no seed changes these requests: it says nothing of others";
    cli.words("explain t.toml --point --seeds 3").expect_exit(0).stdout_has(told);
    // Of a short trace there is no other stretch.
    played(20).words("explain t.toml --seeds 3").expect_exit(0).stdout_has(told);
}

#[cfg(feature = "plot")]
#[test]
fn the_figure_shows_the_request_above_the_median() {
    let cli = Cli::with_scenario();
    let ran = cli.words("explain s.toml --seeds 0 --output why.svg").expect_exit(0);
    ran.stderr_has("figure in why.svg");
    let svg = cli.read("why.svg");
    let found = answer(&cli, "s.toml --seeds 0");
    for text in [
        format!("request {}", found["request"]["request"]),
        format!("request {} (median)", found["median"]["request"]),
        "Where the time went".to_owned(),
        "prefill".to_owned(),
        "decode".to_owned(),
    ] {
        assert!(svg.contains(&text), "{text}");
    }
    // Nothing is left behind where nothing is found.
    cli.words("explain s.toml 20 --output no.svg").expect_exit(2);
    assert!(!cli.path("no.svg").exists());
    cli.words("explain s.toml --output no/why.svg").expect_exit(2);
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let cli = Cli::with_scenario();
    std::fs::create_dir(cli.path("empty")).unwrap();
    for (words, told) in [
        ("s.toml 20", "request 20: the run has 20 requests, numbered from 0"),
        ("s.toml -- -1", "invalid value '-1'"),
        ("s.toml --percentile 0", "--percentile: must be within 1 and 100, got 0"),
        ("s.toml --percentile nan", "--percentile: must be within 1 and 100"),
        ("s.toml --percentile 0.99", "must be within 1 and 100, got 0.99; 99 means P99"),
        ("s.toml --seeds 1", "--seeds: must be 0 or from 3 to 1000, got 1"),
        ("s.toml --metric itl", "invalid value 'itl'"),
        ("empty", "empty: holds no scenario.resolved.toml"),
        ("absent.toml", "absent.toml"),
        (
            "s.toml 0 --metric tpot --set workload.lengths.output_tokens=1",
            "no time per output token",
        ),
    ] {
        cli.words(&format!("explain {words}")).expect_exit(2).stderr_has(told).stdout_is_empty();
    }
    // Nobody is answered: the run failed.
    let none = "explain s.toml --set workload.client.timeout_s=0.001";
    cli.words(none).expect_exit(1).stderr_has("no request of the run has E2E");
}

/// What the page shows is what its first command prints.
#[cfg(unix)]
#[test]
fn the_page_shows_what_is_printed() {
    use super::documents::{commands, root, words};
    let page = root().join("docs/explain.md");
    let cli = Cli::new();
    std::os::unix::fs::symlink(root().join("scenarios"), cli.path("scenarios")).unwrap();
    let command = commands(&page).remove(0);
    let ran = cli.run(words(&command)[1..].iter().map(String::as_str)).expect_exit(0);
    let printed = ran.stdout();
    let text = std::fs::read_to_string(&page).unwrap();
    let blocks = text.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| *line != "...").collect();
    assert!(lines.len() > 15, "{lines:?}");
    for line in lines {
        assert!(printed.lines().any(|own| own == line), "`{line}` is not in\n{printed}");
    }
}
