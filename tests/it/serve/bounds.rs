//! What a server takes at once.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::fuzz::wait_until;
use super::{SCENARIO, Server, text_at};

/// Waits until so many requests are there.
fn are_in(server: &Server, requests: u64) {
    wait_until("all are in", Duration::from_secs(20), || {
        server.get("/servecast/speed")["requests"] == requests
    });
}

#[test]
fn bounds_and_ids_are_those_of_all_ports_together() {
    let scenario = SCENARIO.replace("host = 'none'", "host = 'none'\nreplicas = 2");
    let arguments = ["--no-files", "--port-per-replica", "--max-requests", "1"];
    let server = Server::start(&scenario, &arguments);
    let ask = |place: usize, max_tokens: u32| {
        let body = json!({"prompt": "abcd", "max_tokens": max_tokens}).to_string();
        let (status, text) = text_at(server.others[place], "POST", "/v1/completions", &body);
        let answer: Value = serde_json::from_str(&text).expect("it is JSON");
        (status, answer)
    };
    let ids = [0, 1].map(|place| {
        let (status, answer) = ask(place, 1);
        assert_eq!(status, 200, "{answer}");
        answer["id"].clone()
    });
    assert_ne!(ids[0], ids[1]);
    let body = json!({"prompt": "abcd", "max_tokens": 100_000}).to_string();
    let waiting = server.send("POST", "/v1/completions", &body);
    are_in(&server, 1);
    let (status, answer) = ask(1, 1);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.to_string().contains("there are 1 requests at once already"), "{answer}");
    drop(waiting);
    wait_until("there is a place again", Duration::from_secs(10), || ask(1, 1).0 == 200);
}

#[test]
fn prompts_that_wait_are_bounded_by_their_tokens() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    // 256 answers to 131,000 tokens are half of what is taken.
    let body = json!({"prompt": "abcd".repeat(131_000), "max_tokens": 1, "n": 256}).to_string();
    let waiting = [(); 2].map(|()| server.send("POST", "/v1/completions", &body));
    are_in(&server, 512);
    let (status, text) = server.text("POST", "/v1/completions", &body);
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("more than 67108864 tokens"), "{text}");
    let small = json!({"prompt": "abcd", "max_tokens": 1});
    server.post("/v1/completions", &small);
    drop(waiting);
}

#[test]
fn numbers_that_are_no_bounds_are_refused() {
    for (flag, number) in [
        ("--max-requests", "0"),
        ("--max-requests", "18446744073709551615"),
        ("--max-connections", "0"),
        ("--max-connections", "2000000"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_servecast"))
            .args(["serve", "--no-files", flag, number])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains(flag), "{said}");
    }
}
