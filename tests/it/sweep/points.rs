//! What a sweep says of its points.

use serde_json::Value;

use super::resume::results;
use crate::cli::{Cli, SCENARIO};

/// Rows of `results.csv` by the names of their columns.
pub(super) fn rows(cli: &Cli, folder: &str) -> Vec<Vec<(String, String)>> {
    let text = results(cli, folder);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        let cells = header.iter().zip(record.iter());
        cells.map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect()
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

pub(super) fn cell<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    let found = row.iter().find(|(known, _)| known == name);
    found.map_or_else(|| panic!("no column {name}"), |(_, cell)| cell)
}

fn column<'a>(rows: &'a [Vec<(String, String)>], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| cell(row, name)).collect()
}

#[test]
fn runs_have_the_same_seeds_at_every_point_and_the_first_is_the_run_itself() {
    let cli = Cli::with_scenario();
    let words = "sweep s.toml --vary cluster.replicas=1,2 --seeds 3 --seed 7 --output-dir out";
    cli.words(words).expect_exit(0).stdout_has("small: 2 points with 3 seeds");
    let rows = rows(&cli, "out");
    assert_eq!(column(&rows, "point"), ["0", "0", "0", "1", "1", "1"]);
    assert_eq!(column(&rows, "cluster.replicas"), ["1", "1", "1", "2", "2", "2"]);
    let seeds = column(&rows, "seed");
    assert_eq!(seeds[..3], seeds[3..]);
    assert_eq!(seeds[0], "7");
    assert!(seeds[1] != seeds[0] && seeds[2] != seeds[1]);
    let run = "run s.toml --seed 7 --no-files --format json --set cluster.replicas=2";
    let summary: Value = serde_json::from_str(&cli.words(run).expect_exit(0).stdout()).unwrap();
    let ran = summary["benchmark"]["mean_ttft_ms"].as_f64().unwrap();
    let swept: f64 = cell(&rows[3], "mean_ttft_ms").parse().unwrap();
    assert!((ran - swept).abs() < 1e-9, "{ran} {swept}");
}

/// Step times are shared between runs on replicas of one kind, and only between those.
#[test]
fn every_point_is_the_run_of_its_scenario() {
    let (without, _) = SCENARIO.split_once("step_time").unwrap();
    let cli = Cli::new().file("s.toml", without);
    cli.words(
        "sweep s.toml --vary cluster.gpu=H100,A100-SXM4-80GB --vary cluster.replicas=1,2 \
         --vary cluster.tensor_parallel_size=1,2 --output-dir out",
    )
    .expect_exit(0);
    let figures = ["mean_ttft_ms", "p99_tpot_ms", "mean_itl_ms", "output_throughput"];
    for row in rows(&cli, "out") {
        let settings = ["cluster.gpu", "cluster.replicas", "cluster.tensor_parallel_size"];
        let set = settings.map(|path| format!("--set {path}={}", cell(&row, path))).join(" ");
        let run = format!("run s.toml --set report.format=vllm --no-files --format json {set}");
        let ran: Value = serde_json::from_str(&cli.words(&run).expect_exit(0).stdout()).unwrap();
        for name in figures {
            let swept: f64 = cell(&row, name).parse().unwrap();
            let alone = ran["benchmark"][name].as_f64().unwrap();
            assert!((swept / alone - 1.0).abs() < 1e-9, "{set}: {name} {swept} {alone}");
        }
    }
}

#[test]
fn the_interval_is_that_of_the_seeds() {
    let cli = Cli::with_scenario();
    let words = "sweep s.toml --vary cluster.replicas=1,2 --seeds 4 --output-dir out --format json";
    let report: Value = serde_json::from_str(&cli.words(words).expect_exit(0).stdout()).unwrap();
    let found = &report["points"][0]["figures"]["mean_ttft_ms"];
    let rows = rows(&cli, "out");
    let values: Vec<f64> =
        rows[..4].iter().map(|row| cell(row, "mean_ttft_ms").parse().unwrap()).collect();
    let mean = values.iter().sum::<f64>() / 4.0;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Student's quantile at 3 degrees of freedom.
    let within = 3.182 * (squares / 3.0).sqrt() / 2.0;
    assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((found["within_95_pct"].as_f64().unwrap() / within - 1.0).abs() < 1e-3);
    assert_eq!(report["points"][1]["settings"]["cluster.replicas"], 2);
}

