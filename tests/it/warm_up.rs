//! What a cluster serves before the requests that count.

use proptest::prelude::*;
use servecast::metrics::{Recorder, RequestRecord, Status};

use super::support::{random_cases, resolve, run_text as run};

fn scenario(cluster: &str, workload: &str, warm_up: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n{cluster}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n[workload]\narrivals.type = 'all_at_once'\n{workload}\n{warm_up}"
    )
}

fn cached(text: &str) -> Vec<u32> {
    let (counts, recorder) = run(text);
    assert_eq!(counts.finished, recorder.requests.len() as u64);
    recorder.requests.iter().map(|request| request.cached_tokens).collect()
}

/// What its client sees of a request.
fn seen(record: &RequestRecord) -> (u64, u64, u64, u32, Status) {
    let since = |at: servecast::units::SimTime| at.as_nanos();
    let RequestRecord { arrival, first_token, finish, output_tokens, status, .. } = *record;
    (since(arrival), since(first_token), since(finish), output_tokens, status)
}

/// Prompts of 100 tokens.
fn prompts(count: u32, max_concurrency: u32) -> String {
    format!(
        "num_requests = {count}\nclient.max_concurrency = {max_concurrency}\n\
         lengths = {{ type = 'fixed', input_tokens = 100, output_tokens = 20 }}"
    )
}

const SGLANG: &str = "engine = { type = 'sglang' }";
const VLLM: &str = "engine = { type = 'vllm_v1' }";
const APART: &str = "engine = { type = 'sglang' }\ndisaggregation = { prefill_replicas = 1, \
                     decode_replicas = 2, transfer = { nic_gb_per_s = 50.0, latency_us = 10.0 } }";
const DYNAMO: &str = "router = { dynamo = {} }\nreplicas = 2\nengine = { type = 'vllm_v1' }";
const ONE_RUN: &str = "warm_up = { runs = 1 }";

/// Engines that keep no prefixes.
const WITHOUT_CACHE: [&str; 6] = [
    "engine = { type = 'sglang', disable_radix_cache = true }",
    "engine = { type = 'vllm_v1', enable_prefix_caching = false }",
    "engine = { type = 'vllm_v0' }",
    "engine = { type = 'sarathi' }",
    "engine = { type = 'orca' }",
    "engine = { type = 'sglang', disable_radix_cache = true }\ndisaggregation = { prefill_replicas = 1, \
     decode_replicas = 1, transfer = { nic_gb_per_s = 50.0, latency_us = 10.0 } }",
];

proptest! {
    #![proptest_config(random_cases(24))]

    #[test]
    fn without_caches_what_was_served_before_changes_nothing(
        engine in 0..WITHOUT_CACHE.len(),
        (count, concurrency) in (1_u32..30, 1_u32..20),
        (runs, copies) in (0_u32..3, 0_u32..3),
        seed in 0_u32..1000,
    ) {
        let workload = format!(
            "num_requests = {count}\nclient.max_concurrency = {concurrency}\n\
             lengths = {{ type = 'sglang_random', input_tokens = 600, output_tokens = 60 }}\n\
             tool_seed = {seed}"
        );
        let cluster = WITHOUT_CACHE[engine];
        let (counts, cold) = run(&scenario(cluster, &workload, ""));
        let warm_up = format!("warm_up = {{ runs = {runs}, requests = {copies} }}");
        let (warm_counts, warm) = run(&scenario(cluster, &workload, &warm_up));
        prop_assert_eq!(counts, warm_counts);
        let each = |recorder: &Recorder| -> Vec<_> { recorder.requests.iter().map(seen).collect() };
        prop_assert_eq!(each(&cold), each(&warm));
        prop_assert_eq!((cold.steps, cold.end), (warm.steps, warm.end));
    }

    #[test]
    fn prompts_that_fit_are_found_but_for_the_last_token(
        count in 1_u32..40,
        concurrency in 1_u32..20,
        runs in 1_u32..3,
    ) {
        let warm_up = format!("warm_up = {{ runs = {runs} }}");
        for cluster in [SGLANG, APART] {
            let text = scenario(cluster, &prompts(count, concurrency), &warm_up);
            prop_assert_eq!(cached(&text), vec![99; count as usize]);
        }
        // Six whole blocks of 16 tokens.
        let text = scenario(VLLM, &prompts(count, concurrency), &warm_up);
        prop_assert_eq!(cached(&text), vec![96; count as usize]);
    }
}

