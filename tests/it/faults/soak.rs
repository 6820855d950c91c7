//! Random clusters under random faults: nothing is lost, nothing waits for ever, memory adds up, and
//! equal seeds give equal runs. Debug builds watch every run for the laws; here they are followed to the
//! end.

use std::fmt::Write;

use rand::RngExt;

use servecast::engine::Instance;
use servecast::metrics::Recorder;
use servecast::resolved::Scenario;
use servecast::rng::{Seed, Stream};
use servecast::sim::{Counts, cluster_priced_by, simulation_on, step_times};
use servecast::workload::Workload;

use super::observe;
use crate::support::{Digest, resolve};

const CLUSTERS: u64 = 200;

/// One of a few words.
pub(super) fn one<'a>(random: &mut Stream, words: &[&'a str]) -> &'a str {
    words[random.random_range(0..words.len())]
}

/// Drafts of SGLang that come from there.
const fn drafts(algorithm: &str) -> &'static str {
    match algorithm.as_bytes() {
        b"EAGLE" => {
            "speculation = { speculative_algorithm = 'EAGLE', speculative_num_steps = 2, \
             acceptance = { type = 'per_position', probability = 0.6 } }\n"
        }
        b"NGRAM" => {
            "speculation = { speculative_algorithm = 'NGRAM', speculative_num_draft_tokens = 5, \
             acceptance = { type = 'per_position', probability = 0.4 } }\n"
        }
        _ => "",
    }
}

/// Engines in little memory: requests of at most 300 tokens fit, a few at a time.
fn engine(random: &mut Stream, disaggregation: bool) -> (&'static str, String) {
    let name = match random.random_range(0..10) {
        _ if disaggregation => "vllm_v1",
        0..3 => "vllm_v1",
        3..6 => "sglang",
        6 => "vllm_v0",
        7 => "sarathi",
        8 => "orca",
        _ => one(random, &["faster_transformer", "static_batching"]),
    };
    let flags = match name {
        "vllm_v1" => format!(
            "num_gpu_blocks = {}\nmax_model_len = 320\nmax_num_seqs = {}\n\
             max_num_batched_tokens = {}\nasync_scheduling = {}\nenable_prefix_caching = {}\n{}",
            random.random_range(22..80),
            random.random_range(1..12),
            random.random_range(16..400),
            random.random_bool(0.5),
            random.random_bool(0.7),
            if disaggregation || random.random_bool(0.7) { "" } else { "policy = 'priority'\n" },
        ),
        "sglang" => format!(
            "max_total_tokens = {}\ncontext_length = 320\nmax_running_requests = {}\n\
             chunked_prefill_size = {}\ndisable_overlap_schedule = {}\ndisable_radix_cache = {}\n\
             page_size = {}\n{}",
            random.random_range(400..1500),
            random.random_range(1..12),
            one(random, &["-1", "64", "128"]),
            random.random_bool(0.5),
            random.random_bool(0.3),
            one(random, &["1", "16"]),
            one(random, &["", "EAGLE", "NGRAM"].map(drafts)),
        ),
        "vllm_v0" => format!(
            "num_gpu_blocks = {}\nmax_model_len = 320\nmax_num_seqs = 8\n\
             enable_chunked_prefill = {}\n",
            random.random_range(22..80),
            random.random_bool(0.5)
        ),
        "sarathi" => {
            format!("num_gpu_blocks = {}\nmax_model_len = 320\n", random.random_range(22..80))
        }
        "static_batching" => format!(
            "kv_tokens = 2000\nmax_model_len = 320\nbatch_size = 4\nbatch_timeout_ms = {}\n",
            random.random_range(0..300)
        ),
        _ => "kv_tokens = 2000\nmax_model_len = 320\n".to_owned(),
    };
    (name, flags)
}

