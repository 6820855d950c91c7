//! What watchers read at `/metrics`, as of vLLM 0.33.0 and SGLang 0.5.23.

use serde_json::{Value, json};

use super::{SCENARIO, Server, metric};

const MODEL: &str = "model_name=\"meta-llama/Llama-3.1-8B\"";

fn sglang(arguments: &[&str]) -> Server {
    let scenario = SCENARIO.replace("model = ", "engine.type = 'sglang'\nmodel = ");
    let all: Vec<&str> = ["--no-files", "--speed", "50"].iter().chain(arguments).copied().collect();
    Server::start(&scenario, &all)
}

fn metrics(server: &Server) -> String {
    server.text("GET", "/metrics", "").1
}

/// The bounds of the bins of a distribution.
fn bounds(text: &str, name: &str) -> Vec<String> {
    let begin = format!("{name}_bucket");
    let lines = text.lines().filter(|line| line.starts_with(&begin));
    let bound = |line: &str| Some(line.split_once("le=\"")?.1.split_once('"')?.0.to_owned());
    let mut all: Vec<String> = lines.filter_map(bound).collect();
    all.dedup();
    all
}

#[test]
fn sglang_tells_streams_from_whole_answers() {
    let server = sglang(&[]);
    let prompt: Vec<u32> = (0..200).collect();
    let whole = json!({"prompt": prompt, "max_tokens": 5});
    server.post("/v1/completions", &whole);
    server.post("/v1/completions", &whole);
    let streamed = json!({"prompt": prompt, "max_tokens": 50, "stream": true});
    server.events("/v1/completions", &streamed);
    let text = metrics(&server);
    let of = |name: &str, streams: &str| {
        let labels = format!("{MODEL},engine_type=\"unified\",is_streaming=\"{streams}\"");
        metric(&text, &format!("sglang:{name}{{{labels}"))
    };
    for (streams, requests, answered) in [("false", 2, 10), ("true", 1, 50)] {
        assert_eq!(of("num_requests_total", streams), requests);
        assert_eq!(of("prompt_tokens_total", streams), requests * 200);
        assert_eq!(of("generation_tokens_total", streams), answered);
        assert_eq!(of("time_to_first_token_seconds_count", streams), requests);
        assert_eq!(of("request_time_per_output_token_seconds_count", streams), requests);
        assert_eq!(of("e2e_request_latency_seconds_count", streams), requests);
    }
    let server_labels = format!("{MODEL},engine_type=\"unified\"");
    // Each token after the first is an observation.
    let gaps = format!("sglang:inter_token_latency_seconds_count{{{server_labels}}}");
    assert_eq!(metric(&text, &gaps), 4 + 4 + 49);
    let cached = format!("sglang:cached_tokens_total{{{server_labels},cache_source=\"device\"");
    assert_eq!(metric(&text, &cached), 2 * 199);
    let scheduler = format!("{server_labels},tp_rank=\"0\",pp_rank=\"0\",moe_ep_rank=\"0\"}}");
    for name in ["num_running_reqs", "num_retracted_requests_total", "spec_accept_length"] {
        assert_eq!(metric(&text, &format!("sglang:{name}{{{scheduler}")), 0);
    }
    let begin = format!("sglang:gen_throughput{{{scheduler}");
    let line = text.lines().find(|line| line.starts_with(&begin)).expect("a gauge");
    let tokens_per_s: f64 = line.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("it");
    assert!(tokens_per_s > 0.0, "{line}");
    let queue = bounds(&text, "sglang:queue_time_seconds");
    assert_eq!((queue.len(), queue[0].as_str(), queue[1].as_str()), (41, "0.0", "0.001"));
    let tokens = bounds(&text, "sglang:prompt_tokens_histogram");
    assert_eq!(tokens[15..18], ["12500.0", "15000.0", "17500.0"]);
}

