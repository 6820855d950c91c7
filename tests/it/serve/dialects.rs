//! What vLLM and SGLang read of a body and what they refuse, where they differ, and how they say it.

use std::time::Duration;

use serde_json::{Value, json};

use super::wire::Wire;
use super::{SCENARIO, Server};

pub(super) fn sglang() -> String {
    SCENARIO.replace("host = 'none'", "host = 'none'\nengine = { type = 'sglang' }")
}

fn with_adapters() -> String {
    let engine = "host = 'none'\nengine = { type = 'sglang', max_loras_per_batch = 2 }\nlora = {}";
    let adapters = "[workload.adapters]\nkinds = [{ count = 3, rank = 8 }]\n\
                    popularity = { type = 'uniform' }\n";
    SCENARIO.replace("host = 'none'", engine) + adapters
}

fn refused(server: &Server, path: &str, body: &Value) -> String {
    let (status, error) = server.json("POST", path, body);
    assert_eq!(status, 400, "{path} {body}: {error}");
    let said = if error["object"] == "error" { &error } else { &error["error"] };
    said["param"].as_str().or(said["message"].as_str()).expect("it is said").to_owned()
}

#[test]
fn what_would_change_an_answer_of_vllm_is_refused_by_name() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let completions = [
        (json!({"logprobs": 0}), "logprobs"),
        (json!({"prompt_logprobs": 0}), "prompt_logprobs"),
        (json!({"stop_token_ids": [7]}), "stop_token_ids"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options"),
        (json!({"stream": true, "stream_options": {"odd": 1}}), "stream_options.odd"),
        (json!({"extra_key": "a"}), "extra_key"),
        (json!({"routed_dp_rank": 1}), "routed_dp_rank"),
        (json!({"prompt": [1, "a"]}), "prompt"),
    ];
    for (fields, name) in completions {
        let mut body = json!({"prompt": "abcd", "max_tokens": 2});
        for (field, value) in fields.as_object().expect("an object") {
            body[field] = value.clone();
        }
        assert_eq!(refused(&server, "/v1/completions", &body), name, "{body}");
    }
    let messages = |message: Value| json!({"messages": [message], "max_tokens": 2});
    let user = json!({"role": "user", "content": "a"});
    let mut chats = vec![
        messages(json!({"role": "user", "content": "a", "audio": {"id": "b"}})),
        messages(json!({"role": "user", "content": "a", "tool_calls": [{}]})),
        messages(
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "b"}}]}),
        ),
        messages(json!({"role": "user", "content": [{"type": "text", "text": "a", "odd": 1}]})),
        messages(json!({"content": "a"})),
    ];
    for (field, value) in [
        ("chat_template_kwargs", json!({"enable_thinking": false})),
        ("add_special_tokens", json!(true)),
    ] {
        let mut chat = messages(user.clone());
        chat[field] = value;
        assert_eq!(refused(&server, "/v1/chat/completions", &chat), field);
        chats.push(chat);
    }
    for chat in chats {
        refused(&server, "/v1/chat/completions", &chat);
    }
    // What says nothing is read over, so that messages can be sent back as they came.
    let said = json!({
        "role": "assistant", "content": "a", "refusal": null, "tool_calls": [], "audio": null,
        "name": "b",
    });
    let mut chat = json!({"messages": [user, said], "max_tokens": 2, "chat_template_kwargs": {}});
    chat["stop_token_ids"] = json!([]);
    server.post("/v1/chat/completions", &chat);
    assert_eq!(
        refused(&server, "/tokenize", &json!({"prompt": "a", "return_token_strs": true})),
        "return_token_strs"
    );
}

#[test]
fn what_would_change_an_answer_of_sglang_is_refused_by_name() {
    let server = Server::start(&sglang(), &["--no-files"]);
    let params = [
        (json!({"stop_regex": "a"}), "stop_regex"),
        (json!({"stop_token_ids": [1]}), "stop_token_ids"),
        (json!({"max_new_token": 3}), "sampling_params.max_new_token"),
        (json!({"choice": ["a"]}), "choice"),
        (json!({"n": 2}), "n"),
        (json!({"max_new_tokens": 3, "min_new_tokens": 4}), "min_new_tokens"),
    ];
    for (params, name) in params {
        let body = json!({"text": "abcd", "sampling_params": params});
        assert_eq!(refused(&server, "/generate", &body), name);
    }
    for name in ["routed_dp_rank", "data_parallel_rank"] {
        let mut body = json!({"text": "abcd"});
        body[name] = json!(1);
        assert_eq!(refused(&server, "/generate", &body), name);
    }
    let params = json!({"temperature": 0.5, "top_k": 3, "stop": [], "max_new_tokens": 3});
    server.post("/generate", &json!({"text": "abcd", "sampling_params": params}));
}

