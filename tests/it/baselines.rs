//! Laws of the plain schedulers on random workloads, whichever the policy, and their settings.

use proptest::prelude::*;
use servecast::cluster::{Cluster, Router};
use servecast::cost::{Linear, StepTime};
use servecast::engine::Instance;
use servecast::engine::scheduler::{Load, Scheduler};
use servecast::metrics::{Recorder, Status};
use servecast::request::Request;
use servecast::resolved::{Scenario, ScenarioError};
use servecast::rng::{Seed, mix};
use servecast::scenario::{
    ClientConfig, EngineConfig, FasterTransformerConfig, OrcaConfig, Reservation, RouterConfig,
    SarathiConfig, ScenarioFile, StaticBatchingConfig, VllmV0Config,
};
use servecast::sim::{Counts, Observer, Occurrence, Requests, Simulation};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

const MODEL_LEN: u32 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    VllmV0,
    VllmV0Chunked,
    Sarathi,
    Orca,
    OrcaReservingAll,
    FasterTransformer,
    StaticBatch,
}

const POLICIES: [Policy; 7] = [
    Policy::VllmV0,
    Policy::VllmV0Chunked,
    Policy::Sarathi,
    Policy::Orca,
    Policy::OrcaReservingAll,
    Policy::FasterTransformer,
    Policy::StaticBatch,
];

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    requests: u32,
    gap_us: u64,
    prompt_max: u32,
    output_max: u32,
    seqs: u32,
    budget: u32,
    /// Tokens of memory beyond those of the longest sequence.
    spare_tokens: u32,
    timeout_ms: f64,
}

fn case() -> impl Strategy<Value = Case> {
    let workload = (any::<u64>(), 1_u32..80, 0_u64..40_000, 1_u32..390, 1_u32..150);
    let engine = (1_u32..12, 12_u32..600, 0_u32..1200, prop::sample::select(vec![0.0, 3.0, 80.0]));
    (workload, engine).prop_map(
        |(
            (seed, requests, gap_us, prompt_max, output_max),
            (seqs, budget, spare_tokens, timeout_ms),
        )| Case {
            seed,
            requests,
            gap_us,
            prompt_max,
            output_max,
            seqs,
            budget,
            spare_tokens,
            timeout_ms,
        },
    )
}

fn config(policy: Policy, case: &Case) -> EngineConfig {
    let max_model_len = Some(MODEL_LEN);
    let kv_tokens = Some(MODEL_LEN + case.spare_tokens);
    let num_gpu_blocks = Some((MODEL_LEN + case.spare_tokens) / 8 + 2);
    let reservation =
        if policy == Policy::OrcaReservingAll { Reservation::Model } else { Reservation::Request };
    match policy {
        Policy::VllmV0 | Policy::VllmV0Chunked => {
            let enable_chunked_prefill = policy == Policy::VllmV0Chunked;
            let budget = if enable_chunked_prefill { case.budget } else { case.budget + MODEL_LEN };
            EngineConfig::VllmV0(VllmV0Config {
                block_size: 8,
                num_gpu_blocks,
                max_num_batched_tokens: Some(budget),
                max_num_seqs: case.seqs,
                max_model_len,
                enable_chunked_prefill,
                ..VllmV0Config::default()
            })
        }
        Policy::Sarathi => EngineConfig::Sarathi(SarathiConfig {
            chunk_size: case.budget,
            max_num_seqs: case.seqs,
            block_size: 8,
            num_gpu_blocks,
            max_model_len,
            ..SarathiConfig::default()
        }),
        Policy::Orca | Policy::OrcaReservingAll => EngineConfig::Orca(OrcaConfig {
            max_batch_size: case.seqs,
            kv_tokens,
            max_model_len,
            reservation,
            ..OrcaConfig::default()
        }),
        Policy::FasterTransformer => EngineConfig::FasterTransformer(FasterTransformerConfig {
            max_batch_size: case.seqs,
            kv_tokens,
            max_model_len,
            reservation,
            ..FasterTransformerConfig::default()
        }),
        Policy::StaticBatch => EngineConfig::StaticBatching(StaticBatchingConfig {
            batch_size: case.seqs,
            batch_timeout_ms: case.timeout_ms,
            kv_tokens,
            max_model_len,
            ..StaticBatchingConfig::default()
        }),
    }
}

fn workload(case: &Case) -> Vec<Request> {
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
            request.max_tokens += draw(index, 3, 30) as u32;
            request
        })
        .collect()
}

