//! Requests of equal priority and arrival displace each other, without end where none gets on: the
//! run ends all the same and counts them.

use proptest::prelude::*;

use servecast::metrics::Status;
use servecast::request::Request;
use servecast::scenario::{Policy, VllmConfig};
use servecast::units::SimTime;

use super::random::{laws, served};
use crate::support::{cluster, law, micros, records};

/// Two prompts of 80 tokens in chunks of 8, and memory for 100 tokens. Both have 48 when memory is
/// short; the first starts over and has 24 when the second, at 72, is the next to start over.
fn engine() -> VllmConfig {
    VllmConfig {
        block_size: 1,
        num_gpu_blocks: Some(101),
        max_num_batched_tokens: Some(16),
        max_num_seqs: Some(2),
        max_model_len: Some(100),
        long_prefill_token_threshold: 8,
        enable_prefix_caching: false,
        async_scheduling: false,
        policy: Policy::Priority,
        scheduler_reserve_full_isl: false,
        ..VllmConfig::default()
    }
}

fn two(apart_us: u64) -> [Request; 2] {
    let later = SimTime::ZERO + micros(apart_us);
    [Request::new(SimTime::ZERO, 80, 5), Request::new(later, 80, 5)]
}

#[test]
fn a_run_in_which_none_gets_on_ends_and_counts_them() {
    for is_async in [false, true] {
        let engine = VllmConfig { async_scheduling: is_async, ..engine() };
        let (counts, recorder) = records(cluster(1, &engine, law(100, 0, 0)), &two(0));
        assert_eq!((counts.finished, counts.stuck, counts.displaced), (0, 2, 2), "{is_async}");
        assert!(recorder.requests.iter().all(|record| record.status == Status::Unfinished));
    }
}

#[test]
fn who_comes_first_or_fits_whole_gets_on() {
    let finished = |engine: &VllmConfig, apart_us: u64| {
        let (counts, _) = records(cluster(1, engine, law(100, 0, 0)), &two(apart_us));
        assert_eq!((counts.stuck, counts.displaced), (0, 0));
        counts.finished
    };
    assert_eq!(finished(&engine(), 1), 2);
    assert_eq!(finished(&VllmConfig { policy: Policy::Fcfs, ..engine() }, 0), 2);
    assert_eq!(finished(&VllmConfig { scheduler_reserve_full_isl: true, ..engine() }, 0), 2);
}

#[test]
fn a_request_that_comes_later_is_still_served() {
    // It is more urgent, and the engine has rested for an hour when it comes.
    let urgent =
        Request { priority: -1, ..Request::new(SimTime::ZERO + micros(3_600_000_000), 80, 5) };
    let [first, second] = two(0);
    let requests = [first, second, urgent];
    let (counts, recorder) = records(cluster(1, &engine(), law(100, 0, 0)), &requests);
    assert_eq!(counts.finished + counts.stuck, 3);
    assert_eq!(recorder.requests[2].status, Status::Finished);
    assert_eq!(counts.displaced, counts.stuck);
}

proptest! {
    #![proptest_config(crate::support::random_cases(300))]

    #[test]
    fn requests_of_one_priority_and_arrival_end_or_are_counted(
        (engine, requests) in served(), law in laws(),
    ) {
        let together = |request: Request| Request { arrival: SimTime::ZERO, priority: 0, ..request };
        let requests: Vec<Request> = requests.into_iter().map(together).collect();
        let engine = VllmConfig { policy: Policy::Priority, ..engine };
        let (counts, _) = records(cluster(1, &engine, law), &requests);
        let out = counts.finished + counts.rejected + counts.aborted + counts.stuck;
        prop_assert_eq!(counts.arrived, out);
        prop_assert!(counts.displaced <= counts.stuck);
        let pool = (engine.num_gpu_blocks.expect("resolved") - 1) * engine.block_size;
        if engine.max_model_len.expect("resolved") <= pool {
            prop_assert_eq!(counts.displaced, counts.stuck, "nobody else is stuck");
        }
    }

    #[test]
    fn requests_that_differ_in_arrival_never_displace_each_other_without_end(
        (engine, requests) in served(), law in laws(),
    ) {
        let (counts, _) = records(cluster(1, &engine, law), &requests);
        prop_assert_eq!(counts.displaced, 0);
    }
}
