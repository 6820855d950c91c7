//! Timeouts, retries and users who go away, worked out by hand.

#[cfg(feature = "plot")]
use servecast::metrics::ReplicaKind;
use servecast::metrics::Status;
use servecast::sim::Counts;
use servecast::study::{Case, Figures, parts};

use super::{at_once, crash, fate, ms, report, resolved, run};

/// Two engines in which one request of 20 tokens in and 9 out fills the memory.
const FULL: [&str; 2] = [
    "type = 'vllm_v1'\nasync_scheduling = false\nnum_gpu_blocks = 3\nmax_model_len = 32",
    "type = 'sglang'\ndisable_overlap_schedule = true\nmax_total_tokens = 44\ncontext_length = 40\n\
     disable_radix_cache = true",
];

fn on(engine: &str, text: &str) -> String {
    let text = text
        .replace("input_tokens = 10, output_tokens = 5", "input_tokens = 20, output_tokens = 9");
    text.replace("type = 'vllm_v1'\nasync_scheduling = false", engine)
}

#[test]
fn a_timeout_frees_the_memory_of_the_request() {
    for engine in FULL {
        let text = on(engine, &at_once(2, 1, "client.max_concurrency = 2", ""));
        let (_, recorder) = run(&text);
        assert_eq!(ms(recorder.requests[1].first_scheduled), 900, "no room beside the first");
        // The first is given up at 450 ms, which the engine reads when its step ends, at 500 ms; with
        // SGLang it leaves with its next token.
        let arrivals = "arrivals = { type = 'constant', rate_per_s = 5.0 }";
        let text = text.replace("arrivals.type = 'all_at_once'", arrivals);
        let text = text.replace("client.max_concurrency = 2", "client.timeout_s = 0.25");
        let (counts, recorder) = run(&text);
        assert_eq!(counts, Counts { arrived: 2, timed_out: 2, ..Counts::default() }, "{engine}");
        assert_eq!(fate(&recorder.requests[0]), (Status::TimedOut, 200, 300, 450, 2));
        let (scheduled, first_token, tokens) =
            if engine.contains("sglang") { (600, 650, 0) } else { (500, 600, 1) };
        assert_eq!(ms(recorder.requests[1].first_scheduled), scheduled, "{engine}");
        let second = (Status::TimedOut, 400, first_token, 650, tokens);
        assert_eq!(fate(&recorder.requests[1]), second, "{engine}");
    }
}

#[test]
fn who_has_its_first_token_in_time_is_not_given_up_for_want_of_it() {
    for engine in FULL {
        let client = "client.first_token_timeout_s = 0.15";
        let text = on(engine, &at_once(2, 1, client, ""));
        let (counts, recorder) = run(&text);
        assert_eq!((counts.finished, counts.timed_out), (1, 1), "{engine}");
        assert_eq!(fate(&recorder.requests[1]), (Status::TimedOut, 0, 150, 150, 0), "{engine}");
    }
}

#[test]
fn who_finds_no_port_fails_at_once_and_takes_none_from_others() {
    for engine in FULL {
        let client = "client.ports = { count = 2, time_wait_s = 1.0 }";
        let text = on(engine, &at_once(5, 1, client, ""));
        let (counts, recorder) = run(&text);
        let expected = Counts { arrived: 5, finished: 2, failed: 3, ..Counts::default() };
        assert_eq!(counts, expected, "{engine}");
        let failed = |record: &&_| fate(record) == (Status::Failed, 0, 0, 0, 0);
        assert_eq!(recorder.requests.iter().skip(2).filter(failed).count(), 3, "{engine}");
        // From 0.2 s on, five a second: the first is answered at 1.1 s, and its port is free at 2.1 s, for the
        // one of 2.2 s; that of the second is not before the last has come, at 2.4 s.
        let arrivals = "arrivals = { type = 'constant', rate_per_s = 5.0 }";
        let text = text.replace("arrivals.type = 'all_at_once'", arrivals);
        let text = text.replace("num_requests = 5", "num_requests = 12");
        let (counts, _) = run(&text);
        assert_eq!((counts.finished, counts.failed), (3, 9), "{engine}");
    }
}

