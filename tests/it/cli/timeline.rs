//! `--timeline`: where it goes, and what is refused before anything is simulated.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::{Cli, SCENARIO};

fn requests(text: &str) -> usize {
    let json: Value = serde_json::from_str(text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let is_request = |event: &&Value| {
        event["ph"] == "X" && event["name"].as_str().unwrap().starts_with("request")
    };
    events.iter().filter(is_request).count()
}

#[test]
fn a_timeline_holds_every_request_and_is_compressed_on_demand() {
    let cli = Cli::with_scenario();
    let saying = "timeline in t.json, for ui.perfetto.dev";
    cli.words("run s.toml --output-dir out --timeline t.json").expect_exit(0).stderr_has(saying);
    assert_eq!(requests(&cli.read("t.json")), 20);
    cli.words("run s.toml --output-dir out2 --timeline t.json.gz").expect_exit(0);
    let mut text = String::new();
    GzDecoder::new(fs::File::open(cli.path("t.json.gz")).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, cli.read("t.json"));
    assert!(cli.left_behind(&["s.toml", "out", "out2", "t.json", "t.json.gz"]).is_empty());
}

#[test]
fn a_window_shows_a_part() {
    let cli = Cli::with_scenario();
    // Of the twenty requests, two are over by then and seven are sent later.
    cli.words("run s.toml --output-dir out --timeline t.json --timeline-window 0.2..1.3")
        .expect_exit(0);
    assert_eq!(requests(&cli.read("t.json")), 11);
}

#[test]
fn bench_has_a_timeline_too() {
    let cli = Cli::new();
    cli.words(
        "bench vllm bench serve --model Qwen/Qwen2.5-0.5B --gpu H100 --dataset-name random --num-prompts 3 \
         --output-dir out --timeline t.json",
    )
    .expect_exit(0);
    assert_eq!(requests(&cli.read("t.json")), 3);
}

#[test]
fn a_file_that_exists_is_refused_unless_overwritten() {
    let cli = Cli::with_scenario().file("t.json", "mine");
    cli.words("run s.toml --output-dir out --timeline t.json")
        .expect_exit(2)
        .stdout_is_empty()
        .stderr_has("--timeline: t.json: exists; give another name, or --overwrite");
    assert_eq!(cli.read("t.json"), "mine");
    assert!(cli.left_behind(&["s.toml", "t.json"]).is_empty());
    cli.words("run s.toml --output-dir out --timeline t.json --overwrite").expect_exit(0);
    assert_eq!(requests(&cli.read("t.json")), 20);
}

#[test]
fn a_place_for_no_file_is_refused() {
    let variants = format!("{SCENARIO}\n[[variants]]\nname = \"b\"\nset = {{ seed = 2 }}\n");
    let cli = Cli::with_scenario().file("v.toml", variants);
    fs::create_dir(cli.path("folder")).unwrap();
    for (flags, message) in [
        ("s.toml --timeline none/t.json", "none/t.json: the folder none does not exist"),
        ("s.toml --timeline folder", "folder: is a folder; give the name of a file"),
        ("v.toml --timeline t.json", "shows one run, but the scenario has variants: 2 runs"),
        ("s.toml --timeline t.json --timeline-window 2..1", "must end after its start"),
        ("s.toml --timeline t.json --timeline-window 2", "must be START..END in seconds"),
        ("s.toml --timeline-window 1..2", "--timeline <FILE>"),
    ] {
        cli.words(&format!("run {flags}")).expect_exit(2).stdout_is_empty().stderr_has(message);
    }
    assert!(cli.left_behind(&["s.toml", "v.toml", "folder"]).is_empty());
}
