//! A day of faults and impatient clients: some read their answers, some hang up at any moment, replicas fail under
//! them, and none of their requests is lost.
//!
//! `SERVECAST_SOAK=1` serves the whole day, 864 s at a hundred times as fast; else it is a quarter of an hour.

#![expect(clippy::disallowed_methods, reason = "clients hang up by the clock on the wall")]

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde_json::{Value, json};

use servecast::rng::{Seed, Stream};

use super::fuzz::{setting, wait_until};
use super::wire::{Wire, request};
use super::{SCENARIO, Server, metric};

const CLIENTS: u64 = 8;
const REPLICAS: u64 = 4;

/// What became of requests, as their clients saw it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Seen {
    finished: u64,
    /// Answered by 503 because a replica failed, or in the midst of a stream.
    failed: u64,
    /// Their clients hung up.
    gone: u64,
    /// The server ended before their answer.
    closed: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.finished += other.finished;
        self.failed += other.failed;
        self.gone += other.gone;
        self.closed += other.closed;
    }

    /// What the server says of them holds together, and agrees with this.
    fn check(&self, requests: &Value) {
        let count = |name: &str| requests[name].as_u64().unwrap_or(0);
        let all = ["finished", "rejected", "aborted", "timed_out", "failed", "unfinished"];
        let shown = format!("{self:?}\n{requests}");
        assert_eq!(count("arrived"), all.into_iter().map(count).sum::<u64>(), "{shown}");
        assert_eq!([count("rejected"), count("timed_out"), count("unfinished")], [0; 3], "{shown}");
        // Who has hung up or was shut out does not know how far the request came.
        let unknown = self.gone + self.closed;
        let of_unknown = |name: &str, seen: u64| {
            let more = count(name).checked_sub(seen);
            more.unwrap_or_else(|| panic!("{name}: clients saw more: {shown}"))
        };
        let finished = of_unknown("finished", self.finished);
        let failed = of_unknown("failed", self.failed);
        assert!(finished + failed + count("aborted") <= unknown, "{shown}");
    }
}

/// How a request of a client ended.
enum End {
    Finished,
    Failed,
    Closed,
    Gone,
}

/// When a client hangs up, if it does.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Never,
    After(Duration),
    /// When it has read so many parts of a stream.
    Read(u32),
}

fn body(random: &mut Stream, streams: bool) -> Value {
    let tokens = match random.random_range(0..20) {
        0 => random.random_range(10_000..60_000),
        1..5 => random.random_range(1000..4000),
        _ => random.random_range(1..300),
    };
    let prompt = "abcd".repeat(tokens);
    let begin: u32 = random.random_range(0..100);
    json!({
        "prompt": format!("{begin:04}{prompt}"), "stream": streams,
        "max_tokens": random.random_range(1..500),
    })
}

/// One request, and what its client does.
fn ask(wire: &mut Wire, random: &mut Stream) -> io::Result<End> {
    let streams = random.random_bool(0.5);
    let leaves = match random.random_range(0..10) {
        0..6 => Leaves::Never,
        6 | 7 if streams => Leaves::Read(random.random_range(0..100)),
        _ => Leaves::After(Duration::from_micros(random.random_range(0..60_000))),
    };
    wire.send(&request("POST", "/v1/completions", body(random, streams).to_string().as_bytes()))?;
    if let Leaves::After(span) = leaves {
        sleep(span);
        return Ok(End::Gone);
    }
    if !streams {
        let answer = wire.answer()?;
        return Ok(match answer.status {
            200 => End::Finished,
            503 if answer.body.contains("shutting down") => End::Closed,
            503 => End::Failed,
            other => panic!("{other}: {}", answer.body),
        });
    }
    let (status, _) = wire.head()?;
    let (mut text, mut read) = (Vec::new(), 0);
    if status != 200 {
        // The server ends: it takes no more requests.
        assert_eq!(status, 503);
        return Ok(End::Closed);
    }
    while wire.chunk(&mut text)? {
        read += 1;
        if matches!(leaves, Leaves::Read(most) if read > most) {
            return Ok(End::Gone);
        }
    }
    let text = String::from_utf8(text).expect("it is text");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    Ok(match text.contains("\"error\"") {
        false => End::Finished,
        true if text.contains("shutting down") => End::Closed,
        true => End::Failed,
    })
}

