//! Chats that a template makes prompts of.

use serde_json::json;

use super::{SCENARIO, Server};

const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\
                        {% if messages | length > 2 %}{{ raise_exception('at most two messages') }}{% endif %}\
                        {% if enable_thinking %}<think>{% endif %}";

#[test]
fn a_template_makes_prompts_of_chats() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chat.jinja");
    std::fs::write(&path, TEMPLATE).expect("it is written");
    let path = path.to_str().expect("UTF-8");
    let arguments = ["--no-files", "--speed", "50", "--bytes-per-token", "1"];
    let server = Server::start(SCENARIO, &[&arguments[..], &["--chat-template", path]].concat());
    let chat = |body: serde_json::Value| server.json("POST", "/v1/chat/completions", &body);
    let hello = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    let (_, short) = chat(json!({"messages": hello, "max_tokens": 2}));
    assert_eq!(short["usage"]["prompt_tokens"], "<user>a\nb".len());
    let thinks = json!({"messages": hello, "max_tokens": 2, "chat_template_kwargs": {"enable_thinking": true}});
    let (_, long) = chat(thinks);
    assert_eq!(long["usage"]["prompt_tokens"], "<user>a\nb<think>".len());
    let messages = vec![json!({"role": "user", "content": "x"}); 3];
    let (status, refused) = chat(json!({"messages": messages}));
    assert_eq!((status, &refused["error"]["message"]), (400, &json!("at most two messages")));
}

#[test]
fn variables_without_a_template_are_refused() {
    let server = Server::start(SCENARIO, &["--no-files", "--speed", "50"]);
    let body = json!({
        "messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"enable_thinking": true},
    });
    let (status, refused) = server.json("POST", "/v1/chat/completions", &body);
    assert_eq!(status, 400, "{refused}");
    assert_eq!(refused["error"]["param"], "chat_template_kwargs");
}
