//! A scenario behind HTTP, asked by a client that knows no more than the protocol.
//!
//! * `wire.rs`: a connection that is kept, and what comes back on it
//! * `bodies.rs`: bodies that are made worse; `broken.rs`: connections that are
//! * `fuzz.rs`: many of both against one server
//! * `behind.rs`: clusters that cannot keep up; `bounds.rs`: what it takes at once
//! * `lengths.rs`: how answers end; `trace.rs`: what it leaves where it cannot write
//! * `day.rs`: a day of faults and impatient clients, of whom none is lost
//! * `handover.rs`: prefill and decode as servers of their own
//! * `kv_events.rs`: what routers hear of its caches
//! * `templates.rs`: chats that a template makes prompts of
//! * `dialects.rs`: what each server reads and refuses, and how; `rids.rs`: requests that are ended by their names
//! * `shares.rs`: memory of bodies and texts, which many share
//! * `watching.rs`: what watchers read
//! * `classes.rs`: requests of several classes and models, and the same again
//! * `faults.rs`: faults that are told to it; `silence.rs`: clients that hold a place and say nothing

mod behind;
mod bodies;
mod bounds;
mod broken;
mod classes;
mod day;
mod dialects;
mod faults;
mod fuzz;
mod handover;
mod kv_events;
mod lengths;
mod rids;
mod shares;
mod silence;
mod templates;
mod trace;
mod watching;
mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

const SCENARIO: &str = "name = 'served'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\n\
                        gpu = 'H100-SXM5-80GB'\nhost = 'none'\n[workload]\nnum_requests = 10\n\
                        arrivals.type = 'poisson'\narrivals.rate_per_s = 1.0\nlengths.type = 'fixed'\n\
                        lengths.input_tokens = 100\nlengths.output_tokens = 7\n";

/// A server that ends with its test.
struct Server {
    process: Child,
    address: SocketAddr,
    /// All addresses that it listens at.
    others: Vec<SocketAddr>,
    folder: tempfile::TempDir,
    /// What it has said on stderr.
    said: Arc<Mutex<String>>,
}

impl Server {
    fn start(scenario: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("scenario.toml"), scenario).expect("it is written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_servecast"))
            .args(["serve", "scenario.toml", "--port", "0"])
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = process.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("it is text"));
        let mut before = String::new();
        let listens = lines.by_ref().find_map(|line| {
            before += &line;
            before.push('\n');
            let (_, rest) = line.split_once("at http://")?;
            let rest = rest.split(" (").next()?;
            rest.split(", http://").map(|address| address.parse().ok()).collect()
        });
        let others: Vec<SocketAddr> =
            listens.unwrap_or_else(|| panic!("it says where it listens, not:\n{before}"));
        // What it says later must not fill the pipe.
        let said = Arc::new(Mutex::new(before));
        let hears = said.clone();
        std::thread::spawn(move || {
            for line in lines {
                *hears.lock().expect("no thread panics with it") += &(line + "\n");
            }
        });
        Self { process, address: others[0], others, folder, said }
    }

    fn said(&self) -> String {
        self.said.lock().expect("no thread panics with it").clone()
    }

    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        send_to(self.address, method, path, body)
    }

    fn text(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        text_at(self.address, method, path, body)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.text(method, path, &body.to_string());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.json("POST", path, body);
        assert_eq!(status, 200, "{path} {body}: {value}");
        value
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.json("GET", path, &json!({}));
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// The data of all events of a stream.
    fn events(&self, path: &str, body: &Value) -> Vec<String> {
        let (status, text) = self.text("POST", path, &body.to_string());
        assert_eq!(status, 200, "{text}");
        text.split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .map(String::from)
            .collect()
    }

    /// Tells it to end, as a person would.
    fn interrupt(&self) {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().expect("it is told");
    }

    /// Ends it, and gives its exit code.
    fn stop(&mut self) -> Option<i32> {
        self.interrupt();
        self.process.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn send_to(address: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    send_with(address, "", method, path, body)
}

/// Sends a request with these lines of its head too.
fn send_with(
    address: SocketAddr,
    headers: &str,
    method: &str,
    path: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    stream
}

fn text_at(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    read_whole(send_to(address, method, path, body))
}

/// The status and the body of the answer.
fn read_whole(mut stream: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    (status.expect("a status"), if is_chunked { unchunked(body) } else { body.to_owned() })
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).expect("a length");
        if length == 0 {
            break;
        }
        whole.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
    whole
}

/// The summary of a run, by the name of its folder.
fn summary(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(name).join("summary.json"));
    serde_json::from_str(&text.expect("it is there")).expect("it is JSON")
}

