//! Prompts that are computed where they are decoded, because Dynamo's router says so.

use std::fmt::Write;

use rand::RngExt;
use servecast::metrics::RequestRecord;
use servecast::rng::{Seed, Stream};
use servecast::sim::{cluster_priced_by, step_times};
use servecast::units::SimDuration;

use super::support::{requests_on, resolve, run_text as run};

/// So many replicas of each kind behind Dynamo's router with these settings.
fn scenario(settings: &str, parts: [u32; 2], workload: &str) -> String {
    let [prefills, decodes] = parts;
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         router = {{ dynamo = {{ {settings} }} }}\n\
         disaggregation = {{ prefill_replicas = {prefills}, decode_replicas = {decodes}, \
         transfer = {{ nic_gb_per_s = 1.0, latency_us = 100.0 }} }}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n[workload]\n{workload}"
    )
}

fn conditional(rules: &str) -> String {
    format!("conditional_disagg = {{ {rules} }}")
}

/// Prompts of 300 tokens, of which 200 are one of five beginnings.
fn repeating(rate: f64) -> String {
    format!(
        "num_requests = 150\narrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n\
         [workload.lengths]\ntype = 'prefix_repetition'\nprefixes = 5\nprefix_tokens = 200\n\
         suffix_tokens = 100\noutput_tokens = 40\n"
    )
}

fn seeded(text: &str, seed: u64) -> String {
    text.replacen("name = 'x'", &format!("name = 'x'\nseed = {seed}"), 1)
}

const BURST: &str = "num_requests = 40\narrivals = { type = 'constant', rate_per_s = 200.0 }\n\
                     lengths = { type = 'fixed', input_tokens = 8000, output_tokens = 2 }";

/// How many requests are computed where they are decoded, and how many KV caches travel.
fn shares(text: &str) -> (u64, u64) {
    let (counts, recorder) = run(text);
    assert_eq!(counts.finished, recorder.requests.len() as u64, "{text}");
    let is_here = |record: &&RequestRecord| record.transfer == SimDuration::ZERO;
    let here = recorder.requests.iter().filter(is_here).count() as u64;
    let carried = recorder.carried.transfers;
    assert_eq!(here + carried, counts.finished, "each is computed here or carried: {text}");
    (here, carried)
}

#[test]
fn prompts_of_which_little_is_missing_are_computed_where_they_are_decoded() {
    // Twelve blocks of a beginning, 192 tokens, are cached on the decode side once one of its kind has been there.
    // Of 300 tokens 108 are missing then, a share of 0.36.
    for (rules, expected) in [
        ("", (145, 5)),
        ("eff_isl_threshold = 109", (145, 5)),
        ("eff_isl_threshold = 108", (0, 150)),
        ("eff_isl_ratio_threshold = 0.361", (145, 5)),
        ("eff_isl_ratio_threshold = 0.36", (0, 150)),
        // What is new as a whole has a share of 1, which is never below a bound.
        ("eff_isl_ratio_threshold = 1.0", (145, 5)),
        ("policy = 'prefill_load', prefill_busy_threshold = 1.0", (0, 150)),
        ("policy = 'isl_or_load', prefill_busy_threshold = 1.0", (145, 5)),
        ("decode_busy_threshold = 0.0", (0, 150)),
        ("decode_busy_threshold = 0.9", (145, 5)),
    ] {
        let text = scenario(&conditional(rules), [1, 1], &repeating(1.0));
        assert_eq!(shares(&text), expected, "{rules}");
    }
}

#[test]
fn prompts_are_computed_where_they_are_decoded_while_the_prefill_side_is_busy() {
    let here = |rules: &str| shares(&scenario(&conditional(rules), [1, 1], BURST)).0;
    // The first one is booked until its prefill is over, after 165 ms, and so on: all come within 200 ms.
    let any = here("policy = 'prefill_load', prefill_busy_threshold = 0.0");
    assert_eq!(any, 38, "one at 0 ms and one after 165 ms are prefilled apart");
    // A step takes 8192 tokens: one prompt of 8000 is within it, and two are not.
    let more = here("policy = 'prefill_load', prefill_busy_threshold = 1.0");
    assert!((30..any).contains(&more), "{more}");
    assert_eq!(here("policy = 'prefill_load', prefill_busy_threshold = 40.0"), 0);
    assert_eq!(here("policy = 'isl_or_load', prefill_busy_threshold = 0.0"), any);
    // The decode side takes what it has room for.
    let rules = "policy = 'prefill_load', prefill_busy_threshold = 0.0, decode_busy_threshold = ";
    let narrow = here(&format!("{rules}0.05"));
    assert!(narrow < any, "{narrow} of {any}");
}