/// A client, until it is told to stop or the server ends.
fn client(
    server: &Server,
    mut random: Stream,
    stops: &AtomicBool,
    is_closing: &AtomicBool,
) -> Seen {
    let mut seen = Seen::default();
    let mut wire = Wire::to(server.address);
    while !stops.load(Ordering::Relaxed) {
        let end = ask(&mut wire, &mut random).unwrap_or_else(|error| {
            assert!(is_closing.load(Ordering::Relaxed), "a request without an answer: {error}");
            End::Closed
        });
        match end {
            End::Finished => seen.finished += 1,
            End::Failed => seen.failed += 1,
            End::Closed => {
                seen.closed += 1;
                break;
            }
            End::Gone => {
                seen.gone += 1;
                let Ok(next) = Wire::try_to(server.address) else { break };
                wire = next;
            }
        }
    }
    seen
}

fn strike(server: &Server, random: &mut Stream) {
    let replica = random.random_range(0..REPLICAS);
    let kind = random.random_range(0..4);
    let mut span = |most: f64| random.random_range(0.01..most);
    let fault = match kind {
        0 | 1 => json!({
            "type": "crash", "replica": replica, "down_s": 10.0 + span(30.0), "detection_s": span(10.0),
        }),
        2 => json!({
            "type": "straggler", "replica": replica, "for_s": span(60.0), "factor": 1.0 + span(9.0),
        }),
        _ => json!({"type": "lost_cache", "replica": replica}),
    };
    let (status, answer) = server.json("POST", "/servecast/faults", &fault);
    // A replica has one fault of a kind at a time.
    assert!(status == 200 || status == 409, "{answer}");
}

/// How a time of clients and faults ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Clients ask for nothing more.
    Content,
    /// The server is told to end under them.
    Interrupted,
}

/// Clients and faults for so long; what clients saw.
fn traffic(server: &Server, seed: u64, lasts: Duration, until: Until) -> Seen {
    let (stops, is_closing) = (AtomicBool::new(false), AtomicBool::new(false));
    let begin = Instant::now();
    std::thread::scope(|threads| {
        let (stops, is_closing) = (&stops, &is_closing);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let random = Seed(seed).stream("clients", number << 1 | until as u64);
                threads.spawn(move || client(server, random, stops, is_closing))
            })
            .collect();
        let mut random = Seed(seed).stream("strikes", until as u64);
        while begin.elapsed() < lasts && !clients.iter().any(ScopedJoinHandle::is_finished) {
            strike(server, &mut random);
            sleep(Duration::from_millis(random.random_range(20..400)));
        }
        match until {
            Until::Content => stops.store(true, Ordering::Relaxed),
            Until::Interrupted => {
                is_closing.store(true, Ordering::Relaxed);
                server.interrupt();
            }
        }
        let mut seen = Seen::default();
        for client in clients {
            seen.add(client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        seen
    })
}

/// All requests are over and hold nothing.
fn rests(server: &Server) {
    wait_until("all requests are over", Duration::from_mins(1), || {
        server.get("/servecast/speed")["requests"] == 0
    });
    let (_, metrics) = server.text("GET", "/metrics", "");
    for engine in 0..REPLICAS {
        let labels = format!("{{model_name=\"meta-llama/Llama-3.1-8B\",engine=\"{engine}\"}}");
        for gauge in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
            assert_eq!(metric(&metrics, &format!("vllm:{gauge}{labels}")), 0, "{metrics}");
        }
    }
}

#[test]
fn nothing_is_lost_in_a_day_of_faults_and_impatient_clients() {
    let seed = setting("PROPTEST_RNG_SEED").unwrap_or(3);
    let lasts = if setting("SERVECAST_SOAK") == Some(1) { 864 } else { 9 };
    let scenario =
        SCENARIO.replace("host = 'none'", &format!("host = 'none'\nreplicas = {REPLICAS}"));
    let arguments = ["--output-dir", "out", "--grace", "0.05", "--speed", "100"];
    let mut server = Server::start(&scenario, &arguments);
    let mut seen = traffic(&server, seed, Duration::from_secs(lasts), Until::Content);
    rests(&server);
    seen.check(&server.get("/servecast/report")["requests"]);
    let last = traffic(&server, seed, Duration::from_secs(1), Until::Interrupted);
    seen.add(last);
    assert_eq!(server.process.wait().expect("it ends").code(), Some(0));
    let summary = fs::read_to_string(server.folder.path().join("out/summary.json"));
    let summary: Value = serde_json::from_str(&summary.expect("it is there")).expect("it is JSON");
    let requests = &summary["requests"];
    println!("seed {seed}: {seen:?}, of the last {last:?}; {requests}");
    seen.check(requests);
    assert!(seen.finished > 0 && seen.failed > 0 && seen.gone > 0, "{seen:?}");
    assert!(!server.said().contains("panicked"), "{}", server.said());
}
