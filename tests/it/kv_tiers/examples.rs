//! Worked by hand: 5 ms a step and 1 ms a prompt token, chunks of 100 tokens and 1 MB, 1 MB/ms.

use servecast::cluster::Cluster;
use servecast::cost::StepTime;
use servecast::engine::Instance;
use servecast::metrics::{Recorder, TierReport, TierTokens};
use servecast::request::{Content, Request, Segment};
use servecast::rng::Seed;
use servecast::scenario::{ClientConfig, FaultConfig, TierWrite, VllmConfig};
use servecast::sim::{Requests, Simulation};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

use super::{Below, boxed};
use crate::support::law;

const LOST_CACHE: FaultConfig = FaultConfig::LostCache { replica: 0, at_s: 5.0 };

/// One token at a time, prompts in one step, room for one sequence of 800 tokens.
fn engine() -> VllmConfig {
    VllmConfig {
        block_size: 10,
        num_gpu_blocks: Some(81),
        max_num_batched_tokens: Some(1000),
        max_num_seqs: Some(8),
        max_model_len: Some(800),
        async_scheduling: false,
        ..VllmConfig::default()
    }
}

fn cluster(below: &Below, replicas: u32) -> Cluster {
    let law = StepTime::Linear(law(5000, 1000, 0));
    below.cluster(replicas, &engine(), |vllm| Instance::new(boxed(vllm), law.clone()))
}

/// Asks at this second for a prompt of so many tokens of a stream, and one token of answer.
fn ask(second: u64, stream: u64, tokens: u32) -> Request {
    let arrival = SimTime::ZERO + SimDuration::from_millis(1000 * second);
    let segments = [Segment { stream, start: 0, len: tokens }];
    let content = Content { salt: 0, segments: Some(segments.into()) };
    Request { content, ..Request::new(arrival, tokens, 1) }
}

fn run(below: &Below, replicas: u32, asked: Vec<Request>, faults: &[FaultConfig]) -> Recorder {
    let client = ClientConfig::default();
    let cluster = cluster(below, replicas);
    let asked = Requests(asked.into_iter());
    let run = Simulation::new(asked, Client::new(&client), cluster, SimDuration::ZERO);
    let mut recorder = Recorder::default();
    let run = run.with_faults(faults, &client, Seed::default());
    run.run(&mut recorder).expect("a list of requests has no errors");
    recorder
}

fn ttft_ms(recorder: &Recorder, id: usize) -> f64 {
    recorder.requests[id].ttft().as_millis_f64()
}

#[test]
fn what_the_gpu_has_lost_comes_from_host_memory() {
    let latency = SimDuration::from_millis(2);
    let below = Below { latency, ..Below::host(100, 20) };
    let asked = vec![ask(0, 1, 350), ask(10, 1, 350)];
    let recorder = run(&below, 1, asked, &[LOST_CACHE]);
    assert!((ttft_ms(&recorder, 0) - 355.0).abs() < 1e-6);
    // Three chunks in 2 + 3 ms, then 50 tokens.
    assert!((ttft_ms(&recorder, 1) - 5.0 - 55.0).abs() < 1e-6, "{} ms", ttft_ms(&recorder, 1));
    let record = recorder.requests[1];
    let parts = record.breakdown().expect("it left");
    assert_eq!((parts.transfer.as_millis_f64(), parts.total()), (5.0, record.e2e()));
    assert_eq!((parts.queued, record.cached_tokens), (SimDuration::ZERO, 300));
    let report = TierReport::new(&recorder);
    let tokens = TierTokens { gpu: 0, host: 300, disk: 0, pool: 0, computed: 400 };
    assert_eq!((report.prompt_tokens, report.loads, report.reloads), (tokens, 1, 0));
    let moved = |way: &str| report.moved_bytes[way];
    assert_eq!((moved("gpu_to_host"), moved("host_to_gpu")), (3_000_000, 3_000_000));
}

#[test]
fn without_the_fault_the_gpu_has_it_all() {
    let asked = vec![ask(0, 1, 350), ask(10, 1, 350)];
    let recorder = run(&Below::host(100, 20), 1, asked, &[]);
    assert_eq!(TierReport::new(&recorder).loads, 0);
    assert_eq!(recorder.requests[1].cached_tokens, 340);
}

