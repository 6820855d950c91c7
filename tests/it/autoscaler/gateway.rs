//! Autoscalers of replicas that requests wait for at the gateway.

use servecast::metrics::{Presence, ScaledPool};
use servecast::units::SimTime;

use super::{autoscaler, resolved, run, scenario};

fn at(seconds: f64) -> SimTime {
    SimTime::from_secs_f64(seconds)
}

fn with_room(text: &str) -> String {
    text.replace(
        "[cluster.step_time]",
        "[cluster.gateway]\nmax_outstanding_per_replica = 1\n[cluster.step_time]",
    )
}

#[test]
fn the_first_replica_comes_for_who_waits_and_the_last_goes_when_nobody_does() {
    let rest = "min_replicas = 0\nprovisioning_s = 2.0";
    let text = with_room(&scenario(2, 0.1, &autoscaler(2, rest)));
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 2);
    // They come at 10 and 20 s, when it looks too; a replica is there 2 s later, and drains at the first look
    // after the answer.
    let presence = |seconds| recorder.presence.at(0, at(seconds));
    assert_eq!(
        [9.0, 10.0, 12.0, 13.0, 20.0, 22.0].map(presence),
        [
            Presence::Off,
            Presence::Provisioning,
            Presence::Up,
            Presence::Off,
            Presence::Provisioning,
            Presence::Up
        ]
    );
    for (record, came) in recorder.requests.iter().zip([10.0, 20.0]) {
        assert_eq!((record.sent, record.finish), (at(came), at(came + 2.5)));
    }
}

#[test]
fn a_replica_stays_while_a_request_is_under_way_whatever_the_signal_says() {
    // One request that decodes for 5 s, and a queue that is empty all the time.
    let rest = "min_replicas = 0";
    let text = with_room(&scenario(1, 1.0, &autoscaler(1, rest)))
        .replace("output_tokens = 5", "output_tokens = 50")
        .replace("outstanding_per_replica'", "gateway_queue_per_replica'");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 1);
    assert_eq!(recorder.requests[0].finish, at(6.0));
}

#[test]
fn the_queue_at_the_gateway_asks_for_replicas() {
    let rows = |signal: &str| {
        let text = with_room(&scenario(10, 1.0, &autoscaler(4, "")))
            .replace("{ type = 'constant', rate_per_s = 1 }", "{ type = 'all_at_once' }")
            .replace("outstanding_per_replica'", &format!("{signal}_per_replica'"));
        let (counts, recorder) = run(&text);
        assert_eq!(counts.finished, 10);
        recorder.scaling_csv(&ScaledPool::of(&resolved(&text)))
    };
    // Two are answered by 1 s, the third has just been sent: 7 wait at 2 for each replica.
    let csv = rows("gateway_queue");
    assert!(csv.contains("\n1,0,0,4,0,0,0,7,4,4\n"), "{csv}");
    // With the one that is sent: 8.
    let csv = rows("concurrency");
    assert!(csv.contains("\n1,0,0,4,0,0,0,8,4,4\n"), "{csv}");
    let csv = rows("outstanding");
    assert!(csv.contains("\n1,0,0,1,0,0,3,1,1,1\n"), "{csv}");
}

#[test]
fn a_run_ends_where_requests_wait_at_the_gateway_for_one_that_never_leaves() {
    // The decode side keeps 512 tokens free for each request, which it does not have.
    let groups = "groups = [{ role = 'prefill', replicas = 1, autoscaler = { max_replicas = 1, signal = { \
                  type = 'concurrency_per_replica', target = 1.0 } } }, { role = 'decode', replicas = 1 }]\n\
                  disaggregation = { transfer = { nic_gb_per_s = 1.0 } }\n\
                  engine = { type = 'sglang', max_total_tokens = 500, context_length = 320 }";
    let (counts, _) = run(&with_room(&scenario(3, 1.0, groups)));
    assert_eq!((counts.arrived, counts.stuck), (3, 3));
}
