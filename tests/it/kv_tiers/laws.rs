//! Laws, on random engines whose prompts share beginnings and quote answers.

use proptest::prelude::*;
use servecast::cluster::Cluster;
use servecast::cost::StepTime;
use servecast::engine::Instance;
use servecast::engine::scheduler::VllmV1;
use servecast::engine::tiers::{Fetch, FetchTimes};
use servecast::ids::RequestId;
use servecast::io::timeline::{TimelineWriter, Window};
use servecast::metrics::{Recorder, Status, TierReport};
use servecast::request::{Request, Segment};
use servecast::scenario::{ClientConfig, TierEviction, TierWrite, VllmConfig};
use servecast::sim::{Observer, Requests, Simulation};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

use super::{Below, boxed};
use crate::fast_forward::{Case, vllm_case, workload};
use crate::support::law;
use crate::timeline::shows;

/// Without what has no tiers, in little memory.
fn engine(case: &Case) -> VllmConfig {
    let vllm = case.vllm().clone();
    let resolved = |value: Option<u32>| value.expect("it is resolved");
    // The longest sequence fits, and up to 40 blocks more.
    let least = 2 + resolved(vllm.max_model_len) / vllm.block_size;
    let blocks = least + resolved(vllm.num_gpu_blocks) % 40;
    VllmConfig {
        num_gpu_blocks: Some(blocks),
        speculation: None,
        enable_prefix_caching: true,
        ..vllm
    }
}

fn step_time() -> StepTime {
    StepTime::Linear(law(2000, 20, 30))
}

fn fetches(engine: &VllmConfig) -> impl Strategy<Value = Fetch> + use<> {
    let times = FetchTimes {
        cost: step_time(),
        step_tokens: engine.max_num_batched_tokens.expect("it is resolved"),
        latency_s: 1e-4,
        chunk_s: [1e-4, 1e-3, 3e-4],
    };
    prop_oneof![
        2 => Just(Fetch::Always),
        1 => (1_u32..60).prop_map(Fetch::MinTokens),
        1 => Just(Fetch::WhenFaster(Box::new(times))),
    ]
}

fn belows(engine: &VllmConfig) -> impl Strategy<Value = Below> + use<> {
    let block = engine.block_size;
    let room = |most: usize| prop::option::of(0..most);
    let rooms = [room(40), room(40), room(120)];
    let policies = (any::<bool>(), any::<bool>(), fetches(engine));
    (1_u32..6, rooms, policies, 7.0_f64..11.0, 0_u64..3000).prop_map(
        move |(blocks, rooms, (is_back, is_fifo, fetch), rate, latency)| Below {
            chunk_tokens: blocks * block,
            rooms,
            write: if is_back { TierWrite::Back } else { TierWrite::Through },
            eviction: if is_fifo { TierEviction::Fifo } else { TierEviction::Lru },
            fetch,
            rate: 10_f64.powf(rate),
            latency: SimDuration::from_micros(latency),
        },
    )
}

