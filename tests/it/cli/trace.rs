//! `servecast trace`, and the samples that are shipped.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{BINARY, Cli};

#[test]
fn the_samples_are_what_their_commands_make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("traces/README.md")).unwrap();
    let commands: Vec<&str> = readme
        .lines()
        .filter(|line| line.starts_with("servecast trace generate") && line.contains("-o traces/"))
        .collect();
    assert!(commands.len() >= 4, "{commands:?}");
    let cli = Cli::new();
    fs::create_dir(cli.path("traces")).unwrap();
    for command in commands {
        let (_, name) = command.rsplit_once("-o ").unwrap();
        let command = command.replacen("servecast", BINARY, 1);
        let status = Command::new("sh").args(["-c", &command]).current_dir(cli.path("")).output();
        let output = status.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let shipped = fs::read_to_string(root.join(name)).unwrap();
        assert!(shipped == cli.read(name), "{name} is not what its command makes");
        let lines = shipped.lines().count();
        assert!(lines <= 301 && shipped.len() <= 24_000, "{name}: {lines} lines");
    }
}

#[test]
fn samples_are_described_in_text_and_json() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let cli = Cli::new();
    for (name, format) in [
        ("azure-like.csv", "azure"),
        ("mooncake-like.jsonl", "mooncake"),
        ("burstgpt-like.csv", "burstgpt"),
        ("vllm-random.csv", "csv"),
    ] {
        let path = root.join(name).display().to_string();
        cli.run(["trace", "describe", &path]).expect_exit(0).stdout_has(format);
        let json = cli.run(["trace", "describe", &path, "--json"]).expect_exit(0).stdout();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["format"], format);
        assert_eq!(json["prefix"].is_object(), format == "mooncake");
    }
}

#[test]
fn a_trace_survives_conversion_to_a_finer_format_and_back() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/mooncake-like.jsonl");
    let path = path.display().to_string();
    let cli = Cli::new();
    cli.run(["trace", "convert", &path, "--to", "jsonl", "-o", "fine.jsonl"]).expect_exit(0);
    cli.words("trace convert fine.jsonl --to mooncake -o back.jsonl").expect_exit(0);
    // Time zero is the first row of what is read.
    let rows = |text: String| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (before, after) = (rows(fs::read_to_string(path).unwrap()), rows(cli.read("back.jsonl")));
    let start = before[0]["timestamp"].as_u64().unwrap();
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before["timestamp"].as_u64().unwrap() - start, after["timestamp"]);
        assert_eq!(before["hash_ids"], after["hash_ids"]);
    }
}

#[test]
fn what_a_format_has_no_place_for_is_said() {
    let row = "{\"arrival_ns\": 0, \"prompt_tokens\": 5, \"output_tokens\": 2, \"session\": 3}\n";
    let cli = Cli::new().file("t.jsonl", row).file("mine.csv", "mine");
    cli.words("trace convert t.jsonl --to azure -o a.csv")
        .expect_exit(0)
        .stderr_has("notice: azure: 1 rows lost their session, which the format has no place for")
        .stdout_has("a.csv: 1 rows in azure");
    cli.words("trace convert t.jsonl --to csv -o mine.csv")
        .expect_exit(2)
        .stderr_has("mine.csv: exists already")
        .stderr_has("--overwrite");
    assert_eq!(cli.read("mine.csv"), "mine");
    cli.words("trace convert t.jsonl --to csv -o mine.csv --overwrite").expect_exit(0);
    cli.words("trace convert t.jsonl --to vidur -o v.csv")
        .expect_exit(2)
        .stderr_has("a trace is written as azure, mooncake, burstgpt, csv, jsonl");
    cli.words("trace convert t.jsonl --to parquet -o v.csv").expect_exit(2).stderr_has("one of");
    cli.words("trace convert none.csv --to csv -o v.csv").expect_exit(2).stderr_has("none.csv");
    assert_eq!(cli.left_behind(&["t.jsonl", "mine.csv"]), ["a.csv"]);
}