pub(super) fn workload(random: &mut Stream, crashes: bool, out: &mut String) {
    let rate = random.random_range(2.0..40.0);
    let lengths = match random.random_range(0..3) {
        0 => "{ type = 'fixed', input_tokens = 120, output_tokens = 40 }",
        1 => {
            "{ type = 'generated_shared_prefix', groups = 4, prompts_per_group = 20, \
             system_prompt_tokens = 100, question_tokens = 40, output_tokens = 30 }"
        }
        _ => {
            "{ type = 'sampled', input_tokens = { type = 'uniform', min_tokens = 5, \
             max_tokens = 180 }, output_tokens = { type = 'uniform', min_tokens = 1, \
             max_tokens = 60 } }"
        }
    };
    let sessions = lengths.contains("fixed") && random.random_bool(0.5);
    let count = if sessions { 30 } else { 80 };
    let _ = writeln!(
        out,
        "[workload]\nnum_requests = {count}\narrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n\
         lengths = {lengths}"
    );
    if sessions {
        out.push_str(
            "sessions = { turns_min = 1, turns_max = 2, message_tokens = { type = 'fixed', \
             tokens = 20 }, output_tokens = { type = 'fixed', tokens = 20 }, think_time = { \
             type = 'exponential', mean_s = 0.3 } }\n",
        );
    }
    client(random, crashes, out);
}

pub(super) fn client(random: &mut Stream, mut may_fail: bool, out: &mut String) {
    if random.random_bool(0.3) {
        let _ = writeln!(out, "client.max_concurrency = {}", random.random_range(1..20));
    }
    if random.random_bool(0.4) {
        let _ = writeln!(out, "client.timeout_s = {}", random.random_range(0.1..4.0));
        may_fail = true;
    }
    if random.random_bool(0.3) {
        let timeout = random.random_range(0.02..2.0);
        let _ = writeln!(out, "client.first_token_timeout_s = {timeout}");
        may_fail = true;
    }
    if random.random_bool(0.4) {
        let _ = writeln!(
            out,
            "client.cancellations = {{ share = {}, mean_s = {} }}",
            random.random_range(0.05..1.0),
            random.random_range(0.05..2.0)
        );
    }
    if may_fail && random.random_bool(0.6) {
        let _ = writeln!(
            out,
            "client.retries = {{ max_retries = {}, backoff_s = {} }}",
            random.random_range(1..4),
            one(random, &["0.0", "0.2"])
        );
    }
}

/// A cluster as far as it decides what may fail.
pub(super) struct May {
    pub(super) replicas: u32,
    pub(super) crashes: bool,
    pub(super) network: bool,
    pub(super) caches: bool,
}

pub(super) fn faults(random: &mut Stream, may: &May, out: &mut String) {
    let mut process = |fault: &str, between: f64, lasts: Option<f64>| {
        let _ = writeln!(
            out,
            "[[faults]]\ntype = 'random'\nfault = {fault}\nmean_time_between_s = {between}\n\
             until_s = 60.0"
        );
        if let Some(mean) = lasts {
            let _ = writeln!(out, "mean_duration_s = {mean}");
        }
    };
    if may.crashes {
        let detection = one(random, &["0.0", "0.05", "0.5"]);
        let between = random.random_range(0.5..8.0);
        let fault = format!("{{ type = 'crash', detection_s = {detection} }}");
        process(&fault, between, Some(random.random_range(0.01..3.0)));
    }
    if random.random_bool(0.5) {
        let factor = random.random_range(1.0..8.0);
        process(&format!("{{ type = 'straggler', factor = {factor} }}"), 2.0, Some(1.0));
    }
    if may.network && random.random_bool(0.6) {
        let share = random.random_range(0.001..0.9);
        process(&format!("{{ type = 'slow_link', share = {share} }}"), 1.0, Some(1.0));
    }
    if may.network && random.random_bool(0.7) {
        process("{ type = 'lost_transfers' }", random.random_range(0.05..1.0), None);
    }
    if may.caches && random.random_bool(0.5) {
        process("{ type = 'lost_cache' }", random.random_range(0.05..1.0), None);
    }
    if !out.contains("'straggler'") {
        let replica = random.random_range(0..may.replicas);
        let _ = writeln!(
            out,
            "[[faults]]\ntype = 'straggler'\nreplica = {replica}\nat_s = 1.0\nfor_s = 0.5\nfactor = 3.0"
        );
    }
}

fn keeps_prefixes(engine: &str, flags: &str) -> bool {
    match engine {
        "vllm_v1" => flags.contains("prefix_caching = true"),
        "sglang" => flags.contains("radix_cache = false"),
        _ => false,
    }
}