fn cases() -> impl Strategy<Value = (Case, Below)> {
    vllm_case().prop_flat_map(|case| {
        let below = belows(&engine(&case));
        (Just(case), below)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    RequestByRequest,
    StepByStep,
    Runs,
}

fn observe(case: &Case, below: &Below, way: Way, observer: &mut impl Observer) -> Vec<Request> {
    let instance = |vllm: VllmV1| {
        let vllm = if way == Way::RequestByRequest { vllm.request_by_request() } else { vllm };
        let instance = case.instance(boxed(vllm), step_time());
        if way == Way::Runs { instance } else { instance.step_by_step() }
    };
    let asked = workload(case);
    let cluster = below.cluster(case.instances, &engine(case), instance);
    run(cluster, &asked, observer);
    asked
}

fn run(cluster: Cluster, asked: &[Request], observer: &mut impl Observer) {
    let client = Client::new(&ClientConfig::default());
    let requests = Requests(asked.iter().cloned());
    let run = Simulation::new(requests, client, cluster, SimDuration::from_micros(300));
    let counts = run.run(observer).expect("a list of requests has no errors");
    assert_eq!(counts.stuck, 0, "{counts:?}");
}

fn recorded(case: &Case, below: &Below, way: Way) -> (Recorder, Vec<Request>) {
    let mut recorder = Recorder::default();
    let asked = observe(case, below, way, &mut recorder);
    (recorder, asked)
}

/// Its prompt and so much of its answer, token by token.
fn tokens(id: usize, request: &Request, answer: u32) -> Vec<(u64, u32)> {
    let answer = Segment {
        stream: Segment::answer_stream(RequestId::from_index(id)),
        start: 0,
        len: answer,
    };
    let unique = [Segment { stream: u64::MAX - id as u64, start: 0, len: request.prompt_tokens }];
    let prompt = request.content.segments.as_deref().unwrap_or(&unique);
    let runs = prompt.iter().chain(std::iter::once(&answer));
    runs.flat_map(|run| (run.start..run.start + run.len).map(|at| (run.stream, at))).collect()
}

fn common(one: &[(u64, u32)], other: &[(u64, u32)]) -> u32 {
    one.iter().zip(other).take_while(|(a, b)| a == b).count() as u32
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn times_and_tokens_add_up((case, below) in cases()) {
        let timeline = TimelineWriter::new(Vec::new(), Window::ALL, case.instances, "a model");
        let mut observers = (Recorder::default(), timeline);
        observe(&case, &below, Way::Runs, &mut observers);
        let (recorder, timeline) = observers;
        let (written, _) = timeline.finish().expect("memory takes everything");
        shows(&recorder, &String::from_utf8(written).expect("JSON is UTF-8"))?;
        for record in recorder.requests.iter().filter(|record| record.status == Status::Finished) {
            prop_assert_eq!(record.breakdown().expect("it left").total(), record.e2e());
        }
        let served = recorder.requests.iter().filter(|r| r.status == Status::Finished);
        let prompts: u64 = served.map(|record| u64::from(record.prompt_tokens)).sum();
        prop_assert_eq!(TierReport::new(&recorder).prompt_tokens.total(), prompts);
    }

    #[test]
    fn groups_and_runs_fare_as_request_by_request((case, below) in cases()) {
        let [plain, steps, runs] = [Way::RequestByRequest, Way::StepByStep, Way::Runs]
            .map(|way| recorded(&case, &below, way).0);
        prop_assert_eq!(&plain.requests, &steps.requests);
        prop_assert_eq!(&steps.requests, &runs.requests);
        let reports = [plain, steps, runs].map(|recorder| TierReport::new(&recorder));
        prop_assert_eq!(&reports[0], &reports[1]);
        prop_assert_eq!(&reports[1], &reports[2]);
    }

    #[test]
    fn a_hit_is_on_what_another_request_has_computed_before((case, below) in cases()) {
        let (recorder, asked) = recorded(&case, &below, Way::Runs);
        let all: Vec<Vec<(u64, u32)>> = asked.iter().zip(&recorder.requests).enumerate()
            .map(|(id, (request, record))| tokens(id, request, record.output_tokens))
            .collect();
        for (id, record) in recorder.requests.iter().enumerate().filter(|(_, r)| r.cached_tokens > 0) {
            let prompt = &all[id][..record.prompt_tokens as usize];
            let before = recorder.requests.iter().enumerate().filter(|(other, before)| {
                *other != id && before.first_scheduled <= record.first_scheduled
            });
            let most = before.map(|(other, _)| common(prompt, &all[other])).max().unwrap_or(0);
            prop_assert!(record.cached_tokens <= most, "request {} has {}", id, record.cached_tokens);
        }
    }

    /// Written through to a pool with room for all, over links that take no time, nothing that somebody
    /// has finished is computed again, but for less than a chunk. Who loses its memory while its last step is
    /// in flight ends with that step and writes nothing more.
    #[test]
    fn with_room_for_all_nothing_is_computed_twice((case, below) in cases()) {
        let below = Below {
            rooms: [None, None, Some(1 << 20)],
            write: TierWrite::Through,
            fetch: Fetch::Always,
            rate: 1e14,
            latency: SimDuration::ZERO,
            ..below
        };
        let (recorder, asked) = recorded(&case, &below, Way::Runs);
        let answered = |id: usize| recorder.requests[id].status == Status::Finished;
        let all: Vec<Vec<(u64, u32)>> = asked.iter().zip(&recorder.requests).enumerate()
            // The last token is never computed.
            .map(|(id, (request, record))| tokens(id, request, record.output_tokens.saturating_sub(1)))
            .collect();
        for (id, record) in recorder.requests.iter().enumerate().filter(|(id, _)| answered(*id)) {
            let prompt = &all[id][..record.prompt_tokens as usize];
            let slack = SimDuration::from_micros(100);
            let done = (0..all.len()).filter(|other| {
                answered(*other)
                    && recorder.requests[*other].preemptions == 0
                    && recorder.requests[*other].finish + slack < record.queued
                    && asked[*other].adapter == asked[id].adapter
            });
            let most = done.map(|other| common(prompt, &all[other])).max().unwrap_or(0);
            let whole = most / below.chunk_tokens * below.chunk_tokens;
            let least = whole.min(record.prompt_tokens - 1);
            // Prompts that share nothing are not looked up.
            let is_shared = asked[id].content.segments.is_some();
            prop_assert!(!is_shared || record.cached_tokens >= least, "request {}", id);
        }
    }

    /// Who is alone is never served later: not a law for others, since those behind who wait for no
    /// KV are admitted while the first one does, as vLLM does it.
    #[test]
    fn over_an_instant_link_nobody_alone_waits_longer((case, below) in cases()) {
        let asked: Vec<Request> = workload(&case).into_iter().zip(0_u32..).map(|(mut request, at)| {
            request.arrival = SimTime::ZERO + SimDuration::from_secs_f64(f64::from(at) * 60.0);
            request
        }).collect();
        let unlimited = Below {
            rooms: [Some(1 << 20), None, None],
            fetch: Fetch::Always,
            rate: 2e14,
            latency: SimDuration::ZERO,
            ..below
        };
        let ttfts = |below: &Below| {
            let mut recorder = Recorder::default();
            let instance = |vllm: VllmV1| {
                Instance::new(boxed(vllm), step_time())
            };
            run(below.cluster(1, &engine(&case), instance), &asked, &mut recorder);
            recorder.requests
        };
        let without = Below { rooms: [None; 3], ..unlimited.clone() };
        for (with, without) in ttfts(&unlimited).iter().zip(ttfts(&without)) {
            // 5 ns for each chunk of 1 MB.
            let link = SimDuration::from_nanos(10 + 10 * u64::from(with.prompt_tokens));
            prop_assert!(with.ttft() <= without.ttft() + link, "{:?} {:?}", with, without);
        }
    }
}
