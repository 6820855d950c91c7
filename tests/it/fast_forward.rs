//! Law L9: what is skipped comes out as if it had been done step by step, request by request.

mod cost;
mod engines;

use proptest::prelude::*;
use servecast::cluster::{Cluster, Router};
use servecast::cost::{CapturedSizes, CudaGraphs, StepTime};
use servecast::engine::scheduler::Scheduler;
use servecast::engine::{HostTimes, Instance};
use servecast::ids::{AdapterId, RequestId};
use servecast::metrics::{Recorder, StepLog};
use servecast::request::{Content, Request, Segment};
use servecast::rng::{Seed, mix};
use servecast::scenario::{
    ClientConfig, DynamoConfig, HostConfig, LatencyPredictingConfig, PrefixExactConfig,
    RouterConfig, VllmConfig, WeightedConfig,
};
use servecast::sim::{Counts, Requests, Simulation, Source};
use servecast::stats::Sample;
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

use super::laws::hosts;
use super::support::{random_cases, small_engine};
use cost::Cost;
use engines::{Engine, baseline, sglang, speculating, speculating_sglang, vllm, windowed};

/// How a run gets to its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// And block by block.
    RequestByRequest,
    StepByStep,
    Runs,
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
    /// Whether answers go on to their limit where they would stop early, but this request's.
    runs_to_limit: Option<RequestId>,
    pub(super) instances: u32,
    host: HostConfig,
    engine: Engine,
}

impl Case {
    /// A scheduler on the host of this case, with graphs for some of its steps.
    pub(super) fn instance(&self, scheduler: Scheduler, law: StepTime) -> Instance {
        let graphs = CudaGraphs::new(CapturedSizes::new([2, 8]), CapturedSizes::new([64]));
        Instance::new(scheduler, law).with_graphs(graphs).on_host(HostTimes::from(&self.host))
    }

    /// When the clients stop: early in one of three cases.
    fn stops_at(&self) -> SimTime {
        match mix(self.seed ^ 0x4d) {
            draw if draw.is_multiple_of(3) => SimTime::from_nanos(draw % 2_000_000_000),
            _ => SimTime::MAX,
        }
    }

    /// Round robin, or a router that looks at what engines report or hold.
    fn router(&self) -> RouterConfig {
        let fresh = WeightedConfig { signal_interval_ms: 0.0, ..WeightedConfig::default() };
        match mix(self.seed ^ 0x52) % 10 {
            0 => RouterConfig::Weighted(fresh),
            1 => RouterConfig::Weighted(WeightedConfig { prefix_weight: 0.0, ..fresh }),
            2 => RouterConfig::LeastOutstandingRequests {},
            3 => RouterConfig::PrefixExact(PrefixExactConfig::default()),
            4 => RouterConfig::LatencyPredicting(LatencyPredictingConfig::default()),
            5 => RouterConfig::PrefixExact(PrefixExactConfig {
                event_interval_ms: 20.0,
                ..PrefixExactConfig::default()
            }),
            // Numbered blocks are not told of.
            7 => RouterConfig::Dynamo(Box::new(DynamoConfig {
                use_kv_events: false,
                ..DynamoConfig::default()
            })),
            8 => RouterConfig::Dynamo(Box::new(DynamoConfig {
                use_kv_events: false,
                router_ttl_secs: 0.1,
                router_queue_threshold: Some(0.3),
                ..DynamoConfig::default()
            })),
            _ => RouterConfig::default(),
        }
    }

    /// The flags of vLLM's engine.
    pub(super) fn vllm(&self) -> &VllmConfig {
        match &self.engine {
            Engine::Vllm(config) => config,
            other => panic!("{other:?} has no flags of vLLM's"),
        }
    }
}

/// Cases of vLLM's engine.
pub(super) fn vllm_case() -> impl Strategy<Value = Case> {
    case(vllm())
}

