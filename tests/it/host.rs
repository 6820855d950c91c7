//! Host time of steps, by hand: what adds up and what is hidden.

use servecast::cluster::{Cluster, Router};
use servecast::cost::{CapturedSizes, CudaGraphs, Linear};
use servecast::engine::Instance;
use servecast::metrics::Recorder;
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::scenario::{ClientConfig, HostConfig, RouterConfig, VllmConfig};
use servecast::sim::{Requests, Simulation};
use servecast::units::SimTime;
use servecast::workload::Client;

use crate::support::{instance, law, micros, records, small_engine};

/// 100 µs to decide, 200 µs to launch, 50 µs to take in the outcome.
const HOST: HostConfig = HostConfig {
    schedule_us: 100.0,
    launch_us: 200.0,
    post_process_us: 50.0,
    schedule_per_sequence_us: 0.0,
    schedule_per_new_request_us: 0.0,
    launch_per_sequence_us: 0.0,
    eager_launch_us: 0.0,
    pieces_launch_us: 0.0,
    hand_over_us: 0.0,
    hand_over_per_sequence_us: 0.0,
    schedule_prefill_us: 0.0,
    schedule_per_prefill_token_us: 0.0,
    post_process_prefill_us: 0.0,
    post_process_per_prefill_us: 0.0,
    warm_share: None,
    cools_us: 0.0,
    post_process_per_sequence_us: 0.0,
    warm_up_us: 0.0,
    warm_up_after_prefill_steps: 0,
};

fn engine(async_scheduling: bool, host: HostConfig) -> VllmConfig {
    VllmConfig { async_scheduling, host, ..small_engine() }
}

/// When the first and the last of three tokens come out, in µs, of a request that arrives at 0.
fn tokens(instance: Instance) -> (u64, u64) {
    let router = Router::new(&RouterConfig::default(), Seed::default());
    let cluster = Cluster::new(vec![instance], router);
    let (_, recorder) = records(cluster, &[Request::new(SimTime::ZERO, 4, 3)]);
    let record = &recorder.requests[0];
    let micros = |at: SimTime| at.as_nanos() / 1000;
    (micros(record.first_token), micros(record.finish))
}

fn on(async_scheduling: bool, host: HostConfig, device: Linear) -> (u64, u64) {
    tokens(instance(&engine(async_scheduling, host), device))
}

#[test]
fn a_serial_engine_adds_host_and_device() {
    assert_eq!(on(false, HOST, law(1000, 0, 0)), (1350, 3 * 1350));
}

#[test]
fn a_slower_device_hides_the_host_of_an_overlapping_engine() {
    // Step 0 is launched at 300 and ends at 1300; the others follow it on the device.
    assert_eq!(on(true, HOST, law(1000, 0, 0)), (1350, 3350));
}

#[test]
fn a_slower_host_hides_the_device_of_an_overlapping_engine() {
    // Step 0 ends at 400, but the host launches step 1 until 600; its outcome is in at 650. Step 2
    // is decided then and launched at 950, the outcome of step 1 in at 1000. Step 2 ends at 1050.
    assert_eq!(on(true, HOST, law(100, 0, 0)), (650, 1100));
}

#[test]
fn sequences_and_newcomers_cost_their_share() {
    let host = HostConfig {
        schedule_per_sequence_us: 1.0,
        schedule_per_new_request_us: 70.0,
        launch_per_sequence_us: 2.0,
        post_process_per_sequence_us: 4.0,
        ..HOST
    };
    assert_eq!(on(false, host, law(1000, 0, 0)), (1427, 1427 + 2 * 1357));
}

#[test]
fn an_eager_step_lasts_as_long_as_its_launch() {
    let host = HostConfig { eager_launch_us: 1500.0, ..HostConfig::default() };
    assert_eq!(on(false, host, law(1000, 0, 0)), (1500, 4500));
    let decodes = CudaGraphs::new(CapturedSizes::new([1]), CapturedSizes::default());
    let engine = engine(false, host);
    let captured = instance(&engine, law(1000, 0, 0)).with_graphs(decodes);
    assert_eq!(tokens(captured), (1500, 3500));
    let slow = instance(&engine, law(2000, 0, 0));
    assert_eq!(tokens(slow), (2000, 6000));
}

