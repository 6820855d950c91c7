//! SGLang's router and vLLM's in simulations.

use servecast::ids::{InstanceId, RequestId};
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

const SGLANG: [&str; 6] =
    ["round_robin", "random", "power_of_two", "cache_aware", "manual", "consistent_hashing"];
const VLLM: [&str; 6] = [
    "round_robin",
    "random",
    "power_of_two",
    "cache_aware",
    "consistent_hash",
    "sticky_least_loaded",
];

const CONVERSATIONS: &str = "num_requests = 120\narrivals = { type = 'poisson', rate_per_s = 40.0 }\n\
    lengths = { type = 'fixed', input_tokens = 100, output_tokens = 20 }\n\
    sessions = { turns_min = 1, turns_max = 4, message_tokens = { type = 'fixed', tokens = 30 }, \
    output_tokens = { type = 'fixed', tokens = 20 }, think_time = { type = 'constant', time_s = 0.1 } }";

const APART: &str = "num_requests = 60\narrivals = { type = 'poisson', rate_per_s = 40.0 }\n\
    lengths = { type = 'fixed', input_tokens = 100, output_tokens = 20 }";

fn scenario(router: &str, cluster: &str, workload: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         router = {router}\n{cluster}\n[cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\n\
         prefill_token_us = 20.0\ndecode_seq_us = 50.0\n[workload]\n{workload}"
    )
}

const PAIRS: &str = "engine = { type = 'sglang' }\ndisaggregation = { prefill_replicas = 2, \
    decode_replicas = 3, transfer = { nic_gb_per_s = 10.0, latency_us = 100.0 } }";

/// Where requests were sent first.
#[derive(Default)]
struct Sent(Vec<(RequestId, InstanceId)>);

impl Observer for Sent {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Sent(id, instance) = what {
            self.0.push((id, instance));
        }
    }
}

fn run(text: &str) -> (Counts, Vec<u32>) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut sent = Sent::default();
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    let counts = run.run(&mut sent).expect("no trace is read");
    (counts, sent.0.iter().map(|(_, instance)| instance.0).collect())
}

#[test]
fn every_policy_serves_all_and_what_is_outstanding_comes_to_nothing() {
    let by_keys = "manual', assignment_mode = 'min_group";
    let sglang = SGLANG.iter().chain([&by_keys]);
    let sglang = sglang.map(|policy| format!("{{ sglang = {{ policy = '{policy}' }} }}"));
    let sglang: Vec<_> = sglang.collect();
    let vllm = VLLM.map(|policy| format!("{{ vllm_router = {{ policy = '{policy}' }} }}"));
    for router in sglang.iter().chain(&vllm) {
        let text = scenario(router, "replicas = 4", CONVERSATIONS);
        let (counts, sent) = run(&text);
        assert_eq!(counts.finished, counts.arrived, "{router}");
        assert_eq!((counts, sent), run(&text), "{router}");
    }
}

#[test]
fn every_pair_of_policies_serves_all_through_crashes_and_hang_ups() {
    let crash = "[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 0.4\ndown_s = 0.4\ndetection_s = 0.1\n\
                 [[faults]]\ntype = 'crash'\nreplica = 3\nat_s = 0.9\ndown_s = 0.3\ndetection_s = 0.1\n";
    let mut without_answer = 0;
    for prefill in ["round_robin", "random", "power_of_two", "cache_aware", "bucket"] {
        for decode in ["round_robin", "power_of_two", "cache_aware"] {
            let policies = format!("prefill_policy = '{prefill}', decode_policy = '{decode}'");
            let router = format!("{{ sglang = {{ {policies}, balance_abs_threshold = 1 }} }}");
            let (counts, _) = run(&scenario(&router, PAIRS, APART));
            assert_eq!(counts.finished, counts.arrived, "{router}");
            let client = "client = { timeout_s = 0.3 }";
            let faulty = scenario(&router, PAIRS, &format!("{APART}\n{client}\n{crash}"));
            let (counts, _) = run(&faulty);
            let gone = counts.finished + counts.failed + counts.timed_out + counts.rejected;
            assert_eq!(gone, counts.arrived, "{router}: {counts:?}");
            without_answer += counts.failed + counts.timed_out;
        }
    }
    assert!(without_answer > 0, "some do not find another pair in time");
}