/// Runs what was asked again.
fn again(folder: &Path) -> Value {
    let run = Command::new(env!("CARGO_BIN_EXE_servecast"))
        .args(["run", "out/replay.toml", "--output-dir", "again"])
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    summary(folder, "again")
}

/// The metric with this begin, labels included.
fn metric(text: &str, begin: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(begin));
    let value = line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {begin} in\n{text}"))
}

#[test]
fn answers_are_as_long_as_they_are_asked_to_be_and_counted() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "20"]);
    let prompt = "The quick brown fox jumps over the lazy dog.";
    let whole = server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 9}));
    let usage = &whole["usage"];
    assert_eq!(usage["prompt_tokens"], prompt.len().div_ceil(4));
    assert_eq!(usage["completion_tokens"], 9);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let text = whole["choices"][0]["text"].as_str().expect("a text");
    let tokens = server.post("/tokenize", &json!({"prompt": text}));
    assert_eq!(tokens["count"], 9);
    // Without a limit, as in the workload.
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let chat = server.post("/v1/chat/completions", &json!({"messages": messages}));
    assert_eq!(chat["usage"]["completion_tokens"], 7);
    // Several prompts with several answers each.
    let body = json!({"prompt": ["one", "two"], "n": 2, "max_tokens": 3});
    let four = server.post("/v1/completions", &body);
    assert_eq!(four["choices"].as_array().map(Vec::len), Some(4));
    assert_eq!(four["usage"]["completion_tokens"], 12);
    assert_eq!(four["usage"]["prompt_tokens"], 2);
    let native = server.post(
        "/generate",
        &json!({"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 5}}),
    );
    assert_eq!(native["meta_info"]["completion_tokens"], 5);
    assert_eq!(native["meta_info"]["prompt_tokens"], 3);
    let (_, metrics) = server.text("GET", "/metrics", "");
    let model = "{model_name=\"meta-llama/Llama-3.1-8B\",engine=\"0\"";
    assert_eq!(metric(&metrics, &format!("vllm:generation_tokens_total{model}")), 33);
    let ended = format!("vllm:request_success_total{model},finished_reason=\"length\"");
    assert_eq!(metric(&metrics, &ended), 6);
    let report = server.get("/servecast/report");
    assert_eq!(report["benchmark"]["completed"], 7);
}

#[test]
fn streams_bring_every_token_and_end_as_clients_expect() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let body = json!({
        "prompt": "abcd", "max_tokens": 12, "stream": true, "stream_options": {"include_usage": true},
    });
    let mut events = server.events("/v1/completions", &body);
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let events: Vec<Value> =
        events.iter().map(|it| serde_json::from_str(it).expect("it is JSON")).collect();
    let usage = events.last().expect("usage");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 12);
    let texts: Vec<&str> =
        events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(texts.concat().len(), 12 * 4);
    assert!(texts.len() > 6, "tokens come one by one: {texts:?}");
    let mut cumulative = server.events(
        "/generate",
        &json!({"text": "abcd", "stream": true, "sampling_params": {"max_new_tokens": 6}}),
    );
    assert_eq!(cumulative.pop().as_deref(), Some("[DONE]"));
    let last: Value =
        serde_json::from_str(&cumulative.pop().expect("a chunk")).expect("it is JSON");
    assert_eq!(last["text"].as_str().map(str::len), Some(24));
    assert_eq!(last["meta_info"]["finish_reason"]["type"], "length");
}

