//! What was asked, where it cannot be written.

use std::fs;

use serde_json::json;

use super::{SCENARIO, Server};

#[test]
fn results_outlive_a_trace_that_cannot_be_written() {
    let mut server = Server::start(SCENARIO, &["--output-dir", "out", "--speed", "50"]);
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 5}));
    let folder = server.folder.path().to_path_buf();
    // A folder stands where the trace is going to be.
    let unfinished = format!("out.partial-{}", server.process.id());
    let place = folder.join(unfinished).join("trace.jsonl");
    fs::remove_file(&place).ok();
    fs::create_dir_all(place.join("full")).expect("it is made");
    assert_eq!(server.stop(), Some(1));
    let out = folder.join("out");
    let summary = fs::read_to_string(out.join("summary.json")).expect("it is there");
    assert!(summary.contains("\"finished\""), "{summary}");
    assert!(!out.join("replay.toml").exists() && !out.join("trace.jsonl").exists());
    let said = server.said();
    assert!(said.contains("what was asked is not recorded"), "{said}");
}
