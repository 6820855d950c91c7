//! Crashes, stragglers and lost caches, worked out by hand.

use servecast::metrics::{ClusterReport, Recorder, ReplicaKind, Status, StepLog};
use servecast::sim::Counts;

use super::{at_once, crash, fate, ms, observe, report, resolved, run, simulation_of};

#[test]
fn a_crash_loses_the_requests_of_its_replica_and_no_others() {
    let (counts, recorder) = run(&at_once(2, 2, "", &crash(0, 0.25, 1.0, 0.1)));
    assert_eq!(counts, Counts { arrived: 2, finished: 1, failed: 1, ..Counts::default() });
    // Two tokens of the first came at 100 and 200 ms; its client learns 100 ms after the crash.
    assert_eq!(fate(&recorder.requests[0]), (Status::Failed, 0, 100, 350, 2));
    assert_eq!(fate(&recorder.requests[1]), (Status::Finished, 0, 100, 500, 5));
    let report = recorder.fault_report();
    assert_eq!((report.crashes, report.tokens_lost), (1, 2));
    assert!((report.replica_down_s - 0.25).abs() < 1e-9, "the run ends 250 ms after the crash");
}

#[test]
fn a_retry_is_answered_by_the_other_replica() {
    let client = "client.retries = { max_retries = 1, backoff_s = 0.05 }";
    let text = at_once(2, 2, client, &crash(0, 0.25, 1.0, 0.1));
    let (counts, recorder) = run(&text);
    assert_eq!(counts, Counts { arrived: 2, finished: 2, retried: 1, ..Counts::default() });
    assert_eq!(recorder.requests[0].status, Status::Failed);
    // Sent again at 350 + 50 ms, it shares the last step of the other request and has four more.
    assert_eq!(fate(&recorder.requests[2]), (Status::Finished, 400, 500, 900, 5));
    assert_eq!(recorder.requests[2].instance.0, 1);
    // Its client has waited since it sent the first.
    let summary = report(&text, &recorder).summary;
    assert_eq!(summary.completed, 2);
    assert!((summary.e2e.max_ms() - 900.0).abs() < 1e-6, "{}", summary.e2e.max_ms());
    assert!((summary.ttft.max_ms() - 500.0).abs() < 1e-6, "{}", summary.ttft.max_ms());
}

/// The same cluster, where one request comes every second, the first after one.
fn every_second(requests: u32, replicas: u32, faults: &str) -> String {
    let arrivals = "arrivals = { type = 'constant', rate_per_s = 1.0 }";
    at_once(requests, replicas, "", faults).replace("arrivals.type = 'all_at_once'", arrivals)
}

#[test]
fn until_a_crash_is_noticed_its_replica_is_sent_requests_which_fail_then() {
    // In turn: 0 at 1 s, 1 at 2 s, 0 at 3 s. Then only the other, until it is back at 6.5 s.
    let (counts, recorder) = run(&every_second(8, 2, &crash(0, 2.5, 4.0, 1.0)));
    assert_eq!((counts.finished, counts.failed), (7, 1));
    let lost = fate(&recorder.requests[2]);
    assert_eq!(lost, (Status::Failed, 3000, 3500, 3500, 0));
    let instances: Vec<u32> = recorder.requests.iter().map(|record| record.instance.0).collect();
    assert_eq!(instances, [0, 1, 0, 1, 1, 1, 0, 1]);
}

#[test]
fn where_no_replica_is_known_to_be_up_requests_fail_at_once() {
    let (counts, recorder) = run(&every_second(4, 1, &crash(0, 1.7, 2.0, 0.0)));
    assert_eq!((counts.finished, counts.failed), (2, 2));
    for (record, arrival) in recorder.requests[1..3].iter().zip([2000, 3000]) {
        assert_eq!(fate(record), (Status::Failed, arrival, arrival, arrival, 0));
    }
    assert_eq!(fate(&recorder.requests[3]), (Status::Finished, 4000, 4100, 4500, 5));
}

#[test]
fn a_replica_that_is_down_has_no_time_in_which_it_could_be_idle() {
    // 5 s and one replica. Of the requests at 1, 2, 3 and 4 s two fail while it is down, from 1.7 to
    // 3.7 s; it is up for 2.5 s and computes for 1 s of that.
    let (_, recorder) = run(&every_second(4, 1, &crash(0, 1.7, 2.0, 0.0)));
    let scenario = resolved(&every_second(4, 1, &crash(0, 1.7, 2.0, 0.0)));
    let report = ClusterReport::new(&recorder, &ReplicaKind::of(&scenario));
    assert!((report.observed_s - 4.5).abs() < 1e-9, "{}", report.observed_s);
    let replica = report.replicas[0];
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
    near(replica.busy, 0.4);
    near(replica.idle, 0.6);
    near(replica.up, 2.5 / 4.5);
    near(replica.running_mean, 0.4);
}

#[test]
fn what_ends_at_the_instant_of_a_crash_has_ended() {
    let (counts, _) = run(&at_once(1, 1, "", &crash(0, 0.5, 1.0, 0.0)));
    assert_eq!((counts.finished, counts.failed), (1, 0));
    let (counts, _) = run(&at_once(1, 1, "", &crash(0, 0.499_999, 1.0, 0.0)));
    assert_eq!((counts.finished, counts.failed), (0, 1));
}

/// Requests with a common beginning, one a second.
fn alike(requests: u32, replicas: u32, faults: &str) -> String {
    let lengths = format!(
        "{{ type = 'generated_shared_prefix', groups = 1, prompts_per_group = {requests}, \
         system_prompt_tokens = 160, question_tokens = 16, output_tokens = 5, \
         separator_tokens = 0 }}"
    );
    every_second(requests, replicas, faults)
        .replace("{ type = 'fixed', input_tokens = 10, output_tokens = 5 }", &lengths)
}