#[test]
fn a_study_file_says_what_varies_and_flags_win_over_it() {
    let study = format!(
        "{SCENARIO}\n[sweep]\nseeds = 2\naxes = [\n  \
         {{ path = \"cluster.replicas\", values = \"1..2\" }},\n  \
         {{ path = \"cluster.router.type\", values = [\"random\", \"round_robin\"] }},\n]\n"
    );
    let cli = Cli::new().file("study.toml", study);
    cli.words("sweep study.toml --output-dir out").expect_exit(0);
    let all = rows(&cli, "out");
    assert_eq!(all.len(), 8);
    assert_eq!(cell(&all[2], "cluster.router.type"), "round_robin");
    let words = "sweep study.toml --seeds 1 --vary cluster.replicas=3 --output-dir out";
    cli.words(words).expect_exit(0);
    assert_eq!(column(&rows(&cli, "out"), "cluster.replicas"), ["3", "3"]);
    for words in ["run study.toml", "calibrate study.toml"] {
        cli.words(words)
            .expect_exit(2)
            .stderr_has("study.toml: sweep: this file describes a study of many runs; run it with `servecast sweep`");
    }
}

#[test]
fn variants_are_points() {
    let variant = "\n[[variants]]\nname = \"two\"\nset = { \"cluster.replicas\" = 2 }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{variant}"));
    cli.words("sweep s.toml --vary workload.arrivals.rate_per_s=2,4 --output-dir out")
        .expect_exit(0);
    let rows = rows(&cli, "out");
    assert_eq!(column(&rows, "variant"), ["small", "small", "two", "two"]);
    let hours = column(&rows, "gpu_hours");
    assert!(hours[2].parse::<f64>().unwrap() > hours[0].parse::<f64>().unwrap());
}

#[test]
fn drawn_designs_run_and_repeat() {
    let cli = Cli::with_scenario();
    for design in ["random", "latin-hypercube"] {
        let sweep = |folder: &str| {
            let words = format!(
                "sweep s.toml --vary workload.arrivals.rate_per_s=1.0..9.0:log --design {design} \
                 --vary cluster.replicas=1..3 --points 6 --output-dir {folder}"
            );
            cli.words(&words).expect_exit(0).stdout()
        };
        let (one, two) = (format!("{design}-1"), format!("{design}-2"));
        assert_eq!(sweep(&one), sweep(&two));
        assert_eq!(results(&cli, &one), results(&cli, &two));
        assert_eq!(rows(&cli, &one).len(), 6);
    }
}

#[test]
fn a_point_that_breaks_a_rule_is_a_row_and_all_of_them_a_failure() {
    let cli = Cli::with_scenario();
    let sizes = |values| {
        format!("sweep s.toml --vary cluster.tensor_parallel_size={values} --output-dir out")
    };
    cli.words(&sizes("1,3"))
        .expect_exit(0)
        .stdout_has("point 1: 1 of 1 failed: s.toml: cluster.tensor_parallel_size: ")
        .stderr_has("1 of 2 runs failed (column `error`)");
    let rows = rows(&cli, "out");
    assert!(cell(&rows[1], "error").contains("must divide 28 heads"));
    assert_eq!((cell(&rows[1], "finished"), cell(&rows[0], "finished")), ("", "20"));
    let journal = cli.read("out/runs.jsonl");
    cli.words(&sizes("1,3")).expect_exit(0).stderr_has("2 runs, 1 of them known before");
    assert_eq!(cli.read("out/runs.jsonl"), journal, "what failed again is not told again");
    cli.words(&sizes("3,5")).expect_exit(2).stderr_has("all 2 runs failed: s.toml: ");
}

