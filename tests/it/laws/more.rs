//! L11: more replicas, a faster law or fewer requests never make requests wait longer.
//!
//! For engines that batch this is no theorem: a step that ends a little earlier may just miss an
//! arrival, which then waits for the whole next step. What holds without exception is tested
//! request by request, in integer nanoseconds:
//!
//! * With one seat and round robin each replica is a queue with one server. Its waiting times
//!   follow start(n + 1) = max(arrival, free(n)), which grows with every service time and every
//!   request before. A multiple of the replicas takes requests away from each queue.
//! * When all requests arrive at once, no step can miss one: which requests share a step does not
//!   depend on how long steps last.
//! * First come, first served, without asynchronous scheduling: the request that arrives last is
//!   served after all others in every step and is the first to lose its memory, so it can only
//!   lengthen their steps.
//! * A law and gaps between arrivals twice as long make all times exactly twice as long.
//!
//! What holds on average is tested on pairs of runs with the same arrivals: the mean difference is
//! above zero with 99.9 % confidence.

use proptest::array::uniform3;
use proptest::collection::vec;
use proptest::prelude::*;
use rand::RngExt;

use servecast::cost::Linear;
use servecast::metrics::{RequestRecord, Status};
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::scenario::{HostConfig, Policy, VllmConfig};
use servecast::units::{SimDuration, SimTime};

use super::random::{laws, served};
use super::student_t;
use crate::support::{cluster, law, micros, one_seat, poisson, records, small_engine};

fn served_by(
    replicas: u32,
    engine: &VllmConfig,
    law: Linear,
    requests: &[Request],
) -> Vec<RequestRecord> {
    records(cluster(replicas, engine, law), requests).1.requests.into()
}

/// Whether no request of `more` waits longer than in `less`, of which it is a part, in order.
fn none_waits_longer(more: &[RequestRecord], less: &[RequestRecord]) -> bool {
    more.iter().zip(less).all(|(more, less)| {
        more.status == less.status
            && (more.status != Status::Finished
                || more.first_token - more.sent <= less.first_token - less.sent
                    && more.finish - more.sent <= less.finish - less.sent)
    })
}

/// A queue with one seat, with or without asynchronous scheduling.
fn seats() -> impl Strategy<Value = VllmConfig> {
    any::<bool>().prop_map(|async_scheduling| VllmConfig { async_scheduling, ..one_seat() })
}

/// A law that is at most as long in every term.
fn faster(law: Linear, shares: [u64; 3]) -> Linear {
    let part = |span: SimDuration, share| SimDuration::from_nanos(span.as_nanos() * share / 100);
    Linear {
        base: part(law.base, shares[0]),
        prefill_token: part(law.prefill_token, shares[1]),
        decode_seq: part(law.decode_seq, shares[2]),
        ..Linear::default()
    }
}

fn scaled(law: Linear, factor: u64) -> Linear {
    Linear {
        base: law.base * factor,
        prefill_token: law.prefill_token * factor,
        decode_seq: law.decode_seq * factor,
        ..Linear::default()
    }
}