#[test]
fn a_rule_that_nothing_meets_changes_nothing() {
    for seed in 0..4 {
        println!("seed {seed}");
        let workload = repeating(4.0 + seed as f64);
        let with = |settings: &str| {
            let text = scenario(settings, [2, 1], &workload);
            run(&seeded(&text, seed)).1.requests
        };
        let plain = with("");
        for rules in ["eff_isl_threshold = 0", "decode_busy_threshold = 0.0"] {
            assert_eq!(with(&conditional(rules)), plain, "seed {seed}: {rules}");
        }
        assert_ne!(with(&conditional("")), plain, "seed {seed}: it changes something");
    }
}

#[test]
fn who_is_computed_where_it_is_decoded_waits_at_the_router_while_that_is_busy() {
    let rules = "policy = 'prefill_load', prefill_busy_threshold = 0.0";
    let with = |more: &str| run(&scenario(&format!("{}{more}", conditional(rules)), [1, 1], BURST));
    let (counts, at_once) = with("");
    assert_eq!(counts.finished, 40);
    // A replica takes 8192 tokens a step and is never busy above 40 prompts of 8000.
    let (_, never) = with(", router_queue_threshold = 40.0");
    assert_eq!(never.requests, at_once.requests, "a queue that is never used changes nothing");
    let waits = |record: &&RequestRecord| record.queued > record.arrival;
    assert_eq!(at_once.requests.iter().filter(waits).count(), 0);
    // With more than half a step one prompt keeps a replica busy: nobody waits in an engine but the one that computes.
    let (counts, queued) = with(", router_queue_threshold = 0.5");
    assert_eq!(counts.finished, 40);
    let waited = queued.requests.iter().filter(waits).count();
    assert!(waited >= 36, "{waited} of 40");
    let starts = |record: &RequestRecord| record.first_scheduled.since(record.queued);
    let longest = queued.requests.iter().map(starts).max().expect("some are served");
    assert!(longest.as_secs_f64() < 0.01, "{longest} in an engine's queue");
}

#[test]
fn who_was_prefilled_waits_too_while_those_that_decode_are_busy_with_prompts() {
    // The first one is prefilled apart until 165 ms (5 ms and 20 µs for each of 8000 tokens), the second one where it
    // is decoded, from 5 ms on until 170 ms.
    let workload = BURST.replace("num_requests = 40", "num_requests = 2");
    let rules = conditional("policy = 'prefill_load', prefill_busy_threshold = 0.0");
    let first = |more: &str| {
        let (counts, recorder) = run(&scenario(&format!("{rules}{more}"), [1, 1], &workload));
        assert_eq!(counts.finished, 2);
        let first = recorder.requests.iter().find(|one| one.transfer > SimDuration::ZERO);
        first.expect("it was prefilled apart").handoff.as_millis_f64()
    };
    let (at_once, queued) = (first(""), first(", router_queue_threshold = 0.5"));
    // In the engine it waits for the step that ends at 170 ms. At the router it waits for the same, and comes behind
    // the step that decodes the second one, which takes 5 ms and 50 µs.
    assert_eq!((at_once, queued), (5.0, 10.05));
}

/// A rule of any kind.
fn rules(random: &mut Stream) -> String {
    let mut rules = ["isl_bounding", "prefill_load", "isl_or_load"]
        .map(|policy| format!("policy = '{policy}'"))[random.random_range(0..3)]
    .clone();
    if !rules.contains("isl_bounding") {
        let _ = write!(rules, ", prefill_busy_threshold = {}", random.random_range(0.0..0.3));
    }
    if random.random_bool(0.5) {
        let _ = write!(rules, ", eff_isl_threshold = {}", random.random_range(0..400));
    }
    if random.random_bool(0.5) {
        let _ = write!(rules, ", eff_isl_ratio_threshold = {}", random.random_range(0.0..1.0));
    }
    if random.random_bool(0.4) {
        let _ = write!(rules, ", decode_busy_threshold = {}", random.random_range(0.0..0.05));
    }
    rules
}