#[test]
fn what_lies_between_the_pieces_of_a_graph_is_launched_where_a_step_prefills() {
    let host = HostConfig { pieces_launch_us: 1500.0, eager_launch_us: 9000.0, ..HOST };
    let sizes = || CapturedSizes::new([4]);
    let captured = instance(&engine(false, host), law(1000, 0, 0))
        .with_graphs(CudaGraphs::new(sizes(), sizes()));
    // Its first token waits 100 + 200 + 1500 + 50 µs; the next ones find all of their graph captured.
    assert_eq!(tokens(captured), (1850, 1850 + 2 * 1350));
}

#[test]
fn what_is_handed_over_beside_the_device_takes_time_only_where_it_takes_longer() {
    let host = HostConfig { hand_over_us: 600.0, hand_over_per_sequence_us: 300.0, ..HOST };
    assert_eq!(on(false, host, law(1000, 0, 0)), (1350, 3 * 1350));
    assert_eq!(on(false, host, law(500, 0, 0)), (1250, 3 * 1250));
}

#[test]
fn who_comes_while_the_host_is_busy_is_seen_when_it_decides_next() {
    let cluster = Cluster::new(
        vec![instance(&engine(true, HOST), law(1000, 0, 0))],
        Router::new(&RouterConfig::default(), Seed::default()),
    );
    let later = Request::new(SimTime::ZERO + micros(10), 4, 1);
    let (_, recorder) = records(cluster, &[Request::new(SimTime::ZERO, 4, 3), later]);
    // Step 1 is decided at 300, starts at 1300 and ends at 2300.
    assert_eq!(recorder.requests[1].first_token, SimTime::ZERO + micros(2350));
}

#[test]
fn one_prefill_step_takes_longer_to_launch_and_no_other_does() {
    let first_tokens = |after| {
        let host = HostConfig { warm_up_us: 7000.0, warm_up_after_prefill_steps: after, ..HOST };
        let instance = instance(&engine(false, host), law(1000, 0, 0));
        let cluster =
            Cluster::new(vec![instance], Router::new(&RouterConfig::default(), Seed::default()));
        // One at a time, long after each other: a prefill step and two decode steps each.
        let requests =
            [0, 50_000, 100_000].map(|at| Request::new(SimTime::ZERO + micros(at), 4, 3));
        let (_, recorder) = records(cluster, &requests);
        let taken = |index: usize| {
            let record = &recorder.requests[index];
            let [first, last] = [record.first_token, record.finish].map(|at| at.as_nanos() / 1000);
            let start = requests[index].arrival.as_nanos() / 1000;
            (first - start, last - first)
        };
        [taken(0), taken(1), taken(2)]
    };
    let [quick, slow] = [(1350, 2700), (8350, 2700)];
    assert_eq!(first_tokens(0), [slow, quick, quick]);
    assert_eq!(first_tokens(1), [quick, slow, quick]);
    assert_eq!(first_tokens(9), [quick, quick, quick]);
}

#[test]
fn a_front_end_takes_one_request_after_the_other() {
    // The front end is free again at 30, 60, 90 after a burst, and at once for who comes later.
    let arrivals = [0, 0, 0, 500];
    let requests = arrivals.map(|at| Request::new(SimTime::ZERO + micros(at), 4, 1));
    let instance = instance(&engine(false, HostConfig::default()), law(1, 0, 0));
    let cluster =
        Cluster::new(vec![instance], Router::new(&RouterConfig::default(), Seed::default()));
    let mut recorder = Recorder::default();
    Simulation::new(
        Requests(requests.iter().cloned()),
        Client::new(&ClientConfig::default()),
        cluster,
        micros(200),
    )
    .with_serial_front_end(micros(30))
    .run(&mut recorder)
    .expect("requests are no errors");
    let first_tokens = recorder.requests.iter().map(|record| record.first_token.as_nanos() / 1000);
    assert_eq!(first_tokens.collect::<Vec<_>>(), [231, 261, 291, 731]);
}
