//! Clients that hold a place and say nothing.

use std::io::Write;
use std::time::Duration;

use super::wire::{Wire, request};
use super::{SCENARIO, Server};

/// It takes as long as clients have for the headers of a request, 15 s.
#[test]
fn who_says_nothing_gives_way_to_others() {
    let server = Server::start(SCENARIO, &["--no-files", "--max-connections", "5"]);
    let mut silent: Vec<Wire> = (0..5).map(|_| Wire::to(server.address)).collect();
    let begins: [&[u8]; 3] =
        [b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", b"GET /health HTTP/1.1\r\nHost:"];
    for (wire, begin) in silent.iter_mut().zip(begins) {
        wire.send(begin).expect("it is sent");
    }
    // One is answered, and asks nothing more; the last has said nothing at all.
    silent[3].send(&request("GET", "/health", b"")).expect("it is sent");
    assert_eq!(silent[3].answer().expect("an answer").status, 200);
    assert_eq!(server.text("GET", "/health", "").0, 200);
    for mut wire in silent {
        wire.stream().set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        wire.rest().expect("the server closes it");
    }
}

#[test]
fn who_says_it_byte_by_byte_is_answered() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let mut wire = Wire::to(server.address);
    for byte in request("POST", "/tokenize", br#"{"prompt": "abcd"}"#) {
        wire.stream().write_all(&[byte]).expect("it is sent");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(wire.answer().expect("an answer").status, 200);
}
