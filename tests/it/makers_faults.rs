//! SGLang's router and vLLM's where replicas crash: they find it out by themselves.

use servecast::cluster::Refusal;
use servecast::engine::Finish;
use servecast::ids::{InstanceId, RequestId};
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

/// Requests at a constant rate, the first one at once, on replicas that answer in 6 ms.
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

fn crash(replica: u32, at_s: f64, down_s: f64, detection_s: f64) -> String {
    format!(
        "[[faults]]\ntype = 'crash'\nreplica = {replica}\nat_s = {at_s:?}\ndown_s = {down_s:?}\n\
         detection_s = {detection_s:?}\n"
    )
}

/// Where requests were sent when, and which of them ended without an answer.
#[derive(Default)]
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
fn between(times: &[f64], from: f64, until: f64) -> usize {
    times.iter().filter(|at| (from..until).contains(*at)).count()
}

#[test]
fn a_breaker_opens_late_tries_again_and_closes() {
    let settings = "policy = 'round_robin', cb_failure_threshold = 3, cb_timeout_duration_secs = 5";
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
    let router = "{ sglang = { policy = 'round_robin', cb_failure_threshold = 1000, \
                  health_failure_threshold = 2, health_success_threshold = 2, \
                  health_check_interval_secs = 5 } }";
    let (counts, seen) = run(&scenario(router, 2, 10.0, 300, &crash(0, 1.05, 11.0, 0.0)));
    let there = seen.sent_to(0);
    let failed = between(&there, 1.05, 10.0);
    assert!((43..=46).contains(&failed), "{there:?}");
    assert_eq!(between(&there, 10.05, 20.0), 0, "{there:?}");
    assert!(between(&there, 20.0, 29.9) >= 45, "{there:?}");
    assert_eq!(counts.failed as usize, failed + between(&there, 10.0, 10.05));
}

#[test]
fn what_was_sent_to_a_replica_that_hangs_fails_when_connections_break() {
    let router = "{ sglang = { policy = 'round_robin' } }";
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
            let router =
                format!("{{ {name} = {{ policy = '{policy}', cb_failure_threshold = 1 }} }}");
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
    let router = "{ sglang = { cb_failure_threshold = 1 } }";
    let faults = format!("{}{}", crash(0, 1.05, 90.0, 0.0), crash(1, 1.05, 90.0, 0.0));
    let (counts, seen) = run(&scenario(router, 2, 10.0, 50, &faults));
    let refused = seen.turned_away.iter().filter(|(.., why)| *why == Refusal::NoReplica).count();
    assert_eq!(counts.failed as usize, refused + 2);
    assert!(refused > 30, "{refused}");
}