/// Looks at queues and memory whenever they are told.
#[derive(Debug, Default)]
struct Inspector {
    seqs: u32,
    sent: u32,
    left: u32,
    idle: Option<Load>,
    faults: Vec<String>,
}

impl Inspector {
    fn check(&mut self, holds: bool, at: SimTime, what: &str, load: Load) {
        if !holds {
            self.faults.push(format!("{at}: {what}: {load:?}"));
        }
    }
}

impl Observer for Inspector {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Sent(..) => self.sent += 1,
            Occurrence::Left(..) | Occurrence::Refused(..) => self.left += 1,
            Occurrence::Planned(_, batch, load) => {
                let inside = self.sent - self.left;
                self.check(load.waiting + load.running == inside, at, "a request is lost", load);
                self.check(load.running <= self.seqs, at, "too many run", load);
                self.check(load.kv_blocks_free <= load.kv_blocks, at, "memory grows", load);
                let samples = batch.plan.entries.iter().filter(|entry| entry.samples).count();
                let rows = batch.plan.shape.logit_rows as usize;
                self.check(rows >= samples, at, "a token comes from nowhere", load);
            }
            Occurrence::Stepped(_, _, _, load) if load.running + load.waiting == 0 => {
                let is_free = load.kv_blocks_free == load.kv_blocks;
                self.check(is_free, at, "an idle engine holds memory", load);
                self.idle = Some(load);
            }
            _ => {}
        }
    }
}

fn run(scheduler: Scheduler, workload: Vec<Request>, seqs: u32) -> (Counts, Recorder, Inspector) {
    let law = StepTime::Linear(Linear {
        base: SimDuration::from_micros(2000),
        prefill_token: SimDuration::from_micros(20),
        decode_seq: SimDuration::from_nanos(30_001),
        ..Linear::default()
    });
    let cluster = Cluster::new(
        vec![Instance::new(scheduler, law)],
        Router::new(&RouterConfig::default(), Seed::default()),
    );
    let client = Client::new(&ClientConfig::default());
    let inspector = Inspector { seqs, ..Inspector::default() };
    let mut observers = (Recorder::default(), inspector);
    let counts =
        Simulation::new(Requests(workload.into_iter()), client, cluster, SimDuration::default())
            .run(&mut observers)
            .expect("the workload has no errors");
    (counts, observers.0, observers.1)
}

proptest! {
    #![proptest_config(crate::support::random_cases(120))]

    #[test]
    fn laws_hold_whichever_the_policy(case in case()) {
        let requests = workload(&case);
        for policy in POLICIES {
            let (counts, recorder, inspector) =
                run(crate::support::scheduler(&config(policy, &case)), requests.clone(), case.seqs);
            prop_assert!(inspector.faults.is_empty(), "{policy:?}: {:?}", inspector.faults);
            // Nobody starves: who is taken is answered, in full.
            prop_assert_eq!(counts.stuck, 0, "{:?}", policy);
            let refused = requests.iter().filter(|r| r.prompt_tokens >= MODEL_LEN).count() as u64;
            prop_assert_eq!(counts.rejected, refused);
            let idle = inspector.idle.expect("the engine rests in the end");
            prop_assert_eq!(idle.waiting, 0);
            let mut turn = SimTime::ZERO;
            for (request, record) in requests.iter().zip(&recorder.requests) {
                if record.status != Status::Finished {
                    continue;
                }
                let room = MODEL_LEN - request.prompt_tokens;
                prop_assert_eq!(record.output_tokens, request.output_tokens.min(room));
                prop_assert!(request.arrival <= record.first_scheduled);
                prop_assert!(record.first_scheduled < record.first_token);
                prop_assert!(record.first_token <= record.finish);
                // First come, first served: nobody is first worked on before an earlier one.
                prop_assert!(turn <= record.first_scheduled, "{policy:?}: {record:?}");
                turn = record.first_scheduled;
            }
        }
    }
}

/// The end of each request in µs, for arrivals in µs and prompts of 10 tokens with one of answer.
fn ends_us(timeout_ms: f64, arrivals_us: &[u64]) -> Vec<u64> {
    let config = EngineConfig::StaticBatching(StaticBatchingConfig {
        batch_size: 3,
        batch_timeout_ms: timeout_ms,
        kv_tokens: Some(1000),
        max_model_len: Some(MODEL_LEN),
        ..StaticBatchingConfig::default()
    });
    let arrival = |us: &u64| SimTime::ZERO + SimDuration::from_micros(*us);
    let requests = arrivals_us.iter().map(|us| Request::new(arrival(us), 10, 1)).collect();
    let scheduler = crate::support::scheduler(&config);
    let (_, recorder, _) = run(scheduler, requests, 3);
    recorder.requests.iter().map(|record| record.finish.as_nanos() / 1000).collect()
}

