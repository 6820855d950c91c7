//! SGLang's router and vLLM's where replicas crash: they find it out by themselves.

use rand::RngExt;

use servecast::cluster::Refusal;
use servecast::engine::Finish;
use servecast::ids::{InstanceId, RequestId};
use servecast::rng::Seed;
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

/// Requests at a constant rate on replicas that answer in 6 ms.
fn scenario(router: &str, replicas: u32, rate_per_s: f64, requests: u32, rest: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         replicas = {replicas}\nrouter = {router}\n[cluster.step_time]\ntype = 'linear'\n\
         base_us = 5000.0\nprefill_token_us = 10.0\ndecode_seq_us = 0.0\n\
         [workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'constant', rate_per_s = {rate_per_s:?} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 100, output_tokens = 1 }}\n{rest}"
    )
}

pub(crate) fn crash(replica: u32, at_s: f64, down_s: f64, detection_s: f64) -> String {
    format!(
        "[[faults]]\ntype = 'crash'\nreplica = {replica}\nat_s = {at_s:?}\ndown_s = {down_s:?}\n\
         detection_s = {detection_s:?}\n"
    )
}

/// Where requests were sent when, and which of them ended without an answer.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sent: Vec<(f64, RequestId, InstanceId)>,
    failed: Vec<(f64, RequestId)>,
    turned_away: Vec<(f64, RequestId, Refusal)>,
}

impl Observer for Seen {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let at = at.as_secs_f64();
        match what {
            Occurrence::Sent(id, instance) => self.sent.push((at, id, instance)),
            Occurrence::TurnedAway(id, why) => self.turned_away.push((at, id, why)),
            Occurrence::GaveUp { request, finish: Finish::Failed, .. } => {
                self.failed.push((at, request));
            }
            _ => {}
        }
    }
}

impl Seen {
    /// When requests were sent to an instance.
    fn sent_to(&self, instance: u32) -> Vec<f64> {
        let there = self.sent.iter().filter(|(.., to)| to.0 == instance);
        there.map(|(at, ..)| *at).collect()
    }
}

fn run(text: &str) -> (Counts, Seen) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut seen = Seen::default();
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    (run.run(&mut seen).expect("no trace is read"), seen)
}

/// Times of a list from `from` on and before `until`.
pub(crate) fn between(times: &[f64], from: f64, until: f64) -> usize {
    times.iter().filter(|at| (from..until).contains(*at)).count()
}

#[test]
fn a_breaker_opens_late_tries_again_and_closes() {
    let settings = "policy = 'round_robin', cb_failure_threshold = 3, cb_timeout_duration_secs = 5, \
                    retry_max_retries = 1";
    for name in ["sglang", "vllm_router"] {
        // Each replica gets 5 requests a second. Three to the dead one fail, 0.2 s apart; it gets others from 5 s after the
        // last of them on, of which the first one fails.
        let router = format!("{{ {name} = {{ {settings} }} }}");
        let text = scenario(&router, 2, 10.0, 300, &crash(0, 1.05, 9.0, 0.0));
        let (counts, seen) = run(&text);
        let there = seen.sent_to(0);
        assert_eq!(between(&there, 1.05, 6.0), 3, "{name}: {there:?}");
        assert_eq!(between(&there, 6.0, 7.0), 1, "{name}: {there:?}");
        // That opened it for as long again; the replica was back meanwhile, and half of all go there.
        assert_eq!(between(&there, 7.0, 11.0), 0, "{name}: {there:?}");
        assert!(between(&there, 12.0, 29.0) >= 80, "{name}: {there:?}");
        assert_eq!((counts.failed, counts.finished), (4, 296), "{name}");
    }
}

#[test]
fn a_check_finds_the_dead_one_and_finds_it_back() {
    // The breaker does not open. Checks at 5 and 10 s fail, those at 15 and 20 s succeed.
    for name in ["sglang", "vllm_router"] {
        let settings = "policy = 'round_robin', cb_failure_threshold = 1000, retry_max_retries = 1, \
                        health_failure_threshold = 2, health_success_threshold = 2, \
                        health_check_interval_secs = 5";
        let router = format!("{{ {name} = {{ {settings} }} }}");
        let (counts, seen) = run(&scenario(&router, 2, 10.0, 300, &crash(0, 1.05, 11.0, 0.0)));
        let there = seen.sent_to(0);
        let failed = between(&there, 1.05, 10.0);
        assert!((43..=46).contains(&failed), "{name}: {there:?}");
        assert_eq!(between(&there, 10.05, 20.0), 0, "{name}: {there:?}");
        assert!(between(&there, 20.0, 29.9) >= 45, "{name}: {there:?}");
        assert_eq!(counts.failed as usize, failed + between(&there, 10.0, 10.05), "{name}");
    }
}