#[test]
fn a_changed_design_takes_what_is_known_and_a_changed_file_is_read_again() {
    let scenario = SCENARIO.replace(
        "arrivals = { type = \"poisson\", rate_per_s = 10.0 }",
        "arrivals = { type = \"trace\" }",
    );
    let scenario = scenario
        .replace("num_requests = 20\n", "")
        .replace("[workload]", "trace.path = \"t.csv\"\n[workload]");
    let trace = |rows: &str| format!("arrival_s,prompt_tokens,output_tokens\n0,5,3\n{rows}");
    let cli = Cli::new().file("s.toml", &scenario).file("t.csv", trace("1,5,3\n"));
    let sweep = |replicas: &str| {
        let words = format!("sweep s.toml --vary cluster.replicas={replicas} --output-dir out");
        cli.words(&words).expect_exit(0)
    };
    sweep("1,2").stderr_has("2 runs, 0 of them known before");
    sweep("3,2,1").stderr_has("3 runs, 2 of them known before");
    assert_eq!(column(&rows(&cli, "out"), "cluster.replicas"), ["3", "2", "1"]);
    let cli = cli.file("moved/s.toml", &scenario).file("moved/t.csv", trace("1,5,3\n"));
    cli.words("sweep moved/s.toml --vary cluster.replicas=1,3 --output-dir out")
        .expect_exit(0)
        .stderr_has("2 runs, 2 of them known before");
    let cli = cli.file("t.csv", trace("2,5,3\n3,5,3\n"));
    let words = "sweep s.toml --vary cluster.replicas=1,2 --output-dir out";
    cli.words(words).expect_exit(0).stderr_has("2 runs, 0 of them known before");
    assert_eq!(column(&rows(&cli, "out"), "arrived"), ["3", "3"]);
}

#[test]
fn seeds_that_change_nothing_are_told() {
    let trace = "arrival_s,input_tokens,output_tokens\n0,10,3\n0.5,20,3\n";
    let text = "name = 't'\n[trace]\npath = 't.csv'\n[workload]\narrivals = { type = 'trace' }\n\
                lengths = { type = 'trace' }\n[cluster]\nmodel = 'Qwen/Qwen2.5-7B'\ngpu = 'H100'\n";
    let cli = Cli::with_scenario().file("t.csv", trace).file("t.toml", text);
    let told = "at 2 of 2 points each seed gave the same figures";
    let swept = |scenario: &str, seeds: u32| {
        let folder = format!("{}-{seeds}", scenario.replace('.', "-"));
        let words = format!(
            "sweep {scenario} --vary cluster.replicas=1,2 --seeds {seeds} --output-dir {folder}"
        );
        cli.words(&words).expect_exit(0).stderr()
    };
    assert!(swept("t.toml", 2).contains(told));
    assert!(!swept("t.toml", 1).contains("same figures"), "one seed tells nothing");
    assert!(!swept("s.toml", 2).contains("same figures"), "seeds draw its requests");
}

#[test]
fn what_runs_are_warned_of_is_told_once_for_each_kind() {
    // One request at a time, of 1.1 + 9 · 1.01 ms: no more than 98 a second are served.
    let engine = "engine = { type = \"vllm_v1\", max_num_seqs = 1 }\n";
    let cli = Cli::new().file("s.toml", format!("{SCENARIO}{engine}"));
    let words = "sweep s.toml --vary workload.arrivals.rate_per_s=10,200,400 --seeds 2 \
                 --output-dir out --format json";
    let ran = cli.words(words).expect_exit(0);
    let told = |stderr: &str| -> Vec<String> {
        let lines = stderr.lines().filter(|line| line.contains("% of capacity"));
        lines.map(str::to_owned).collect()
    };
    let first = told(&ran.stderr());
    let [line] = &first[..] else { panic!("{first:?}") };
    let text = line.strip_prefix("warning: 2 of 3 points; the first is point 1, run 1: ").unwrap();
    let alone = "run s.toml --no-files --set workload.arrivals.rate_per_s=200";
    let alone = cli.words(alone).expect_exit(0).stderr();
    assert!(alone.lines().any(|own| own == format!("warning: {text}")), "{alone}");
    let report: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let of_point = |point: usize| {
        let warnings = report["points"][point]["warnings"].as_array().unwrap();
        let mut texts = warnings.iter().filter(|one| one["kind"] == "saturation");
        (texts.next().map(|one| one["text"].as_str().unwrap().to_owned()), texts.count())
    };
    assert_eq!((of_point(0), of_point(1)), ((None, 0), (Some(text.to_owned()), 0)));
    assert!(of_point(2).0.is_some());
    // Runs that were known before, and those of parts that are joined, are warned of alike.
    let again = cli.words(words).expect_exit(0);
    assert_eq!((told(&again.stderr()), again.stdout()), (first.clone(), ran.stdout()));
    let merged = cli.words("merge out --output-dir whole --format json").expect_exit(0);
    assert_eq!((told(&merged.stderr()), merged.stdout()), (first, ran.stdout()));
}

