//! Law L9: what is skipped comes out as if it had been done step by step, request by request.

use proptest::prelude::*;
use servecast::cluster::{Cluster, Router};
use servecast::cost::{Linear, StepTime};
use servecast::engine::Instance;
use servecast::engine::scheduler::{Acceptance, Scheduler, Sglang, VllmV1};
use servecast::ids::AdapterId;
use servecast::metrics::{Recorder, StepLog};
use servecast::request::{Content, Request, Segment};
use servecast::rng::mix;
use servecast::scenario::{
    ClientConfig, Policy, RouterConfig, SglangConfig, SglangPolicy, VllmConfig,
};
use servecast::sim::{Counts, Requests, Simulation};
use servecast::stats::Sample;
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

/// How a run gets to its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// And block by block.
    RequestByRequest,
    StepByStep,
    Runs,
}

#[derive(Debug, Clone)]
enum Engine {
    Vllm(VllmConfig),
    Sglang(SglangConfig),
}

impl Engine {
    fn scheduler(&self, way: Way) -> Scheduler {
        match self {
            Self::Vllm(config) => {
                let vllm = VllmV1::new(config.clone(), Acceptance::NONE);
                let plain = way == Way::RequestByRequest;
                // Recorded blocks have numbers; the others are counted.
                let by_request = |vllm: VllmV1| vllm.request_by_request().recording_blocks();
                Scheduler::VllmV1(Box::new(if plain { by_request(vllm) } else { vllm }))
            }
            Self::Sglang(config) => {
                let sglang = Sglang::new(config.clone());
                let plain = way == Way::RequestByRequest;
                let sglang = if plain { sglang.request_by_request() } else { sglang };
                Scheduler::Sglang(Box::new(sglang))
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) requests: u32,
    pub(super) gap_us: u64,
    pub(super) prompt_max: u32,
    pub(super) output_max: u32,
    pub(super) shares_prompts: bool,
    pub(super) stops_early: bool,
    pub(super) instances: u32,
    engine: Engine,
}

impl Case {
    /// The flags of vLLM's engine.
    pub(super) fn vllm(&self) -> &VllmConfig {
        match &self.engine {
            Engine::Vllm(config) => config,
            Engine::Sglang(_) => panic!("a case of SGLang's engine has no flags of vLLM's"),
        }
    }
}

fn vllm() -> impl Strategy<Value = Engine> {
    let numbers = (8_u32..200, 16_u32..600, 1_u32..40, prop::sample::select(vec![1_u32, 4, 16]));
    let switches = any::<[bool; 5]>();
    let rest = (0_u32..3, 1_u32..4, 300_u32..1200);
    (numbers, switches, rest).prop_map(
        |((blocks, budget, seqs, block_size), switches, (threshold, interval, model_len))| {
            let [is_async, caches, chunks, reserves, is_priority] = switches;
            let budget = if chunks { budget } else { budget.max(model_len) };
            Engine::Vllm(VllmConfig {
                block_size,
                // A pool that holds the longest sequence: a request that outgrows it starts over forever.
                num_gpu_blocks: Some(1 + (blocks * 64).max(model_len + block_size) / block_size),
                max_num_batched_tokens: Some(budget),
                max_num_seqs: Some(seqs),
                max_model_len: Some(model_len),
                enable_chunked_prefill: chunks,
                enable_prefix_caching: caches,
                async_scheduling: is_async,
                policy: if is_priority { Policy::Priority } else { Policy::Fcfs },
                long_prefill_token_threshold: threshold * 100,
                prefill_schedule_interval: interval,
                // Without it, requests of one priority and arrival can displace each other forever.
                scheduler_reserve_full_isl: reserves || is_priority,
                ..VllmConfig::default()
            })
        },
    )
}

fn sglang() -> impl Strategy<Value = Engine> {
    let numbers =
        (400_u32..6000, 1_u32..40, prop::sample::select(vec![1_u32, 4, 16]), 300_u32..1200);
    let switches = any::<[bool; 5]>();
    let rest = (0_i32..500, 1_u32..800, 0_u32..6, 0_u32..4, 0.1_f64..1.5, 0_i32..2);
    (numbers, switches, rest).prop_map(|((tokens, running, page_size, context), switches, rest)| {
        let [overlaps, caches, chunks, mixes, is_lpm] = switches;
        let (chunk, prefill, requests, adapters, conservativeness, threshold) = rest;
        Engine::Sglang(SglangConfig {
            max_total_tokens: Some(tokens),
            max_running_requests: Some(running),
            context_length: Some(context),
            chunked_prefill_size: Some(if chunks {
                chunk.max(page_size.cast_signed())
            } else {
                -1
            }),
            max_prefill_tokens: prefill,
            prefill_max_requests: (requests > 0).then_some(requests),
            page_size,
            schedule_policy: if is_lpm { SglangPolicy::Lpm } else { SglangPolicy::Fcfs },
            schedule_conservativeness: conservativeness,
            disable_radix_cache: !caches,
            enable_mixed_chunk: mixes && chunks,
            disable_overlap_schedule: !overlaps,
            enable_priority_scheduling: !is_lpm && requests % 2 == 1,
            priority_scheduling_preemption_threshold: threshold,
            max_loras_per_batch: (adapters > 0).then_some(adapters),
        })
    })
}

/// Cases of vLLM's engine.
pub(super) fn vllm_case() -> impl Strategy<Value = Case> {
    case(vllm())
}

fn case(engine: impl Strategy<Value = Engine>) -> impl Strategy<Value = Case> {
    let workload = (any::<u64>(), 1_u32..80, 0_u64..60_000, 1_u32..400, 1_u32..200);
    (workload, any::<[bool; 2]>(), 1_u32..3, engine).prop_map(
        |((seed, requests, gap_us, prompt_max, output_max), [shares, stops], instances, engine)| {
            Case {
                seed,
                requests,
                gap_us,
                prompt_max,
                output_max,
                shares_prompts: shares,
                stops_early: stops,
                instances,
                engine,
            }
        },
    )
}

pub(super) fn workload(case: &Case) -> Vec<Request> {
    let draw = |index: u32, what: u64, most: u64| {
        mix(case.seed ^ mix(u64::from(index) << 8 | what)) % most.max(1)
    };
    let mut at = 0;
    (0..case.requests)
        .map(|index| {
            at += draw(index, 0, 2 * case.gap_us + 1);
            let arrival = SimTime::ZERO + SimDuration::from_micros(at);
            let prompt = 1 + draw(index, 1, u64::from(case.prompt_max)) as u32;
            let output = 1 + draw(index, 2, u64::from(case.output_max)) as u32;
            let mut request = Request::new(arrival, prompt, output);
            if case.stops_early {
                request.max_tokens = output + draw(index, 3, 50) as u32;
                request.ignore_eos = draw(index, 6, 4) == 0;
            }
            request.priority = draw(index, 4, 3) as i32;
            request.adapter = draw(index, 7, 3).checked_sub(1).map(|id| AdapterId(id as u32));
            if case.shares_prompts && draw(index, 8, 4) > 0 {
                let shared = prompt / 2;
                let stream = draw(index, 5, 3);
                let own =
                    Segment { stream: 1000 + u64::from(index), start: 0, len: prompt - shared };
                let prefix = Segment { stream, start: 0, len: shared };
                let segments = [prefix, own].into_iter().filter(|s| s.len > 0).collect();
                request.content = Content { salt: 0, segments: Some(segments) };
            }
            request
        })
        .collect()
}

fn run(case: &Case, way: Way) -> (Counts, Recorder, StepLog) {
    let law = StepTime::Linear(Linear {
        base: SimDuration::from_micros(2000),
        prefill_token: SimDuration::from_micros(20),
        decode_seq: SimDuration::from_nanos(30_001),
    });
    let instance = |_| {
        let instance = Instance::new(case.engine.scheduler(way), law.clone());
        if way == Way::Runs { instance } else { instance.step_by_step() }
    };
    let cluster = Cluster {
        instances: (0..case.instances).map(instance).collect(),
        router: Router::new(&RouterConfig::default()),
    };
    let client = Client::new(&ClientConfig::default());
    let workload = Requests(workload(case).into_iter());
    let mut observers = (Recorder::for_instances(case.instances), StepLog::default());
    let counts = Simulation::new(workload, client, cluster, SimDuration::from_micros(300))
        .run(&mut observers)
        .expect("the workload has no errors");
    (counts, observers.0, observers.1)
}

/// A step without what is told late: instance, number, times, shape.
fn steps(log: &StepLog) -> Vec<String> {
    let mut lines: Vec<String> = log
        .steps
        .iter()
        .map(|s| {
            let (at, start, took) = (s.scheduled, s.start, s.duration);
            format!("{} {:06} {at} {start} {took:?} {:?} {:?}", s.instance, s.step, s.shape, s.load)
        })
        .collect();
    lines.sort();
    lines
}

fn compare(case: &Case, way: Way) -> Result<(), TestCaseError> {
    let (counts, plain, log) = run(case, Way::RequestByRequest);
    let (fast_counts, fast, fast_log) = run(case, way);
    prop_assert_eq!(counts, fast_counts);
    for (id, (a, b)) in plain.requests.iter().zip(&fast.requests).enumerate() {
        prop_assert_eq!(a, b, "request {}", id);
    }
    let (a, b) = (steps(&log), steps(&fast_log));
    for (a, b) in a.iter().zip(&b) {
        prop_assert_eq!(a, b);
    }
    prop_assert_eq!(a.len(), b.len());
    prop_assert_eq!(&plain.tokens_by_second, &fast.tokens_by_second);
    let gaps = |recorder: &Recorder| recorder.gaps.clone().sample().pairs().collect::<Vec<_>>();
    prop_assert_eq!(gaps(&plain), gaps(&fast));
    prop_assert_eq!(plain.gaps.clone().sample().count(), fast.gaps.clone().sample().count());
    Ok(())
}

/// 120 cases a law; `PROPTEST_CASES` asks for more.
pub(super) fn proptest_config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(120))
}

proptest! {
    #![proptest_config(proptest_config())]

    #[test]
    fn a_group_that_decodes_in_lock_step_equals_its_requests(case in case(vllm())) {
        compare(&case, Way::StepByStep)?;
    }

    #[test]
    fn a_run_of_steps_equals_its_steps(case in case(vllm())) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn a_group_of_sglang_equals_its_requests(case in case(sglang())) {
        compare(&case, Way::StepByStep)?;
    }

    #[test]
    fn a_run_of_steps_of_sglang_equals_its_steps(case in case(sglang())) {
        compare(&case, Way::Runs)?;
    }
}
