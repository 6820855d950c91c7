//! What watchers read at `/metrics`, as of vLLM 0.33.0 and SGLang 0.5.23.

use std::time::Duration;

use serde_json::{Value, json};

use super::fuzz::wait_until;
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
    // Each token of a stream after the first is an observation.
    let gaps = format!("sglang:inter_token_latency_seconds_count{{{server_labels}}}");
    assert_eq!(metric(&text, &gaps), 49);
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
    assert_eq!(tokens[33..], ["1e+06", "1.1e+06", "+Inf"]);
}

#[test]
fn whole_answers_of_sglang_come_every_fifty_tokens_and_at_their_end() {
    let server = sglang(&[]);
    let gaps = || metric(&metrics(&server), "sglang:inter_token_latency_seconds_count");
    let ask = |tokens: u32| {
        server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": tokens}));
    };
    ask(20);
    assert_eq!(gaps(), 0, "there is one output");
    ask(60);
    assert_eq!(gaps(), 10, "of the second output");
    ask(100);
    assert_eq!(gaps(), 10 + 50);
    let first = metric(&metrics(&server), "sglang:time_to_first_token_seconds_count");
    assert_eq!(first, 3);
}

#[test]
fn sglang_tells_of_queues_when_they_are_left_and_of_orders_to_end() {
    let server = sglang(&[]);
    let body = json!({"prompt": "abcd", "max_tokens": 100_000, "stream": true}).to_string();
    let streams = [(); 2].map(|()| server.send("POST", "/v1/completions", &body));
    wait_until("both run", Duration::from_secs(20), || {
        metric(&metrics(&server), "sglang:num_running_reqs") == 2
    });
    let text = metrics(&server);
    assert_eq!(metric(&text, "sglang:queue_time_seconds_count"), 2);
    assert_eq!(metric(&text, "sglang:num_requests_total"), 0, "none is over");
    server.text("POST", "/abort_request", r#"{"abort_all": true}"#);
    wait_until("both are over", Duration::from_secs(20), || {
        metric(&metrics(&server), "sglang:num_running_reqs") == 0
    });
    drop(streams);
    // One order ended both, and one that is refused was never to be ended.
    server.json("POST", "/generate", &json!({"text": "a".repeat(1 << 20)}));
    let text = metrics(&server);
    assert_eq!(metric(&text, "sglang:num_aborted_requests_total"), 1, "{text}");
    assert_eq!(metric(&text, "sglang:queue_time_seconds_count"), 2);
}

#[test]
fn sglang_counts_accepted_drafts_among_the_tokens_of_steps() {
    let drafts = "engine = { type = 'sglang', speculation = { speculative_algorithm = 'NGRAM', \
                  speculative_num_draft_tokens = 4, acceptance = { type = 'mean_length', tokens = 3.0 } } }\n\
                  model = ";
    let server =
        Server::start(&SCENARIO.replace("model = ", drafts), &["--no-files", "--speed", "50"]);
    server.post("/v1/completions", &json!({"prompt": "abcd", "max_tokens": 50}));
    let text = metrics(&server);
    let line = text.lines().find(|line| {
        line.starts_with("sglang:realtime_tokens_total") && line.contains("mode=\"decode\"")
    });
    // The first token is that of the prompt's step.
    assert_eq!(metric(line.expect("it is told"), "sglang:realtime_tokens_total"), 49);
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
    let step_tokens = computed + of("generation_tokens_total");
    assert_eq!(of("iteration_tokens_total_sum"), step_tokens, "drafts that are accepted count");
    let tokens = bounds(&text, "vllm:request_prompt_tokens");
    assert_eq!(tokens.last().map(String::as_str), Some("+Inf"));
    assert_eq!(tokens[tokens.len() - 2], "2000.0", "none is above the longest sequence");
}

#[test]
fn a_prompt_counts_in_the_step_of_its_first_token() {
    let budget = "engine = { type = 'vllm_v1', max_num_batched_tokens = 8192 }\nmodel = ";
    let server =
        Server::start(&SCENARIO.replace("model = ", budget), &["--no-files", "--speed", "50"]);
    let steps = || {
        let text = metrics(&server);
        ["count", "sum"].map(|part| metric(&text, &format!("vllm:iteration_tokens_total_{part}")))
    };
    let prompt = |tokens: u32| (0..tokens).collect::<Vec<u32>>();
    server.post("/v1/completions", &json!({"prompt": prompt(7), "max_tokens": 20}));
    assert_eq!(steps(), [20, 27]);
    // Two of its three chunks have no output.
    server.post("/v1/completions", &json!({"prompt": prompt(20_000), "max_tokens": 1}));
    assert_eq!(steps(), [20 + 1, 27 + 20_001]);
}

#[test]
fn vllm_tells_what_its_cache_is() {
    let told = |engine: &str| {
        let scenario = SCENARIO.replace("model = ", &format!("{engine}\nmodel = "));
        let server = Server::start(&scenario, &["--no-files"]);
        let text = metrics(&server);
        let line = text.lines().find(|line| line.starts_with("vllm:cache_config_info"));
        line.expect("it is told").to_owned()
    };
    let given = told(
        "engine = { type = 'vllm_v1', num_gpu_blocks = 20000, enable_prefix_caching = false }\n\
         kv_cache_dtype = 'fp8'\ngpu_memory_utilization = 0.8",
    );
    for label in [
        "block_size=\"16\"",
        "cache_dtype=\"fp8\"",
        "enable_prefix_caching=\"False\"",
        "gpu_memory_utilization=\"0.8\"",
        "num_gpu_blocks=\"20000\"",
        "num_gpu_blocks_override=\"20000\"",
        "engine=\"0\"} 1",
    ] {
        assert!(given.contains(label), "no {label} in {given}");
    }
    let derived = told("engine.type = 'vllm_v1'");
    for label in [
        "cache_dtype=\"auto\"",
        "enable_prefix_caching=\"True\"",
        "gpu_memory_utilization=\"0.92\"",
        "num_gpu_blocks_override=\"None\"",
    ] {
        assert!(derived.contains(label), "no {label} in {derived}");
    }
}

#[test]
fn vllm_tells_which_tier_had_cached_prompts() {
    // A prompt of 800 tokens is 50 blocks of the 99 that requests can hold: three prompts drive each other out.
    let tiers = "engine = { type = 'vllm_v1', num_gpu_blocks = 100, max_model_len = 1000 }\n\
                 kv_tiers = { host = { memory_gib = 8.0 } }\nmodel = ";
    let server =
        Server::start(&SCENARIO.replace("model = ", tiers), &["--no-files", "--speed", "50"]);
    for first in [0, 1000, 2000, 0] {
        let prompt: Vec<u32> = (first..first + 800).collect();
        server.post("/v1/completions", &json!({"prompt": prompt, "max_tokens": 1}));
    }
    let text = metrics(&server);
    let of = |name: &str| metric(&text, &format!("vllm:{name}"));
    let by_source = |source: &str| {
        let labels = format!("{{{MODEL},engine=\"0\",source=\"{source}\"");
        of(&format!("prompt_tokens_cached_by_source_total{labels}"))
    };
    let external = of("external_prefix_cache_hits_total");
    assert!(external > 500, "{text}");
    assert_eq!(by_source("host"), external);
    assert_eq!(by_source("device"), of("prefix_cache_hits_total"));
    for none in ["disk", "p2p", "external_unspecified"] {
        assert_eq!(by_source(none), 0);
    }
    let queries = 4 * 800 - of("prefix_cache_hits_total");
    assert_eq!(of("external_prefix_cache_queries_total"), queries);
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
    // An adapter in use is in both, whatever its requests do (`LoRARequestStates.update_scheduler_stats`).
    let runs = format!("waiting_lora_adapters=\"{name}\",running_lora_adapters=\"{name}\"");
    let told = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let text = metrics(&server);
        let line = text.lines().find(|line| line.starts_with("vllm:lora_requests_info"))?;
        line.contains(&runs).then(|| line.to_owned())
    });
    let told = told.expect("it runs");
    assert!(told.contains("max_lora=\"2\""), "{told}");
    drop(waiting);
    wait_until("none is in use", Duration::from_secs(20), || {
        let none = "waiting_lora_adapters=\"\",running_lora_adapters=\"\"";
        metrics(&server).contains(none)
    });
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
        let hits = of("external_prefix_cache_hits_total");
        assert_eq!(
            of("prompt_tokens_cached_by_source_total"),
            hits + of("prefix_cache_hits_total")
        );
    }
    assert_eq!(prefill("external_prefix_cache_queries_total"), 320 + 16);
    assert_eq!(prefill("external_prefix_cache_hits_total"), 0);
    assert!(decode("external_prefix_cache_hits_total") >= 320);
    // Both prompts are computed where they are prefilled but for what was found there, and a token comes of each.
    assert_eq!(prefill("iteration_tokens_total_sum"), 320 + 16 + 2);
    assert_eq!(prefill("iteration_tokens_total_count"), 2);
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
        assert_eq!(of("num_prefill_inflight_queue_reqs"), 0);
        assert_eq!(of("num_decode_transfer_queue_reqs"), 0);
    }
    assert_eq!(prefill("time_to_first_token_seconds_count"), 0, "it never says");
    assert_eq!(decode("time_to_first_token_seconds_count"), 2);
}
