//! Bodies as clients send them, and worse ones.

use rand::RngExt;
use serde_json::{Map, Value, json};

use servecast::rng::Stream;

/// Numbers at which readers and clocks go wrong. None is a time that is allowed and longer than the test.
const NUMBERS: &[&str] = &[
    "-1",
    "0",
    "-0.0",
    "1",
    "0.5",
    "2",
    "1e-9",
    "1e-308",
    "255",
    "256",
    "257",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "0x10",
    "01",
    "1e",
];
const TEXTS: &[&str] = &[
    "",
    "abcd",
    "\u{0}",
    "\u{1f600}\u{200d}\u{1f468}",
    "\u{202e}\u{feff}e\u{301}",
    "<|im_start|>",
    "../../etc/passwd",
    "null",
];
const OTHERS: &[&str] = &[
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[[]]",
    "[[],[]]",
    "[\"\"]",
    "[{}]",
    "[0]",
    "[null]",
    "{\"a\":{\"b\":[]}}",
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\u0000""#,
    "[1,2,3]",
    "[[1],[2,3]]",
    "[\"one\",\"two\"]",
    "[4294967295]",
    "[4294967296]",
];
/// Fields that some endpoint reads.
const FIELDS: &[&str] = &[
    "model",
    "n",
    "best_of",
    "stream",
    "stream_options",
    "max_tokens",
    "min_tokens",
    "max_completion_tokens",
    "ignore_eos",
    "priority",
    "cache_salt",
    "stop",
    "prompt",
    "messages",
    "text",
    "input_ids",
    "sampling_params",
    "lora_path",
    "lora_name",
    "echo",
    "logprobs",
    "response_format",
    "at_s",
    "down_s",
    "detection_s",
    "for_s",
    "factor",
    "share",
    "replica",
    "type",
    "speed",
    "abort_all",
    "rid",
];

/// A request of which a test knows the path.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) path: &'static str,
    pub(super) body: Vec<u8>,
}

fn one<'a>(random: &mut Stream, all: &[&'a str]) -> &'a str {
    all[random.random_range(0..all.len())]
}

fn prompt(random: &mut Stream) -> String {
    "abcd".repeat(random.random_range(1..40))
}

/// A request that is answered, if what it asks for is there.
pub(super) fn valid(random: &mut Stream, models: &[String]) -> (&'static str, Value) {
    let max_tokens = random.random_range(1..12);
    let stream = random.random_bool(0.5);
    let model = models[random.random_range(0..models.len())].as_str();
    match random.random_range(0..20) {
        0..4 => {
            let mut body = json!({"prompt": prompt(random), "max_tokens": max_tokens});
            if random.random_bool(0.5) {
                body["n"] = json!(random.random_range(1..4));
                body["stream"] = json!(stream);
                body["stream_options"] = json!({"include_usage": true});
            }
            if random.random_bool(0.3) {
                body["model"] = json!(model);
            }
            ("/v1/completions", body)
        }
        4..8 => {
            let parts = json!([{"type": "text", "text": prompt(random)}]);
            let messages = json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": parts},
            ]);
            let body = json!({
                "messages": messages, "max_completion_tokens": max_tokens, "stream": stream,
                "temperature": 0.7, "min_tokens": 1,
            });
            ("/v1/chat/completions", body)
        }
        8..12 => {
            let params = json!({"max_new_tokens": max_tokens, "ignore_eos": true});
            let mut body = json!({"sampling_params": params, "stream": stream});
            match random.random_range(0..3) {
                0 => body["text"] = json!([prompt(random), prompt(random)]),
                1 => body["text"] = json!(prompt(random)),
                _ => body["input_ids"] = json!([[1, 2, 3], [4, 5]]),
            }
            ("/generate", body)
        }
        12 => ("/tokenize", json!({"prompt": prompt(random), "add_special_tokens": false})),
        13 => ("/v1/load_lora_adapter", json!({"lora_name": model, "lora_path": "/adapters/one"})),
        14 => ("/v1/unload_lora_adapter", json!({"lora_name": model})),
        15 | 16 => ("/servecast/faults", fault(random)),
        17 => ("/servecast/speed", json!({"speed": 1000.0})),
        18 => ("/abort_request", json!({"rid": "", "abort_all": true})),
        _ => (one(random, &["/flush_cache", "/reset_prefix_cache"]), json!({})),
    }
}