fn case(engine: impl Strategy<Value = Engine>) -> impl Strategy<Value = Case> {
    let workload = (any::<u64>(), 1_u32..80, 0_u64..60_000, 1_u32..400, 1_u32..200);
    (workload, any::<[bool; 2]>(), 1_u32..4, hosts(), engine).prop_map(
        |(workload, [shares, stops], instances, host, engine)| {
            let (seed, requests, gap_us, prompt_max, output_max) = workload;
            Case {
                seed,
                requests,
                gap_us,
                prompt_max,
                output_max,
                shares_prompts: shares,
                stops_early: stops,
                runs_to_limit: None,
                instances,
                host,
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
    let mut requests: Vec<Request> = Vec::new();
    for index in 0..case.requests {
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
            share(&mut request, index, &requests, |what, most| draw(index, what, most) as u32);
        }
        requests.push(request);
    }
    if let Some(stopping) = case.runs_to_limit {
        for (id, request) in requests.iter_mut().enumerate() {
            request.output_tokens = request.max_tokens;
            if id == stopping.index() {
                request.output_tokens = request.output_tokens.div_ceil(2);
            }
        }
    }
    requests
}

/// Gives a request a prompt that begins as those of others, forks from them somewhere, or goes on
/// after the answer of an earlier one.
fn share(request: &mut Request, index: u32, earlier: &[Request], draw: impl Fn(u64, u64) -> u32) {
    let run = |stream: u64, len: u32| Segment { stream, start: 0, len };
    let prompt = request.prompt_tokens;
    let own = run(1000 + u64::from(index), prompt - prompt / 2);
    let fork = draw(9, u64::from(prompt / 2) + 1);
    let mut segments = vec![run(draw(5, 3).into(), fork)];
    segments.push(run(10 + u64::from(draw(10, 2)), prompt / 2 - fork));
    let before = draw(11, earlier.len() as u64);
    let answered = earlier.get(before as usize).filter(|_| draw(12, 3) == 0);
    let history = answered.and_then(|answered| answered.content.segments.as_deref());
    if let (Some(answered), Some(history)) = (answered, history)
        && answered.prompt_tokens < 300
    {
        segments = history.to_vec();
        let quoted = 1 + draw(13, answered.output_tokens.into());
        segments.push(run(Segment::answer_stream(RequestId(before)), quoted));
    }
    segments.push(own);
    segments.retain(|segment| segment.len > 0);
    request.prompt_tokens = segments.iter().map(|segment| segment.len).sum();
    request.content = Content { salt: 0, segments: Some(segments.into()) };
}

fn run(case: &Case, way: Way, cost: Cost) -> (Counts, Recorder, StepLog) {
    let mut observers = (Recorder::default(), StepLog::default());
    let counts = simulation(case, way, cost, &case.router()).run(&mut observers);
    (counts.expect("the workload has no errors"), observers.0, observers.1)
}

fn simulation(case: &Case, way: Way, cost: Cost, router: &RouterConfig) -> Simulation<impl Source> {
    let law = cost.law();
    let instance = |_| {
        let instance = case.instance(case.engine.scheduler(way), law.clone());
        if way == Way::Runs { instance } else { instance.step_by_step() }
    };
    let cluster = Cluster::new(
        (0..case.instances).map(instance).collect(),
        Router::new(router, Seed(case.seed)),
    );
    let client = Client::new(&ClientConfig::default());
    let workload = Requests(workload(case).into_iter());
    Simulation::new(workload, client, cluster, SimDuration::from_micros(300))
        .with_serial_front_end(SimDuration::from_micros(40))
}

/// Lanes fare as one loop over all instances.
fn compare_lanes(case: &Case, cost: Cost) -> Result<(), TestCaseError> {
    let mut whole = Recorder::default();
    let in_turn = RouterConfig::default();
    let simulation = || simulation(case, Way::Runs, cost, &in_turn).until(case.stops_at());
    let counts = simulation().run(&mut whole).expect("it runs");
    let mut lanes = Recorder::default();
    let lane_counts = simulation().run_in_lanes(&mut lanes).expect("it runs");
    prop_assert_eq!(counts, lane_counts);
    prop_assert_eq!(&whole.requests, &lanes.requests);
    prop_assert_eq!(&whole.tokens_by_second, &lanes.tokens_by_second);
    prop_assert_eq!(&whole.drafts, &lanes.drafts);
    for place in 0..whole.requests.len() {
        prop_assert_eq!(whole.drafts_of(place), lanes.drafts_of(place));
    }
    prop_assert_eq!((whole.steps, whole.end), (lanes.steps, lanes.end));
    let gaps = |recorder: Recorder| recorder.gaps.sample().pairs().collect::<Vec<_>>();
    let over_time = |recorder: &Recorder| {
        let line = &recorder.timeline;
        let levels = [&line.running, &line.waiting, &line.kv_blocks];
        let flows = [&line.prefill_tokens, &line.output_tokens];
        let points = levels.into_iter().chain(flows).map(|series| series.points(recorder.end));
        (line.kv_capacity, points.collect::<Vec<_>>())
    };
    prop_assert_eq!(over_time(&whole), over_time(&lanes));
    prop_assert_eq!(&whole.replicas, &lanes.replicas);
    prop_assert_eq!(gaps(whole), gaps(lanes));
    Ok(())
}

/// Lanes that go on while further requests are drawn: two rounds, and a part of a third.
#[test]
fn rounds_of_lanes_fare_as_one_loop() {
    let case = Case {
        seed: 5,
        requests: 20_000,
        gap_us: 1500,
        prompt_max: 30,
        output_max: 6,
        shares_prompts: false,
        stops_early: true,
        runs_to_limit: None,
        instances: 3,
        host: HostConfig::default(),
        engine: Engine::Vllm(small_engine()),
    };
    compare_lanes(&case, Cost::Linear).expect("they are equal");
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

/// No scheduler acts on where an answer will stop: until it does, steps are those of an answer that goes on.
fn compare_answers(case: &Case) -> Result<(), TestCaseError> {
    let one = RequestId(mix(case.seed ^ 0x61) as u32 % case.requests);
    let steps_of = |stopping: RequestId| {
        let runs_to_limit = Some(stopping);
        let case = Case { stops_early: true, runs_to_limit, ..case.clone() };
        let (_, recorder, log) = run(&case, Way::StepByStep, Cost::Linear);
        (recorder.requests[one.index()], log)
    };
    let ((stopped, mut short), (_, mut long)) = (steps_of(one), steps_of(RequestId(u32::MAX)));
    for log in [&mut short, &mut long] {
        log.steps.retain(|step| step.scheduled < stopped.finish);
    }
    prop_assert_eq!(steps(&short), steps(&long));
    Ok(())
}

fn compare(case: &Case, way: Way) -> Result<(), TestCaseError> {
    Cost::ALL.into_iter().try_for_each(|cost| compare_under(case, way, cost))
}

fn compare_under(case: &Case, way: Way, cost: Cost) -> Result<(), TestCaseError> {
    let (counts, plain, log) = run(case, Way::RequestByRequest, cost);
    let (fast_counts, fast, fast_log) = run(case, way, cost);
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
    prop_assert_eq!(&plain.drafts, &fast.drafts);
    prop_assert_eq!(&plain.replicas, &fast.replicas);
    if counts.finished == counts.arrived {
        let of_requests = (0..fast.requests.len()).map(|place| fast.drafts_of(place));
        let of_requests = of_requests.fold((0_u64, 0_u64), |(drafts, accepted), of| {
            (drafts + u64::from(of.draft_tokens), accepted + u64::from(of.accepted_tokens))
        });
        let all = (fast.drafts.draft_tokens(), fast.drafts.accepted_tokens());
        prop_assert_eq!(of_requests, all);
    }
    Ok(())
}

proptest! {
    #![proptest_config(random_cases(120))]

    #[test]
    fn a_group_that_decodes_in_lock_step_equals_its_requests(case in case(vllm())) {
        compare(&case, Way::StepByStep)?;
    }

    #[test]
    fn a_run_of_steps_equals_its_steps(case in case(vllm())) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn a_group_whose_layers_have_windows_equals_its_requests(case in case(windowed())) {
        compare(&case, Way::StepByStep)?;
    }

    #[test]
    fn a_run_of_steps_of_layers_with_windows_equals_its_steps(case in case(windowed())) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn nobody_starves_whose_windows_take_blocks(case in case(windowed())) {
        let (counts, recorder, _) = run(&case, Way::Runs, Cost::Linear);
        prop_assert_eq!(counts.finished + counts.rejected, counts.arrived);
        let tokens: u64 = recorder.requests.iter().map(|one| u64::from(one.output_tokens)).sum();
        prop_assert_eq!(recorder.tokens_by_second.total(), tokens);
    }

    #[test]
    fn a_group_of_sglang_equals_its_requests(case in case(sglang())) {
        compare(&case, Way::StepByStep)?;
    }

    #[test]
    fn a_run_of_steps_of_sglang_equals_its_steps(case in case(sglang())) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn a_run_of_steps_of_an_engine_that_speculates_equals_its_steps(
        case in prop_oneof![case(speculating(vllm())), case(speculating_sglang())],
    ) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn lanes_fare_as_one_loop(case in prop_oneof![
        case(vllm()), case(windowed()), case(sglang()), case(speculating(vllm())),
        case(speculating_sglang()), case(baseline()),
    ]) {
        Cost::ALL.into_iter().try_for_each(|cost| compare_lanes(&case, cost))?;
    }

    #[test]
    fn no_scheduler_acts_on_where_an_answer_will_stop(case in prop_oneof![
        case(vllm()), case(windowed()), case(sglang()), case(speculating(vllm())),
        case(speculating_sglang()), case(baseline()),
    ]) {
        compare_answers(&case)?;
    }

    #[test]
    fn a_run_of_steps_of_any_other_engine_equals_its_steps(case in case(baseline())) {
        compare(&case, Way::Runs)?;
    }

    #[test]
    fn nobody_starves_and_every_token_comes_out_once_in_sglang(
        case in prop_oneof![case(sglang()), case(speculating_sglang())],
    ) {
        let (counts, recorder, _) = run(&case, Way::Runs, Cost::Linear);
        let requests = workload(&case);
        prop_assert_eq!(counts.finished + counts.rejected + counts.stuck, counts.arrived);
        if requests.iter().any(|request| case.engine.sglang_never_admits(request)) {
            return Ok(());
        }
        prop_assert_eq!(counts.stuck, 0);
        let mut tokens = 0;
        for (request, record) in requests.iter().zip(&recorder.requests) {
            let whole = case.engine.sglang_answer(request);
            prop_assert_eq!(record.output_tokens, whole, "{:?}: {:?}", request, record);
            tokens += u64::from(whole);
        }
        prop_assert_eq!(recorder.tokens_by_second.total(), tokens);
    }
}