#[test]
fn columns_and_units_can_be_stated() {
    let cli = Cli::new().file("t.csv", "when,ctx,gen\n0,5,3\n250,7,1\n");
    let convert = "trace convert t.csv --to csv -o o.csv --format csv";
    cli.words(convert).expect_exit(2).stderr_has("t.csv:1:");
    let columns = "--column arrival=when --column prompt_tokens=ctx --column output_tokens=gen";
    cli.words(&format!("{convert} {columns}")).expect_exit(2).stderr_has("state it");
    cli.words(&format!("{convert} {columns} --time-unit ms")).expect_exit(0);
    assert_eq!(
        cli.read("o.csv"),
        "arrival_s,prompt_tokens,output_tokens,session\n0.000000000,5,3,\n0.250000000,7,1,\n"
    );
    cli.words("trace describe t.csv --column size=ctx")
        .expect_exit(2)
        .stderr_has("a role is one of");
}

#[test]
fn a_workload_of_flags_or_of_a_scenario_but_not_of_both() {
    let cli = Cli::with_scenario();
    cli.words("trace generate s.toml --to csv -o a.csv").expect_exit(0).stdout_has("20 rows");
    cli.words(
        "trace generate --backend sglang --dataset-name random --num-prompts 5 --to csv -o b.csv",
    )
    .expect_exit(0)
    .stdout_has("5 rows");
    cli.words("trace generate s.toml --dataset-name random --to csv -o c.csv")
        .expect_exit(2)
        .stderr_has("not both");
    cli.words("trace generate s.toml --num-prompts 5 --to csv -o c.csv")
        .expect_exit(2)
        .stderr_has("--dataset-name: is needed");
    cli.run([
        "trace",
        "generate",
        "s.toml",
        "--set",
        "workload.num_requests=0",
        "--to",
        "csv",
        "-o",
        "c.csv",
    ])
    .expect_exit(2)
    .stderr_has("s.toml: workload.num_requests: must be at least 1, got 0");
    assert_eq!(cli.left_behind(&["s.toml"]), ["a.csv", "b.csv"]);
}

#[test]
fn a_replayed_trace_gives_the_run_of_its_workload() {
    let cli = Cli::with_scenario();
    cli.words("trace generate s.toml --to jsonl -o t.jsonl").expect_exit(0);
    let replay = super::SCENARIO
        .replace("num_requests = 20\n", "")
        .replace("{ type = \"poisson\", rate_per_s = 10.0 }", "{ type = \"trace\" }")
        .replace(
            "{ type = \"fixed\", input_tokens = 100, output_tokens = 10 }",
            "{ type = \"trace\" }",
        );
    fs::write(cli.path("r.toml"), format!("{replay}\n[trace]\npath = \"t.jsonl\"\n")).unwrap();
    let tokens = |stdout: String| -> Vec<String> {
        let lines =
            stdout.lines().filter(|line| line.contains("Mean TTFT") || line.contains("ITL"));
        lines.map(str::to_owned).collect()
    };
    let drawn = tokens(cli.words("run s.toml").expect_exit(0).stdout());
    assert_eq!(tokens(cli.words("run r.toml").expect_exit(0).stdout()), drawn);
    assert!(!drawn.is_empty());
}

#[test]
fn calls_of_functions_become_arrivals_of_a_scenario_in_both_forms() {
    let functions = [("a", 30), ("b", 9), ("c", 1)].into_iter();
    let calls = functions.flat_map(|(func, count)| (3600..3600 + count).map(move |at| (func, at)));
    let calls: Vec<String> = calls.map(|(func, at)| format!("app,{func},{at},0.5\n")).collect();
    let calls = "app,func,end_timestamp,duration\n".to_owned() + &calls.concat();
    let scenario = "name = 'counted'\n[workload]\nnum_requests = 20\n\
        lengths = { type = 'fixed', input_tokens = 64, output_tokens = 4 }\n\
        [workload.adapters]\nkinds = [{ count = 3, rank = 8 }]\npopularity = { type = 'as_given' }\n\
        [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n";
    let cli = Cli::new().file("calls.txt", calls);
    let command = "trace adapter-counts calls.txt --adapters 3 --rate 8 --first-hour 1 --streams shared-stream";
    let table = cli.words(command).expect_exit(0);
    assert!(table.stderr().contains("notice: 40 calls of 3 functions for 3 adapters"));
    let table = table.stdout();
    assert_eq!(
        table,
        "[workload.arrivals]\ntype = \"adapter_counts\"\nrate_per_s = 8.0\ncv = 1.0\n\
         streams = \"shared_stream\"\nhourly_counts = [\n  [30, 9, 1],\n]\n"
    );
    let inline = cli.words(&format!("{command} --inline")).expect_exit(0).stdout();
    let cli = cli.file("pasted.toml", format!("{scenario}{table}")).file("set.toml", scenario);
    let pasted = cli.words("run pasted.toml --no-files --format json").expect_exit(0).stdout();
    let set =
        cli.run(["run", "set.toml", "--no-files", "--format", "json", "--set", inline.trim_end()]);
    assert_eq!(set.expect_exit(0).stdout(), pasted);
    cli.words("trace adapter-counts calls.txt --adapters 3 --rate 0")
        .expect_exit(2)
        .stderr_has("--rate: must be finite and at least 10⁻⁶ requests per second, got 0");
}

