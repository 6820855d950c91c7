//! The limit to requests of SGLang's router and of vLLM's: `max_concurrent_requests` is a bucket of tokens.

use rand::RngExt;

use servecast::cluster::Refusal;
use servecast::ids::RequestId;
use servecast::metrics::Recorder;
use servecast::rng::Seed;
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

/// Requests that come together, on replicas whose steps take 5 ms.
fn scenario(settings: &str, requests: u32, output_tokens: u32, rest: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         replicas = 2\nrouter = {{ sglang = {{ {settings} }} }}\n[cluster.step_time]\ntype = 'linear'\n\
         base_us = 5000.0\nprefill_token_us = 0.0\ndecode_seq_us = 0.0\n\
         [workload]\nnum_requests = {requests}\narrivals = {{ type = 'all_at_once' }}\n\
         lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = {output_tokens} }}\n{rest}"
    )
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    sent: Vec<(SimTime, RequestId)>,
    turned_away: Vec<(SimTime, Refusal)>,
}

impl Observer for Seen {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Sent(id, _) => self.sent.push((at, id)),
            Occurrence::TurnedAway(_, why) => self.turned_away.push((at, why)),
            _ => {}
        }
    }
}

fn run<O: Observer + Default>(text: &str) -> (Counts, O) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut observer = O::default();
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    (run.run(&mut observer).expect("no trace is read"), observer)
}

fn ms(at: SimTime) -> u64 {
    at.as_nanos() / 1_000_000
}

#[test]
fn those_over_the_limit_wait_for_the_next_token_and_are_given_up() {
    // Recorded: 4 requests are held; all others end with 408 when the next token is due.
    let settings = "max_concurrent_requests = 4, rate_limit_tokens_per_second = 1";
    let (counts, seen): (_, Seen) = run(&scenario(settings, 10, 1000, ""));
    assert_eq!((counts.finished, counts.rejected), (4, 6));
    assert_eq!(seen.turned_away, vec![(SimTime::from_secs_f64(1.0), Refusal::Deadline); 6]);
    // A shorter wait is over before.
    let settings =
        "max_concurrent_requests = 4, rate_limit_tokens_per_second = 1, queue_timeout_secs = 1";
    let patient = scenario(settings, 10, 1000, "");
    assert_eq!(run::<Seen>(&patient).1.turned_away.len(), 6);
}

#[test]
fn without_a_queue_they_are_refused_at_once() {
    let (counts, seen): (_, Seen) =
        run(&scenario("max_concurrent_requests = 4, queue_size = 0", 10, 1000, ""));
    assert_eq!((counts.finished, counts.rejected), (4, 6));
    assert_eq!(seen.turned_away, vec![(SimTime::ZERO, Refusal::RateLimit); 6]);
    // The report counts them as those of a gateway.
    let (_, recorder): (_, Recorder) =
        run(&scenario("max_concurrent_requests = 4, queue_size = 0", 10, 1000, ""));
    let report = recorder.gateway_report().expect("requests came to the limit");
    assert_eq!((report.requests, report.turned_away.rate_limit), (10, 6));
}

#[test]
fn an_answer_lets_another_one_in() {
    let settings = "max_concurrent_requests = 4, rate_limit_tokens_per_second = 1";
    let (counts, seen): (_, Seen) = run(&scenario(settings, 12, 2, ""));
    assert_eq!((counts.finished, counts.rejected), (12, 0));
    // Answers take two steps.
    let sent: Vec<_> = seen.sent.iter().map(|(at, _)| ms(*at)).collect();
    assert_eq!(sent, [0, 0, 0, 0, 10, 10, 10, 10, 20, 20, 20, 20]);
    // In any order.
    let ids: Vec<_> = seen.sent.iter().map(|(_, id)| id.0).collect();
    assert!(!ids.is_sorted(), "{ids:?}");
    assert_eq!(run::<Seen>(&scenario(settings, 12, 2, "")).1, seen);
}