#[test]
fn vllm_tells_what_scalers_and_routers_read() {
    let few = "engine.type = 'vllm_v1'\nengine.max_model_len = 3000\nengine.speculation = { num_speculative_tokens = 2, \
               acceptance = { type = 'mean_length', tokens = 2.0 } }\nmodel = ";
    let server =
        Server::start(&SCENARIO.replace("model = ", few), &["--no-files", "--speed", "50"]);
    let prompt: Vec<u32> = (0..100).collect();
    let body = json!({"prompt": prompt, "n": 3, "max_tokens": 9});
    server.post("/v1/completions", &body);
    server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 1}));
    let text = metrics(&server);
    let labels = format!("{MODEL},engine=\"0\"");
    let of = |name: &str| metric(&text, &format!("vllm:{name}{{{labels}"));
    assert_eq!(of("request_params_n_count"), 2);
    assert_eq!(of("request_params_n_sum"), 4);
    assert_eq!(of("request_max_num_generation_tokens_sum"), 10);
    assert_eq!(of("request_num_preemptions_count"), 4);
    assert_eq!(of("request_time_per_output_token_seconds_count"), 4);
    assert_eq!(of("prompt_tokens_total"), 400);
    assert_eq!(of("prefix_cache_queries_total"), 400);
    assert_eq!(of("prefix_cache_hits_total"), of("prompt_tokens_cached_total"));
    let computed = 400 - of("prompt_tokens_cached_total");
    assert_eq!(of("request_prefill_kv_computed_tokens_sum"), computed);
    let by_source =
        format!("vllm:prompt_tokens_by_source_total{{{labels},source=\"local_compute\"");
    assert_eq!(metric(&text, &by_source), computed);
    let reasons = ["capacity", "deferred"].map(|reason| {
        metric(&text, &format!("vllm:num_requests_waiting_by_reason{{{labels},reason=\"{reason}\""))
    });
    assert_eq!(reasons, [0, 0]);
    let repeated = format!("vllm:request_success_total{{{labels},finished_reason=\"repetition\"");
    assert_eq!(metric(&text, &repeated), 0);
    let drafts = of("spec_decode_num_drafts_total");
    assert!(drafts > 0, "{text}");
    let by_position = [0, 1].map(|position| {
        let name = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
        metric(&text, &format!("{name}{{{labels},position=\"{position}\""))
    });
    let [first, second] = by_position;
    assert_eq!(first + second, of("spec_decode_num_accepted_tokens_total"));
    let cache = text.lines().find(|line| line.starts_with("vllm:cache_config_info"));
    let cache = cache.expect("it is told");
    assert!(cache.contains("block_size=\"16\""), "{cache}");
    assert!(cache.contains("num_gpu_blocks=\"") && cache.ends_with(" 1"), "{cache}");
    let tokens = bounds(&text, "vllm:request_prompt_tokens");
    assert_eq!(tokens.last().map(String::as_str), Some("+Inf"));
    assert_eq!(tokens[tokens.len() - 2], "2000.0", "none is above the longest sequence");
}

