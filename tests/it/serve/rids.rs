//! Requests of SGLang's clients that have names, and are ended by them.

use std::time::Duration;

use serde_json::{Value, json};

use super::dialects::sglang;
use super::fuzz::wait_until;
use super::{Server, metric};

#[test]
fn a_request_is_ended_by_its_name_and_has_what_was_generated() {
    let server = Server::start(&sglang(), &["--no-files"]);
    let ask = |rid: &str, limit: u32| {
        let params = json!({"max_new_tokens": limit});
        server.post("/generate", &json!({"text": "abcd", "rid": rid, "sampling_params": params}))
    };
    assert_eq!(ask("first", 2)["meta_info"]["id"], "first");
    std::thread::scope(|scope| {
        let [one, other, third] =
            ["one", "other", "one_too"].map(|rid| scope.spawn(move || ask(rid, 20_000)));
        std::thread::sleep(Duration::from_millis(400));
        // Nobody has these names.
        server.text("POST", "/abort_request", r#"{"rid": "on"}"#);
        server.text("POST", "/abort_request", r#"{"rid": ""}"#);
        let (status, error) = server.json("POST", "/generate", &json!({"text": "a", "rid": "one"}));
        assert_eq!(status, 400, "{error}");
        assert!(!one.is_finished() && !other.is_finished());
        let (status, _) = server.text("POST", "/abort_request", r#"{"rid": "one"}"#);
        assert_eq!(status, 200);
        // And what begins with it.
        for answer in [one, third] {
            let answer = answer.join().expect("it is answered");
            let info = &answer["meta_info"];
            assert_eq!(info["finish_reason"]["type"], "abort", "{info}");
            assert_eq!(info["finish_reason"]["message"], "Aborted");
            let tokens = info["completion_tokens"].as_u64().expect("a number");
            assert!(tokens > 10, "{info}");
            assert_eq!(answer["output_ids"].as_array().map(|ids| ids.len() as u64), Some(tokens));
        }
        assert!(!other.is_finished());
        wait_until("their places are free", Duration::from_secs(20), || {
            let (_, metrics) = server.text("GET", "/metrics", "");
            metric(&metrics, "sglang:num_running_reqs") == 1
        });
        server.text("POST", "/abort_request", r#"{"abort_all": true}"#);
        assert_eq!(other.join().expect("it is answered")["meta_info"]["id"], "other");
    });
    // The name may be used again.
    ask("one", 2);
}

#[test]
fn streams_and_answers_of_openais_paths_have_names_too() {
    let server = Server::start(&sglang(), &["--no-files"]);
    let body = json!({"prompt": ["a", "b"], "max_tokens": 2, "rid": "mine"});
    assert_eq!(server.post("/v1/completions", &body)["id"], "mine_0");
    let stream = json!({"prompt": "a", "max_tokens": 100_000, "rid": "long", "stream": true});
    let events = std::thread::scope(|scope| {
        let events = scope.spawn(|| server.events("/v1/completions", &stream));
        std::thread::sleep(Duration::from_millis(300));
        server.text("POST", "/abort_request", r#"{"rid": "long"}"#);
        events.join().expect("it ends")
    });
    let [.., last, done] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(done, "[DONE]");
    let last: Value = serde_json::from_str(last).expect("it is JSON");
    assert_eq!(
        (&last["id"], &last["choices"][0]["finish_reason"]),
        (&json!("long"), &json!("abort"))
    );
}