#[test]
fn more_run_than_the_limit_says() {
    // One a second, none of which ends: a token a second comes in.
    let settings = "max_concurrent_requests = 4, rate_limit_tokens_per_second = 1";
    let text = scenario(settings, 20, 10_000, "")
        .replace("{ type = 'all_at_once' }", "{ type = 'constant', rate_per_s = 1.0 }");
    let (counts, seen): (_, Seen) = run(&text);
    assert_eq!((counts.finished, seen.sent.len()), (20, 20));
}

#[test]
fn who_hangs_up_gives_its_token_back_and_waits_no_longer() {
    let settings = "max_concurrent_requests = 2, rate_limit_tokens_per_second = 1";
    let client = "client = { timeout_s = 0.2 }\n";
    let (counts, seen): (_, Seen) = run(&scenario(settings, 6, 1000, client));
    // Two run until 0.2 s; the others give up then too, in the order in which they came.
    assert_eq!((counts.timed_out, counts.rejected), (6, 0));
    assert_eq!(seen.sent.len(), 2);
}

#[test]
fn clients_may_send_again_what_was_refused() {
    let settings = "max_concurrent_requests = 2, queue_size = 0";
    let client = "client = { retries = { max_retries = 3, backoff_s = 0.5, on_refusal = true } }\n";
    let (counts, _): (_, Seen) = run(&scenario(settings, 6, 2, client));
    assert_eq!((counts.finished, counts.retried), (6, 4 + 2));
}

#[test]
fn pairs_of_replicas_are_limited_too() {
    let apart = "engine = { type = 'sglang' }\ndisaggregation = { prefill_replicas = 2, \
                 decode_replicas = 2, transfer = { nic_gb_per_s = 10.0, latency_us = 100.0 } }";
    let settings = "max_concurrent_requests = 2, rate_limit_tokens_per_second = 1";
    let text = scenario(settings, 8, 3, "").replace("replicas = 2", apart);
    let (counts, seen): (_, Seen) = run(&text);
    assert_eq!((counts.finished, seen.sent.len()), (8, 8));
    let sent: Vec<_> = seen.sent.iter().map(|(at, _)| ms(*at)).collect();
    assert!(sent[1] == 0 && sent[2] > 0 && sent[4] > sent[2], "{sent:?}");
}