/// Which prompts the decode side computes itself.
fn local_prefill(random: &mut Stream, caches: bool) -> String {
    let tokens = random.random_range(1..200);
    let condition = match random.random_range(0..4) {
        1 if caches => format!("max_new_tokens = {tokens}"),
        0 | 1 => format!("max_prompt_tokens = {tokens}"),
        2 => format!("max_prefill_queue = {}", tokens % 5),
        _ => return String::new(),
    };
    format!(", local_prefill = {{ {condition} }}")
}

/// More than a chunk of 48 tokens takes.
const CHUNK_GIB: f64 = 0.007;

/// Tiers with room for a few prompts, over slow links; none in half of the cases.
pub(super) fn tiers(random: &mut Stream, out: &mut String) {
    if random.random_bool(0.5) {
        return;
    }
    let _ = writeln!(
        out,
        "[cluster.kv_tiers]\nchunk_tokens = {}\nwrite = '{}'\neviction = '{}'\nfetch = '{}'\n\
         pcie_gb_per_s = {}\nlatency_us = 100.0\nhost = {{ memory_gib = {} }}",
        one(random, &["16", "48"]),
        one(random, &["through", "back"]),
        one(random, &["lru", "fifo"]),
        one(random, &["always", "when_faster"]),
        random.random_range(0.05..10.0),
        random.random_range(0.0..0.2_f64).max(CHUNK_GIB),
    );
    if random.random_bool(0.5) {
        out.push_str("disk = { capacity_gib = 0.1, read_gb_per_s = 0.5, write_gb_per_s = 0.2 }\n");
    }
    if random.random_bool(0.5) {
        let room = random.random_range(0.0..0.3_f64).max(CHUNK_GIB);
        // Who hands KV caches over has NICs already.
        let nic = if out.contains("nic_gb_per_s") { "" } else { ", nic_gb_per_s = 0.6" };
        let _ = writeln!(out, "pool = {{ memory_gib = {room}{nic} }}");
    }
}

/// Half of the clusters hold requests back at the gateway, in any order.
pub(super) fn gateway(seed: u64, network: bool, text: &str) -> String {
    let random = &mut Seed(seed).stream("soak gateway", 0);
    if random.random_bool(0.5) {
        return text.to_owned();
    }
    let order = one(random, &["fcfs", "priority", "vtc", "drr"]);
    let order = if network && order == "vtc" { "drr" } else { order };
    let mut room = format!("[cluster.gateway]\norder = {{ type = '{order}' }}\n");
    let waits = random.random_bool(0.3);
    if !waits || random.random_bool(0.5) {
        let _ = writeln!(room, "max_outstanding_per_replica = {}", random.random_range(1..8));
    }
    if random.random_bool(0.5) {
        let _ = writeln!(room, "max_waiting = {}", random.random_range(1..20));
    }
    if random.random_bool(0.5) {
        let _ = writeln!(room, "deadline_ms = {}", random.random_range(10.0..2000.0));
    }
    if waits || random.random_bool(0.3) {
        let per = if waits { "gateway" } else { one(random, &["gateway", "tenant"]) };
        let _ = writeln!(
            room,
            "rate_limit = {{ requests_per_s = {}, burst = {}, prompt_tokens_per_s = {}, \
             burst_prompt_tokens = 100, over = '{}', per = '{per}' }}",
            random.random_range(5.0..50.0),
            random.random_range(1..5),
            random.random_range(500.0..5000.0),
            if waits { "wait" } else { "refuse" },
        );
    }
    let [first, second] = if order == "priority" { [3, 1] } else { [0, 0] };
    let classes = format!(
        "[[workload.classes]]\nname = 'a'\nshare = 0.25\npriority = {first}\n\
         [[workload.classes]]\nname = 'b'\nshare = 0.75\npriority = {second}\n"
    );
    text.replace("[cluster]\n", &format!("{classes}[cluster]\n"))
        .replace("[cluster.step_time]\n", &format!("{room}[cluster.step_time]\n"))
}

