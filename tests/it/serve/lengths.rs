//! How answers without a limit end.

use serde_json::{Value, json};

use super::{SCENARIO, Server, metric};

fn chat(server: &Server) -> Value {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    server.post("/v1/chat/completions", &json!({"messages": messages}))
}

/// The sum of the limits of all requests, as vLLM tells it.
fn limits(server: &Server) -> u64 {
    let (_, metrics) = server.text("GET", "/metrics", "");
    metric(&metrics, "vllm:request_params_max_tokens_sum")
}

#[test]
fn an_answer_that_ends_by_itself_says_so() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "50"]);
    let whole = chat(&server);
    assert_eq!(whole["usage"]["completion_tokens"], 7);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    // What schedulers know is not how long it will be.
    let prompt = whole["usage"]["prompt_tokens"].as_u64().expect("a number");
    assert_eq!(limits(&server), 131_072 - prompt);
}

#[test]
fn an_answer_that_fills_the_context_says_so() {
    let scenario = SCENARIO
        .replace(
            "host = 'none'",
            "host = 'none'\nengine = { type = 'vllm_v1', max_model_len = 64 }",
        )
        .replace("output_tokens = 7", "output_tokens = 1000")
        .replace("input_tokens = 100", "input_tokens = 10");
    let server = Server::start(&scenario, &["--no-files", "--speed", "50"]);
    let whole = chat(&server);
    assert_eq!(whole["usage"]["total_tokens"], 64);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    // One that was told not to end by itself fills it too.
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let body = json!({"messages": messages, "ignore_eos": true});
    let whole = server.post("/v1/chat/completions", &body);
    assert_eq!(whole["usage"]["total_tokens"], 64);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
}