#[test]
fn prompts_of_one_run_share_nothing() {
    for cluster in [SGLANG, APART, VLLM] {
        let copies = "warm_up = { requests = 2 }";
        // The first request was sent before, the others were not.
        let [first, others @ ..] = &cached(&scenario(cluster, &prompts(5, 2), copies))[..] else {
            panic!("five requests");
        };
        assert_eq!(*first, if cluster == VLLM { 96 } else { 99 });
        assert_eq!(others, [0; 4]);
    }
}

#[test]
fn a_cache_too_small_for_all_prompts_has_lost_each_by_the_time_it_comes_again() {
    // A prompt and its answer take 8 blocks of 16 tokens; 3 of them fit, and 10 come in turn.
    let cluster = "engine = { type = 'vllm_v1', num_gpu_blocks = 25, max_model_len = 256 }";
    assert_eq!(cached(&scenario(cluster, &prompts(10, 1), ONE_RUN)), [0; 10]);
    // 81 blocks hold all ten.
    let cluster = "engine = { type = 'vllm_v1', num_gpu_blocks = 81, max_model_len = 256 }";
    assert_eq!(cached(&scenario(cluster, &prompts(10, 1), ONE_RUN)), [96; 10]);
}

#[test]
fn a_router_goes_on_from_where_it_is() {
    let cluster = format!("{SGLANG}\nreplicas = 3");
    // Four requests in turn on three replicas: the first one comes to the second replica next.
    let text = scenario(&cluster, &prompts(4, 1), ONE_RUN);
    assert_eq!(cached(&text), [0, 0, 0, 0]);
    // With two copies of the first before each run six requests come to three replicas. Those go to the first
    // and second, so that the third serves what the workload begins with.
    let text = scenario(&cluster, &prompts(4, 1), "warm_up = { runs = 1, requests = 2 }");
    assert_eq!(cached(&text), [99; 4]);
}

#[test]
fn clusters_whose_state_is_more_than_caches_are_refused() {
    let sessions = "sessions = { turns_min = 2, turns_max = 2, message_tokens = { type = 'fixed', \
                    tokens = 5 }, output_tokens = { type = 'fixed', tokens = 5 } }";
    for (more, what) in [
        (sessions, "workload.sessions"),
        ("client.stop_after_s = 5.0", "workload.client.stop_after_s"),
        ("client.timeout_s = 5.0", "clients that give up or retry"),
        (
            "adapters = { kinds = [{ count = 2, rank = 8 }], popularity = { type = 'uniform' } }",
            "workload.adapters",
        ),
    ] {
        let warm_up = format!("{ONE_RUN}\n{more}");
        let lengths =
            "num_requests = 2\nlengths = { type = 'fixed', input_tokens = 9, output_tokens = 9 }";
        let error = resolve(&scenario(SGLANG, lengths, &warm_up)).expect_err("it is not modelled");
        let expected =
            format!("workload.warm_up: is not modelled with {what}; take one of them out");
        assert!(error.lines().any(|line| line == expected), "{error}");
    }
    let rest = [
        ("[cluster.kv_tiers]\nhost = { memory_gib = 1.0 }\n", "cluster.kv_tiers"),
        (
            "[cluster.autoscaler]\nmax_replicas = 2\nsignal = { type = 'outstanding_per_replica', target = 16.0 }\nprovisioning_s = 1.0\n",
            "an autoscaler",
        ),
        ("[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 1.0\ndown_s = 1.0\n", "faults"),
        ("[trace]\npath = 'none.csv'\n", "a workload that reads a trace"),
    ];
    for (more, what) in rest {
        let text = scenario(SGLANG, &prompts(1, 1), ONE_RUN) + "\n" + more;
        let reads = if what.ends_with("trace") { "'trace'" } else { "'all_at_once'" };
        let text = text.replace("'all_at_once'", reads);
        let error = resolve(&text).expect_err("it is not modelled");
        let expected = format!("is not modelled with {what}; take one of them out");
        assert!(error.contains(&expected), "{what}: {error}");
    }
    let text = scenario(SGLANG, &prompts(1, 1), "warm_up = { requests = 1001 }");
    let error = resolve(&text).expect_err("nobody waits for that");
    assert_eq!(error, "workload.warm_up.requests: must be at most 1000, got 1001");
    let text = scenario(SGLANG, &prompts(1, 1), "warm_up = { runs = 1001 }");
    let error = resolve(&text).expect_err("nobody waits for that");
    assert_eq!(error, "workload.warm_up.runs: must be at most 1000, got 1001");
}

/// Bookings of a warm-up would be those of requests that have the same numbers afterwards.
#[test]
fn a_router_that_books_forgets_what_a_warm_up_sent() {
    for warm_up in [ONE_RUN, "warm_up = { requests = 1 }"] {
        let found = cached(&scenario(DYNAMO, &prompts(20, 4), warm_up));
        assert_eq!(found.len(), 20);
    }
}
