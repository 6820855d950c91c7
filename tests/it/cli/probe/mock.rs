//! A server of completions that takes its time by a law.

#![expect(clippy::disallowed_methods, reason = "the server answers in real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A law of step times, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Law {
    pub(super) delay: f64,
    pub(super) prefill: f64,
    pub(super) prefill_token: f64,
    pub(super) decode: f64,
    pub(super) decode_seq: f64,
    pub(super) decode_context: f64,
}

/// How a server misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Answers whole.
    DoesNotStream,
    /// Answers with an error.
    Refuses,
    /// Takes no token ids.
    WantsText,
    /// Never answers.
    Hangs,
    /// Several tokens in a chunk.
    Bundles,
    /// Hangs up in the middle.
    HangsUp,
}

struct Request {
    arrival: Instant,
    prompt: u32,
    left: u32,
    tokens: Sender<()>,
}

/// Starts a server for the rest of the test; its address.
pub(super) fn serve(law: Law, fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, arrivals) = channel();
    thread::spawn(move || engine(law, &arrivals));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let requests = requests.clone();
            // A client that has gone is no failure of the server.
            thread::spawn(move || drop(connection(stream, &requests, law, fault)));
        }
    });
    format!("http://{address}")
}

/// Prefills whatever waits in one step, else decodes all. Steps end at times that follow from their
/// law alone, so that a busy machine delays tokens and does not add up.
fn engine(law: Law, arrivals: &Receiver<Request>) {
    let mut running: Vec<(Request, u32)> = Vec::new();
    let mut now = Instant::now();
    let mut noise = 1u64;
    loop {
        let mut waiting = Vec::new();
        if running.is_empty() {
            let Ok(request) = arrivals.recv() else { return };
            now = now.max(request.arrival);
            waiting.push(request);
        }
        loop {
            match arrivals.try_recv() {
                Ok(request) => waiting.push(request),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let ms = if waiting.is_empty() {
            let context: u32 = running.iter().map(|(_, context)| context).sum();
            law.decode
                + law.decode_seq * running.len() as f64
                + law.decode_context * f64::from(context)
        } else {
            let tokens: u32 = waiting.iter().map(|request| request.prompt).sum();
            law.prefill + law.prefill_token * f64::from(tokens)
        };
        // Between -0.5 % and +0.5 %.
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = 1.0 + 0.01 * ((noise >> 33) as f64 / (1u64 << 31) as f64 - 0.5);
        now += Duration::from_secs_f64(ms * share / 1e3);
        thread::sleep(now.saturating_duration_since(Instant::now()));
        if waiting.is_empty() {
            for (request, context) in &mut running {
                *context += 1;
                request.left -= 1;
                let _ = request.tokens.send(());
            }
        } else {
            running.extend(waiting.into_iter().map(|mut request| {
                request.left -= 1;
                let _ = request.tokens.send(());
                let prompt = request.prompt;
                (request, prompt)
            }));
        }
        running.retain(|(request, _)| request.left > 0);
    }
}

fn connection(
    mut stream: TcpStream,
    requests: &Sender<Request>,
    law: Law,
    fault: Fault,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let arrival = Instant::now() + Duration::from_secs_f64(law.delay / 1e3);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if first.starts_with("GET /v1/models ") {
            let models = json!({ "data": [
                { "id": "mock", "owned_by": "vllm", "root": "mock", "max_model_len": 4096 },
            ] });
            whole(&mut stream, "200 OK", &models)?;
            continue;
        }
        let asked: Value = serde_json::from_slice(&body)?;
        let is_text = asked["prompt"].is_string();
        if fault == Fault::Refuses || (fault == Fault::WantsText && !is_text) {
            let words = json!({ "error": { "message": "the mock does not like it" } });
            let status = if is_text { "500 Internal Server Error" } else { "400 Bad Request" };
            whole(&mut stream, status, &words)?;
            continue;
        }
        match fault {
            Fault::DoesNotStream => whole(&mut stream, "200 OK", &json!({ "choices": [] }))?,
            Fault::Hangs => thread::sleep(Duration::from_mins(1)),
            _ => stream_tokens(&mut stream, requests, arrival, &asked, fault)?,
        }
        if fault == Fault::HangsUp {
            return Ok(());
        }
    }
}

fn whole(stream: &mut TcpStream, status: &str, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn stream_tokens(
    stream: &mut TcpStream,
    requests: &Sender<Request>,
    arrival: Instant,
    asked: &Value,
    fault: Fault,
) -> std::io::Result<()> {
    assert_eq!(asked["stream"], true);
    assert_eq!(asked["ignore_eos"], true);
    let prompt = match &asked["prompt"] {
        Value::Array(ids) => ids.len() as u32,
        text => 2 * text.as_str().unwrap().split_whitespace().count() as u32,
    };
    let expected = asked["max_tokens"].as_u64().unwrap() as u32;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    )?;
    // The way to the engine's queue.
    thread::sleep(arrival.saturating_duration_since(Instant::now()));
    let (sender, tokens) = channel();
    let _ = requests.send(Request { arrival, prompt, left: expected, tokens: sender });
    for (index, ()) in tokens.iter().enumerate() {
        if fault == Fault::Bundles && index % 2 == 1 {
            continue;
        }
        if fault == Fault::HangsUp && index == 2 {
            return Ok(());
        }
        event(stream, &json!({ "choices": [{ "text": "a", "index": 0 }] }).to_string())?;
    }
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": expected });
    event(stream, &json!({ "choices": [], "usage": usage }).to_string())?;
    event(stream, "[DONE]")?;
    write!(stream, "0\r\n\r\n")
}

fn event(stream: &mut TcpStream, data: &str) -> std::io::Result<()> {
    let text = format!("data: {data}\n\n");
    // One write, so that one packet carries it.
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
