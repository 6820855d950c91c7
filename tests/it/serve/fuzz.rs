//! Thousands of bodies and connections that no client should send, all to one server; and to another one.
//!
//! `SERVECAST_FUZZ_CASES=100000` sends so many to each, `PROPTEST_RNG_SEED` others. A case that fails is told with what was
//! sent.

#![expect(clippy::disallowed_methods, reason = "what hangs is told by the clock")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use servecast::rng::Seed;

use super::bodies::{Posted, worse};
use super::broken::break_off;
use super::wire::{Wire, request};
use super::{SCENARIO, Server};

const CASES: u64 = 10_000;
/// Threads that send bodies; one more breaks connections.
const SENDERS: u64 = 3;
/// What the server may hold more at the end than after a tenth, beside what it keeps of requests.
const GROWTH_MIB: u64 = 32;
/// What it keeps of a request: 150 bytes for its figures, and its prompt and answer among the prefixes, of which it
/// forgets the oldest.
const REQUEST_BYTES: u64 = 1024;

pub(super) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Two replicas of vLLM with adapters, whose answers end soon.
fn with_adapters() -> String {
    let engine = "host = 'none'\nreplicas = 2\n\
                  engine = { type = 'vllm_v1', max_loras = 2, max_model_len = 2048 }\n\
                  lora = { max_host_adapters = 4 }";
    let adapters = "[workload.adapters]\nkinds = [{ count = 3, rank = 8 }]\n\
                    popularity = { type = 'uniform' }\n";
    format!("{}{adapters}", SCENARIO.replace("host = 'none'", engine))
}

/// Two of SGLang, one that prefills and one that decodes, and the link between them.
fn handed_over() -> String {
    let parts = "host = 'none'\nengine = { type = 'sglang', context_length = 2048 }\n\
                 disaggregation = { prefill_replicas = 1, decode_replicas = 1, \
                 transfer = { nic_gb_per_s = 50.0 } }";
    SCENARIO.replace("host = 'none'", parts)
}

/// Memory of the server, in MiB; nothing where the system does not tell.
pub(super) fn memory_mib(server: &Server) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.process.id())).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some((pages * 4096) >> 20)
}

/// Files of the server that are open, sockets among them.
fn files(server: &Server) -> Option<usize> {
    std::fs::read_dir(format!("/proc/{}/fd", server.process.id())).ok().map(Iterator::count)
}

struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.0[..self.0.len().min(600)];
        write!(f, "{} ({} bytes)", String::from_utf8_lossy(bytes), self.0.len())
    }
}

/// Sends one body and looks at what comes back.
fn check(wire: &mut Wire, posted: &Posted, case: &str) -> (u16, bool) {
    let Posted { path, body } = posted;
    let answer = wire.ask(path, body).unwrap_or_else(|error| {
        panic!("{case}: {error}: POST {path} {}", Shown(body));
    });
    let what = || format!("{case}: POST {path} {}\n{}", Shown(body), answer.body);
    assert!((200..600).contains(&answer.status), "{}: {}", answer.status, what());
    let is_told = answer.status != 500 || answer.body.contains("the request was aborted");
    assert!(is_told, "{}", what());
    if answer.body.starts_with("data: ") {
        assert!(answer.body.ends_with("data: [DONE]\n\n"), "a stream ends: {}", what());
    }
    if answer.status >= 400 && answer.body.starts_with('{') {
        let error: Value = serde_json::from_str(&answer.body).expect("it is JSON");
        // SGLang says some flat.
        let said = if error["object"] == "error" { &error } else { &error["error"] };
        assert!(said["message"].is_string(), "{}", what());
    }
    (answer.status, answer.is_kept)
}

