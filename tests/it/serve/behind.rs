//! A cluster that cannot keep up with the clock: who tells it something does not wait until it has.

#![expect(clippy::disallowed_methods, reason = "who waits does so by the clock on the wall")]

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::fuzz::wait_until;
use super::{SCENARIO, Server};

/// What somebody waits for at most, far below the time that the cluster needs to catch up.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Eight replicas with answers of 100,000 steps, at a speed at which all of them are due at once.
fn behind() -> (Server, Vec<TcpStream>) {
    let scenario = SCENARIO.replace("host = 'none'", "host = 'none'\nreplicas = 8");
    let server = Server::start(&scenario, &["--no-files", "--speed", "100000", "--grace", "0"]);
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 1}));
    let body = json!({"prompt": "abcd", "max_tokens": 100_000}).to_string();
    let waiting = (0..16).map(|_| server.send("POST", "/v1/completions", &body)).collect();
    wait_until("it is behind", Duration::from_secs(20), || {
        server.get("/servecast/speed")["behind_ms"].as_f64() > Some(200.0)
    });
    (server, waiting)
}

#[test]
fn who_tells_it_something_is_heard_at_once() {
    let (server, mut waiting) = behind();
    let begin = Instant::now();
    waiting.pop();
    let slow = json!({"type": "straggler", "replica": 1, "for_s": 1.0, "factor": 3});
    server.post("/servecast/faults", &slow);
    assert_eq!(server.get("/servecast/speed")["speed"], 100_000.0);
    assert_eq!(server.text("POST", "/reset_prefix_cache", "").0, 409, "requests are there");
    let before = server.post("/servecast/speed", &json!({"speed": 0.001}));
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    // What it was behind is dropped: time goes on from where the cluster was.
    let after = server.get("/servecast/speed");
    assert!(after["behind_ms"].as_f64() < Some(1000.0), "{after}");
    let seconds = |pace: &serde_json::Value| pace["simulated_s"].as_f64().expect("a number");
    assert!(seconds(&after) - seconds(&before) < 0.01, "{before} {after}");
    assert!(server.said().contains("behind the clock"), "{}", server.said());
}

#[test]
fn who_ends_it_does_not_wait_for_what_is_due() {
    let (mut server, waiting) = behind();
    let begin = Instant::now();
    assert_eq!(server.stop(), Some(0));
    assert!(begin.elapsed() < 2 * AT_ONCE, "{:?}", begin.elapsed());
    for mut one in waiting {
        let mut answer = String::new();
        one.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("shutting down"), "{answer}");
    }
}
