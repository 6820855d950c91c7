//! Prefill and decode behind ports of their own, led by a router as those of vLLM and SGLang do it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{SCENARIO, Server, metric, text_at};

/// One replica that prefills and two that decode.
fn parts(engine: &str) -> Server {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 2, transfer = { nic_gb_per_s = 50.0 } }\n";
    let scenario =
        SCENARIO.replace("model = ", &format!("engine.type = '{engine}'\n{parts}model = "));
    Server::start(&scenario, &["--no-files", "--speed", "50", "--port-per-replica"])
}

fn ask(at: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = text_at(at, "POST", path, &body.to_string());
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn prompt() -> Vec<u64> {
    (0..1_000).collect()
}

/// The prompt, as a router sends it to a server that prefills.
fn to_prefill() -> Value {
    json!({
        "prompt": prompt(), "max_tokens": 1, "stream": false,
        "kv_transfer_params": {
            "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
            "remote_block_ids": null, "remote_host": null, "remote_port": null,
        },
    })
}

#[test]
fn a_router_leads_requests_of_vllm_from_prefill_to_decode() {
    let mut server = parts("vllm_v1");
    let [prefill, _, decode] = server.others[..] else { panic!("{:?}", server.others) };
    for _ in 0..2 {
        let (status, first) = ask(prefill, "/v1/completions", &to_prefill());
        assert_eq!(status, 200, "{first}");
        assert_eq!(first["usage"]["completion_tokens"], 1);
        let params = first["kv_transfer_params"].clone();
        assert_eq!(params["do_remote_prefill"], true);
        assert_eq!(params["remote_block_ids"][0].as_array().map(Vec::len), Some(63));
        let body = json!({"prompt": prompt(), "max_tokens": 20, "kv_transfer_params": params});
        let (status, whole) = ask(decode, "/v1/completions", &body);
        assert_eq!(status, 200, "{whole}");
        assert_eq!(whole["usage"]["completion_tokens"], 20);
        assert_eq!(whole["choices"][0]["finish_reason"], "length");
        // The KV has been fetched: nobody gets it twice.
        let (status, again) = ask(decode, "/v1/completions", &body);
        assert_eq!(status, 503, "{again}");
    }
    // A server that decodes computes prompts too, as a router may have it.
    let alone = json!({"prompt": [1, 2, 3], "max_tokens": 5});
    let (status, whole) = ask(decode, "/v1/completions", &alone);
    assert_eq!((status, &whole["usage"]["completion_tokens"]), (200, &json!(5)), "{whole}");
    let metrics = |at| text_at(at, "GET", "/metrics", "").1;
    let of = |at, name: &str| metric(&metrics(at), &format!("vllm:{name}"));
    assert_eq!(of(prefill, "generation_tokens_total"), 2);
    assert_eq!(of(decode, "generation_tokens_total"), 45);
    let report = server.get("/servecast/report");
    assert_eq!(report["requests"]["finished"], 3, "{}", report["requests"]);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn kv_that_nobody_fetches_is_given_up() {
    let server = parts("vllm_v1");
    let [prefill, decode, _] = server.others[..] else { panic!("{:?}", server.others) };
    let (_, first) = ask(prefill, "/v1/completions", &to_prefill());
    // Its lease is 30 s; the server runs 50 times as fast.
    std::thread::sleep(std::time::Duration::from_millis(900));
    let params = first["kv_transfer_params"].clone();
    let body = json!({"prompt": prompt(), "max_tokens": 20, "kv_transfer_params": params});
    let (status, late) = ask(decode, "/v1/completions", &body);
    assert_eq!(status, 503, "{late}");
    let report = server.get("/servecast/report");
    assert_eq!(report["requests"]["aborted"], 1, "{}", report["requests"]);
}

#[test]
fn what_a_server_does_not_do_is_refused() {
    let server = parts("vllm_v1");
    let [prefill, decode, _] = server.others[..] else { panic!("{:?}", server.others) };
    let whole = json!({"prompt": [1, 2, 3], "max_tokens": 5});
    let cases = [
        (prefill, whole, "`do_remote_decode` must be true"),
        (
            prefill,
            json!({"prompt": [1], "kv_transfer_params": {"do_remote_prefill": true}}),
            "this one prefills",
        ),
        (decode, to_prefill(), "this one decodes"),
        (
            decode,
            json!({"prompt": [1], "kv_transfer_params": {"do_remote_prefill": true, "remote_request_id": "x"}}),
            "`remote_request_id` must be what a server that prefills has answered",
        ),
        (
            decode,
            json!({"prompt": [1], "bootstrap_room": 1}),
            "vLLM's servers take `kv_transfer_params`",
        ),
        (
            decode,
            json!({"prompt": [1], "n": 2, "kv_transfer_params": {"do_remote_prefill": true, "remote_request_id": "servecast-0"}}),
            "has one answer, got 2",
        ),
    ];
    for (at, body, problem) in cases {
        let (status, refusal) = ask(at, "/v1/completions", &body);
        assert_eq!(status, 400, "{body}: {refusal}");
        let message = refusal["error"]["message"].as_str().expect("a message");
        assert!(message.contains(problem), "{body}: {message}");
    }
}

#[test]
fn a_router_sends_requests_of_sglang_to_both_at_once() {
    let mut server = parts("sglang");
    let [prefill, first, second] = server.others[..] else { panic!("{:?}", server.others) };
    std::thread::scope(|scope| {
        for room in 0..6_u64 {
            let decode = if room % 2 == 0 { first } else { second };
            let body = json!({
                "input_ids": prompt(), "sampling_params": {"max_new_tokens": 20},
                "bootstrap_host": "127.0.0.1", "bootstrap_port": 8998, "bootstrap_room": room << 40,
            });
            let other = body.clone();
            let prefills = scope.spawn(move || ask(prefill, "/generate", &other));
            scope.spawn(move || {
                let (status, whole) = ask(decode, "/generate", &body);
                assert_eq!(status, 200, "{whole}");
                assert_eq!(whole["meta_info"]["completion_tokens"], 20);
                let (status, one) = prefills.join().expect("it is answered");
                assert_eq!((status, &one["meta_info"]["completion_tokens"]), (200, &json!(1)));
            });
        }
    });
    let (status, refusal) = ask(first, "/generate", &json!({"input_ids": [1, 2, 3]}));
    assert_eq!(status, 400, "{refusal}");
    let mode = |at| {
        let (_, text) = text_at(at, "GET", "/get_server_info", "");
        serde_json::from_str::<Value>(&text).expect("JSON")["disaggregation_mode"].clone()
    };
    assert_eq!((mode(prefill), mode(second)), (json!("prefill"), json!("decode")));
    // Who waits for its other server leaves nothing behind when it goes away.
    let body = json!({"input_ids": prompt(), "bootstrap_room": 7}).to_string();
    drop(super::send_to(prefill, "POST", "/generate", &body));
    std::thread::sleep(std::time::Duration::from_millis(200));
    let report = server.get("/servecast/report");
    assert_eq!(report["requests"]["finished"], 6, "{}", report["requests"]);
    assert_eq!(server.stop(), Some(0));
}
