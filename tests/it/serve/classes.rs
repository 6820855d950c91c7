//! Requests of several classes, models and tenants, and what is asked of them again.

use serde_json::{Value, json};

use super::{Server, again, read_whole, send_with, summary};

/// Two models, of which the second is asked for by two classes of two tenants.
const TWO_MODELS: &str = "name = 'two models'
    [workload]
    num_requests = 10
    arrivals = { type = 'poisson', rate_per_s = 1.0 }
    lengths = { type = 'fixed', input_tokens = 100, output_tokens = 7 }
    [[workload.classes]]
    name = 'chat'
    share = 0.5
    model = 'meta-llama/Llama-3.1-8B'
    ttft_ms = 500.0
    [[workload.classes]]
    name = 'light'
    share = 0.25
    ttft_ms = 1000.0
    [[workload.classes]]
    name = 'greedy'
    share = 0.25
    ttft_ms = 1000.0
    output_tokens = { type = 'fixed', tokens = 20 }
    [cluster]
    host = 'none'
    model = 'meta-llama/Llama-3.1-70B'
    gpu = 'H100-SXM5-80GB'
    tensor_parallel_size = 4
    router = { type = 'session_sticky' }
    [[cluster.groups]]
    name = '70B'
    replicas = 2
    [[cluster.groups]]
    name = '8B'
    replicas = 1
    model = 'meta-llama/Llama-3.1-8B'
    tensor_parallel_size = 1
    ";
const SMALL: &str = "meta-llama/Llama-3.1-8B";
const LARGE: &str = "meta-llama/Llama-3.1-70B";

fn ask(server: &Server, headers: &str, body: &Value) -> (u16, Value) {
    let (path, body) = ("/v1/completions", body.to_string());
    let (status, body) = read_whole(send_with(server.address, headers, "POST", path, &body));
    (status, serde_json::from_str(&body).expect("it is JSON"))
}

/// By class, how many requests there were.
fn requests(summary: &Value) -> Vec<(String, u64)> {
    let classes = summary["classes"].as_array().expect("classes").iter();
    let of =
        |class: &Value| Some((class["name"].as_str()?.to_owned(), class["requests"].as_u64()?));
    classes.filter_map(of).collect()
}

#[test]
fn headers_name_the_class_and_else_the_model_does() {
    let mut server = Server::start(TWO_MODELS, &["--output-dir", "out", "--speed", "50"]);
    assert!(server.said().contains("`chat` or, by their model, `light`"), "{}", server.said());
    let body = |model: &str| json!({"model": model, "prompt": "abcd", "max_tokens": 5});
    let (greedy, chat) = ("x-servecast-class: greedy\r\n", "X-Servecast-Class: chat\r\n");
    let cases = [
        ("", body(SMALL), SMALL),
        ("", body(LARGE), LARGE),
        ("", body(LARGE), LARGE),
        (greedy, body(LARGE), LARGE),
        (greedy, json!({"prompt": "abcd", "max_tokens": 5}), LARGE),
        (greedy, body(LARGE), LARGE),
        (chat, body(SMALL), SMALL),
    ];
    for (headers, body, model) in cases {
        let (status, answer) = ask(&server, headers, &body);
        assert_eq!((status, answer["model"].as_str()), (200, Some(model)), "{headers}{answer}");
    }
    let refused = [("x-servecast-class: x\r\n", body(SMALL)), (greedy, body(SMALL))];
    for (headers, body) in refused {
        let (status, error) = ask(&server, headers, &body);
        let field = error["error"]["param"].as_str();
        assert_eq!((status, field), (400, Some("x-servecast-class")), "{error}");
    }
    assert_eq!(server.stop(), Some(0));
    let served = summary(server.folder.path(), "out");
    let counts = [("chat", 2), ("light", 2), ("greedy", 3)];
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(requests(&served), counts);
    let models = served["models"]["models"].as_array().or(served["models"].as_array());
    let of = |model: &Value| model["requests"].as_u64().or(model["arrived"].as_u64());
    let by_model: Vec<_> = models.expect("models").iter().map(of).collect();
    assert_eq!(by_model, [Some(2), Some(5)], "{}", served["models"]);
    // The same again.
    let again = again(server.folder.path());
    assert_eq!(requests(&again), counts);
    assert_eq!(
        served["benchmark"]["total_output_tokens"],
        again["benchmark"]["total_output_tokens"]
    );
    let served: Vec<_> =
        (0..3).map(|place| &served["cluster"]["replicas"][place]["finished"]).collect();
    let again: Vec<_> =
        (0..3).map(|place| &again["cluster"]["replicas"][place]["finished"]).collect();
    assert_eq!(served, again);
}