#[test]
fn what_is_answered_at_the_end_of_its_time_is_answered() {
    let (counts, _) = run(&at_once(1, 1, "client.timeout_s = 0.5", ""));
    assert_eq!((counts.finished, counts.timed_out), (1, 0));
    let (counts, _) = run(&at_once(1, 1, "client.timeout_s = 0.499999", ""));
    assert_eq!((counts.finished, counts.timed_out), (0, 1));
}

#[test]
fn each_retry_waits_twice_as_long_up_to_the_limit() {
    let client = "client.timeout_s = 0.35\n\
                  client.retries = { max_retries = 3, backoff_s = 0.5, max_backoff_s = 1.5 }";
    let (counts, recorder) = run(&at_once(1, 1, client, ""));
    assert_eq!(counts, Counts { arrived: 1, timed_out: 1, retried: 3, ..Counts::default() });
    let sent: Vec<u64> = recorder.requests.iter().map(|record| ms(record.sent)).collect();
    // 350 ms and 0.5, 1 and 1.5 s.
    assert_eq!(sent, [0, 850, 2200, 4050]);
    assert!(recorder.requests.iter().all(|record| record.status == Status::TimedOut));
}

#[test]
fn a_retry_finds_what_the_attempt_before_left_in_the_cache() {
    let client = "client.timeout_s = 0.35\nclient.retries = { max_retries = 1, backoff_s = 1.0 }";
    let text = at_once(1, 1, client, "");
    let text = text
        .replace("input_tokens = 10, output_tokens = 5", "input_tokens = 40, output_tokens = 5");
    let (counts, recorder) = run(&text);
    assert_eq!((counts.arrived, counts.retried), (1, 1));
    let cached: Vec<u32> = recorder.requests.iter().map(|record| record.cached_tokens).collect();
    assert_eq!(cached, [0, 32], "two blocks of 16 tokens");
}

#[test]
fn only_failures_of_replicas_are_retried_where_timeouts_are_not() {
    let client =
        "client.timeout_s = 0.35\nclient.retries = { on_timeout = false, backoff_s = 0.0 }";
    let (counts, recorder) = run(&at_once(2, 2, client, &crash(0, 0.05, 9.0, 0.0)));
    // The one sent again at 50 ms is given up at 400 ms.
    assert_eq!(counts, Counts { arrived: 2, timed_out: 2, retried: 1, ..Counts::default() });
    assert_eq!(ms(recorder.requests[2].finish), 400);
}

#[test]
fn a_request_that_is_given_up_makes_room_for_the_next_one_at_the_client() {
    let client = "client.max_concurrency = 1\nclient.timeout_s = 0.25";
    let (counts, recorder) = run(&at_once(3, 1, client, ""));
    assert_eq!(counts.timed_out, 3);
    let sent: Vec<u64> = recorder.requests.iter().map(|record| ms(record.sent)).collect();
    assert_eq!(sent, [0, 250, 500]);
}

#[test]
fn users_go_away_at_times_of_their_own_whatever_the_engine_does() {
    let client = "client.cancellations = { share = 0.5, mean_s = 0.3 }";
    let leaves = |text: &str| {
        let (counts, recorder) = run(text);
        assert_eq!(counts.arrived, counts.finished + counts.aborted);
        let left = |id: &usize| recorder.requests[*id].status == Status::Aborted;
        let ids: Vec<usize> = (0..400).filter(left).collect();
        let finish = |id: &usize| ms(recorder.requests[*id].finish);
        (ids.clone(), ids.iter().map(finish).collect::<Vec<u64>>())
    };
    let (slow_ids, slow) = leaves(&at_once(400, 1, client, "").replace("100000.0", "10000000.0"));
    let (fast_ids, fast) = leaves(&at_once(400, 1, client, ""));
    // Nobody is answered before the last has gone, where a step takes 10 s.
    assert!((170..230).contains(&slow_ids.len()), "half of 400, not {}", slow_ids.len());
    let mean = slow.iter().sum::<u64>() as f64 / slow.len() as f64;
    assert!((220.0..380.0).contains(&mean), "a mean of 300 ms, not {mean}");
    assert!(fast_ids.len() < slow_ids.len(), "some are answered before");
    for (id, at) in fast_ids.iter().zip(&fast) {
        let same = slow_ids.iter().position(|other| other == id).expect("the same users");
        assert_eq!(slow[same], *at, "request {id}");
    }
}