/// A cluster with its workload and its faults.
fn scenario(seed: u64) -> String {
    let random = &mut Seed(seed).stream("soak", 0);
    let mut text = format!("name = 'soak'\nseed = {seed}\n");
    let crashes = random.random_bool(0.7);
    workload(random, crashes, &mut text);
    let network = random.random_bool(0.4);
    let (name, flags) = engine(random, network);
    let replicas: u32 = random.random_range(1..5);
    let router = one(
        random,
        &[
            "round_robin",
            "random",
            "least_outstanding_requests",
            "least_outstanding_tokens",
            "power_of_two_choices",
            "session_sticky",
            "prefix_aware",
            "prefix_exact",
            "latency_predicting",
            "weighted",
            "dynamo",
        ],
    );
    // What they cannot do is refused: one predicts no replicas that prefill or decode only, the other reads caches.
    let router =
        if !keeps_prefixes(name, &flags) && router == "prefix_exact" { "weighted" } else { router };
    let router = if network && router == "latency_predicting" { "weighted" } else { router };
    let parts: [u32; 2] = [random.random_range(1..4), random.random_range(1..4)];
    let count = if network {
        format!(
            "disaggregation = {{ prefill_replicas = {}, decode_replicas = {}, transfer = {{ \
             nic_gb_per_s = {}, latency_us = 50.0 }}{} }}",
            parts[0],
            parts[1],
            random.random_range(0.05..5.0),
            local_prefill(random, keeps_prefixes(name, &flags))
        )
    } else {
        format!("replicas = {replicas}")
    };
    let stages = match name {
        "vllm_v1" if !network => [1, 1, 2, 3][seed as usize % 4],
        _ => 1,
    };
    let base = random.random_range(500.0..20_000.0);
    let _ = writeln!(
        text,
        "[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n{count}\n\
         pipeline_parallel_size = {stages}\napi_delay_ms = {}\n\
         router = {{ type = '{router}' }}\n[cluster.engine]\ntype = '{name}'\n{flags}\
         [cluster.step_time]\ntype = 'linear'\nbase_us = {base}\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0",
        one(random, &["0.0", "2.0", "100.0"]),
    );
    let caches = keeps_prefixes(name, &flags);
    if name == "vllm_v1" && caches && stages == 1 {
        // Those of replicas that prefill draw from a stream of their own.
        let below = &mut Seed(seed).stream("tiers of prefills", 0);
        tiers(if network { below } else { random }, &mut text);
    }
    // Engines that decide every step on its own tell nothing of their caches.
    text = text.replace("type = 'dynamo'", "dynamo = { use_kv_events = false }");
    let replicas = if network { parts[0] + parts[1] } else { replicas };
    faults(random, &May { replicas, crashes, network, caches }, &mut text);
    let text = gateway(seed, network, &text);
    scaled(seed, if network { &parts } else { &[] }, replicas, &text)
}

/// Every other cluster has autoscalers, which draw from a stream of their own: one of all replicas, or one
/// each of those that prefill and those that decode.
pub(super) fn scaled(seed: u64, parts: &[u32], replicas: u32, text: &str) -> String {
    let random = &mut Seed(seed).stream("scaled", 0);
    if random.random_bool(0.5) {
        return text.to_owned();
    }
    let waits = text.contains("max_outstanding_per_replica") || text.contains("over = 'wait'");
    let [prefills, decodes] = *parts else {
        let scaler = autoscaler(random, replicas, waits);
        return text.replacen("replicas = ", &format!("{scaler}\nreplicas = "), 1);
    };
    let prefill = autoscaler(random, prefills, waits);
    let decode = autoscaler(random, decodes, false);
    let groups = format!(
        "groups = [{{ replicas = {prefills}, role = 'prefill', {prefill} }}, {{ replicas = {decodes}, \
         role = 'decode', {decode} }}]\ndisaggregation = {{ "
    );
    let counts =
        format!("disaggregation = {{ prefill_replicas = {prefills}, decode_replicas = {decodes}, ");
    text.replacen(&counts, &groups, 1)
}