#[test]
fn vllm_tells_which_adapters_run() {
    let adapters = "adapters = { kinds = [{ count = 2, rank = 16 }] }\nnum_requests";
    let scenario = SCENARIO.replace("num_requests", adapters);
    let slots =
        "engine.type = 'vllm_v1'\nengine.max_loras = 2\nlora = { max_host_adapters = 2 }\nmodel = ";
    let scenario = scenario.replace("model = ", slots);
    let mut server = Server::start(&scenario, &["--output-dir", "out"]);
    let name = server.get("/v1/models")["data"][1]["id"].as_str().expect("a name").to_owned();
    let body = json!({"model": name, "prompt": "abcd", "max_tokens": 100_000, "stream": true});
    let waiting = server.send("POST", "/v1/completions", &body.to_string());
    let runs = format!("running_lora_adapters=\"{name}\"");
    let told = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let text = metrics(&server);
        let line = text.lines().find(|line| line.starts_with("vllm:lora_requests_info"))?;
        line.contains(&runs).then(|| line.to_owned())
    });
    let told = told.expect("it runs");
    assert!(told.contains("max_lora=\"2\",waiting_lora_adapters=\"\""), "{told}");
    drop(waiting);
    // What is asked again uses them too.
    server.post("/v1/completions", &json!({"model": name, "prompt": "abcd", "max_tokens": 3}));
    assert_eq!(server.stop(), Some(0));
    let folder = server.folder.path();
    let trace = std::fs::read_to_string(folder.join("out/trace.jsonl")).expect("it is there");
    assert_eq!(trace.matches("\"adapter\":\"0\"").count(), 2, "{trace}");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_servecast"))
        .args(["run", "out/replay.toml", "--no-files"])
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_server_says_when_caches_outlast_what_it_remembers() {
    let start = |gib: u32| {
        let tiers = format!(
            "engine.type = 'vllm_v1'\nkv_tiers = {{ host = {{ memory_gib = {gib}.0 }} }}\nmodel = "
        );
        Server::start(&SCENARIO.replace("model = ", &tiers), &["--no-files"]).said()
    };
    // A token of Llama-3.1-8B has 128 KiB: 8,192 in a GiB.
    let said = start(8192);
    assert!(said.contains("and the latest 33554432 of prompts are told apart"), "{said}");
    assert!(!start(1000).contains("are told apart"));
}

/// One replica that prefills and one that decodes, behind one port; figures of each by its name.
fn parted(engine: &str, dialect: &str) -> (Value, [impl Fn(&str) -> u64; 2]) {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 50.0 } }\n";
    let scenario =
        SCENARIO.replace("model = ", &format!("engine.type = '{engine}'\n{parts}model = "));
    let server = Server::start(&scenario, &["--no-files", "--speed", "50"]);
    let prompt: Vec<u32> = (0..320).collect();
    let body = json!({"prompt": prompt, "max_tokens": 20});
    server.post("/v1/completions", &body);
    let second = server.post("/v1/completions", &body);
    let text = metrics(&server);
    let of = |replica: usize| {
        let (text, dialect) = (text.clone(), dialect.to_owned());
        move |name: &str| {
            let begin = format!("{dialect}:{name}");
            let own = [format!("engine=\"{replica}\""), format!("replica=\"{replica}\"")];
            let lines = text.lines().filter(|line| line.starts_with(&begin));
            let lines = lines.filter(|line| own.iter().any(|label| line.contains(label)));
            lines.map(|line| metric(line, &begin)).sum()
        }
    };
    (second["usage"]["prompt_tokens_details"]["cached_tokens"].clone(), [of(0), of(1)])
}

#[test]
fn both_servers_of_a_pair_of_vllm_count_a_request() {
    let (cached, [prefill, decode]) = parted("vllm_v1", "vllm");
    assert_eq!(cached, json!(304), "what the server that prefills has found");
    for (of, tokens) in [(&prefill, 2), (&decode, 40)] {
        assert_eq!(of("prompt_tokens_total"), 640);
        assert_eq!(of("time_to_first_token_seconds_count"), 2);
        assert_eq!(of("request_success_total"), 2);
        assert_eq!(of("e2e_request_latency_seconds_count"), 2);
        assert_eq!(of("generation_tokens_total"), tokens);
    }
}

#[test]
fn both_servers_of_a_pair_of_sglang_count_a_request() {
    let (cached, [prefill, decode]) = parted("sglang", "sglang");
    assert_eq!(cached, json!(319), "what the server that prefills has found");
    for of in [&prefill, &decode] {
        assert_eq!(of("num_requests_total"), 2);
        assert_eq!(of("prompt_tokens_total"), 640);
        assert_eq!(of("cached_tokens_total"), 319);
        assert_eq!(of("queue_time_seconds_count"), 2);
    }
    assert_eq!(prefill("time_to_first_token_seconds_count"), 0, "it never says");
    assert_eq!(decode("time_to_first_token_seconds_count"), 2);
}