#[test]
fn an_idle_engine_starts_a_partial_batch_when_its_time_is_over() {
    // The first comes at 1 ms; with a timeout of 10 ms two rows start at 11 ms and take
    // 2 + 20 · 0.02 = 2.4 ms.
    assert_eq!(ends_us(10.0, &[1000, 4000]), [13_400, 13_400]);
}

#[test]
fn a_request_that_fills_the_batch_starts_it() {
    // The third comes at 6 ms: three rows take 2 + 30 · 0.02 = 2.6 ms. The fourth comes while
    // they run; the engine could start it at 8.6 ms and does so 10 ms later, alone, for 2.2 ms.
    let ends = ends_us(10.0, &[1000, 4000, 6000, 7000]);
    assert_eq!(ends, [8600, 8600, 8600, 20_800]);
}

#[test]
fn without_a_timeout_the_first_starts_alone() {
    // 2.2 ms for the first; those that came meanwhile form the next batch, 2.4 ms.
    assert_eq!(ends_us(0.0, &[1000, 2000, 2500]), [3200, 5600, 5600]);
}

fn resolve(engine: &str) -> Result<Scenario, ScenarioError> {
    let text = format!(
        "name = 'baseline'
         [workload]
         num_requests = 2
         arrivals = {{ type = 'poisson', rate_per_s = 2.0 }}
         lengths = {{ type = 'fixed', input_tokens = 100, output_tokens = 10 }}
         [cluster]
         model = 'Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4'
         gpu = 'A10'
         [cluster.engine]
         {engine}"
    );
    let file: ScenarioFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    Scenario::resolve(file, None)
}

#[test]
fn what_is_not_set_follows_from_model_and_gpu() {
    let scenario = resolve("type = 'vllm_v0'").expect("it resolves");
    let EngineConfig::VllmV0(vllm) = &scenario.first().cluster.engine else { panic!() };
    assert_eq!(vllm.max_model_len, Some(scenario.first().model.max_position));
    assert_eq!(vllm.max_num_batched_tokens, Some(scenario.first().model.max_position));
    assert!(vllm.num_gpu_blocks.is_some_and(|blocks| blocks > 5000), "{vllm:?}");
    let scenario = resolve("type = 'vllm_v0'\nenable_chunked_prefill = true").expect("it resolves");
    let EngineConfig::VllmV0(vllm) = &scenario.first().cluster.engine else { panic!() };
    assert_eq!(vllm.max_num_batched_tokens, Some(512));
    for engine in ["sarathi", "orca", "faster_transformer", "static_batching"] {
        let scenario = resolve(&format!("type = '{engine}'")).expect("it resolves");
        servecast::sim::cluster(&scenario).expect("it can be built");
    }
}

#[test]
fn settings_that_cannot_be_are_named() {
    let problem = |engine: &str| resolve(engine).expect_err("it is refused").to_string();
    for (engine, expected) in [
        ("type = 'vllm_v0'\nmax_num_seqs = 0", "cluster.engine.max_num_seqs: must be at least 1"),
        ("type = 'vllm_v0'\nmax_num_batched_tokens = 512", "at least max_model_len (32768)"),
        ("type = 'vllm_v0'\nnum_gpu_blocks = 100\nmax_model_len = 1600", "at most 1584"),
        ("type = 'sarathi'\nchunk_size = 0", "cluster.engine.chunk_size: must be at least 1"),
        ("type = 'orca'\nmax_batch_size = 0", "cluster.engine.max_batch_size: must be"),
        (
            "type = 'orca'\nkv_tokens = 1000\nmax_model_len = 1001",
            "set max_model_len to at most 1000",
        ),
        ("type = 'faster_transformer'\nmax_model_len = 1", "a prompt and an answer, got 1"),
        ("type = 'static_batching'\nbatch_timeout_ms = -1.0", "cluster.engine.batch_timeout_ms"),
    ] {
        assert!(problem(engine).contains(expected), "{engine}: {}", problem(engine));
    }
}