#[test]
fn what_an_engine_rejects_opens_breakers_of_one_router_alone() {
    // Every second prompt is too long, and each replica gets both kinds.
    let pairs = "[100, 1], [300, 1], [300, 1], [100, 1], ".repeat(10);
    let listed = format!("type = 'list', order = 'recorded', pairs = [{pairs}]");
    for (name, failed) in [("sglang", 37), ("vllm_router", 0)] {
        let settings = "policy = 'round_robin', cb_failure_threshold = 1, retry_max_retries = 1";
        let text = scenario(&format!("{{ {name} = {{ {settings} }} }}"), 2, 10.0, 40, "");
        let text =
            text.replace("type = 'fixed', input_tokens = 100, output_tokens = 1", &listed).replace(
                "replicas = 2",
                "replicas = 2\nengine = { type = 'sglang', context_length = 200 }",
            );
        let (counts, _) = run(&text);
        assert_eq!(counts.failed, failed, "{name}: {counts:?}");
    }
}

#[test]
fn what_was_sent_to_a_replica_that_hangs_fails_when_connections_break() {
    let router = "{ sglang = { policy = 'round_robin', retry_max_retries = 1 } }";
    let (_, seen) = run(&scenario(router, 2, 10.0, 100, &crash(0, 1.05, 100.0, 2.0)));
    // Ten requests were sent there until 3.05 s: all of them open the breaker.
    let failed: Vec<_> = seen.failed.iter().map(|(at, _)| *at).collect();
    assert_eq!(failed, vec![3.05; 10]);
    assert_eq!(seen.sent_to(0).last().map(|at| *at < 3.05), Some(true));
}

#[test]
fn no_router_sends_to_a_replica_that_it_holds_for_dead() {
    // With one failure its breaker opens for a minute: of each crash a request is lost at most, beside those that hang.
    for (policy, seed) in ["round_robin", "random", "power_of_two", "cache_aware"].iter().zip(1..) {
        for name in ["sglang", "vllm_router"] {
            let router = format!(
                "{{ {name} = {{ policy = '{policy}', cb_failure_threshold = 1, retry_max_retries = 1 }} }}"
            );
            let crashes = (0..3).map(|replica| crash(replica, f64::from(replica) + 0.75, 3.0, 0.0));
            let faults: String = crashes.collect();
            let text = format!("seed = {seed}\n{}", scenario(&router, 4, 50.0, 400, &faults));
            let (counts, seen) = run(&text);
            assert!(counts.failed <= 3 && counts.failed >= 1, "{router}: {counts:?}");
            for replica in 0..3 {
                let down = f64::from(replica) + 0.75;
                assert!(between(&seen.sent_to(replica), down, 60.0) <= 1, "{router}");
            }
        }
    }
}

#[test]
fn requests_fail_where_all_are_held_for_dead() {
    let router = "{ sglang = { cb_failure_threshold = 1, retry_max_retries = 1 } }";
    let faults = format!("{}{}", crash(0, 1.05, 90.0, 0.0), crash(1, 1.05, 90.0, 0.0));
    let (counts, seen) = run(&scenario(router, 2, 10.0, 50, &faults));
    let refused = seen.turned_away.iter().filter(|(.., why)| *why == Refusal::NoReplica).count();
    assert_eq!(counts.failed as usize, refused + 2);
    assert!(refused > 30, "{refused}");
}

/// Requests that all begin alike, one a second, and the replica to which `cache_aware` sends them.
fn alike(settings: &str, rest: &str) -> (String, u32) {
    let text = |rest: &str| {
        let router = format!("{{ sglang = {{ policy = 'cache_aware', {settings} }} }}");
        scenario(&router, 2, 1.0, 10, &format!("{CONTENT}{rest}"))
    };
    let (_, seen) = run(&text(""));
    let there = seen.sent[0].2;
    assert!(seen.sent.iter().all(|(.., to)| *to == there), "{:?}", seen.sent);
    (text(&rest.replace("REPLICA", &there.to_string())), there.0)
}

