//! More random clusters under random faults: KV handed over by `reserve` and `blocking`, several models, adapters,
//! data-parallel ranks. What is asked of them is what `soak.rs` asks.

use std::fmt::Write;

use rand::RngExt;

use servecast::rng::{Seed, Stream};

use super::soak::{May, faults, follow, gateway, one, scaled, stop_amid, sum, tiers, workload};

const CLUSTERS: u64 = 150;

const STEP_TIME: &str = "[cluster.step_time]\ntype = 'linear'\nprefill_token_us = 20.0\n\
                         decode_seq_us = 50.0\nbase_us = ";

/// The words of a cluster with prefill and decode replicas of an engine, and those of the engine.
fn apart(random: &mut Stream, parts: [u32; 2]) -> (&'static str, String, String) {
    let engine = one(random, &["vllm_v1", "sglang", "sglang", "vllm_v0"]);
    let (blocks, seats) = (random.random_range(22..80), random.random_range(1..12));
    let (protocol, flags) = match engine {
        "vllm_v0" => {
            // Room for a few prompts, a step of which always fits.
            let buffer = random.random_range(0.0..3e8);
            let launch = one(random, &["0.0", "3000.0", "40000.0"]);
            let flags = format!(
                "num_gpu_blocks = {blocks}\nmax_model_len = 320\nmax_num_seqs = {seats}\n\
                 host = {{ eager_launch_us = {launch} }}\n"
            );
            (format!("{{ type = 'blocking', kv_buffer_size = {} }}", buffer + 1.0), flags)
        }
        "sglang" => {
            // 512 tokens stay free beside a prompt.
            let flags = format!(
                "max_total_tokens = {}\ncontext_length = 320\nmax_running_requests = {seats}\n\
                 chunked_prefill_size = {}\ndisable_overlap_schedule = {}\ndisable_radix_cache = {}\n\
                 page_size = {}\n",
                random.random_range(900..3000),
                one(random, &["-1", "64", "128"]),
                random.random_bool(0.5),
                random.random_bool(0.3),
                one(random, &["1", "16"]),
            );
            ("{ type = 'reserve' }".to_owned(), flags)
        }
        _ => {
            let flags = format!(
                "num_gpu_blocks = {blocks}\nmax_model_len = 320\nmax_num_seqs = {seats}\n\
                 max_num_batched_tokens = {}\nasync_scheduling = {}\nenable_prefix_caching = {}\n",
                random.random_range(16..400),
                random.random_bool(0.5),
                random.random_bool(0.7),
            );
            ("{ type = 'reserve' }".to_owned(), flags)
        }
    };
    let granularity = match engine {
        "vllm_v0" => "whole",
        _ => one(random, &["whole", "chunk_wise", "layer_wise"]),
    };
    let rate = random.random_range(0.05..5.0);
    let words = format!(
        "disaggregation = {{ prefill_replicas = {}, decode_replicas = {}, protocol = {protocol}, \
         transfer = {{ nic_gb_per_s = {rate}, latency_us = {}, granularity = '{granularity}' }} }}",
        parts[0],
        parts[1],
        one(random, &["0.0", "50.0", "20000.0"]),
    );
    (engine, words, flags)
}

/// Replicas that hand KV over by `reserve` or `blocking`.
fn handed_over(seed: u64) -> String {
    let random = &mut Seed(seed).stream("handed over", 0);
    let mut text = format!("name = 'handed over'\nseed = {seed}\n");
    let crashes = random.random_bool(0.7);
    workload(random, crashes, &mut text);
    let parts: [u32; 2] = [random.random_range(1..4), random.random_range(1..4)];
    let (engine, words, flags) = apart(random, parts);
    let router =
        one(random, &["round_robin", "least_outstanding_requests", "session_sticky", "weighted"]);
    let base = random.random_range(500.0..20_000.0);
    let _ = writeln!(
        text,
        "[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n{words}\napi_delay_ms = {}\n\
         router = {{ type = '{router}' }}\n[cluster.engine]\ntype = '{engine}'\n{flags}{STEP_TIME}{base}",
        one(random, &["0.0", "2.0", "100.0"]),
    );
    let caches = flags.contains("prefix_caching = true") || flags.contains("radix_cache = false");
    if engine == "vllm_v1" && caches {
        tiers(random, &mut text);
    }
    let may = May { replicas: parts[0] + parts[1], crashes, network: true, caches };
    faults(random, &may, &mut text);
    let text = gateway(seed, true, &text);
    scaled(seed, &parts, may.replicas, &text)
}

