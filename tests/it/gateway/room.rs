//! Limits, deadlines, buckets, and requests that leave while they wait.

use servecast::metrics::Status;
use servecast::units::{SimDuration, SimTime};

use super::{Doing, Told, run, run_with, scenario};

const BURST: &str = "num_requests = 10\narrivals = { type = 'all_at_once' }\n\
                     lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 11 }";

fn ms(value: u64) -> SimTime {
    SimTime::from_nanos(value * 1_000_000)
}

#[test]
fn requests_wait_while_all_replicas_are_full_and_their_time_adds_up() {
    let text = scenario(BURST, "[cluster.gateway]\nmax_outstanding_per_replica = 1\n");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 10);
    for (place, record) in recorder.requests.iter().enumerate() {
        // A prefill step of 10 + 10 ms and ten steps of 10 ms: 120 ms for each, one after the other.
        let before = place as u64 / 2;
        let wait = recorder.gateway_wait_of(place);
        assert_eq!(wait, SimDuration::from_nanos(before * 120_000_000));
        assert_eq!(record.sent, SimTime::ZERO);
        assert_eq!(record.finish, ms((before + 1) * 120));
        let parts = recorder.breakdown_of(place).expect("it is answered");
        assert_eq!(parts.gateway, wait);
        assert_eq!(parts.total(), record.e2e());
    }
}

#[test]
fn a_gateway_that_is_never_full_changes_nothing() {
    let plain = run(&scenario(BURST, ""));
    let room = run(&scenario(BURST, "[cluster.gateway]\nmax_outstanding_per_replica = 5\n"));
    assert_eq!(plain.0, room.0);
    assert_eq!(plain.1.requests, room.1.requests);
}

#[test]
fn who_comes_when_too_many_wait_is_turned_away() {
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\nmax_waiting = 3\n";
    let (counts, recorder) = run(&scenario(BURST, gateway));
    // Two are sent, three wait, the last five of the burst are turned away.
    assert_eq!((counts.finished, counts.rejected), (5, 5));
    let report = recorder.gateway_report().expect("requests wait");
    assert_eq!((report.turned_away.full, report.turned_away.total()), (5, 5));
    assert_eq!(report.waiting_peak, 3);
    for record in &recorder.requests[5..] {
        assert_eq!((record.status, record.finish), (Status::Rejected, SimTime::ZERO));
    }
}

#[test]
fn with_no_place_to_wait_who_finds_no_replica_free_is_turned_away() {
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\nmax_waiting = 0\n";
    let (counts, recorder) = run(&scenario(BURST, gateway));
    assert_eq!((counts.finished, counts.rejected, counts.failed), (2, 8, 0));
    let report = recorder.gateway_report().expect("there is a gateway");
    assert_eq!((report.turned_away.full, report.turned_away.total()), (8, 8));
    assert_eq!(report.waiting_peak, 0);
    // Where none is up they fail, as without a gateway.
    let crashes = "[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 0.0\ndown_s = 9.0\n\
                   [[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 0.0\ndown_s = 9.0\n";
    let late = BURST.replace("type = 'all_at_once'", "type = 'constant', rate_per_s = 10.0");
    let (counts, _) = run(&format!("{}{crashes}", scenario(&late, gateway)));
    assert_eq!((counts.finished, counts.rejected, counts.failed), (0, 0, 10));
}

#[test]
fn prompts_that_the_decode_side_computes_need_no_place_of_a_replica_that_prefills() {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, local_prefill = { \
                 max_prefill_queue = 3 }, transfer = { nic_gb_per_s = 10.0, latency_us = 50.0 } }";
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\n";
    let text = scenario(BURST, gateway).replace("replicas = 2", parts);
    let mut told = Told::default();
    let (_, counts) = run_with(&text, &mut told);
    assert_eq!(counts.finished, 10);
    let sent = told.0.iter().filter_map(|(at, doing)| match doing {
        Doing::Sent(id, instance) => Some((at.as_nanos() / 1_000_000, id.0, instance.0)),
        _ => None,
    });
    // While more than three others wait the first goes to the decode side; then each waits for the place of
    // the replica that prefills, where a prompt takes 20 ms.
    let first = (0..6).map(|id| (0, id, 1)).chain([(0, 6, 0)]);
    let expected: Vec<_> = first.chain([(20, 7, 0), (40, 8, 0), (60, 9, 0)]).collect();
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}