/// An autoscaler of at most so many replicas, to none where requests wait at the gateway.
fn autoscaler(random: &mut Stream, replicas: u32, waits: bool) -> String {
    let min = random.random_range(u32::from(!waits)..=replicas);
    let initial = random.random_range(min..=replicas);
    let interval = one(random, &["0.05", "0.4", "1.0"]);
    let signal = match random.random_range(0..if waits { 7 } else { 5 }) {
        0 => "type = 'outstanding_per_replica', target = 3.0",
        1 => "type = 'waiting_per_replica', target = 0.5",
        2 => "type = 'kv_usage', target = 0.3",
        3 => "type = 'utilisation', target = 0.5",
        4 => "type = 'slo_headroom', ttft_ms = 200.0, target = 0.8",
        5 => "type = 'gateway_queue_per_replica', target = 2.0",
        _ => "type = 'concurrency_per_replica', target = 4.0",
    };
    format!(
        "autoscaler = {{ min_replicas = {min}, max_replicas = {replicas}, \
         initial_replicas = {initial}, signal = {{ {signal} }}, interval_s = {interval}, \
         stabilisation_down_s = {}, provisioning_s = {}, weights_source_gib_per_s = {} }}",
        one(random, &["0.0", "1.0", "2.0"]),
        one(random, &["0.0", "0.3", "3.0"]),
        one(random, &["4.0", "60.0"]),
    )
}

fn digest(scenario: &Scenario) -> (Counts, Digest, Recorder) {
    let mut seen = (Digest::default(), Recorder::default());
    let counts = observe(scenario, &mut seen);
    (counts, seen.0, seen.1)
}

/// The same scenario on engines that decide every step on its own.
fn step_by_step(scenario: &Scenario) -> (Counts, Recorder) {
    let costs = step_times(scenario).expect("step times are known");
    let mut cluster = cluster_priced_by(scenario, &costs).expect("it can be built");
    cluster.instances = cluster.instances.into_iter().map(Instance::step_by_step).collect();
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let mut recorder = Recorder::default();
    let run = simulation_on(scenario, cluster, workload).expect("nothing comes before");
    (run.run(&mut recorder).expect("no trace is read"), recorder)
}