/// Debug builds watch that loads return to zero where all requests have left.
#[test]
fn whatever_the_rule_every_request_is_computed_once_and_equal_seeds_are_equal_runs() {
    let mut here = 0;
    for seed in 0..12 {
        println!("seed {seed}");
        let random = &mut Seed(seed).stream("conditional", 0);
        let mut settings = conditional(&rules(random));
        if random.random_bool(0.3) {
            settings += ", kv_event_lag_ms = 20.0";
        }
        if random.random_bool(0.3) {
            settings += ", router_temperature = 0.5";
        }
        if random.random_bool(0.3) {
            settings += ", overlap_score_credit = 0.0";
        }
        if random.random_bool(0.4) {
            let _ =
                write!(settings, ", router_queue_threshold = {}", random.random_range(0.0..0.1));
        }
        let parts = [random.random_range(1..4), random.random_range(1..4)];
        let workload = repeating(random.random_range(2.0..60.0));
        let text = seeded(&scenario(&settings, parts, &workload), seed);
        here += shares(&text).0;
        assert_eq!(run(&text).1.requests, run(&text).1.requests, "seed {seed}");
    }
    assert!(here > 200, "{here} of 1800 are computed where they are decoded");
}

/// Conversations, whose later turns quote the answers before.
const TALKS: &str = "num_requests = 60\narrivals = { type = 'poisson', rate_per_s = 6.0 }\n\
                     lengths = { type = 'fixed', input_tokens = 400, output_tokens = 60 }\n\
                     sessions = { turns_min = 2, turns_max = 5, \
                     message_tokens = { type = 'uniform', min_tokens = 10, max_tokens = 90 }, \
                     output_tokens = { type = 'uniform', min_tokens = 10, max_tokens = 90 }, \
                     think_time = { type = 'exponential', mean_s = 0.5 } }\n";

#[test]
fn the_router_knows_caches_alike_of_requests_that_decode_in_lock_step_or_one_by_one() {
    for seed in 0..6 {
        println!("seed {seed}");
        let random = &mut Seed(seed).stream("conditional talks", 0);
        let parts = [random.random_range(1..3), random.random_range(1..4)];
        let text = seeded(&scenario(&conditional(&rules(random)), parts, TALKS), seed);
        let scenario = resolve(&text).expect("it holds together");
        let costs = step_times(&scenario).expect("step times are known");
        let run = |is_grouped: bool| {
            let mut cluster = cluster_priced_by(&scenario, &costs).expect("it can be built");
            if !is_grouped {
                for instance in &mut cluster.instances {
                    assert!(instance.tell_cache_events());
                }
            }
            requests_on(&scenario, cluster)
        };
        assert_eq!(run(true), run(false), "seed {seed}: {text}");
    }
}