const CONTENT: &str = "content = { type = 'system_prompt', groups = 1, prefix_tokens = 1000 }\n";

#[test]
fn all_attempts_go_to_the_same_dead_replica() {
    // Recorded of the real router: the first two requests fail after five attempts each, about 0.41 s after they came;
    // with the tenth failure the breaker opens. Without jitter the waits are 50, 75, 112 and 168 ms.
    let dead = "[[faults]]\ntype = 'crash'\nreplica = REPLICA\nat_s = 2.5\ndown_s = 60.0\n";
    let (text, there) = alike("retry_jitter_factor = 0.0", dead);
    let (counts, seen) = run(&text);
    let of = |second: f64| [0.0, 0.05, 0.125, 0.237, 0.405].map(|after| second + after);
    let expected: Vec<f64> = [1.0, 2.0].into_iter().chain(of(3.0)).chain(of(4.0)).collect();
    let sent = seen.sent_to(there);
    assert_eq!(sent.len(), expected.len(), "{sent:?}");
    for (sent, expected) in sent.iter().zip(&expected) {
        assert!((sent - expected).abs() < 1e-9, "{sent} {expected}");
    }
    assert_eq!(seen.failed.iter().map(|(_, id)| id.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((counts.failed, counts.finished, counts.retried), (2, 8, 0));
}

#[test]
fn waits_between_attempts_are_drawn_within_their_jitter() {
    let dead = "[[faults]]\ntype = 'crash'\nreplica = REPLICA\nat_s = 2.5\ndown_s = 60.0\n";
    let (text, there) = alike("retry_jitter_factor = 0.2", dead);
    let (_, seen) = run(&text);
    let sent = seen.sent_to(there);
    let mut others = 0;
    for attempts in [&sent[2..7], &sent[7..12]] {
        let waits = attempts.windows(2).map(|pair| pair[1] - pair[0]);
        for (wait, expected) in waits.zip([0.05, 0.075, 0.112, 0.168]) {
            assert!((wait - expected).abs() <= 0.2 * expected + 0.0005 + 1e-9, "{wait} {expected}");
            others += u32::from((wait - expected).abs() > 1e-9);
        }
    }
    assert!(others > 4, "they are drawn");
    assert_eq!(run(&text).1, seen, "equal seeds give equal waits");
}

#[test]
fn an_attempt_in_turn_finds_a_replica_that_lives() {
    let router = "{ sglang = { policy = 'round_robin' } }";
    let (counts, seen) = run(&scenario(router, 2, 10.0, 100, &crash(0, 1.05, 60.0, 0.0)));
    assert_eq!((counts.finished, seen.sent_to(0).len()), (100, 15));
    // What breaks off later comes back in the same way.
    let (counts, _) = run(&scenario(router, 2, 10.0, 100, &crash(0, 1.05, 60.0, 2.0)));
    assert_eq!(counts.finished, 100);
}

#[test]
fn an_answer_that_has_begun_is_not_tried_again() {
    // Answers take 10 s. Those that the dead replica had begun fail with it.
    let router = "{ sglang = { policy = 'round_robin' } }";
    let text = scenario(router, 2, 10.0, 40, &crash(0, 1.05, 60.0, 0.0));
    let (counts, seen) = run(&text.replace("output_tokens = 1 ", "output_tokens = 2000 "));
    assert_eq!((counts.failed, counts.finished), (5, 35), "{:?}", seen.failed);
    assert!(seen.failed.iter().all(|(at, _)| (at - 1.05).abs() < 1e-9));
}

#[test]
fn a_client_waits_no_longer_because_its_router_tries_again() {
    let client = "client = { timeout_s = 0.2 }\n";
    let router = "{ sglang = { retry_jitter_factor = 0.0 } }";
    let (counts, seen) =
        run(&scenario(router, 1, 1.0, 3, &format!("{client}{}", crash(0, 1.5, 60.0, 0.0))));
    assert_eq!((counts.finished, counts.timed_out, counts.failed), (1, 2, 0));
    // At 0, 50 and 125 ms; the fourth attempt would be at 237 ms.
    assert_eq!(seen.sent.len(), 1 + 2 * 3);
}

#[test]
fn a_client_that_sends_again_begins_anew() {
    let client = "client = { retries = { max_retries = 1, backoff_s = 1.0 } }\n";
    let router = "{ sglang = { retry_jitter_factor = 0.0, cb_failure_threshold = 100 } }";
    let faults = crash(0, 15.0, 60.0, 0.0);
    let (counts, seen) = run(&scenario(router, 1, 0.1, 2, &format!("{client}{faults}")));
    assert_eq!((counts.failed, counts.retried, seen.sent.len()), (1, 1, 11));
}

#[test]
fn a_request_waits_for_a_replica_that_comes_back_in_time() {
    // All replicas are down for 0.3 s, their breakers are open for 1 s: none is available at 0.23 and
    // 0.63 s. The fourth attempt finds one.
    let router = "{ sglang = { cb_failure_threshold = 1, cb_timeout_duration_secs = 1, \
                  retry_initial_backoff_ms = 200, retry_backoff_multiplier = 2.0, retry_jitter_factor = 0.0 } }";
    let (counts, seen) = run(&scenario(router, 1, 100.0, 3, &crash(0, 0.028, 0.3, 0.0)));
    assert_eq!((counts.finished, counts.failed), (3, 0), "{:?}", seen.turned_away);
    let sent: Vec<_> = seen.sent.iter().map(|(at, id, _)| (id.0, (at * 1e3).round())).collect();
    assert_eq!(sent, [(0, 10.0), (1, 20.0), (2, 30.0), (2, 1430.0)]);
}

#[test]
fn random_clusters_lose_nobody_and_repeat_themselves() {
    for seed in 0..60_u64 {
        let mut random = Seed(seed).stream("makers faults", 0);
        let mut one = |words: &[&'static str]| words[random.random_range(0..words.len())];
        let router = format!(
            "{{ {} = {{ policy = '{}', {}, {}, cb_timeout_duration_secs = 1 }} }}",
            one(&["sglang", "vllm_router"]),
            one(&["round_robin", "random", "power_of_two", "cache_aware"]),
            one(&["retry_max_retries = 1", "retry_max_retries = 3", "retry_max_backoff_ms = 60"]),
            one(&[
                "cb_failure_threshold = 1",
                "cb_failure_threshold = 4",
                "cb_success_threshold = 1"
            ]),
        );
        let client = one(&[
            "",
            "client = { timeout_s = 0.3 }\n",
            "client = { max_concurrency = 6, retries = { max_retries = 2, backoff_s = 0.2, on_timeout = true } }\n",
            "client = { cancellations = { share = 0.4, mean_s = 0.2 } }\n",
        ]);
        let gateway = one(&[
            "",
            "[cluster.gateway]\nmax_outstanding_per_replica = 2\n",
            "[cluster.gateway]\nmax_outstanding_per_replica = 2\nmax_waiting = 5\ndeadline_ms = 300.0\n",
        ]);
        let detection = one(&["0.0", "0.4"]);
        let faults = format!(
            "[[faults]]\ntype = 'random'\nfault = {{ type = 'crash', detection_s = {detection} }}\n\
             mean_time_between_s = 2.0\nmean_duration_s = 1.0\nuntil_s = 8.0\n"
        );
        let text = scenario(&router, 3, 40.0, 200, &format!("{client}{gateway}{faults}"));
        let cluster = one(&[
            "replicas = 3",
            "replicas = 3\napi_delay_ms = 2.0",
            "autoscaler = { min_replicas = 1, max_replicas = 3, interval_s = 1.0, stabilisation_down_s = 1.0, \
             provisioning_s = 0.5, signal = { type = 'outstanding_per_replica', target = 2.0 } }",
        ]);
        let text = text.replace("replicas = 3", cluster);
        let text =
            format!("seed = {seed}\n{text}").replace("output_tokens = 1 ", "output_tokens = 9 ");
        let (counts, seen) = run(&text);
        let gone = counts.finished + counts.failed + counts.timed_out + counts.rejected;
        assert_eq!(gone + counts.aborted, counts.arrived, "{text}\n{counts:?}");
        assert_eq!((counts, seen), run(&text), "{text}");
    }
}