#[test]
fn what_may_mean_two_things_in_a_csv_is_refused_on_its_line() {
    for (text, says) in [
        (
            "arrival_s;prompt_tokens;output_tokens\n0;1.000;5\n",
            "t.csv:2: `prompt_tokens` must be a whole number of tokens without a point, got `1.000`. Is it 1000?",
        ),
        (
            "arrival_ms;prompt_tokens;output_tokens\n0;10;5\n250;10;5\n1.000;10;5\n",
            "t.csv:4: `arrival_ms` has `250` and `1.000`: nobody knows",
        ),
        (
            "Time (ms),prompt_tokens,output_tokens\n812,10,5\n45,10,5\n",
            "t.csv:3: `Time (ms)` goes down, from `812` to `45`: is it a duration?",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens,note\n0,10,5,x\n1,10,5,\"y\n2,10,5,z\n3,10,5,\"\n",
            "t.csv:3: a quote is opened that is not closed on its line",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens,note\n0,10,5,x\n1,10,5,\"y\n2,10,5,z\n3,10,5,w\n",
            "t.csv:3: a quote is opened that is not closed on its line",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,\"10,5\n2,10,5\n3,10,5\n",
            "t.csv:3: a quote is opened that is not closed on its line",
        ),
    ] {
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let cli = Cli::new().file("t.csv", &text);
            cli.words("trace describe t.csv").expect_exit(2).stdout_is_empty().stderr_has(says);
        }
    }
}

#[test]
fn a_row_of_another_length_is_blamed_on_a_quote_only_where_there_is_one() {
    for rows in ["0,10,5\n\n1,10\n", "0,10,5\n\n1,10,5,9\n", "0,10,\"5\"\n1,\"1\n0\",5,9\n"] {
        let cli =
            Cli::new().file("t.csv", format!("arrival_s,prompt_tokens,output_tokens\n{rows}"));
        let ran = cli.words("trace describe t.csv").expect_exit(2);
        assert!(!ran.stderr().contains("quote"), "{}", ran.stderr());
    }
}

#[test]
fn what_can_mean_one_thing_only_is_read() {
    for (text, options) in [
        ("arrival_s;prompt_tokens;output_tokens\n0.000;10;5\n1.250;10;5\n2.500;10;5\n", ""),
        // The last time has decimals, so the others have.
        ("arrival_s;prompt_tokens;output_tokens\n1;10;5\n1.125;10;5\n3.5;10;5\n", ""),
        ("arrival_s,prompt_tokens,output_tokens\n0.000,10.000,5.0\n1.250,10,5\n2.500,10,5\n", ""),
        ("Time (ms),prompt_tokens,output_tokens\n0,10,5\n1250,10,5\n2500,10,5\n", ""),
        ("Time (ms),prompt_tokens,output_tokens\n0,10,5\n2500,10,5\n1250,10,5\n", "--column"),
        (
            "arrival_s,prompt_tokens,output_tokens,note\n0,10,5,\"two\nlines, here\"\n1.25,10,5,x\n2.5,10,5,y\n",
            "",
        ),
    ] {
        let cli = Cli::new().file("t.csv", text);
        let mut words = vec!["trace", "describe", "t.csv"];
        if options.starts_with("--column") {
            words.extend(["--column", "arrival=Time (ms)"]);
        }
        let told = cli.run(words).expect_exit(0).stdout();
        assert!(told.contains("requests        3") && told.contains("2.5 s"), "{text}\n{told}");
    }
}