#[test]
fn an_answer_beyond_the_context_is_refused_and_the_default_is_cut() {
    let scenario = sglang().replace("'sglang'", "'sglang', context_length = 64");
    let server = Server::start(&scenario, &["--no-files", "--speed", "50"]);
    let prompt: Vec<u32> = (0..40).collect();
    let body =
        |limit: u32| json!({"input_ids": prompt, "sampling_params": {"max_new_tokens": limit}});
    let error = refused(&server, "/generate", &body(25));
    assert!(error.starts_with("Requested token count exceeds"), "{error}");
    // SGLang's engine has two tokens less than the context.
    assert_eq!(server.post("/generate", &body(24))["meta_info"]["completion_tokens"], 22);
    let default = server.post("/generate", &json!({"input_ids": prompt}));
    assert_eq!(default["meta_info"]["completion_tokens"], 22, "128 are cut");
    let completion = json!({"prompt": prompt, "max_tokens": 25});
    let error = refused(&server, "/v1/completions", &completion);
    assert!(error.starts_with("Requested token count exceeds"), "{error}");
    // A text that cannot be so few tokens is not cut into them.
    let long = json!({"text": "abcd".repeat(65)});
    assert!(refused(&server, "/generate", &long).contains("64 tokens"));
}

#[test]
fn salts_and_extra_keys_keep_caches_apart() {
    let server = Server::start(&sglang(), &["--no-files", "--speed", "50"]);
    let prompt: Vec<u32> = (0..256).collect();
    let cached = |keys: Value| {
        let mut body = json!({"input_ids": prompt, "sampling_params": {"max_new_tokens": 1}});
        for (name, value) in keys.as_object().expect("an object") {
            body[name] = value.clone();
        }
        server.post("/generate", &body)["meta_info"]["cached_tokens"].as_u64().expect("a number")
    };
    for keys in [
        json!({}),
        json!({"extra_key": "a"}),
        json!({"cache_salt": "a"}),
        json!({"extra_key": "a", "cache_salt": "a"}),
        json!({"extra_key": "b"}),
    ] {
        assert_eq!(cached(keys.clone()), 0, "{keys}");
        assert!(cached(keys.clone()) > 200, "{keys}");
    }
    let chat = json!({
        "prompt": prompt, "extra_key": "b", "max_tokens": 1,
    });
    let usage = server.post("/v1/completions", &chat)["usage"].clone();
    assert!(usage["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(200), "{usage}");
}

#[test]
fn sglang_serves_any_name_of_a_model_and_finds_adapters_behind_it() {
    let server = Server::start(&with_adapters(), &["--no-files", "--speed", "50"]);
    let models = server.get("/v1/models");
    let adapter = models["data"][1]["id"].as_str().expect("an adapter").to_owned();
    let ask = |body: Value| server.json("POST", "/v1/completions", &body);
    for model in ["gpt-4", "meta-llama/Llama-3.1-8B", &adapter] {
        let (status, answer) = ask(json!({"model": model, "prompt": "a", "max_tokens": 1}));
        assert_eq!((status, &answer["model"]), (200, &json!(model)));
    }
    assert_eq!(ask(json!({"prompt": "a", "max_tokens": 1})).1["model"], "default");
    let served = "meta-llama/Llama-3.1-8B";
    let by = [
        (json!(format!("{served}:{adapter}")), Value::Null, 200),
        (json!(format!("any:{adapter}")), Value::Null, 200),
        (json!(format!("{served}:nobody")), Value::Null, 400),
        (json!(served), json!(adapter), 200),
        (json!(served), json!("nobody"), 400),
    ];
    for (model, path, status) in by {
        let body = json!({"model": model, "lora_path": path, "prompt": "a", "max_tokens": 1});
        assert_eq!(ask(body.clone()).0, status, "{body}");
    }
    assert_eq!(server.json("POST", "/generate", &json!({"text": "a", "lora_path": served})).0, 400);
}

#[test]
fn each_server_says_errors_in_its_way() {
    let vllm = Server::start(SCENARIO, &["--no-files"]);
    let body = json!({"prompt": "a", "max_tokens": 0});
    let (_, error) = vllm.json("POST", "/v1/completions", &body);
    assert_eq!(error["error"]["type"], "BadRequestError");
    let sglang = Server::start(&sglang(), &["--no-files"]);
    let (_, error) = sglang.json("POST", "/v1/completions", &body);
    assert_eq!((&error["object"], &error["type"]), (&json!("error"), &json!("Bad Request")));
    let long = json!({"input_ids": [1], "sampling_params": {"max_new_tokens": 1_000_000}});
    let (_, error) = sglang.json("POST", "/generate", &long);
    assert_eq!(error.as_object().map(serde_json::Map::len), Some(1), "{error}");
    assert!(error["error"]["message"].is_string(), "{error}");
}

#[test]
fn keys_are_asked_for_where_each_server_does() {
    let ask = |server: &Server, head: &str| {
        let mut wire = Wire::to(server.address);
        wire.send(format!("{head}\r\nHost: a\r\nContent-Length: 0\r\n\r\n").as_bytes())
            .expect("sent");
        let answer = wire.answer().expect("an answer");
        (answer.status, answer.body)
    };
    let key = ["--no-files", "--api-key", "secret"];
    let vllm = Server::start(SCENARIO, &key);
    let none = ask(&vllm, "GET /v1/models HTTP/1.1");
    assert_eq!(none, (401, r#"{"error":"Unauthorized"}"#.to_owned()));
    assert_eq!(ask(&vllm, "GET /v1/models HTTP/1.1\r\nAuthorization: bearer secret").0, 200);
    assert_eq!(ask(&vllm, "GET /version HTTP/1.1").0, 200);
    assert_eq!(ask(&vllm, "POST /servecast/faults HTTP/1.1").0, 401);
    let sglang = Server::start(&sglang(), &key);
    assert_eq!(ask(&sglang, "GET /version HTTP/1.1").0, 401);
    assert_eq!(ask(&sglang, "GET /health HTTP/1.1").0, 200);
}

#[test]
fn pages_of_others_are_kept_out() {
    let server = Server::start(SCENARIO, &["--no-files"]);
    let ask = |origin: &str| {
        let body = r#"{"type": "lost_cache", "replica": 0}"#;
        let head = format!(
            "POST /servecast/faults HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\n\
             Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        let mut wire = Wire::to(server.address);
        wire.send(head.as_bytes()).expect("it is sent");
        wire.answer().expect("an answer").status
    };
    assert_eq!(ask("https://example.com"), 403);
    assert_eq!(ask("null"), 403);
    assert_eq!(ask(&format!("http://{}", server.address)), 200);
}

/// A crash in the midst of a stream: what was computed comes before the error, and no usage of nothing behind it.
#[test]
fn a_stream_that_fails_has_its_tokens_and_no_usage() {
    for (scenario, nested) in [(SCENARIO.to_owned(), "code"), (sglang(), "object")] {
        let server = Server::start(&scenario, &["--no-files", "--speed", "10"]);
        let body = json!({
            "prompt": "abcd", "max_tokens": 50_000, "stream": true,
            "stream_options": {"include_usage": true},
        });
        let fault = json!({"type": "crash", "replica": 0, "down_s": 1.0});
        let events = std::thread::scope(|scope| {
            let events = scope.spawn(|| server.events("/v1/completions", &body));
            std::thread::sleep(Duration::from_millis(300));
            server.post("/servecast/faults", &fault);
            events.join().expect("it is answered")
        });
        let [.., piece, error, done] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(done, "[DONE]");
        let error: Value = serde_json::from_str(error).expect("it is JSON");
        assert!(
            error["error"]["message"].is_string() && !error["error"][nested].is_null(),
            "{error}"
        );
        let piece: Value = serde_json::from_str(piece).expect("it is JSON");
        assert!(piece["choices"][0]["finish_reason"].is_null(), "{piece}");
        assert!(events.iter().all(|event| !event.contains("\"usage\":{")), "{events:?}");
    }
}

#[test]
fn each_port_of_sglang_tells_of_its_own_memory() {
    let groups = "[[cluster.groups]]\nreplicas = 1\ngpu = 'L40S'\n[[cluster.groups]]\nreplicas = 1\n[workload]";
    let scenario = sglang().replace("[workload]", groups);
    let server = Server::start(&scenario, &["--no-files", "--port-per-replica"]);
    let tokens = |place: usize| {
        let (_, text) = super::text_at(server.others[place], "GET", "/server_info", "");
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        let all = value["internal_states"][0]["memory_usage"]["token_capacity"].clone();
        assert_eq!(value["max_total_num_tokens"], all);
        all.as_u64().expect("a number")
    };
    assert!(tokens(1) > tokens(0), "an H100 holds more than an L40S");
}