/// Cached tokens of six of them.
fn cached(engine: &str, faults: &str) -> Vec<u32> {
    let text = alike(6, 1, faults).replace("type = 'vllm_v1'\nasync_scheduling = false", engine);
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 6, "{counts:?}");
    recorder.requests.iter().map(|record| record.cached_tokens).collect()
}

#[test]
fn a_replica_that_starts_again_has_an_empty_cache() {
    for engine in ["type = 'vllm_v1'", "type = 'sglang'"] {
        assert_eq!(cached(engine, ""), [0, 160, 160, 160, 160, 160], "{engine}");
        let crashed = cached(engine, &crash(0, 3.8, 0.1, 0.0));
        assert_eq!(crashed, [0, 160, 160, 0, 160, 160], "{engine}");
    }
}

#[test]
fn dynamos_router_forgets_what_a_replica_had_before_it_crashed() {
    for router in ["", "use_kv_events = false", "kv_event_lag_ms = 20.0"] {
        for seed in 0..8 {
            let text = |faults: &str| {
                let router = format!("replicas = 2\nrouter = {{ dynamo = {{ {router} }} }}");
                let text = alike(12, 2, faults).replace("replicas = 2", &router);
                format!("seed = {seed}\n{text}")
            };
            let (_, quiet) = run(&text(""));
            let first = quiet.requests[0].instance;
            let (counts, recorder) = run(&text(&crash(first.0, 3.8, 3.0, 0.0)));
            assert_eq!(counts.finished, 12, "{counts:?}");
            // From the fourth on the other has the beginning, and the first not any more when it is back.
            let at = recorder.requests.iter().map(|record| record.instance == first);
            assert_eq!(at.collect::<Vec<_>>(), (0..12).map(|id| id < 3).collect::<Vec<_>>());
            let cached = recorder.requests.iter().map(|record| record.cached_tokens > 0);
            let expected = (0..12).map(|id| ![0, 3].contains(&id));
            assert_eq!(cached.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{router}");
        }
    }
}

#[test]
fn a_lost_cache_is_empty_while_requests_keep_what_they_hold() {
    let lost = |at_s| format!("[[faults]]\ntype = 'lost_cache'\nreplica = 0\nat_s = {at_s}\n");
    for engine in ["type = 'vllm_v1'", "type = 'sglang'"] {
        assert_eq!(cached(engine, &lost(3.8)), [0, 160, 160, 0, 160, 160], "{engine}");
        // The fourth is being answered.
        assert_eq!(cached(engine, &lost(4.25)), [0, 160, 160, 160, 160, 160], "{engine}");
    }
}

#[test]
fn the_steps_of_a_straggler_that_are_decided_in_its_window_take_longer() {
    let slow =
        "[[faults]]\ntype = 'straggler'\nreplica = 0\nat_s = 0.15\nfor_s = 0.2\nfactor = 2.0\n";
    let scenario = resolved(&at_once(2, 2, "", slow));
    let mut seen = (StepLog::default(), Recorder::default());
    observe(&scenario, &mut seen);
    let (steps, recorder) = seen;
    let durations = |instance| -> Vec<f64> {
        let own = steps.steps.iter().filter(|step| step.instance.0 == instance);
        own.map(|step| step.duration.as_millis_f64()).collect()
    };
    // Decided at 0, 100, 200, 400 and 500 ms.
    assert_eq!(durations(0), [100.0, 100.0, 200.0, 100.0, 100.0]);
    assert_eq!(durations(1), [100.0; 5]);
    assert_eq!([0, 1].map(|id: usize| ms(recorder.requests[id].finish)), [600, 500]);
}

#[test]
fn a_slow_replica_is_still_slow_after_a_crash_in_its_window() {
    let slow =
        "[[faults]]\ntype = 'straggler'\nreplica = 0\nat_s = 0.0\nfor_s = 9.0\nfactor = 3.0\n";
    let faults = format!("{slow}{}", crash(0, 0.5, 0.2, 0.0));
    let (counts, recorder) = run(&every_second(2, 1, &faults));
    assert_eq!(counts.finished, 2);
    assert_eq!(ms(recorder.requests[0].finish), 2500);
}

#[test]
fn a_crash_after_the_last_answer_costs_no_time() {
    // Given up at 200 ms, the request would be sent again at 5.2 s; the client stops before.
    let client = "client.stop_after_s = 2.0\nclient.timeout_s = 0.2\n\
                  client.retries = { max_retries = 1, backoff_s = 5.0 }";
    let (counts, recorder) = run(&at_once(1, 2, client, &crash(1, 1.0, 9.0, 0.0)));
    assert_eq!((counts.unfinished, counts.timed_out, counts.retried), (1, 0, 0));
    let report = recorder.fault_report();
    assert!(report.crashes == 1 && report.replica_down_s.abs() < 1e-9, "{report:?}");
}

#[test]
fn a_run_with_faults_is_no_matter_of_lanes() {
    let scenario = resolved(&every_second(20, 3, &crash(1, 2.1, 1.0, 0.0)));
    let (mut one, mut other) = (Recorder::default(), Recorder::default());
    let counts = simulation_of(&scenario).run(&mut one).expect("no trace is read");
    let in_lanes = simulation_of(&scenario).run_in_lanes(&mut other).expect("no trace is read");
    assert_eq!(counts.failed, 1);
    assert_eq!((counts, one.requests), (in_lanes, other.requests));
}