proptest! {
    #![proptest_config(crate::support::random_cases(150))]

    #[test]
    fn with_one_seat_a_faster_law_lets_nobody_wait_longer(
        engine in seats(), (_, requests) in served(), law in laws(), shares in uniform3(1_u64..101),
        replicas in 1_u32..4,
    ) {
        let before = served_by(replicas, &engine, law, &requests);
        let after = served_by(replicas, &engine, faster(law, shares), &requests);
        prop_assert!(none_waits_longer(&after, &before));
    }

    #[test]
    fn with_one_seat_a_multiple_of_the_replicas_lets_nobody_wait_longer(
        engine in seats(), (_, requests) in served(), law in laws(), replicas in 1_u32..4,
        times in 2_u32..4,
    ) {
        let before = served_by(replicas, &engine, law, &requests);
        let after = served_by(replicas * times, &engine, law, &requests);
        prop_assert!(none_waits_longer(&after, &before));
    }

    #[test]
    fn with_one_seat_fewer_requests_let_nobody_wait_longer(
        engine in seats(), (_, requests) in served(), law in laws(), kept in vec(any::<bool>(), 24),
    ) {
        let all = served_by(1, &engine, law, &requests);
        let stay: Vec<Request> =
            requests.iter().zip(&kept).filter(|(_, keep)| **keep).map(|(r, _)| r.clone()).collect();
        let before: Vec<RequestRecord> =
            all.iter().zip(&kept).filter(|(_, keep)| **keep).map(|(r, _)| *r).collect();
        prop_assert!(none_waits_longer(&served_by(1, &engine, law, &stay), &before));
    }

    #[test]
    fn of_requests_that_come_at_once_none_waits_longer_under_a_faster_law(
        (mut engine, mut requests) in served(), law in laws(), shares in uniform3(1_u64..101),
    ) {
        engine.policy = Policy::Fcfs;
        for request in &mut requests {
            request.arrival = SimTime::ZERO;
        }
        let before = served_by(1, &engine, law, &requests);
        let after = served_by(1, &engine, faster(law, shares), &requests);
        prop_assert!(none_waits_longer(&after, &before));
    }

    #[test]
    fn the_last_to_come_delays_others_or_changes_nothing(
        (engine, mut requests) in served(), law in laws(),
    ) {
        let engine = VllmConfig {
            policy: Policy::Fcfs,
            async_scheduling: false,
            enable_prefix_caching: false,
            // Flags that look at how many are inside may serve others in larger shares.
            long_prefill_token_threshold: 0,
            adaptive_long_prefill_threshold: false,
            prefill_schedule_interval: 1,
            speculation: None,
            ..engine
        };
        let with = served_by(1, &engine, law, &requests);
        requests.pop();
        let without = served_by(1, &engine, law, &requests);
        prop_assert!(none_waits_longer(&without, &with));
    }

    #[test]
    fn a_law_and_gaps_times_k_make_all_times_k_times_as_long(
        (mut engine, requests) in served(), law in laws(), k in 2_u64..5, replicas in 1_u32..4,
    ) {
        // How warm a host is, is rounded.
        engine.host.warm_share = None;
        let slow: Vec<Request> = requests.iter().map(|request| {
            let arrival = SimTime::from_nanos(request.arrival.as_nanos() * k);
            Request { arrival, ..request.clone() }
        }).collect();
        let fast = served_by(replicas, &engine, law, &requests);
        let slow = served_by(replicas, &slowed(&engine, k), scaled(law, k), &slow);
        let times = |at: SimTime| SimTime::from_nanos(at.as_nanos() * k);
        for (fast, slow) in fast.iter().zip(&slow) {
            prop_assert_eq!(slow, &RequestRecord {
                arrival: times(fast.arrival),
                sent: times(fast.sent),
                first_scheduled: times(fast.first_scheduled),
                first_token: times(fast.first_token),
                finish: times(fast.finish),
                queued: times(fast.queued),
                preempted: fast.preempted * k,
                preempted_in_prefill: fast.preempted_in_prefill * k,
                stalled: fast.stalled * k,
                transfer: fast.transfer * k,
                handoff: fast.handoff * k,
                ..*fast
            });
        }
    }
}

/// The same engine on a host that takes `k` times as long.
fn slowed(engine: &VllmConfig, k: u64) -> VllmConfig {
    let (host, k) = (engine.host, k as f64);
    let host = HostConfig {
        schedule_us: host.schedule_us * k,
        schedule_per_sequence_us: host.schedule_per_sequence_us * k,
        schedule_per_new_request_us: host.schedule_per_new_request_us * k,
        schedule_prefill_us: host.schedule_prefill_us * k,
        schedule_per_prefill_token_us: host.schedule_per_prefill_token_us * k,
        launch_us: host.launch_us * k,
        launch_per_sequence_us: host.launch_per_sequence_us * k,
        eager_launch_us: host.eager_launch_us * k,
        pieces_launch_us: host.pieces_launch_us * k,
        hand_over_us: host.hand_over_us * k,
        hand_over_per_sequence_us: host.hand_over_per_sequence_us * k,
        post_process_us: host.post_process_us * k,
        post_process_per_sequence_us: host.post_process_per_sequence_us * k,
        post_process_prefill_us: host.post_process_prefill_us * k,
        post_process_per_prefill_us: host.post_process_per_prefill_us * k,
        warm_up_us: host.warm_up_us * k,
        ..host
    };
    VllmConfig { host, ..engine.clone() }
}