#[test]
fn metrics_that_are_asked_for_are_printed() {
    let cli = Cli::with_scenario();
    let words = "sweep s.toml --seeds 2 --metric p95_itl_ms --metric steps --output-dir out";
    let text = cli.words(words).expect_exit(0).stdout();
    let header: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(header, ["point", "p95_itl_ms", "steps"]);
    cli.words("sweep s.toml --seeds 2 --metric mean_ttf_ms --output-dir new")
        .expect_exit(2)
        .stderr_has("--metric mean_ttf_ms: is not a figure of a run; did you mean `mean_ttft_ms`?");
    assert!(!cli.path("new").exists());
}

/// Whole numbers, numbers, yes or no, words, and what a run that failed has not.
#[cfg(feature = "tables")]
#[test]
fn parquet_has_the_cells_of_csv() {
    use polars::prelude::{DataType, ParquetReader, SerReader};

    let cli = Cli::with_scenario();
    cli.words(
        "sweep s.toml --vary cluster.replicas=0,2 --vary workload.arrivals.rate_per_s=2,50.5 \
         --vary cluster.engine.enable_prefix_caching=true,false \
         --vary cluster.router.type=round_robin,random --seeds 2 --output-dir out",
    )
    .expect_exit(0);
    let rows = rows(&cli, "out");
    let file = std::fs::File::open(cli.path("out/results.parquet")).unwrap();
    let table = ParquetReader::new(file).finish().unwrap();
    assert_eq!(table.height(), rows.len());
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| name.as_str()).collect();
    let known: Vec<&str> = table.get_column_names().iter().map(|name| name.as_str()).collect();
    assert_eq!(known, names);
    for name in names {
        let cells = table.column(name).unwrap();
        let text = |row: usize| match cells.dtype() {
            DataType::Int64 => cells.i64().unwrap().get(row).map(|number| number.to_string()),
            DataType::Float64 => cells.f64().unwrap().get(row).map(|number| number.to_string()),
            DataType::Boolean => cells.bool().unwrap().get(row).map(|is| is.to_string()),
            DataType::String => cells.str().unwrap().get(row).map(str::to_owned),
            other => panic!("{name}: {other}"),
        };
        let texts: Vec<String> = (0..rows.len()).map(|row| text(row).unwrap_or_default()).collect();
        assert_eq!(texts, column(&rows, name), "{name}");
    }
    for (name, dtype) in [
        ("seed", DataType::Int64),
        ("cluster.replicas", DataType::Int64),
        ("workload.arrivals.rate_per_s", DataType::Float64),
        ("cluster.engine.enable_prefix_caching", DataType::Boolean),
        ("cluster.router.type", DataType::String),
        ("mean_ttft_ms", DataType::Float64),
        ("error", DataType::String),
    ] {
        assert_eq!(table.column(name).unwrap().dtype(), &dtype, "{name}");
    }
    // No replicas is none of a scenario: half of the runs fail.
    let lacks = |name| table.column(name).unwrap().null_count();
    assert_eq!((lacks("mean_ttft_ms"), lacks("error")), (rows.len() / 2, rows.len() / 2));
}
