//! Connections that break the rules of HTTP, or break off.
//!
//! Whoever has sent its end is shown out: the server closes such a connection, with an answer or without one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rand::RngExt;
use serde_json::json;

use servecast::rng::Stream;

use super::wire::{Wire, request};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Lines and headers that servers have taken for others.
const HEADS: &[&str] = &[
    "GET /health HTTP/9.9\r\n\r\n",
    "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /health\r\n\r\n",
    "get /health HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT localhost:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://other.host/health HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /v1/models/%ff%fe HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /v1/models/%2e%2e%2f HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /health?%%%=\u{0} HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: a\r\nX: \u{7}\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: a\r\n folded: yes\r\n\r\n",
    "GET /health HTTP/1.1\nHost: a\n\n",
];

fn completion(random: &mut Stream, stream: bool) -> Vec<u8> {
    let max_tokens = if stream { 1500 } else { random.random_range(1..20) };
    json!({"prompt": "abcd", "max_tokens": max_tokens, "stream": stream}).to_string().into_bytes()
}

fn noise(random: &mut Stream, most: usize) -> Vec<u8> {
    let len = random.random_range(0..most);
    (0..len).map(|_| random.random()).collect()
}

/// One connection that goes wrong in one of many ways.
pub(super) fn break_off(random: &mut Stream, address: SocketAddr, case: &str) {
    let kind = random.random_range(0..14);
    let case = format!("{case}, kind {kind}");
    let whole = request("POST", "/v1/completions", &completion(random, false));
    match kind {
        0 => closed(address, &noise(random, 3000), &case),
        1 => closed(address, &whole[..random.random_range(0..whole.len())], &case),
        2 => closed(address, &wrong_length(random), &case),
        3 => closed(address, &cut_chunks(random), &case),
        4 => endless_headers(address, &case),
        5 => {
            let lines = "X-Many: y\r\n".repeat(1000);
            closed(address, format!("GET /health HTTP/1.1\r\n{lines}\r\n").as_bytes(), &case);
        }
        6 => closed(address, &[PREFACE, &noise(random, 300)].concat(), &case),
        7 => streams_of_two(random, address, &case),
        8 => pipelined(random, address, &case),
        9 => closed(address, HEADS[random.random_range(0..HEADS.len())].as_bytes(), &case),
        10 => {
            let mut bytes = whole;
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
            closed(address, &bytes, &case);
        }
        11 => {
            // A request after which its client is gone.
            let mut wire = Wire::to(address);
            drop(wire.send(&whole));
            std::thread::sleep(Duration::from_micros(random.random_range(0..3000)));
        }
        12 => {
            let path = "x".repeat(random.random_range(1000..200_000));
            closed(address, format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), &case);
        }
        _ => reads_nothing(random, address),
    }
}

/// Sends it and its end; the server closes the connection, and what it says before is no failure of its own.
fn closed(address: SocketAddr, bytes: &[u8], case: &str) {
    let mut wire = Wire::to(address);
    // Who is refused before all is sent cannot send the rest.
    let _refused = wire.send(bytes);
    let _refused = wire.stream().shutdown(Shutdown::Write);
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    match wire.rest() {
        Ok(answer) => {
            let is_failure = answer.starts_with(b"HTTP/1.1 500")
                && !String::from_utf8_lossy(&answer).contains("the request was aborted");
            assert!(!is_failure, "{case}: {shown}\n{}", String::from_utf8_lossy(&answer));
        }
        // What was left unread on either side ends a connection by a reset.
        Err(error) => {
            let is_hang =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            assert!(!is_hang, "{case}: not closed: {shown}");
        }
    }
}

/// The body is longer or shorter than its length says.
fn wrong_length(random: &mut Stream) -> Vec<u8> {
    let body = completion(random, false);
    let length = random.random_range(0..2 * body.len());
    let head =
        format!("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    [head.into_bytes(), body].concat()
}

/// A body in parts, that ends anywhere.
fn cut_chunks(random: &mut Stream) -> Vec<u8> {
    let body = completion(random, false);
    let mut bytes =
        b"POST /generate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for part in body.chunks(random.random_range(1..20)) {
        bytes.extend(format!("{:x}\r\n", part.len()).into_bytes());
        bytes.extend_from_slice(part);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes.truncate(random.random_range(0..=bytes.len()));
    bytes
}

/// Headers without an end are refused before they are many megabytes.
fn endless_headers(address: SocketAddr, case: &str) {
    let mut wire = Wire::to(address);
    drop(wire.send(b"GET /health HTTP/1.1\r\n"));
    let line = format!("X: {}\r\n", "y".repeat(1000));
    let refused = (0..16_000).any(|_| wire.send(line.as_bytes()).is_err());
    assert!(refused, "{case}: 16 MB of headers are taken");
}

/// HTTP/2: streams that are begun and taken back, some of them with bodies.
fn streams_of_two(random: &mut Stream, address: SocketAddr, case: &str) {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [head, payload.to_vec()].concat()
    };
    let literal = |index: u8, text: &str| [&[index, text.len() as u8], text.as_bytes()].concat();
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
    for stream in (1..random.random_range(2..200)).step_by(2) {
        // POST and http as HPACK's table has them, `:path` and `:authority` written out.
        let head =
            [vec![0x83, 0x86], literal(4, "/v1/completions"), literal(1, "localhost")].concat();
        bytes.extend(frame(1, 4, stream, &head));
        if random.random_bool(0.7) {
            bytes.extend(frame(0, 1, stream, &completion(random, true)));
        }
        if random.random_bool(0.7) {
            bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        }
    }
    if random.random_bool(0.3) {
        let at = random.random_range(PREFACE.len()..bytes.len());
        bytes[at] = random.random();
    }
    if random.random_bool(0.5) {
        return closed(address, &bytes, case);
    }
    let mut stream = TcpStream::connect(address).expect("it listens");
    drop(stream.write_all(&bytes));
    drop(stream.set_read_timeout(Some(Duration::from_millis(5))));
    drop(stream.read(&mut [0; 1000]));
}

/// Several requests at once; each has its answer, in turn.
fn pipelined(random: &mut Stream, address: SocketAddr, case: &str) {
    let count = random.random_range(2..6);
    let bodies: Vec<Vec<u8>> = (0..count)
        .map(|_| request("POST", "/v1/completions", &completion(random, false)))
        .collect();
    let mut wire = Wire::to(address);
    wire.send(&bodies.concat()).expect("it is sent");
    for place in 0..count {
        let answer = wire.answer().unwrap_or_else(|error| panic!("{case}: {place}: {error}"));
        let is_aborted = answer.status == 500 && answer.body.contains("the request was aborted");
        assert!(is_aborted || matches!(answer.status, 200 | 503), "{case}: {answer:?}");
    }
}

/// A long stream of which nothing is read, or its begin; then its client is gone.
fn reads_nothing(random: &mut Stream, address: SocketAddr) {
    let mut wire = Wire::to(address);
    let path = ["/v1/completions", "/v1/chat/completions"][random.random_range(0..2)];
    let mut body = json!({"max_tokens": 1500, "stream": true});
    if path.ends_with("chat/completions") {
        body["messages"] = json!([{"role": "user", "content": "abcd"}]);
    } else {
        body["prompt"] = json!("abcd");
        body["n"] = json!(random.random_range(1..5));
    }
    drop(wire.send(&request("POST", path, body.to_string().as_bytes())));
    if random.random_bool(0.5) {
        drop(wire.head());
    }
    std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
}