#[test]
fn random_limits_lose_nobody_and_repeat_themselves() {
    for seed in 0..40_u64 {
        let mut random = Seed(seed).stream("makers limit", 0);
        let mut one = |words: &[&'static str]| words[random.random_range(0..words.len())];
        let settings = format!(
            "policy = '{}', max_concurrent_requests = {}, rate_limit_tokens_per_second = {}, \
             queue_size = {}, queue_timeout_secs = 1, cb_failure_threshold = 2, cb_timeout_duration_secs = 1",
            one(&["round_robin", "random", "cache_aware"]),
            one(&["1", "3", "12"]),
            one(&["1", "7", "40"]),
            one(&["0", "100"]),
        );
        let client = one(&[
            "",
            "client = { timeout_s = 0.3 }\n",
            "client = { max_concurrency = 6, retries = { max_retries = 2, backoff_s = 0.2, on_refusal = true } }\n",
            "client = { cancellations = { share = 0.4, mean_s = 0.2 } }\n",
        ]);
        let faults = one(&[
            "",
            "[[faults]]\ntype = 'random'\nfault = { type = 'crash', detection_s = 0.2 }\n\
             mean_time_between_s = 2.0\nmean_duration_s = 1.0\nuntil_s = 8.0\n",
        ]);
        let text = scenario(&settings, 150, 9, &format!("{client}{faults}"));
        let text =
            text.replace("{ type = 'all_at_once' }", "{ type = 'poisson', rate_per_s = 30.0 }");
        let text = format!("seed = {seed}\n{text}");
        let (counts, seen): (_, Seen) = run(&text);
        let gone = counts.finished + counts.failed + counts.timed_out + counts.rejected;
        assert_eq!(gone + counts.aborted, counts.arrived, "{text}\n{counts:?}");
        assert_eq!((counts, seen), run(&text), "{text}");
    }
}

/// The same with vLLM's router.
fn vllm(settings: &str, requests: u32, output_tokens: u32, rest: &str) -> String {
    scenario(settings, requests, output_tokens, rest).replace("sglang", "vllm_router")
}

#[test]
fn a_token_of_vllms_router_comes_back_when_an_answer_begins() {
    // Replicas take requests at once: so they give tokens back at once, and all that came together follow.
    let settings = "max_concurrent_requests = 4, rate_limit_tokens_per_second = 1";
    let (counts, seen): (_, Seen) = run(&vllm(settings, 12, 1000, ""));
    assert_eq!((counts.finished, counts.rejected), (12, 0));
    assert!(seen.sent.iter().all(|(at, _)| ms(*at) == 0), "{:?}", seen.sent);
    // 100 ms are on the way, in which tokens are gone. The queue has time for ten rounds before the next token is due.
    let late = |text: String| text.replace("replicas = 2", "replicas = 2\napi_delay_ms = 100.0");
    let (counts, seen): (_, Seen) = run(&late(vllm(settings, 12, 1000, "")));
    assert_eq!((counts.finished, counts.rejected), (12, 0));
    let sent: Vec<_> = seen.sent.iter().map(|(at, _)| ms(*at)).collect();
    assert_eq!(sent, [0, 0, 0, 0, 100, 100, 100, 100, 200, 200, 200, 200]);
    // Without a queue, or with one that is not waited in for so long, they are turned away as by the other router.
    let settings = "max_concurrent_requests = 4, queue_size = 0";
    let (counts, seen): (_, Seen) = run(&late(vllm(settings, 10, 1000, "")));
    assert_eq!((counts.finished, counts.rejected), (4, 6));
    assert_eq!(seen.turned_away, vec![(SimTime::ZERO, Refusal::RateLimit); 6]);
}

#[test]
fn a_token_of_vllms_router_is_lost_with_a_client_that_goes_before_its_answer() {
    // 500 ms are on the way and clients wait for 200 ms. Two tokens are gone with the first two; those who come
    // afterwards get the one that is due each second.
    let settings = "max_concurrent_requests = 2, rate_limit_tokens_per_second = 1, queue_size = 0";
    let text = |name: &str| {
        let client = "client = { timeout_s = 0.2 }\n";
        scenario(settings, 12, 1, client)
            .replace("sglang", name)
            .replace("replicas = 2", "replicas = 2\napi_delay_ms = 500.0")
            .replace("{ type = 'all_at_once' }", "{ type = 'constant', rate_per_s = 4.0 }")
    };
    let (_, of_vllm): (_, Seen) = run(&text("vllm_router"));
    let (_, of_sglang): (_, Seen) = run(&text("sglang"));
    assert_eq!(of_sglang.sent.len(), 12);
    // At 0.25 and 0.5 s; then with the tokens of 1.25, 2.25 s.
    let sent: Vec<_> = of_vllm.sent.iter().map(|(at, _)| ms(*at)).collect();
    assert_eq!(sent, [250, 500, 1250, 2250]);
}

#[test]
fn what_vllms_router_takes_by_default_is_no_limit_here() {
    let (counts, seen): (_, Seen) = run(&vllm("", 50, 2, ""));
    assert_eq!((counts.finished, seen.turned_away.len()), (50, 0));
    let (_, recorder): (_, Recorder) = run(&vllm("", 50, 2, ""));
    assert!(recorder.gateway_report().is_none());
    // It goes with a gateway, where another one is refused.
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 4\nmax_waiting = 99\n";
    let (counts, _): (_, Seen) = run(&vllm("", 50, 2, gateway));
    assert_eq!(counts.finished, 50);
    let error =
        resolve(&vllm("max_concurrent_requests = 9", 50, 2, gateway)).expect_err("two limits");
    assert!(error.contains("limits requests beside cluster.gateway"), "{error}");
    let error = resolve(&vllm("max_concurrent_requests = 0", 50, 2, "")).expect_err("no tokens");
    assert!(error.contains("max_concurrent_requests: must be at least 1, got 0"), "{error}");
}
