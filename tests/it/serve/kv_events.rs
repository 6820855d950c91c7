//! What a router hears that listens to the engines' KV-cache events, as it would of vLLM or SGLang.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use super::{SCENARIO, Server};

const ON: &str = r#"{"enable_kv_cache_events": true, "endpoint": "tcp://*:0", "topic": "kv@pod"}"#;

/// A listener to the events of one replica.
struct Listener {
    socket: SubSocket,
    next: u64,
}

impl Listener {
    async fn to(address: &str) -> Self {
        let mut socket = SubSocket::new();
        socket.connect(address).await.expect("it publishes");
        socket.subscribe("kv@").await.expect("it is told");
        Self { socket, next: 0 }
    }

    /// The events of the next batch.
    async fn batch(&mut self) -> Vec<Value> {
        let waits = tokio::time::timeout(Duration::from_secs(20), self.socket.recv());
        let message = waits.await.expect("events come").expect("they are whole").into_vec();
        let [topic, number, payload] = message.as_slice() else { panic!("{message:?}") };
        assert_eq!(topic.as_ref(), b"kv@pod");
        let number = u64::from_be_bytes(number.as_ref().try_into().expect("eight bytes"));
        assert_eq!(number, self.next, "batches are numbered");
        self.next += 1;
        let batch: Value = rmp_serde::from_slice(payload).expect("MessagePack");
        assert!(batch[0].as_f64().expect("a time") > 1e9);
        assert_eq!(batch[2], 0, "the rank");
        batch[1].as_array().expect("a list of events").clone()
    }

    /// Events up to the first of a type.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while !events.iter().any(|event: &Value| event["type"] == kind) {
            events.append(&mut self.batch().await);
        }
        events
    }
}

fn publishes_at(server: &Server) -> Vec<String> {
    let said = server.said();
    let line = said.lines().find_map(|line| line.strip_prefix("publishing KV-cache events at "));
    line.expect("it says where").split(", ").map(String::from).collect()
}