fn often(words: &[&str], least: usize, scenario: impl Fn(u64) -> String) {
    let has_all = |seed: &u64| words.iter().all(|word| scenario(*seed).contains(word));
    let count = (0..CLUSTERS).filter(has_all).count();
    assert!(count >= least, "{words:?} are met together {count} times");
}

#[test]
fn no_request_is_lost_between_replicas_under_random_faults() {
    often(&["'blocking'", "'crash'"], 15, handed_over);
    often(&["'sglang'", "'crash'", "_wise'"], 15, handed_over);
    often(&["'vllm_v1'", "'crash'", "_wise'"], 8, handed_over);
    often(&["'reserve'", "autoscaler"], 20, handed_over);
    often(&["'reserve'", "kv_tiers"], 6, handed_over);
    often(&["'reserve'", "cluster.gateway"], 20, handed_over);
    sum(CLUSTERS, handed_over);
}

#[test]
fn no_request_is_lost_between_replicas_where_clients_stop_amid_faults() {
    stop_amid(CLUSTERS / 3, handed_over);
}

/// Two instances end a step at one instant, and what the later one ends sends a request to the earlier one.
#[test]
fn what_a_later_instance_ends_comes_after_the_steps_of_earlier_ones() {
    follow(1820, &models(1820));
}

/// Many more of all: `cargo test --test it -- --ignored a_long_soak`. `SERVECAST_SOAK` says which, `FROM-TO`.
#[test]
#[ignore = "takes minutes"]
fn a_long_soak() {
    let range = std::env::var("SERVECAST_SOAK").unwrap_or("150-2000".to_owned());
    let (from, to) = range.split_once('-').expect("a range");
    let [from, to] = [from, to].map(|end| end.parse::<u64>().expect("a number"));
    for seed in from..to {
        for scenario in [handed_over, alike, models] {
            assert_eq!(follow(seed, &scenario(seed)).unfinished, 0, "seed {seed}");
        }
    }
}

fn flags(random: &mut Stream, engine: &str) -> String {
    if engine == "vllm_v1" {
        return format!(
            "num_gpu_blocks = {}\nmax_model_len = 320\nmax_num_seqs = {}\n\
             max_num_batched_tokens = {}\nasync_scheduling = {}\n",
            random.random_range(22..80),
            random.random_range(1..12),
            random.random_range(64..400),
            random.random_bool(0.5),
        );
    }
    format!(
        "max_total_tokens = {}\ncontext_length = 320\nmax_running_requests = {}\n\
         chunked_prefill_size = {}\ndisable_overlap_schedule = {}\n",
        random.random_range(400..1500),
        random.random_range(2..12),
        one(random, &["-1", "64", "128"]),
        random.random_bool(0.5),
    )
}

/// Replicas of data-parallel ranks, or with adapters.
fn alike(seed: u64) -> String {
    let random = &mut Seed(seed).stream("alike", 0);
    let mut text = format!("name = 'alike'\nseed = {seed}\n");
    let crashes = random.random_bool(0.7);
    workload(random, crashes, &mut text);
    let engine = one(random, &["vllm_v1", "sglang"]);
    let replicas: u32 = random.random_range(1..4);
    let is_ranked = seed.is_multiple_of(2);
    let mut flags = flags(random, engine);
    let cluster = if is_ranked {
        "model = 'Qwen/Qwen3-30B-A3B'\ngpu = 'H200'\ndata_parallel_size = 2\nexpert_parallel = {}"
    } else {
        let slots = if engine == "sglang" { "max_loras_per_batch" } else { "max_loras" };
        let _ = writeln!(flags, "{slots} = {}", random.random_range(1..4));
        let _ = writeln!(
            text,
            "adapters = {{ kinds = [{{ count = 6, rank = 16 }}], popularity = {{ type = 'uniform' }} }}"
        );
        "model = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'"
    };
    let router = one(random, &["round_robin", "least_outstanding_requests", "session_sticky"]);
    let _ = writeln!(
        text,
        "[cluster]\n{cluster}\nreplicas = {replicas}\nrouter = {{ type = '{router}' }}\n\
         [cluster.engine]\ntype = '{engine}'\n{flags}[cluster.step_time]\ntype = 'roofline'"
    );
    faults(random, &May { replicas, crashes, network: false, caches: true }, &mut text);
    scaled(seed, &[], replicas, &gateway(seed, false, &text))
}