/// The names of the model and its adapters.
fn models(server: &Server) -> Vec<String> {
    let models = server.get("/v1/models");
    let all = models["data"].as_array().expect("a list").iter();
    all.map(|model| model["id"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until something holds.
pub(super) fn wait_until(what: &str, longest: Duration, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < longest, "{what} within {longest:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server under cases.
struct Fuzz {
    server: Server,
    models: Vec<String>,
    seed: u64,
    cases: u64,
    /// Cases that were begun.
    begun: AtomicU64,
    /// Memory after a tenth of them.
    warm_mib: Mutex<Option<u64>>,
    /// How often bodies were answered by each status.
    statuses: Mutex<BTreeMap<u16, u64>>,
}

impl Fuzz {
    fn is_next(&self) -> bool {
        let place = self.begun.fetch_add(1, Ordering::Relaxed);
        if place == self.cases / 10 {
            *self.warm_mib.lock().expect("no panic") = memory_mib(&self.server);
        }
        place < self.cases
    }

    fn break_connections(&self) {
        let mut random = Seed(self.seed).stream("connections", 0);
        for case in 0.. {
            if !self.is_next() {
                return;
            }
            let case = format!("seed {}, connection {case}", self.seed);
            break_off(&mut random, self.server.address, &case);
        }
    }

    fn send_bodies(&self, sender: u64) {
        let mut random = Seed(self.seed).stream("bodies", sender);
        let mut wire = Wire::to(self.server.address);
        for case in 0.. {
            if !self.is_next() {
                return;
            }
            let posted = worse(&mut random, &self.models);
            let reads_none = matches!(posted.path, "/flush_cache" | "/reset_prefix_cache");
            if reads_none && posted.body.len() > 8192 {
                // The server ends a connection on which much is left that nobody reads.
                let _ended = wire.ask(posted.path, &posted.body);
                wire = Wire::to(self.server.address);
                continue;
            }
            let name = format!("seed {}, sender {sender}, case {case}", self.seed);
            let (status, mut is_kept) = check(&mut wire, &posted, &name);
            *self.statuses.lock().expect("no panic").entry(status).or_default() += 1;
            if posted.path == "/servecast/speed" && status == 200 {
                // So that others get their answers this year.
                let back = Posted { path: posted.path, body: br#"{"speed": 1000}"#.to_vec() };
                is_kept &= check(&mut wire, &back, &name).1;
            }
            if !is_kept {
                wire = Wire::to(self.server.address);
            }
        }
    }

    /// All cases; how long they took.
    fn run(&self) -> Duration {
        let begin = Instant::now();
        std::thread::scope(|threads| {
            let mut all = vec![threads.spawn(|| self.break_connections())];
            all.extend((0..SENDERS).map(|sender| threads.spawn(move || self.send_bodies(sender))));
            for thread in all {
                if let Err(panic) = thread.join() {
                    // What one has found is not to be waited for.
                    self.begun.store(self.cases, Ordering::Relaxed);
                    println!("{}", self.server.said());
                    std::panic::resume_unwind(panic);
                }
            }
        });
        begin.elapsed()
    }

    /// What was asked for is over, and replicas that failed are up.
    fn settle(&self) {
        let server = &self.server;
        wait_until("all requests are over", Duration::from_mins(1), || {
            server.get("/servecast/speed")["requests"] == 0
        });
        wait_until("replicas are up", Duration::from_secs(10), || {
            let (_, metrics) = server.text("GET", "/metrics", "");
            let up =
                |it| metrics.contains(&format!("servecast_replica_up{{replica=\"{it}\"}} 1\n"));
            (0..2).all(up)
        });
        let asked = Instant::now();
        assert_eq!(server.text("GET", "/health", "").0, 200);
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 3}));
    }
}

#[test]
fn whatever_is_sent_is_answered_and_the_server_lives() {
    outlives(&with_adapters());
}

#[test]
fn the_same_where_caches_are_handed_over() {
    outlives(&handed_over());
}

fn outlives(scenario: &str) {
    let server = Server::start(scenario, &["--no-files", "--speed", "1000"]);
    let open = files(&server);
    let mut fuzz = Fuzz {
        models: models(&server),
        server,
        seed: setting("PROPTEST_RNG_SEED").unwrap_or(11),
        cases: setting("SERVECAST_FUZZ_CASES").unwrap_or(CASES),
        begun: AtomicU64::new(0),
        warm_mib: Mutex::default(),
        statuses: Mutex::default(),
    };
    let took = fuzz.run().as_secs_f64();
    fuzz.settle();
    if let Some(open) = open {
        wait_until("all connections are closed", Duration::from_secs(10), || {
            files(&fuzz.server).is_some_and(|files| files <= open)
        });
    }
    let report = fuzz.server.get("/servecast/report");
    let requests = report["requests"]["arrived"].as_u64().expect("a number");
    let statuses = fuzz.statuses.lock().expect("no panic").clone();
    let (warm, end) = (*fuzz.warm_mib.lock().expect("no panic"), memory_mib(&fuzz.server));
    println!(
        "{} cases of seed {} in {took:.1} s, {requests} requests, {warm:?} to {end:?} MiB, {statuses:?}",
        fuzz.cases, fuzz.seed
    );
    if let (Some(warm), Some(end)) = (warm, end) {
        let most = warm + GROWTH_MIB + ((requests * REQUEST_BYTES) >> 20);
        assert!(end <= most, "{end} MiB after {warm} MiB");
    }
    assert_eq!(fuzz.server.stop(), Some(0));
    assert!(!fuzz.server.said().contains("panicked"), "{}", fuzz.server.said());
}

#[test]
fn many_answers_to_a_long_prompt_hold_it_once() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let Some(before) = memory_mib(&server) else { return };
    let body =
        json!({"prompt": "abcd".repeat(100_000), "n": 256, "stream": true, "max_tokens": 5000});
    let mut wire = Wire::to(server.address);
    let body = body.to_string();
    wire.send(&request("POST", "/v1/completions", body.as_bytes())).expect("it is sent");
    wire.head().expect("it begins");
    wait_until("all are in", Duration::from_secs(10), || {
        server.get("/servecast/speed")["requests"] == 256
    });
    // 256 times 100,000 tokens of 4 bytes were 98 MiB.
    let after = memory_mib(&server).expect("it was told before");
    assert!(after < before + 50, "{before} to {after} MiB");
}
