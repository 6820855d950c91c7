//! The study of routers: its two scenarios hold the same routers, and every command of its page runs in small.

use toml::{Table, Value};

use super::Cli;
use super::documents::{commands, root, words};

const SCENARIOS: [&str; 2] = ["which-router.toml", "which-router-trace.toml"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The routers of a scenario by the names of its variants, and what serves them.
fn routers(name: &str) -> (Value, Vec<(Value, Value)>) {
    let table: Table = read(&format!("scenarios/{name}")).parse().expect("it is TOML");
    let variants = table["variants"].as_array().expect("it has variants");
    let each = variants.iter().map(|one| (one["name"].clone(), one["set"].clone()));
    (table["cluster"]["engine"].clone(), each.collect())
}

#[test]
fn both_scenarios_have_the_same_routers() {
    let [drawn, trace] = SCENARIOS.map(routers);
    assert!(drawn.1.len() > 15);
    assert_eq!(drawn, trace);
}

#[test]
fn every_command_of_the_pages_runs_in_small() {
    let sample = read("traces/mooncake-like.jsonl");
    let mut cli = Cli::new()
        .file("traces/mooncake-like.jsonl", sample.clone())
        .file("traces/conversation_trace.jsonl", sample);
    for name in SCENARIOS {
        let path = format!("scenarios/{name}");
        cli = cli.file(&path, read(&path));
    }
    let mut ran = 0;
    let pages = ["which-router.md", "comparing.md"].map(|name| root().join("docs").join(name));
    for command in pages.iter().flat_map(|page| commands(page)) {
        if !SCENARIOS.iter().any(|name| command.contains(&format!("scenarios/{name}"))) {
            continue;
        }
        let mut words = words(&command);
        if let Some(place) = words.iter().position(|word| word == "--seeds") {
            words[place + 1] = "3".to_owned();
        }
        if command.contains(SCENARIOS[0]) {
            for small in ["groups=8", "prompts_per_group=1"] {
                words.extend(["--set".to_owned(), format!("workload.lengths.{small}")]);
            }
        }
        cli.run(words[1..].iter().map(String::as_str)).expect_exit(0);
        ran += 1;
    }
    assert!(ran >= 8, "{ran}");
}