/// Follows a cluster to its end, again, and step by step.
pub(super) fn follow(seed: u64, text: &str) -> Counts {
    println!("soak: seed {seed}");
    let scenario = resolve(text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
    let (counts, once, recorder) = digest(&scenario);
    let ends = [counts.finished, counts.rejected, counts.aborted, counts.timed_out, counts.failed];
    let left = ends.iter().sum::<u64>() + counts.unfinished;
    assert_eq!((counts.arrived, counts.stuck), (left, 0), "seed {seed}: {counts:?}\n{text}");
    let (again, twice, _) = digest(&scenario);
    assert_eq!((counts, once), (again, twice), "seed {seed}: twice the same\n{text}");
    let (by_steps, single) = step_by_step(&scenario);
    assert_eq!(counts, by_steps, "seed {seed}: step by step\n{text}");
    for (record, expected) in recorder.requests.iter().zip(&single.requests) {
        assert_eq!(record, expected, "seed {seed}: step by step\n{text}");
    }
    for (place, record) in recorder.requests.iter().enumerate() {
        let Some(parts) = recorder.breakdown_of(place) else { continue };
        assert_eq!(parts.total(), record.e2e(), "seed {seed}: times add up\n{text}");
    }
    counts
}

/// Follows so many clusters to their ends.
pub(super) fn sum(clusters: u64, scenario: impl Fn(u64) -> String) {
    let mut sum = Counts::default();
    for seed in 0..clusters {
        let counts = follow(seed, &scenario(seed));
        assert_eq!(counts.unfinished, 0, "seed {seed}");
        sum.finished += counts.finished;
        sum.aborted += counts.aborted;
        sum.timed_out += counts.timed_out;
        sum.failed += counts.failed;
        sum.retried += counts.retried;
    }
    let all = [sum.finished, sum.aborted, sum.timed_out, sum.failed, sum.retried];
    assert!(all.iter().all(|count| *count > clusters), "every fate is met often: {sum:?}");
}

/// The same where clients stop in the middle.
pub(super) fn stop_amid(clusters: u64, scenario: impl Fn(u64) -> String) {
    let mut unfinished = 0;
    for seed in 0..clusters {
        let text = scenario(seed);
        // Turns of conversations that are due after the end are no part of a run.
        if !text.contains("sessions") {
            let stops = text.replace("[workload]\n", "[workload]\nclient.stop_after_s = 1.3\n");
            unfinished += follow(seed, &stops).unfinished;
        }
    }
    assert!(unfinished > 200, "runs end amid requests: {unfinished}");
}

#[test]
fn no_request_is_lost_in_random_clusters_under_random_faults() {
    let often = |words: &[&str], least: usize| {
        let has_all = |seed: &u64| words.iter().all(|word| scenario(*seed).contains(word));
        let count = (0..CLUSTERS).filter(has_all).count();
        assert!(count >= least, "{words:?} are met together {count} times");
    };
    often(&["autoscaler"], 80);
    often(&["autoscaler", "cluster.gateway"], 25);
    often(&["autoscaler", "disaggregation"], 25);
    often(&["autoscaler", "kv_tiers"], 6);
    often(&["disaggregation", "kv_tiers"], 12);
    often(&["local_prefill", "cluster.gateway"], 12);
    often(&["min_replicas = 0"], 5);
    sum(CLUSTERS, scenario);
}

#[test]
fn no_request_is_lost_where_clients_stop_amid_faults() {
    stop_amid(CLUSTERS / 4, scenario);
}

/// A cluster in which everything happens at whole hundredths of a second: steps end, requests come, clients
/// give up and replicas fail at the same instants.
fn in_time(seed: u64) -> String {
    let random = &mut Seed(seed).stream("in time", 0);
    let mut whole = |range: std::ops::Range<u32>| f64::from(random.random_range(range)) / 100.0;
    let mut text = format!(
        "name = 'in time'\nseed = {seed}\n[workload]\nnum_requests = 60\n\
         arrivals = {{ type = 'constant', rate_per_s = 50.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 20, output_tokens = 25 }}\n\
         client = {{ timeout_s = {}, first_token_timeout_s = {}, retries = {{ backoff_s = {} }} }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\nreplicas = 3\n[cluster.step_time]\n\
         type = 'linear'\nbase_us = 10000.0\nprefill_token_us = 0.0\ndecode_seq_us = 0.0\n",
        whole(20..60),
        whole(1..40),
        whole(0..20),
    );
    let engine = ["vllm_v1", "sglang", "vllm_v0", "vllm_v1"][seed as usize % 4];
    let _ = writeln!(text, "[cluster.engine]\ntype = '{engine}'");
    if seed % 4 == 3 {
        text = text.replace(
            "replicas = 3",
            "disaggregation = { prefill_replicas = 1, decode_replicas = 2, transfer = { \
             nic_gb_per_s = 1.0, latency_us = 10000.0 } }",
        );
    }
    if seed / 4 % 2 == 1 {
        let order = if seed % 4 == 3 { "drr" } else { "vtc" };
        text = text.replace(
            "[cluster]\n",
            "[[workload.classes]]\nname = 'a'\nshare = 0.8\n[[workload.classes]]\nname = 'b'\n\
             share = 0.2\n[cluster]\n",
        );
        let _ = writeln!(
            text,
            "[cluster.gateway]\nmax_outstanding_per_replica = {}\norder = {{ type = '{order}' }}",
            1 + seed / 8 % 4
        );
    }
    for replica in 0..3 {
        let _ = writeln!(
            text,
            "[[faults]]\ntype = 'crash'\nreplica = {replica}\nat_s = {}\ndown_s = {}\n\
             detection_s = {}\n[[faults]]\ntype = 'straggler'\nreplica = {replica}\nat_s = {}\n\
             for_s = {}\nfactor = 2.0",
            whole(5..150),
            whole(10..50),
            whole(0..10),
            whole(0..100),
            whole(1..50),
        );
    }
    text
}

#[test]
fn faults_at_the_ends_of_steps_come_after_them_in_runs_of_steps_too() {
    let mut sum = Counts::default();
    for seed in 0..80 {
        let counts = follow(seed, &in_time(seed));
        sum.finished += counts.finished;
        sum.timed_out += counts.timed_out;
        sum.failed += counts.failed;
    }
    assert!([sum.finished, sum.timed_out].iter().all(|count| *count > 100), "{sum:?}");
}