#[test]
fn who_goes_away_before_the_retry_never_sends_it() {
    let client = "client.cancellations = { share = 1.0, mean_s = 0.001 }\nclient.timeout_s = 0.2\n\
                  client.retries = { backoff_s = 5.0 }";
    let (counts, _) = run(&at_once(50, 2, client, &crash(0, 0.000_001, 9.0, 0.0)));
    assert_eq!(counts.retried, 0);
    assert_eq!(counts.aborted + counts.failed, 50);
    assert!(counts.failed > 10, "{counts:?}");
}

#[test]
fn goodput_counts_what_is_not_answered() {
    let slo = "[report]\nformat = 'vllm'\ngoodput = { e2el = 10000.0 }\n";
    let text = at_once(4, 2, "", &format!("{}{slo}", crash(0, 0.25, 1.0, 0.0)));
    let (counts, recorder) = run(&text);
    assert_eq!((counts.finished, counts.failed), (2, 2));
    let summary = report(&text, &recorder).summary;
    let goodput = summary.goodput.expect("it was asked for");
    assert!((goodput.attainment - 0.5).abs() < 1e-12, "{}", goodput.attainment);
    assert_eq!(summary.completed, 2);
}

#[test]
fn a_user_whose_first_request_is_turned_away_goes_away_like_any_other() {
    let client = "client.retries = { max_retries = 3, backoff_s = 1.0 }\n\
                  client.cancellations = { share = 1.0, mean_s = 0.001 }";
    let text = at_once(2, 1, client, &crash(0, 0.05, 60.0, 0.0));
    let arrivals = "arrivals = { type = 'constant', rate_per_s = 5.0 }";
    let (counts, _) = run(&text.replace("arrivals.type = 'all_at_once'", arrivals));
    // Both are gone long before a second passes.
    assert_eq!((counts.arrived, counts.retried, counts.finished), (2, 0, 0), "{counts:?}");
}

#[test]
fn who_waits_at_the_gateway_when_clients_stop_has_no_times_before_it_was_sent() {
    // One at a time is sent to the replica, two at a time by the client: the third is held by the client and
    // then by the gateway when the clients stop.
    let client = "client = { max_concurrency = 2, stop_after_s = 0.7 }";
    let text = at_once(4, 1, client, "").replace(
        "[cluster.engine]",
        "[cluster.gateway]\nmax_outstanding_per_replica = 1\n[cluster.engine]",
    );
    let (counts, recorder) = run(&text);
    assert_eq!((counts.finished, counts.unfinished), (1, 3));
    for record in &recorder.requests {
        let way = [record.sent, record.queued, record.first_token, record.finish];
        assert!(way.is_sorted(), "{record:?}");
    }
    let _ = report(&text, &recorder);
}

#[test]
fn studies_and_figures_count_requests_and_not_attempts() {
    // The first attempt ends with the replica after 150 ms, the second is sent 1 s later and takes 500 ms.
    let client = "client.retries = { max_retries = 3, backoff_s = 1.0 }\n";
    let text = at_once(1, 2, client, &crash(0, 0.15, 60.0, 0.0));
    let case = Case::new(resolved(&text), None).expect("step times are known");
    let run = case.run().expect("no trace is read");
    assert_eq!((run.counts.arrived, run.counts.finished, run.counts.retried), (1, 1, 1));
    let figures = Figures::new(&case.scenario, &run);
    let figure = |name: &str| figures.get(name).expect("a run with retries has it");
    assert!((figure("mean_retries_ms") - 1150.0).abs() < 1e-6, "{}", figure("mean_retries_ms"));
    let sum: f64 = parts().filter_map(|part| figures.get(part)).sum();
    assert!((sum - figure("mean_e2el_ms")).abs() < 1e-6, "{sum}");
    #[cfg(feature = "plot")]
    for drawn in
        servecast::plot::run_figures("once", &run.recorder, &ReplicaKind::of(&case.scenario))
    {
        assert!(drawn.svg.contains("1 request: 1 finished"), "{}", drawn.file_name);
    }
}
