//! SGLang's router where a pair of replicas serves each request and replicas of both roles crash (`routers-sglang.md`,
//! sections 3 and 5): a pair fails as one, and is tried again as another one.

use rand::RngExt;

use servecast::cluster::Refusal;
use servecast::engine::Finish;
use servecast::ids::{InstanceId, RequestId};
use servecast::rng::Seed;
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::makers_faults::{between, crash};
use crate::support::resolve;

/// Requests at a constant rate on two replicas that prefill, 0 and 1, and two that decode, 2 and 3. They are answered in
/// about 13 ms.
fn scenario(settings: &str, rate_per_s: f64, requests: u32, rest: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         router = {{ sglang = {{ policy = 'round_robin', retry_jitter_factor = 0.0, {settings} }} }}\n\
         engine = {{ type = 'sglang' }}\n\
         disaggregation = {{ prefill_replicas = 2, decode_replicas = 2, \
         transfer = {{ nic_gb_per_s = 10.0, latency_us = 100.0 }} }}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 10.0\n\
         decode_seq_us = 0.0\n[workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'constant', rate_per_s = {rate_per_s:?} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 100, output_tokens = 2 }}\n{rest}"
    )
}

/// Where requests were prefilled and decoded when, and which of them ended without an answer.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sent: Vec<(f64, RequestId, InstanceId)>,
    decoded: Vec<(f64, RequestId, InstanceId)>,
    failed: Vec<(f64, RequestId)>,
    turned_away: Vec<(f64, RequestId, Refusal)>,
}

impl Observer for Seen {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let at = at.as_secs_f64();
        match what {
            Occurrence::Sent(id, instance) => self.sent.push((at, id, instance)),
            Occurrence::Forwarded(id, instance) => self.decoded.push((at, id, instance)),
            Occurrence::TurnedAway(id, why) => self.turned_away.push((at, id, why)),
            Occurrence::GaveUp { request, finish: Finish::Failed, .. } => {
                self.failed.push((at, request));
            }
            _ => {}
        }
    }
}

impl Seen {
    /// When requests were sent to a replica that prefills, or came to one that decodes.
    fn at(&self, instance: u32) -> Vec<f64> {
        let all = self.sent.iter().chain(&self.decoded);
        all.filter(|(.., at)| at.0 == instance).map(|(at, ..)| *at).collect()
    }