#[test]
fn an_answer_that_is_sent_back_is_found_in_the_cache() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "100"]);
    let mut messages = vec![json!({"role": "user", "content": "abcd".repeat(40)})];
    let body = |messages: &[Value]| json!({"messages": messages, "max_tokens": 64});
    let first = server.post("/v1/chat/completions", &body(&messages));
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "And then?"}));
    let second = server.post("/v1/chat/completions", &body(&messages));
    let whole = first["usage"]["total_tokens"].as_u64().expect("a number");
    // All full blocks of 16 of the first prompt and its answer but for its last token.
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert_eq!(cached, Some((whole - 1) / 16 * 16));
}

#[test]
fn what_is_not_simulated_is_refused_by_name() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let refused = [
        (json!({"prompt": "a", "stop": ["x"]}), "stop"),
        (json!({"prompt": "a", "logprobs": 3}), "logprobs"),
        (json!({"prompt": "a", "colour": "red"}), "colour"),
        (json!({"prompt": "a", "max_tokens": 0}), "max_tokens"),
        (json!({"prompt": "a", "max_tokens": 5, "min_tokens": 6}), "min_tokens"),
        (json!({"prompt": {"a": 1}}), "prompt"),
        (json!({}), "prompt"),
    ];
    for (body, field) in refused {
        let (status, error) = server.json("POST", "/v1/completions", &body);
        assert_eq!((status, error["error"]["param"].as_str()), (400, Some(field)), "{error}");
    }
    let (status, error) =
        server.json("POST", "/v1/completions", &json!({"prompt": "a", "model": "x"}));
    assert_eq!(status, 404, "{error}");
    let long = json!({"prompt": "abcd".repeat(140_000)});
    let (status, error) = server.json("POST", "/v1/completions", &long);
    assert_eq!(status, 400);
    assert!(error["error"]["message"].as_str().is_some_and(|it| it.contains("131072")), "{error}");
    assert_eq!(server.text("POST", "/v1/completions", "{").0, 400);
    assert_eq!(server.text("GET", "/nowhere", "").0, 404);
    assert_eq!(
        server.text("POST", "/servecast/faults", r#"{"type":"crash","replica":7,"down_s":1}"#).0,
        400
    );
    assert_eq!(server.text("POST", "/servecast/speed", r#"{"speed":0}"#).0, 400);
}

#[test]
fn a_key_keeps_others_out() {
    let server = Server::start(SCENARIO, &["--no-files", "--api-key", "secret"]);
    assert_eq!(server.text("GET", "/health", "").0, 200);
    assert_eq!(server.text("GET", "/v1/models", "").0, 401);
    assert_eq!(server.text("POST", "/servecast/speed", r#"{"speed":2}"#).0, 401);
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let head = "GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer secret\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn who_hangs_up_frees_the_engine() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let body = json!({"prompt": "abcd", "max_tokens": 100_000, "stream": true}).to_string();
    let mut stream = server.send("POST", "/v1/completions", &body);
    let mut some = [0; 400];
    stream.read_exact(&mut some).expect("it begins");
    drop(stream);
    for tries in 0.. {
        let (_, metrics) = server.text("GET", "/metrics", "");
        if metric(&metrics, "vllm:num_requests_running") == 0 {
            break;
        }
        assert!(tries < 500, "{metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_, metrics) = server.text("GET", "/metrics", "");
    let model = "{model_name=\"meta-llama/Llama-3.1-8B\",engine=\"0\"";
    let aborted = format!("vllm:request_success_total{model},finished_reason=\"abort\"");
    assert_eq!(metric(&metrics, &aborted), 1);
}

#[test]
fn a_crash_ends_answers_and_the_replica_comes_back() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "10"]);
    let body = json!({"prompt": "abcd", "max_tokens": 5000}).to_string();
    let mut waiting = server.send("POST", "/v1/completions", &body);
    std::thread::sleep(Duration::from_millis(200));
    server.post("/servecast/faults", &json!({"type": "crash", "replica": 0, "down_s": 3.0}));
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let (status, _) = server.json("POST", "/v1/completions", &json!({"prompt": "a"}));
    assert_eq!(status, 503, "nobody is up");
    std::thread::sleep(Duration::from_millis(400));
    server.post("/v1/completions", &json!({"prompt": "a"}));
}

#[test]
fn a_server_that_ends_leaves_a_folder_behind() {
    let mut server = Server::start(SCENARIO, &["--output-dir", "out", "--grace", "0"]);
    server.post("/v1/completions", &json!({"prompt": "abcdefgh", "max_tokens": 4}));
    let body = json!({"prompt": "abcd", "max_tokens": 100_000}).to_string();
    let mut waiting = server.send("POST", "/v1/completions", &body);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.stop(), Some(0));
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let summary = std::fs::read_to_string(server.folder.path().join("out/summary.json"));
    let summary: Value = serde_json::from_str(&summary.expect("it is there")).expect("it is JSON");
    assert_eq!(summary["requests"]["arrived"], 2);
    assert_eq!(summary["requests"]["finished"], 1);
}

#[test]
fn what_was_asked_is_run_again_to_the_same_lengths_and_hits() {
    let mut server = Server::start(SCENARIO, &["--output-dir", "out", "--speed", "50"]);
    let prompt = "abcdefgh".repeat(100);
    for tokens in 1..6 {
        let body = json!({"prompt": format!("{prompt}{tokens}"), "max_tokens": tokens * 10});
        server.post("/v1/completions", &body);
    }
    assert_eq!(server.stop(), Some(0));
    let folder = server.folder.path();
    let (served, again) = (summary(folder, "out"), again(folder));
    for figure in ["completed", "total_input_tokens", "total_output_tokens", "mean_tpot_ms"] {
        assert_eq!(served["benchmark"][figure], again["benchmark"][figure], "{figure}");
    }
    let cached = |summary: &Value| summary["cluster"]["replicas"][0]["cached_tokens"].clone();
    assert_eq!(cached(&served), json!(4 * 192));
    assert_eq!(cached(&served), cached(&again));
}

#[test]
fn each_replica_may_have_a_port_of_its_own() {
    let scenario = SCENARIO.replace("host = 'none'", "host = 'none'\nreplicas = 3");
    let server = Server::start(&scenario, &["--no-files", "--port-per-replica", "--speed", "50"]);
    let addresses = server.others.clone();
    assert_eq!(addresses.len(), 3);
    let at = |place: usize| addresses[place];
    let prompt = json!({"prompt": "abcd".repeat(100), "max_tokens": 3});
    let cached = |place: usize| {
        let body = prompt.to_string();
        let (_, text) = text_at(at(place), "POST", "/v1/completions", &body);
        let answer: Value = serde_json::from_str(&text).expect("it is JSON");
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64()
    };
    assert_eq!(cached(1), Some(0));
    assert_eq!(cached(1), Some(96), "it went to the same replica");
    assert_eq!(cached(2), Some(0), "another replica has another cache");
    server.post("/servecast/faults", &json!({"type": "crash", "replica": 1, "down_s": 1e6}));
    let health = |place: usize| text_at(at(place), "GET", "/health", "").0;
    // The driver takes a fault in with its next turn.
    let turns = (0..1000).take_while(|_| health(1) != 503);
    turns.for_each(|_| std::thread::sleep(Duration::from_millis(5)));
    assert_eq!([health(0), health(1), health(2)], [200, 503, 200]);
    assert_eq!(text_at(at(1), "POST", "/v1/completions", &prompt.to_string()).0, 503);
    let (_, metrics) = text_at(at(2), "GET", "/metrics", "");
    let model = "{model_name=\"meta-llama/Llama-3.1-8B\",engine=\"0\"";
    assert_eq!(metric(&metrics, &format!("vllm:generation_tokens_total{model}")), 3);
}
