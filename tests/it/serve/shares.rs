//! Memory of bodies and of what is told of texts, which all clients share.

use std::time::Duration;

use serde_json::json;

use super::fuzz::memory_mib;
use super::wire::{Wire, request};
use super::{SCENARIO, Server};

/// A body takes memory as it comes, and not as it says.
#[test]
fn who_announces_large_bodies_keeps_nobody_out() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let mut idle: Vec<Wire> = (0..40).map(|_| Wire::to(server.address)).collect();
    for (place, wire) in idle.iter_mut().enumerate() {
        let length =
            if place % 2 == 0 { "Content-Length: 16777216" } else { "Transfer-Encoding: chunked" };
        let head = format!("POST /tokenize HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n1");
        wire.send(head.as_bytes()).expect("it is sent");
    }
    std::thread::sleep(Duration::from_millis(200));
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 1}));
}

#[test]
fn bodies_in_parts_are_taken_where_one_may_be_larger_than_all_usually_are() {
    let most = 160 << 20;
    let server = Server::start(SCENARIO, &["--no-files", "--max-body", &most.to_string()]);
    let mut wire = Wire::to(server.address);
    wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("it is sent");
    let body = json!({"prompt": "abcd", "max_tokens": 1}).to_string();
    let blank = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..4 {
        wire.send(blank.as_bytes()).expect("it is sent");
    }
    wire.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).expect("it is sent");
    assert_eq!(wire.answer().expect("an answer").status, 200);
}

/// Numbers in few bytes are no more than about as many bytes in memory, and what is told of texts is written as it is read.
#[test]
fn long_lists_and_texts_take_little_memory() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    server.post("/tokenize", &json!({"prompt": "abcd"}));
    let Some(before) = memory_mib(&server) else { return };
    let long = format!("{{\"prompt\":\"{}\"}}", "a".repeat(8 << 20));
    let mut slow: Vec<Wire> = (0..8).map(|_| Wire::to(server.address)).collect();
    for wire in &mut slow {
        wire.send(&request("POST", "/tokenize", long.as_bytes())).expect("it is sent");
        assert_eq!(wire.head().expect("it begins").0, 200);
    }
    let held = memory_mib(&server).expect("it was known").saturating_sub(before);
    // 8 MiB of tokens each, and what an allocator keeps.
    assert!(held < 8 * 8 + 80, "{held} MiB");
    drop(slow);
    let list = format!("{{\"prompt\":[{}1],\"max_tokens\":1}}", "1,".repeat(6 << 20));
    let (status, error) = server.text("POST", "/v1/completions", &list);
    assert_eq!(status, 400, "{error}");
    let most = peak_mib(&server).saturating_sub(before);
    assert!(most < 8 * 8 + 160, "{most} MiB");
}

/// The most memory that it has had.
fn peak_mib(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.process.id());
    let text = std::fs::read_to_string(path).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024
}