#[test]
fn who_waits_longer_than_the_deadline_is_turned_away() {
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\ndeadline_ms = 200.0\n";
    let (counts, recorder) = run(&scenario(BURST, gateway));
    // Sent at 0 and 120 ms; those that would be sent at 240 ms are gone.
    assert_eq!((counts.finished, counts.rejected), (4, 6));
    assert_eq!(recorder.gateway_report().expect("requests wait").turned_away.deadline, 6);
    for (place, record) in recorder.requests.iter().enumerate().skip(4) {
        assert_eq!(record.finish, ms(200));
        let parts = recorder.breakdown_of(place).expect("it was turned away");
        assert_eq!((parts.gateway, parts.total()), (record.e2e(), record.e2e()));
    }
}

#[test]
fn a_full_bucket_lets_a_burst_through_and_then_its_rate() {
    let limit = "[cluster.gateway]\nrate_limit = { requests_per_s = 10.0, burst = 3 }\n";
    let steady = BURST.replace("'all_at_once'", "'constant', rate_per_s = 20.0");
    // At 50, 100, 150 ms three pass; the bucket wins half a request every 50 ms, so that with those
    // halves the one at 200 ms passes too, and from then on every other one.
    let (counts, recorder) = run(&scenario(&steady, limit));
    let passes = |record: &servecast::metrics::RequestRecord| record.status == Status::Finished;
    let passed: Vec<bool> = recorder.requests.iter().map(passes).collect();
    let expected = [true, true, true, true, true, false, true, false, true, false];
    assert_eq!(passed, expected);
    assert_eq!(counts.rejected, 3);
    assert_eq!(recorder.gateway_report().expect("it limits").turned_away.rate_limit, 3);
}

#[test]
fn a_bucket_may_make_requests_wait_instead() {
    let limit =
        "[cluster.gateway]\nrate_limit = { requests_per_s = 10.0, burst = 3, over = 'wait' }\n";
    let (counts, recorder) = run(&scenario(BURST, limit));
    assert_eq!(counts.finished, 10);
    let waits: Vec<u64> =
        (0..10).map(|place| recorder.gateway_wait_of(place).as_nanos() / 1_000_000).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200, 300, 400, 500, 600, 700]);
}

#[test]
fn a_full_bucket_lets_all_of_its_burst_through_whatever_the_rate() {
    for burst in [1, 3, 7, 9, 10] {
        let limit = format!(
            "[cluster.gateway]\nrate_limit = {{ requests_per_s = {burst}.0, burst = {burst} }}\n"
        );
        let (counts, _) = run(&scenario(BURST, &limit));
        assert_eq!(counts.finished, burst, "burst {burst}");
    }
}

#[test]
fn who_waits_behind_one_that_goes_away_is_sent_at_once() {
    // The first prompt empties the bucket, the second waits for 1,000 tokens, the third for 10 behind it.
    let classes = "num_requests = 3\narrivals = { type = 'all_at_once' }\n\
                   lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 11 }\n\
                   [[workload.classes]]\nname = 'long'\nshare = 0.6\ndeadline_ms = 1000.0\n\
                   [[workload.classes]]\nname = 'short'\nshare = 0.4\n\
                   input_tokens = { type = 'fixed', tokens = 10 }";
    let limit = "[cluster.gateway]\nrate_limit = { prompt_tokens_per_s = 100.0, \
                 burst_prompt_tokens = 1000, over = 'wait' }\n";
    let drawn = |seed: u64| {
        let (_, recorder) = run(&format!("seed = {seed}\n{}", scenario(classes, limit)));
        let prompts: Vec<u32> = recorder.requests.iter().map(|r| r.prompt_tokens).collect();
        (prompts == [1000, 1000, 10]).then_some(recorder)
    };
    let recorder = (0..100).find_map(drawn).expect("some seed draws them in this order");
    assert_eq!(recorder.requests[1].status, Status::Rejected);
    assert_eq!(recorder.gateway_wait_of(2), SimDuration::from_millis(1000));
}

#[test]
fn a_prompt_longer_than_the_bucket_passes_when_it_is_full() {
    // 1,000 tokens from a bucket of 400: the next one passes when the debt is paid and it is full again.
    let limit = "[cluster.gateway]\nrate_limit = { prompt_tokens_per_s = 1000.0, \
                 burst_prompt_tokens = 400, over = 'wait' }\n";
    let (_, recorder) = run(&scenario(BURST, limit));
    let waits: Vec<u64> =
        (0..10).map(|place| recorder.gateway_wait_of(place).as_nanos() / 1_000_000).collect();
    assert_eq!(waits[..4], [0, 1000, 2000, 3000]);
}