/// Two models behind one gateway: both on mixed replicas, both apart, or one of each, by any protocol.
fn models(seed: u64) -> String {
    let random = &mut Seed(seed).stream("models", 0);
    let mut text = format!("name = 'models'\nseed = {seed}\n");
    let crashes = random.random_bool(0.7);
    workload(random, crashes, &mut text);
    text.push_str(
        "[[workload.classes]]\nname = 'large'\nshare = 0.5\n[[workload.classes]]\nname = 'small'\n\
         share = 0.5\nmodel = 'meta-llama/Llama-3.1-8B'\n",
    );
    let mut parts = || [random.random_range(1..3), random.random_range(1..3)];
    let [large, small] = [parts(), parts()];
    let network = random.random_bool(0.7);
    let (engine, words, flags) = apart(random, large);
    let words = words.replace("layer_wise", "chunk_wise");
    let group = |role: &str, replicas: u32, is_small: bool| {
        let model = if is_small { "model = 'meta-llama/Llama-3.1-8B'\n" } else { "" };
        format!("[[cluster.groups]]\nreplicas = {replicas}\nrole = '{role}'\n{model}")
    };
    let small_is_mixed = random.random_bool(0.4);
    let (network_words, groups) = if network && small_is_mixed {
        let groups = [
            group("mixed", small[0], true),
            group("prefill", large[0], false),
            group("decode", large[1], false),
        ];
        let counts = format!("prefill_replicas = {}, decode_replicas = {}, ", large[0], large[1]);
        (words.replace(&counts, ""), groups.concat())
    } else if network {
        let counts = format!("prefill_replicas = {}, decode_replicas = {}, ", large[0], large[1]);
        let groups = [
            group("prefill", large[0], false),
            group("prefill", small[0], true),
            group("decode", large[1], false),
            group("decode", small[1], true),
        ];
        (words.replace(&counts, ""), groups.concat())
    } else {
        let groups = [group("mixed", large[0], false), group("mixed", small[0], true)];
        (String::new(), groups.concat())
    };
    let base = random.random_range(500.0..20_000.0);
    let _ = writeln!(
        text,
        "[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n{network_words}\n\
         [cluster.engine]\ntype = '{engine}'\n{flags}{STEP_TIME}{base}\n{groups}"
    );
    let small_decodes = if small_is_mixed { 0 } else { small[1] };
    let replicas = large[0] + small[0] + if network { large[1] + small_decodes } else { 0 };
    let caches = flags.contains("prefix_caching = true") || flags.contains("radix_cache = false");
    // Faults of the network are of replicas that take part in transfers.
    let network = network && !small_is_mixed;
    faults(random, &May { replicas, crashes, network, caches }, &mut text);
    text
}

#[test]
fn no_request_is_lost_among_ranks_adapters_and_models_under_random_faults() {
    often(&["expert_parallel", "'crash'"], 40, alike);
    often(&["adapters", "'crash'"], 40, alike);
    often(&["adapters", "autoscaler"], 20, alike);
    often(&["small", "'blocking'", "'crash'"], 8, models);
    often(&["small", "'reserve'", "'crash'"], 25, models);
    sum(CLUSTERS / 2, alike);
    sum(CLUSTERS / 2, models);
}