#[test]
fn headers_that_nobody_reads_are_refused() {
    let scenario = TWO_MODELS.replace("greedy", "k\u{fc}che");
    let server = Server::start(&scenario, &["--no-files", "--speed", "50"]);
    let body = json!({"prompt": "abcd", "max_tokens": 5});
    let (status, answer) = ask(&server, "x-servecast-class: k\u{fc}che\r\n", &body);
    assert_eq!((status, answer["model"].as_str()), (200, Some(LARGE)), "{answer}");
    let refused = [
        ("x-servecast-tenant: light\r\n", "x-servecast-tenant"),
        ("x-servecast-class: light\r\nx-servecast-class: light\r\n", "x-servecast-class"),
    ];
    for (headers, field) in refused {
        let (status, error) = ask(&server, headers, &body);
        assert_eq!((status, error["error"]["param"].as_str()), (400, Some(field)), "{error}");
    }
}

#[test]
fn caches_that_are_empty_are_not_emptied() {
    let scenario = TWO_MODELS.replace(
        "name = 'two models'",
        "name = 'two models'\n\
        [measured]\nsource = 'another load'\nmetrics = { mean_ttft_ms = 1.0 }",
    );
    let mut server = Server::start(&scenario, &["--output-dir", "out", "--speed", "50"]);
    let body = json!({"model": LARGE, "prompt": "abcd".repeat(400), "max_tokens": 5});
    for _ in 0..3 {
        server.post("/v1/completions", &body);
        for _ in 0..20 {
            assert_eq!(server.text("POST", "/reset_prefix_cache", "").0, 200);
        }
    }
    assert_eq!(server.stop(), Some(0));
    let replay = std::fs::read_to_string(server.folder.path().join("out/replay.toml"));
    let replay: toml::Table = replay.expect("it is there").parse().expect("it is TOML");
    // Each of three replicas after each request.
    assert_eq!(replay["faults"].as_array().map(Vec::len), Some(9), "{replay}");
    assert!(!replay.contains_key("measured"), "it was measured under another load");
    again(server.folder.path());
}

#[test]
fn conversations_stay_where_they_are() {
    let server = Server::start(TWO_MODELS, &["--no-files", "--speed", "50"]);
    let prompt = "abcd".repeat(400);
    let body = json!({"model": LARGE, "prompt": prompt, "max_tokens": 5});
    for turn in 0..6 {
        // Without a name for the conversation, turns would go to one replica and to the other.
        let (status, answer) = ask(&server, "x-servecast-session: mine\r\n", &body);
        assert_eq!(status, 200, "{answer}");
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(cached, Some(if turn == 0 { 0 } else { 384 }), "turn {turn}");
    }
}

#[test]
fn faults_happen_again_when_they_happened() {
    let scenario = TWO_MODELS.replace("session_sticky", "round_robin");
    let mut server = Server::start(&scenario, &["--output-dir", "out", "--speed", "50"]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let body = json!({"model": LARGE, "prompt": "abcd".repeat(400), "max_tokens": 50});
    for _ in 0..4 {
        server.post("/v1/completions", &body);
    }
    server.post("/servecast/faults", &json!({"type": "lost_cache", "replica": 1}));
    let slow = json!({"type": "straggler", "replica": 2, "for_s": 1e6, "factor": 3.0});
    server.post("/servecast/faults", &slow);
    for _ in 0..4 {
        server.post("/v1/completions", &body);
    }
    assert_eq!(server.stop(), Some(0));
    let folder = server.folder.path();
    let (served, again) = (summary(folder, "out"), again(folder));
    let cached = |summary: &Value| -> Vec<Value> {
        let replicas = summary["cluster"]["replicas"].as_array().expect("replicas").iter();
        replicas.map(|replica| replica["cached_tokens"].clone()).collect()
    };
    assert_eq!(cached(&served), cached(&again));
    let tpot = |summary: &Value| summary["benchmark"]["mean_tpot_ms"].as_f64().expect("a mean");
    let (served, again) = (tpot(&served), tpot(&again));
    assert!((served / again - 1.0).abs() < 1e-6, "{served} and {again}");
}