fn fault(random: &mut Stream) -> Value {
    let replica = random.random_range(0..2);
    match random.random_range(0..6) {
        0 => json!({"type": "crash", "replica": replica, "down_s": 3.0, "detection_s": 1.0}),
        1 => json!({"type": "crash", "replica": replica, "at_s": 0.0, "down_s": 0.01}),
        2 => json!({"type": "straggler", "replica": replica, "for_s": 2.0, "factor": 3.0}),
        3 => json!({"type": "slow_link", "replica": replica, "for_s": 2.0, "share": 0.5}),
        4 => json!({"type": "lost_transfers", "replica": replica}),
        _ => json!({"type": "lost_cache", "replica": replica}),
    }
}

/// What stands where a text is put that is no JSON, until the body is written.
const PLACE: &str = "@raw@";

/// A request that is worse than a valid one in up to three ways, and at times in none.
pub(super) fn worse(random: &mut Stream, models: &[String]) -> Posted {
    let (path, mut body) = valid(random, models);
    let mut raw = Vec::new();
    for _ in 0..random.random_range(0..4) {
        raw.push(odd(random));
        let place = Value::String(format!("{PLACE}{}", raw.len() - 1));
        change(random, &mut body, place);
    }
    let mut text = body.to_string();
    for (index, raw) in raw.iter().enumerate() {
        text = text.replace(&format!("\"{PLACE}{index}\""), raw);
    }
    if random.random_bool(0.05) {
        // The same names twice.
        let again = text.trim_start_matches('{').to_owned();
        text = format!("{},{again}", text.trim_end_matches('}'));
    }
    let mut body = text.into_bytes();
    if random.random_bool(0.2) {
        damage(random, &mut body);
    }
    Posted { path, body }
}

/// One of the values of a body is another.
fn change(random: &mut Stream, body: &mut Value, place: Value) {
    match body {
        Value::Object(fields) if random.random_bool(0.2) || fields.is_empty() => {
            fields.insert(one(random, FIELDS).to_owned(), place);
        }
        Value::Object(fields) => change_one(random, fields, place),
        Value::Array(all) if !all.is_empty() && random.random_bool(0.8) => {
            let index = random.random_range(0..all.len());
            change(random, &mut all[index], place);
        }
        other => *other = place,
    }
}

fn change_one(random: &mut Stream, fields: &mut Map<String, Value>, place: Value) {
    let index = random.random_range(0..fields.len());
    let Some(name) = fields.keys().nth(index).cloned() else { return };
    if random.random_bool(0.2) {
        fields.remove(&name);
    } else if let Some(value) = fields.get_mut(&name) {
        let is_whole = !value.is_object() && !value.is_array() || random.random_bool(0.3);
        if is_whole { *value = place } else { change(random, value, place) }
    }
}

/// A value that nobody expects, as it is written.
fn odd(random: &mut Stream) -> String {
    match random.random_range(0..100) {
        0..40 => one(random, NUMBERS).to_owned(),
        40..55 => Value::from(one(random, TEXTS)).to_string(),
        55..90 => one(random, OTHERS).to_owned(),
        90..93 => {
            let depth = [100, 127, 128, 129, 1000, 10_000][random.random_range(0..6)];
            let open = one(random, &["[", "{\"a\":"]);
            let close = if open == "[" { "]" } else { "}" };
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        }
        93..96 => format!("\"{}\"", "x".repeat(1 << random.random_range(8..19))),
        96..98 => format!("[{}1]", "1,".repeat(1 << random.random_range(4..14))),
        _ => {
            let prompt = one(random, &["\"a\"", "[1]", "\"\"", "[]"]);
            let count = [2, 31, 255, 256, 300][random.random_range(0..5)];
            format!("[{}{prompt}]", format!("{prompt},").repeat(count - 1))
        }
    }
}

/// Bytes are lost, or others.
fn damage(random: &mut Stream, body: &mut Vec<u8>) {
    let at = random.random_range(0..=body.len());
    match random.random_range(0..4) {
        0 => body.truncate(at),
        1 => body.insert(at, [0xff, 0xc0, 0x00, 0xed][random.random_range(0..4)]),
        2 => body.extend_from_slice(one(random, &["}", " ", "\n{}", "\0", "]"]).as_bytes()),
        _ => {
            if let Some(byte) = body.get_mut(at) {
                *byte = random.random();
            }
        }
    }
}