#[test]
fn what_others_displace_is_written_back_when_it_goes() {
    let below = Below { write: TierWrite::Back, ..Below::host(100, 20) };
    // Of 80 blocks the first has left 35, the second takes 70: the last 25 of those 35 are gone, and with
    // them the last blocks of the second and third chunk. The first chunk is whole.
    let asked = vec![ask(0, 1, 350), ask(10, 2, 700), ask(20, 1, 350)];
    let recorder = run(&below, 1, asked, &[]);
    let report = TierReport::new(&recorder);
    assert_eq!(recorder.requests[2].cached_tokens, 300);
    let TierTokens { gpu, host, .. } = report.prompt_tokens;
    assert_eq!((gpu, host), (100, 200));
    // Those two; then the third request takes 25 of the blocks of the second, from the last on: that is
    // the last block of its seventh, sixth and fifth chunk.
    assert_eq!(report.moved_bytes["gpu_to_host"], 2_000_000 + 3_000_000);
}

#[test]
fn loads_share_the_bus() {
    let mut asked = vec![ask(0, 1, 310), ask(1, 2, 310)];
    asked.extend([ask(10, 1, 310), ask(10, 2, 310)]);
    let recorder = run(&Below::host(100, 20), 1, asked, &[LOST_CACHE]);
    // Three chunks each at half the rate.
    let waits = [2, 3].map(|id| recorder.requests[id].transfer);
    assert_eq!(waits, [SimDuration::from_millis(6); 2]);
}

#[test]
fn another_replica_finds_it_in_the_pool_alone() {
    let asked = || vec![ask(0, 1, 350), ask(10, 1, 350)];
    let cached = |below: &Below| run(below, 2, asked(), &[]).requests[1].cached_tokens;
    let host = Below::host(100, 20);
    assert_eq!(cached(&host), 0);
    let pool = Below { rooms: [None, None, Some(20)], ..host.clone() };
    assert_eq!(cached(&pool), 300);
    assert_eq!(cached(&Below { rooms: [Some(9), Some(9), Some(20)], ..host }), 300);
}

#[test]
fn a_crash_takes_host_memory_and_leaves_the_pool() {
    let crash = FaultConfig::Crash { replica: 0, at_s: 5.0, down_s: 1.0, detection_s: 0.0 };
    let asked = || vec![ask(0, 1, 350), ask(10, 1, 350)];
    let cached = |rooms| {
        let below = Below { rooms, ..Below::host(100, 20) };
        run(&below, 1, asked(), std::slice::from_ref(&crash)).requests[1].cached_tokens
    };
    assert_eq!(cached([Some(20), Some(20), None]), 0);
    assert_eq!(cached([Some(20), None, Some(20)]), 300);
}

#[test]
fn a_crash_during_loads_and_writes_leaves_the_pool_whole() {
    // The second loads, and the third's chunks are written, when the replica stops; then all come again.
    let slow = Below { rooms: [Some(20), None, Some(6)], rate: 1e6, ..Below::host(100, 20) };
    let asked =
        vec![ask(0, 1, 250), ask(20, 2, 250), ask(21, 1, 250), ask(60, 1, 250), ask(61, 2, 250)];
    let crash = FaultConfig::Crash { replica: 0, at_s: 22.0, down_s: 1.0, detection_s: 0.0 };
    let recorder =
        run(&slow, 1, asked, &[FaultConfig::LostCache { replica: 0, at_s: 15.0 }, crash]);
    let cached = |id: usize| recorder.requests[id].cached_tokens;
    assert_eq!((cached(3), cached(4)), (200, 0), "what was on its way to the pool has not come");
}

#[test]
fn a_prompt_that_is_there_as_a_whole_has_its_last_token_computed_again() {
    let asked = vec![ask(0, 1, 300), ask(10, 1, 300)];
    let recorder = run(&Below::host(100, 20), 1, asked, &[LOST_CACHE]);
    assert!((ttft_ms(&recorder, 1) - 3.0 - 6.0).abs() < 1e-6);
    assert_eq!(recorder.requests[1].cached_tokens, 299);
    assert_eq!(TierReport::new(&recorder).prompt_tokens.host, 299);
}