#[test]
fn a_request_counts_where_it_was_prefilled_until_it_is_answered() {
    // Prompts take 7 ms and answers 10 s; the second of two requests within that goes to the other replica: one
    // request more is an imbalance. Two requests are none, and the next one may go anywhere.
    let router = "{ sglang = { policy = 'cache_aware', balance_abs_threshold = 0, balance_rel_threshold = 1.0 } }";
    let workload = "num_requests = 8\narrivals = { type = 'constant', rate_per_s = 2.0 }\n\
                    lengths = { type = 'fixed', input_tokens = 100, output_tokens = 2000 }";
    let (_, sent) = run(&scenario(router, PAIRS, workload));
    assert!(sent.chunks(2).all(|pair| pair[0] != pair[1]), "{sent:?}");
}

#[test]
fn a_shared_beginning_stays_with_its_first_replica_until_the_load_is_imbalanced() {
    let workload = "num_requests = 12\narrivals = { type = 'all_at_once' }\n\
        lengths = { type = 'fixed', input_tokens = 20, output_tokens = 20 }\n\
        content = { type = 'system_prompt', groups = 1, prefix_tokens = 100 }";
    let router = "{ sglang = { balance_abs_threshold = 4 } }";
    let (_, sent) = run(&scenario(router, "replicas = 2", workload));
    // Five there are one too many; the sixth goes to the other one, and the next one back.
    let first = sent[0];
    let there = sent.iter().filter(|instance| **instance == first).count();
    assert!(sent[..5].iter().all(|instance| *instance == first), "{sent:?}");
    assert_eq!((sent[5], there), (1 - first, 8), "{sent:?}");
}

#[test]
fn what_is_not_simulated_is_refused_by_name() {
    let refused = |router: &str, cluster: &str, message: &str| {
        let error = resolve(&scenario(router, cluster, APART)).expect_err(router);
        assert!(error.contains(message), "{router}: {error}");
    };
    let alone = "replicas = 2";
    for (setting, message) in [
        ("retry_max_retries = 0", "sglang.retry_max_retries: must be at least 1, got 0"),
        ("retry_backoff_multiplier = 0.5", "retry_backoff_multiplier: must be a finite number of"),
        ("retry_jitter_factor = 1.5", "sglang.retry_jitter_factor: must be from 0 to 1, got 1.5"),
        ("cb_failure_threshold = 0", "sglang.cb_failure_threshold: must be at least 1, got 0"),
        ("health_check_interval_secs = 0", "sglang.health_check_interval_secs: must be at least 1"),
        (
            "max_concurrent_requests = 0",
            "max_concurrent_requests: must be -1 for no limit, or at least 1",
        ),
        (
            "rate_limit_tokens_per_second = 2",
            "rate_limit_tokens_per_second: is the rate of the limit",
        ),
        ("queue_timeout_secs = 0", "sglang.queue_timeout_secs: must be at least 1, got 0"),
        ("policy = 'prefix_hash'", "sglang.policy: `prefix_hash`"),
        ("policy = 'bucket'", "sglang.policy: `bucket`"),
        ("decode_policy = 'random'", "sglang.decode_policy: needs cluster.disaggregation"),
        ("cache_threshold = 1.5", "sglang.cache_threshold: must be from 0 to 1, got 1.5"),
        ("max_tree_size = 0", "sglang.max_tree_size: must be at least 1, got 0"),
    ] {
        refused(&format!("{{ sglang = {{ {setting} }} }}"), alone, message);
    }
    let apart = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, \
                 transfer = { nic_gb_per_s = 10.0, latency_us = 100.0 } }";
    refused("{ sglang = {} }", apart, "needs the protocol `reserve`");
    refused("{ vllm_router = {} }", PAIRS, "`vllm_router` with cluster.disaggregation");
    let gateway = "replicas = 2\ngateway = { max_waiting = 9, max_outstanding_per_replica = 4 }";
    let limit = "{ sglang = { max_concurrent_requests = 9 } }";
    refused(limit, gateway, "limits requests beside cluster.gateway");
    let breaker = "{ vllm_router = { cb_success_threshold = 0 } }";
    refused(breaker, alone, "vllm_router.cb_success_threshold: must be at least 1");
    refused("{ sglang = {}, type = 'random' }", alone, "`type` stands beside it");
}