    /// When each request failed that did.
    fn failures(&self) -> Vec<f64> {
        self.failed.iter().map(|(at, _)| *at).collect()
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

#[test]
fn both_replicas_of_a_pair_are_shut_out_for_what_one_of_them_failed() {
    let settings = "cb_failure_threshold = 3, cb_timeout_duration_secs = 5, retry_max_retries = 1";
    for dead in 0..4 {
        // In turn each pair gets 5 requests a second. Three to the one with the dead replica fail, 0.2 s apart; another
        // one fails 5 s after the last of them. The replica is back when its pair is tried again.
        let (counts, seen) = run(&scenario(settings, 10.0, 300, &crash(dead, 1.05, 9.0, 0.0)));
        assert_eq!((counts.failed, counts.finished), (4, 296), "{dead}: {seen:?}");
        let failed = seen.failures();
        assert_eq!(between(&failed, 1.05, 1.7), 3, "{dead}: {failed:?}");
        assert_eq!(between(&failed, 6.0, 7.0), 1, "{dead}: {failed:?}");
        // Its partner is well, and gets no requests either.
        let is_shut = |instance: &u32| between(&seen.at(*instance), 2.0, 6.0) == 0;
        let shut: Vec<_> = (0..4).filter(is_shut).collect();
        assert_eq!(shut.len(), 2, "{dead}: {shut:?}");
        assert!(shut.contains(&dead) && shut[0] < 2 && shut[1] >= 2, "{dead}: {shut:?}");
        for instance in 0..4 {
            assert!(between(&seen.at(instance), 12.0, 29.0) >= 80, "{dead}: {instance}");
        }
    }
}

#[test]
fn a_pair_that_fails_is_tried_again_as_another_one() {
    for dead in 0..4 {
        let (counts, seen) = run(&scenario("", 10.0, 100, &crash(dead, 1.05, 60.0, 0.0)));
        // Each request that begins at the dead pair goes to the other one in turn, until ten have opened both breakers.
        assert_eq!((counts.finished, counts.failed), (100, 0), "{dead}");
        assert_eq!(seen.sent.len(), 110, "{dead}");
        let waits = seen.sent.windows(2).filter(|pair| pair[0].1 == pair[1].1);
        let waits: Vec<_> = waits.map(|pair| pair[1].0 - pair[0].0).collect();
        assert_eq!(waits.len(), 10);
        assert!(waits.iter().all(|wait| (wait - 0.05).abs() < 1e-9), "{dead}: {waits:?}");
    }
}

#[test]
fn a_pair_of_which_one_hangs_fails_when_its_connections_break() {
    for dead in 0..4 {
        let settings = "retry_max_retries = 1";
        let (counts, seen) = run(&scenario(settings, 10.0, 100, &crash(dead, 1.05, 100.0, 2.0)));
        // Ten requests were sent there until 3.05 s: all of them open both breakers.
        assert_eq!(seen.failures(), [3.05; 10], "{dead}");
        assert_eq!(counts.finished, 90, "{dead}");
        let is_shut = |instance: &u32| between(&seen.at(*instance), 3.05, 60.0) == 0;
        assert_eq!((0..4).filter(is_shut).count(), 2, "{dead}");
    }
}

#[test]
fn a_pair_that_hangs_is_tried_again_and_what_the_other_one_took_comes_free() {
    // Memory where requests are decoded for one at a time: what hangs must not keep it.
    for dead in 0..4 {
        let text = scenario("", 10.0, 60, &crash(dead, 1.05, 100.0, 1.0));
        let memory = "max_total_tokens = 800, context_length = 200";
        let text = text.replace("type = 'sglang' }", &format!("type = 'sglang', {memory} }}"));
        let (counts, _) = run(&text);
        assert_eq!((counts.finished, counts.failed), (60, 0), "{dead}");
    }
}

#[test]
fn checks_find_the_dead_one_of_a_pair_and_find_it_back() {
    // Breakers do not open. Checks at 5 and 10 s fail, those at 15 and 20 s succeed.
    let settings = "cb_failure_threshold = 1000, retry_max_retries = 1, health_failure_threshold = 2, \
                    health_success_threshold = 2, health_check_interval_secs = 5";
    for dead in 0..4 {
        let (counts, seen) = run(&scenario(settings, 10.0, 300, &crash(dead, 1.05, 11.0, 0.0)));
        let failed = seen.failures();
        assert!((43..=46).contains(&between(&failed, 1.05, 10.0)), "{dead}: {failed:?}");
        assert!(between(&failed, 10.05, 60.0) == 0, "{dead}: {failed:?}");
        assert_eq!(counts.failed as usize, failed.len());
        assert_eq!(between(&seen.at(dead), 10.05, 20.0), 0, "{dead}");
        assert!(between(&seen.at(dead), 20.0, 29.9) >= 45, "{dead}");
        // Its partner is well, and goes on in other pairs.
        for other in (0..4).filter(|other| *other != dead) {
            assert!(between(&seen.at(other), 10.05, 20.0) >= 45, "{dead}: {other}");
        }
    }
}

#[test]
fn what_an_engine_rejects_is_no_failure_of_its_pair() {
    let lengths = |text: String| {
        let pairs = "[100, 2], [300, 2], ".repeat(20);
        let listed = format!("type = 'list', order = 'recorded', pairs = [{pairs}]");
        text.replace("type = 'fixed', input_tokens = 100, output_tokens = 2", &listed)
            .replace("type = 'sglang' }", "type = 'sglang', context_length = 200 }")
    };
    let settings = "cb_failure_threshold = 1, retry_max_retries = 1";
    let text = lengths(scenario(settings, 10.0, 40, &crash(0, 100.0, 1.0, 0.0)));
    let (counts, _) = run(&text);
    assert_eq!((counts.finished, counts.rejected, counts.failed), (20, 20, 0));
    // Of a replica that does all of a request it is one.
    let whole =
        text.replace("disaggregation", "#").replace("[cluster.step", "replicas = 2\n[cluster.step");
    let (counts, _) = run(&whole);
    assert!(counts.failed > 30, "{counts:?}");
}

#[test]
fn what_has_begun_fails_with_the_replica_that_still_had_to_do_something() {
    // Answers take 10 s. Eleven requests were sent, and their prompts are computed: only who decodes matters.
    let long = |dead| {
        let text = scenario("cb_failure_threshold = 1", 10.0, 40, &crash(dead, 1.05, 60.0, 0.0));
        text.replace("output_tokens = 2 ", "output_tokens = 2000 ")
    };
    for dead in 0..2 {
        let (counts, _) = run(&long(dead));
        assert_eq!((counts.failed, counts.finished), (0, 40), "{dead}");
    }
    for dead in 2..4 {
        let (counts, seen) = run(&long(dead));
        assert!((5..=6).contains(&counts.failed), "{dead}: {counts:?}");
        assert_eq!(counts.finished + counts.failed, 40, "{dead}");
        assert!(seen.failures().iter().all(|at| (at - 1.05).abs() < 1e-9), "{dead}");
    }
    // A prompt that takes 1 s and is lost in the middle had begun to be answered: it fails without a second attempt, and no
    // breaker hears of it.
    for dead in [0, 2] {
        let text = scenario("cb_failure_threshold = 1", 0.5, 4, &crash(dead, 4.5, 0.2, 0.1));
        let text = text.replace("prefill_token_us = 10.0", "prefill_token_us = 10000.0");
        let text = text.replace("prefill_replicas = 2, decode_replicas = 2", ONE_EACH);
        let (counts, seen) = run(&text.replace("replica = 2", "replica = 1"));
        assert_eq!((counts.failed, counts.finished, seen.sent.len()), (1, 3, 4), "{dead}");
        assert_eq!(seen.failures(), [4.6], "{dead}");
    }
}

const ONE_EACH: &str = "prefill_replicas = 1, decode_replicas = 1";

#[test]
fn requests_wait_for_a_pair_that_comes_back_in_time() {
    // All that decode are down for 0.3 s, and breakers are open for 1 s: none is available at 0.23 and 0.63 s. The
    // fourth attempt finds a pair.
    let settings = "cb_failure_threshold = 1, cb_timeout_duration_secs = 1, retry_initial_backoff_ms = 200, \
                    retry_backoff_multiplier = 2.0";
    for dead in 0..2 {
        let text = scenario(settings, 50.0, 3, &crash(dead, 0.058, 0.3, 0.0));
        let (counts, seen) =
            run(&text.replace("prefill_replicas = 2, decode_replicas = 2", ONE_EACH));
        assert_eq!((counts.finished, counts.failed), (3, 0), "{:?}", seen.turned_away);
        let sent: Vec<_> = seen.sent.iter().map(|(at, id, _)| (id.0, (at * 1e3).round())).collect();
        assert_eq!(sent, [(0, 20.0), (1, 40.0), (2, 60.0), (2, 1460.0)], "{dead}");
    }
    // Held for dead for a minute they fail, as no replica was up.
    let settings = "cb_failure_threshold = 1, retry_max_retries = 2";
    let faults = format!("{}{}", crash(2, 0.05, 90.0, 0.0), crash(3, 0.05, 90.0, 0.0));
    let (counts, seen) = run(&scenario(settings, 10.0, 50, &faults));
    let refused = seen.turned_away.iter().filter(|(.., why)| *why == Refusal::NoReplica).count();
    assert_eq!((counts.failed, counts.finished), (50, 0), "{seen:?}");
    assert!(refused >= 48, "{refused}");
}

#[test]
fn no_router_sends_to_a_pair_that_it_holds_for_dead() {
    // With one failure the breakers of a pair open for a minute, which is longer than the run.
    for (policy, seed) in ["round_robin", "random", "power_of_two", "cache_aware"].iter().zip(1..) {
        let settings =
            format!("cb_failure_threshold = 1, retry_max_retries = 1, decode_policy = '{policy}'");
        let crashes = [1, 5, 6].iter().zip(1..);
        let crashes = crashes.map(|(replica, n)| crash(*replica, f64::from(n) * 0.75, 3.0, 0.0));
        let text = scenario(&settings, 50.0, 400, &crashes.collect::<String>());
        let text = text
            .replace(
                "prefill_replicas = 2, decode_replicas = 2",
                "prefill_replicas = 4, decode_replicas = 4",
            )
            .replace("policy = 'round_robin'", &format!("policy = '{policy}'"));
        let (counts, seen) = run(&format!("seed = {seed}\n{text}"));
        // What was under way when a replica crashed fails with it.
        let attempts = seen.failed.iter().filter(|(_, id)| {
            let (sent, ..) = *seen.sent.iter().find(|(_, of, _)| of == id).expect("it was sent");
            [0.75, 1.5, 2.25].iter().all(|crash| sent > *crash || sent + 0.02 < *crash)
        });
        let attempts: Vec<_> = attempts.collect();
        assert!((1..=3).contains(&attempts.len()), "{policy}: {counts:?}, {:?}", seen.failed);
        for (at, id) in attempts {
            let (.., prefill) = *seen.sent.iter().find(|(_, of, _)| of == id).expect("it was sent");
            assert_eq!(between(&seen.at(prefill.0), *at + 1e-9, 60.0), 0, "{policy}: {prefill}");
        }
    }
}

#[test]
fn random_pairs_lose_nobody_and_repeat_themselves() {
    for seed in 0..80_u64 {
        let mut random = Seed(seed).stream("makers pairs", 0);
        let mut one = |words: &[&'static str]| words[random.random_range(0..words.len())];
        let policies = ["round_robin", "random", "power_of_two", "cache_aware"];
        let settings = format!(
            "prefill_policy = '{}', decode_policy = '{}', {}, {}, {}, cb_timeout_duration_secs = 1, \
             health_check_interval_secs = 1, health_check_timeout_secs = 1",
            one(&["round_robin", "random", "power_of_two", "cache_aware", "bucket"]),
            one(&policies),
            one(&["retry_max_retries = 1", "retry_max_retries = 3", "retry_max_backoff_ms = 60"]),
            one(&[
                "cb_failure_threshold = 1",
                "cb_failure_threshold = 4",
                "health_failure_threshold = 1"
            ]),
            one(&[
                "balance_abs_threshold = 2",
                "max_concurrent_requests = 9, queue_timeout_secs = 1"
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
        // The router's own limit is refused beside a gateway.
        let is_limited = settings.contains("max_concurrent_requests");
        let gateway = if is_limited { "" } else { gateway };
        let detection = one(&["0.0", "0.02", "0.4"]);
        let faults = format!(
            "[[faults]]\ntype = 'random'\nfault = {{ type = 'crash', detection_s = {detection} }}\n\
             mean_time_between_s = 2.0\nmean_duration_s = 0.7\nuntil_s = 8.0\n\
             [[faults]]\ntype = 'random'\nfault = {{ type = 'lost_transfers' }}\n\
             mean_time_between_s = 3.0\nuntil_s = 8.0\n"
        );
        let cluster =
            one(&["", "api_delay_ms = 2.0\n", "api_per_request_ms = 3.0\napi_delay_ms = 1.0\n"]);
        let engine = one(&[
            "type = 'sglang'",
            "type = 'sglang', context_length = 150, max_total_tokens = 1500",
        ]);
        let text = scenario(&settings, 40.0, 200, &format!("{client}{gateway}{faults}"))
            .replace("type = 'sglang' }", &format!("{engine} }}"))
            .replace("[cluster.step_time]", &format!("{cluster}[cluster.step_time]"))
            .replace("output_tokens = 2 ", "output_tokens = 9 ")
            .replace(
                "retry_jitter_factor = 0.0",
                one(&["retry_jitter_factor = 0.2", "retry_jitter_factor = 1.0"]),
            );
        let text = format!("seed = {seed}\n{text}");
        // Debug builds assert that nothing is outstanding anywhere when a run is over.
        let (counts, seen) = run(&text);
        let gone = counts.finished + counts.failed + counts.timed_out + counts.rejected;
        assert_eq!(gone + counts.aborted, counts.arrived, "{text}\n{counts:?}");
        assert!(counts.finished > 0, "{text}\n{counts:?}");
        assert_eq!((counts, seen), run(&text), "{text}");
    }
}