#[test]
fn priorities_are_read_as_the_engine_reads_them() {
    let classes = "\n[[workload.classes]]\nname = 'late'\nshare = 0.5\npriority = 5\n\
                   [[workload.classes]]\nname = 'early'\nshare = 0.5\npriority = 1\n";
    let gateway =
        "[cluster.gateway]\nmax_outstanding_per_replica = 1\norder = { type = 'priority' }\n";
    let order = |text: &str| {
        let (_, recorder) = run(text);
        let mut sent: Vec<(SimTime, u16)> = recorder
            .requests
            .iter()
            .enumerate()
            .map(|(place, r)| (r.sent + recorder.gateway_wait_of(place), r.class.0))
            .collect();
        sent.sort_by_key(|(at, _)| *at);
        sent.into_iter().map(|(_, class)| class).collect::<Vec<u16>>()
    };
    let text = scenario(&(BURST.to_owned() + classes), gateway);
    let vllm = order(&text);
    assert!(vllm.contains(&0) && vllm.contains(&1));
    assert!(vllm.is_sorted_by_key(|class| 1 - class), "smaller first: {vllm:?}");
    let sglang = text.replace("type = 'vllm_v1'\nnum_gpu_blocks = 20000", "type = 'sglang'");
    assert!(order(&sglang).is_sorted(), "larger first");
}

#[test]
fn a_request_that_waits_is_sent_when_a_replica_is_back() {
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 20\n\
                   [[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 0.0\ndown_s = 3.0\n\
                   [[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 0.0\ndown_s = 4.0\n";
    let steady = BURST.replace("'all_at_once'", "'constant', rate_per_s = 20.0");
    let (counts, recorder) = run(&scenario(&steady, gateway));
    assert_eq!(counts.finished, 10);
    for (place, record) in recorder.requests.iter().enumerate() {
        assert_eq!(
            record.sent + recorder.gateway_wait_of(place),
            SimTime::from_nanos(3_000_000_000)
        );
    }
}

#[test]
fn a_client_that_gives_up_leaves_the_room_and_tries_again() {
    let client = "\nclient = { timeout_s = 0.3, retries = { max_retries = 1, backoff_s = 5.0 } }\n";
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\n";
    let (counts, recorder) = run(&scenario(&(BURST.to_owned() + client), gateway));
    // Four are answered at 120 and 240 ms, two are under way at 300 ms, four wait; the six come again,
    // four of them are answered in time.
    assert_eq!((counts.finished, counts.timed_out, counts.retried), (8, 2, 6));
    assert_eq!(recorder.gateway_wait_of(9), SimDuration::from_nanos(300_000_000));
}

#[test]
fn a_client_tries_again_when_the_gateway_turns_it_away() {
    let client = "\nclient = { retries = { max_retries = 2, backoff_s = 1.0 } }\n";
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\nmax_waiting = 3\n";
    let (counts, _) = run(&scenario(&(BURST.to_owned() + client), gateway));
    assert_eq!((counts.finished, counts.rejected, counts.retried), (10, 0, 5));
    let stays = "\nclient = { timeout_s = 60.0, retries = { on_refusal = false } }\n";
    let (counts, _) = run(&scenario(&(BURST.to_owned() + stays), gateway));
    assert_eq!((counts.finished, counts.rejected, counts.retried), (5, 5, 0));
}

#[test]
fn a_run_that_ends_amid_waiting_requests_leaves_them_unfinished() {
    let stops = BURST.to_owned() + "\nclient.stop_after_s = 0.2\n";
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\n";
    let (counts, recorder) = run(&scenario(&stops, gateway));
    assert_eq!((counts.finished, counts.unfinished), (2, 8));
    // Two were sent at once, two after 120 ms, and six wait until it ends with a step of 10 ms.
    let report = recorder.gateway_report().expect("requests wait");
    let mean = (2.0 * 120.0 + 6.0 * 210.0) / 10.0;
    assert!((report.wait_mean_ms - mean).abs() < 1e-6, "{report:?}");
}

#[test]
fn the_gateway_counts_prefill_replicas_where_others_decode() {
    let parts = "disaggregation = { prefill_replicas = 1, decode_replicas = 1, transfer = { \
                 nic_gb_per_s = 10.0, latency_us = 50.0 } }";
    let gateway = "[cluster.gateway]\nmax_outstanding_per_replica = 1\n";
    let text = scenario(BURST, gateway).replace("replicas = 2", parts);
    let mut told = Told::default();
    let (_, counts) = run_with(&text, &mut told);
    assert_eq!(counts.finished, 10);
    let sent: Vec<u64> = told
        .0
        .iter()
        .filter(|(_, doing)| matches!(doing, Doing::Sent(..)))
        .map(|(at, _)| at.as_nanos() / 1_000_000)
        .collect();
    // A prompt takes 20 ms; its answer does not hold the next one up.
    assert_eq!(sent, [0, 20, 40, 60, 80, 100, 120, 140, 160, 180]);
}