fn tokens_of(event: &Value) -> Vec<u64> {
    let tokens = event["token_ids"].as_array().expect("tokens");
    tokens.iter().map(|token| token.as_u64().expect("a token")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_of_blocks_with_their_tokens() {
    hears_of_blocks_with_their_tokens(SCENARIO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_what_dynamos_router_hears_too() {
    let router = "[cluster.router]\ndynamo = {}\n[workload]";
    hears_of_blocks_with_their_tokens(&SCENARIO.replace("[workload]", router)).await;
}

async fn hears_of_blocks_with_their_tokens(scenario: &str) {
    let server =
        Server::start(scenario, &["--no-files", "--speed", "50", "--kv-events-config", ON]);
    let mut listener = Listener::to(&publishes_at(&server)[0]).await;
    // Until a subscription is there, nothing is sent.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let prompt: Vec<u64> = (1000..1050).collect();
    server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 40}));
    let mut stored = Vec::new();
    while stored.iter().map(|event: &Value| tokens_of(event).len()).sum::<usize>() < 80 {
        stored.append(&mut listener.batch().await);
    }
    let mut parent = Value::Null;
    let mut tokens = Vec::new();
    for event in &stored {
        assert_eq!(event["type"], "BlockStored", "{event}");
        let fields = ["block_size", "medium", "group_idx", "kv_cache_spec_kind"];
        let values = fields.map(|name| event[name].clone());
        assert_eq!(values, [json!(16), json!("GPU"), json!(0), json!("full_attention")]);
        for name in ["lora_id", "lora_name"] {
            assert_eq!(event.get(name), Some(&Value::Null), "{name}");
        }
        assert_eq!(event["parent_block_hash"], parent, "each goes on where the last ended");
        let hashes = event["block_hashes"].as_array().expect("hashes");
        assert_eq!(hashes.len() * 16, tokens_of(event).len());
        parent = hashes.last().expect("one").clone();
        tokens.append(&mut tokens_of(event));
    }
    assert_eq!(tokens[..50], prompt, "the prompt, then the answer");
    assert_eq!(tokens.len(), 80, "five whole blocks of 89 tokens with KV");
    // The answer that the events told of is the one that the client got.
    let whole = json!({"prompt": tokens, "max_tokens": 1});
    let again = server.post("/v1/completions", &whole);
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
    let hit = listener.until("BlockStored").await;
    assert_eq!(hit[0]["parent_block_hash"], Value::Null, "found blocks are told of from the first");
    assert_eq!(tokens_of(&hit[0]), tokens[..64]);
    let hashes = |event: &Value| event["block_hashes"].as_array().expect("hashes").clone();
    let first: Vec<Value> = stored.iter().flat_map(hashes).collect();
    assert_eq!(hashes(&hit[0]), first[..4], "under the same hashes");
    let (status, said) = server.text("POST", "/reset_prefix_cache", "");
    assert_eq!(status, 200, "{said}");
    listener.until("AllBlocksCleared").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_evicted_is_told_and_what_was_missed_is_sent_again() {
    let scenario = SCENARIO.replace(
        "model = ",
        "engine.type = 'vllm_v1'\nengine.num_gpu_blocks = 40\nengine.max_model_len = 600\nmodel = ",
    );
    let port = free_port();
    let config = json!({
        "publisher": "zmq", "endpoint": "tcp://*:0", "topic": "kv@pod",
        "replay_endpoint": format!("tcp://*:{port}"), "buffer_steps": 1000,
    });
    let config = config.to_string();
    let server =
        Server::start(&scenario, &["--no-files", "--speed", "50", "--kv-events-config", &config]);
    let mut listener = Listener::to(&publishes_at(&server)[0]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for start in [1_000, 2_000, 3_000] {
        let prompt: Vec<u64> = (start..start + 240).collect();
        server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 2}));
    }
    let events = listener.until("BlockRemoved").await;
    let (mut there, mut most) = (HashSet::new(), 0);
    for event in &events {
        let hashes = event["block_hashes"].as_array().expect("hashes");
        let hashes = hashes.iter().map(|hash| hash.as_u64().expect("a number"));
        if event["type"] == "BlockStored" {
            there.extend(hashes);
        } else {
            hashes.for_each(|hash| assert!(there.remove(&hash), "only what was stored goes"));
        }
        most = most.max(there.len());
    }
    assert!(most <= 39, "{most} blocks are said to be cached of 39");
    let mut asker = ReqSocket::new();
    asker.connect(&format!("tcp://127.0.0.1:{port}")).await.expect("it listens");
    let from = ZmqMessage::from(1_u64.to_be_bytes().to_vec());
    asker.send(from).await.expect("it is asked");
    let again = asker.recv().await.expect("it answers").into_vec();
    let number = u64::from_be_bytes(again[1].as_ref().try_into().expect("eight bytes"));
    assert_eq!((again[0].as_ref(), number), (b"kv@pod".as_ref(), 1));
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

#[tokio::test(flavor = "multi_thread")]
async fn sglang_tells_of_pages_and_a_replica_that_starts_again_has_none() {
    let scenario = SCENARIO
        .replace("model = ", "replicas = 2\nengine = { type = 'sglang' }\nmodel = ")
        .replace("[workload]", "[cluster.router]\ntype = 'round_robin'\n[workload]");
    let server =
        Server::start(&scenario, &["--no-files", "--speed", "50", "--kv-events-config", ON]);
    let mut listener = Listener::to(&publishes_at(&server)[1]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let prompt: Vec<u64> = (1000..1100).collect();
    let body = json!({"input_ids": prompt, "sampling_params": {"max_new_tokens": 4}});
    for _ in 0..2 {
        server.post("/generate", &body);
    }
    let stored = listener.until("BlockStored").await;
    let tokens: Vec<u64> = stored.iter().flat_map(tokens_of).collect();
    // In one batch with those of the answer, where the machine is busy.
    let len = tokens.len().min(prompt.len());
    assert_eq!(tokens[..len], prompt[..len]);
    assert_eq!(stored[0].get("group_idx"), None, "SGLang has one kind of block");
    let fault = json!({"type": "crash", "replica": 1, "at_s": 0.0, "down_s": 1.0});
    server.post("/servecast/faults", &fault);
    listener.until("AllBlocksCleared").await;
}

#[test]
fn what_cannot_be_told_is_refused_in_words() {
    let cases = [
        (r#"{"publisher": "kafka"}"#, "`publisher`: must be `zmq` or `null`, got `kafka`"),
        ("nonsense", "not the JSON object that engines take"),
    ];
    for (config, problem) in cases {
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_servecast"))
            .args(["serve", "--no-files", "--port", "0", "--kv-events-config", config])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains("--kv-events-config") && said.contains(problem), "{said}");
    }
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_servecast"))
        .args([
            "serve",
            "--no-files",
            "--port",
            "0",
            "--set",
            "cluster.engine.enable_prefix_caching=false",
        ])
        .args(["--kv-events-config", ON])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("a replica keeps no prefixes"), "{said}");
}