/// An engine that batches at about 80 % of what it can serve, and its requests.
fn busy(seed: Seed) -> (VllmConfig, Linear, Vec<Request>) {
    let engine = VllmConfig { num_gpu_blocks: Some(129), max_num_seqs: Some(8), ..small_engine() };
    let mut lengths = seed.stream("lengths", 0);
    let requests = poisson(seed, 230.0).take(1500).map(|arrival| {
        let prompt = lengths.random_range(4..60);
        let output = lengths.random_range(1..30);
        Request::new(arrival, prompt, output)
    });
    (engine, law(500, 30, 50), requests.collect())
}

fn mean_e2e_secs(records: &[RequestRecord]) -> f64 {
    records.iter().map(|r| r.e2e().as_secs_f64()).sum::<f64>() / records.len() as f64
}

/// Asserts that `before` has the longer mean E2E than `after`: over 20 seeds, with the same
/// arrivals, the mean difference less t(0.999; 19) standard errors is above zero.
fn shortens_the_mean(before: impl Fn(Seed) -> f64, after: impl Fn(Seed) -> f64) {
    let gains: Vec<f64> = (0..20).map(|s| before(Seed(s)) - after(Seed(s))).collect();
    let (mean, half_width) = student_t(&gains, 3.579);
    println!("mean gain {:.3} ± {:.3} ms", mean * 1e3, half_width * 1e3);
    assert!(mean > half_width, "{mean} s with a half-width of {half_width} s");
}

fn as_is(seed: Seed) -> f64 {
    let (engine, law, requests) = busy(seed);
    mean_e2e_secs(&served_by(1, &engine, law, &requests))
}

#[test]
fn on_average_another_replica_helps() {
    for replicas in 1..4 {
        let with = |replicas: u32| {
            move |seed| {
                let (engine, law, requests) = busy(seed);
                mean_e2e_secs(&served_by(replicas, &engine, law, &requests))
            }
        };
        shortens_the_mean(with(replicas), with(replicas + 1));
    }
}

#[test]
fn on_average_a_faster_law_helps() {
    shortens_the_mean(as_is, |seed| {
        let (engine, law, requests) = busy(seed);
        mean_e2e_secs(&served_by(1, &engine, faster(law, [95; 3]), &requests))
    });
}

#[test]
fn on_average_fewer_requests_help() {
    shortens_the_mean(as_is, |seed| {
        let (engine, law, mut requests) = busy(seed);
        let mut kept = (0..20_usize).cycle();
        requests.retain(|_| kept.next() != Some(0));
        mean_e2e_secs(&served_by(1, &engine, law, &requests))
    });
}

#[test]
fn a_step_that_ends_earlier_may_miss_an_arrival() {
    // Why the laws above are not exact for engines that batch. Steps of 1000 µs and 10 µs a prompt
    // token: a prompt of 10 takes 1100 µs, and the one that arrives at 1050 µs joins the second
    // step of the first request. Were a token 4 µs, it would miss that step, which began at
    // 1040 µs, and wait for its end.
    let requests =
        [Request::new(SimTime::ZERO, 10, 2), Request::new(SimTime::ZERO + micros(1050), 10, 1)];
    let engine = VllmConfig { async_scheduling: false, ..small_engine() };
    let finish = |token| served_by(1, &engine, law(1000, token, 0), &requests)[1].finish;
    // second step: 1100 + 1000 + 100
    assert_eq!(finish(10), SimTime::ZERO + micros(2200));
    // second step without it: 1040 + 1000; third: 2040 + 1000 + 40
    assert_eq!(finish(4), SimTime::ZERO + micros(3080));
}