#[test]
fn what_has_no_meaning_is_refused_by_name() {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 1.0 } }";
    let with = |rules: &str| {
        scenario(&conditional(rules), [1, 1], &repeating(1.0)).replace(", latency_us = 100.0", "")
    };
    let path = "cluster.router.dynamo.conditional_disagg";
    for (text, problem) in [
        (with("").replace(parts, "replicas = 2"), format!("{path}: needs cluster.disaggregation")),
        (
            with("").replace("transfer = ", "local_prefill = { max_new_tokens = 9 }, transfer = "),
            "cluster.disaggregation.local_prefill: decides the same".to_owned(),
        ),
        (
            with("").replace("transfer = ", "protocol = { type = 'reserve' }, transfer = "),
            format!("{path}: needs the protocol `pull`: with `reserve`"),
        ),
        (
            with("").replace("[workload]", "[cluster.engine]\ntype = 'sglang'\n[workload]"),
            format!("{path}: needs the protocol `pull`: with `reserve`"),
        ),
        (
            with("").replace(
                "[workload]",
                "[cluster.engine]\ntype = 'vllm_v1'\nenable_prefix_caching = false\n[workload]",
            ),
            format!("{path}: looks at the prefix caches"),
        ),
        (
            with("").replace("{ dynamo = { ", "{ dynamo = { use_kv_events = false, "),
            format!("{path}: needs use_kv_events"),
        ),
        (
            with("eff_isl_ratio_threshold = 1.5"),
            format!("{path}.eff_isl_ratio_threshold: must be from 0 to 1"),
        ),
        (
            with("decode_busy_threshold = -1.0"),
            format!("{path}.decode_busy_threshold: must be at least 0"),
        ),
        (
            with("prefill_busy_threshold = 1.0"),
            format!("{path}.prefill_busy_threshold: has no meaning: `isl_bounding`"),
        ),
        (
            with("policy = 'isl_or_load'"),
            format!("{path}.prefill_busy_threshold: must be given for `isl_or_load`"),
        ),
        (
            with("").replace(
                "{ dynamo = { ",
                "{ dynamo = { policy = { default_policy_family = 'a', uncached_isl_buckets = [{ min_tokens = 0, \
                 bucket = 'all' }], policy_classes = [{ name = 'one', policy_family = 'a', cache_bucket = 'all', \
                 quantum = 64 }] }, ",
            ),
            "cluster.router.dynamo.policy: classes of requests beside conditional_disagg".to_owned(),
        ),
        (with("policy = 'cache_or_load'"), "cache_or_load".to_owned()),
        (with("eff_isl = 3"), "eff_isl".to_owned()),
    ] {
        let error = resolve(&text).expect_err("it is refused");
        assert!(error.contains(&problem), "{problem}: {error}");
    }
    let inherits = with("policy = 'isl_or_load'");
    let inherits = inherits.replace("{ dynamo = { ", "{ dynamo = { router_queue_threshold = 1.0, ");
    assert!(resolve(&inherits).is_ok(), "the threshold of the queue is taken");
}

/// Half of the prompts wait for a replica that goes, of which a few tokens are computed at most.
#[test]
fn a_prompt_that_waits_for_a_replica_which_goes_is_computed_elsewhere() {
    let rules = "policy = 'prefill_load', prefill_busy_threshold = 0.0";
    let settings = format!("{}, router_queue_threshold = 0.0", conditional(rules));
    let crash = "\nfaults = [{ type = 'crash', replica = 2, at_s = 0.25, down_s = 60.0, detection_s = 0.0 }]";
    let text =
        scenario(&settings, [1, 2], BURST).replacen("name = 'x'", &format!("name = 'x'{crash}"), 1);
    let (counts, _) = run(&text);
    assert!((1..=3).contains(&counts.failed), "those that were there fail: {counts:?}");
    assert_eq!(counts.finished + counts.failed, 40, "{counts:?}");
}

/// As where its queue rejects: a full prefill side is busy.
#[test]
fn a_prefill_side_that_is_full_is_busy() {
    let rules = conditional("policy = 'prefill_load', prefill_busy_threshold = 1.0");
    let gateway = |most: u32| {
        let text = scenario(&rules, [1, 1], BURST);
        let limit = format!("[cluster.gateway]\nmax_outstanding_per_replica = {most}\n[workload]");
        shares(&text.replacen("[workload]", &limit, 1)).0
    };
    // With a place for one alone the rule finds the replica full, and never more than a step booked.
    assert!(gateway(1) > 30, "{}", gateway(1));
}

#[test]
fn what_no_setting_can_mean_is_refused() {
    for (settings, message) in [
        (
            "router_track_active_blocks = false, conditional_disagg = { decode_busy_threshold = 0.5 }",
            "router_track_active_blocks",
        ),
        (
            "router_track_prefill_tokens = false, conditional_disagg = { policy = 'prefill_load', prefill_busy_threshold = 0.5 }",
            "router_track_prefill_tokens",
        ),
    ] {
        let error = resolve(&scenario(settings, [1, 1], BURST)).expect_err("it has no meaning");
        assert!(error.contains(message), "{error}");
    }
}
