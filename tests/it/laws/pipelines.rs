//! Replicas of several stages: nothing is lost, one stage fares as none, a request alone takes the sum of
//! the stages, and many follow each other as fast as the slowest lets them.

use proptest::collection::vec;
use proptest::prelude::*;

use servecast::cost::{Hop, Linear, Pipeline, StepTime};
use servecast::engine::scheduler::{Acceptance, Scheduler};
use servecast::engine::{HostTimes, Instance};
use servecast::metrics::{Recorder, Status};
use servecast::request::Request;
use servecast::scenario::{Policy, VllmConfig};
use servecast::units::{SimDuration, SimTime};

use super::random::{Case, cases};
use super::requests::can_never_run;
use crate::support::{drive, instance, law, vllm};

/// An idle replica whose stages take this long.
fn staged(engine: &VllmConfig, stages: &[Linear]) -> Instance {
    let scheduler = vllm(engine, Acceptance::NONE).in_stages(stages.len() as u32);
    let stages = stages.iter().map(|law| StepTime::Linear(*law)).collect();
    let cost = StepTime::Pipeline(Pipeline::new(stages, Hop::NONE, "stages"));
    let scheduler = Scheduler::VllmV1(Box::new(scheduler));
    Instance::new(scheduler, cost).on_host(HostTimes::from(&engine.host))
}

/// Any case without drafts, and the laws of any number of stages.
fn staged_cases() -> impl Strategy<Value = (Case, Vec<Linear>)> {
    (cases(), vec(super::laws(), 1..6)).prop_map(|(mut case, stages)| {
        case.engine.speculation = None;
        (case, stages)
    })
}

proptest! {
    #![proptest_config(crate::support::random_cases(300))]

    #[test]
    fn every_request_leaves_once_and_every_token_comes_out_once((case, stages) in staged_cases()) {
        let engine = staged(&case.engine, &stages);
        let usable = engine.scheduler().load().kv_blocks;
        let mut recorder = Recorder::default();
        let (counts, engine) =
            drive(engine, &case.requests, &case.aborts, &mut recorder, |engine, is_idle| {
                let load = engine.scheduler().load();
                assert!(engine.scheduler().is_balanced(), "L3: blocks do not add up");
                if is_idle && load.waiting + load.running > 0 {
                    assert_eq!(load.running, 0, "an idle instance has running requests");
                    assert!(can_never_run(&case, engine), "an idle instance could work");
                }
            });
        let out = counts.finished + counts.rejected + counts.aborted + counts.stuck;
        prop_assert_eq!(out, counts.arrived);
        let model_len = case.engine.max_model_len.expect("resolved");
        if model_len.div_ceil(case.engine.block_size) <= usable {
            prop_assert_eq!(counts.stuck, 0, "memory for one longest sequence is enough for all");
        }
        let load = engine.scheduler().load();
        prop_assert_eq!(u64::from(load.waiting + load.running), counts.stuck);
        for (request, record) in case.requests.iter().zip(&recorder.requests) {
            let whole = request.output_tokens.min(model_len.saturating_sub(request.prompt_tokens));
            if record.status == Status::Finished {
                prop_assert_eq!(record.output_tokens, whole);
            }
        }
    }

    #[test]
    fn one_stage_fares_as_a_replica_without((case, stages) in staged_cases()) {
        let outcome = |engine: Instance| {
            let mut recorder = Recorder::default();
            let (counts, _) =
                drive(engine, &case.requests, &case.aborts, &mut recorder, |_, _| {});
            (counts, recorder)
        };
        let law = stages[0];
        let (counts, one) = outcome(staged(&case.engine, &[law]));
        let (plain_counts, plain) = outcome(instance(&case.engine, law));
        prop_assert_eq!(counts, plain_counts);
        prop_assert_eq!(one.steps, plain.steps);
        prop_assert_eq!(one.requests, plain.requests);
        prop_assert_eq!(one.replicas, plain.replicas);
    }

    #[test]
    fn a_request_alone_takes_the_sum_of_its_stages(
        stages in vec(super::laws(), 1..6),
        prompt in 1_u32..200,
        output in 1_u32..30,
        is_async in any::<bool>(),
    ) {
        let engine = roomy(is_async, 1 << 16);
        let request = Request::new(SimTime::ZERO, prompt, output);
        let record = &run(&engine, &stages, &[request]).requests[0];
        let sum = |figure: &dyn Fn(&Linear) -> SimDuration| {
            stages.iter().fold(SimDuration::ZERO, |sum, law| sum + figure(law))
        };
        let prefill = sum(&|law| law.base + law.prefill_token * u64::from(prompt));
        let decode = sum(&|law| law.base + law.decode_seq);
        prop_assert_eq!(record.first_token - record.sent, prefill);
        prop_assert_eq!(record.finish - record.first_token, decode * u64::from(output - 1));
    }

    #[test]
    fn prompts_follow_each_other_as_fast_as_the_slowest_stage_lets_them(
        bases in vec(500_u64..1000, 1..6),
        prompts in 1_u32..60,
        is_async in any::<bool>(),
    ) {
        // A step is one prompt. No stage takes twice as long as another, so that as many steps in flight
        // as there are stages keep the slowest busy.
        let stages: Vec<Linear> = bases.iter().map(|base| law(*base, 0, 0)).collect();
        let engine = VllmConfig { max_num_seqs: Some(1024), ..roomy(is_async, 10) };
        let requests: Vec<Request> =
            (0..prompts).map(|_| Request::new(SimTime::ZERO, 10, 1)).collect();
        let recorder = run(&engine, &stages, &requests);
        let end = recorder.requests.iter().map(|record| record.finish).max().expect("some");
        let (sum, slowest) = (bases.iter().sum::<u64>(), bases.iter().max().expect("a stage"));
        let expected = sum + u64::from(prompts - 1) * slowest;
        let full = slowest * bases.len() as u64 >= sum;
        prop_assert!(full);
        prop_assert_eq!(end - SimTime::ZERO, SimDuration::from_micros(expected));
    }

    #[test]
    fn faster_stages_never_finish_prompts_later(
        stages in vec(super::laws(), 1..6), which in 0_usize..6, prompts in 1_u32..40,
    ) {
        let engine = roomy(false, 32);
        let requests: Vec<Request> =
            (0..prompts).map(|_| Request::new(SimTime::ZERO, 20, 1)).collect();
        let mut faster = stages.clone();
        let index = which % stages.len();
        faster[index].base = SimDuration::from_nanos(stages[index].base.as_nanos() / 2);
        let end = |stages: &[Linear]| {
            let recorder = run(&engine, stages, &requests);
            recorder.requests.iter().map(|record| record.finish).max()
        };
        prop_assert!(end(&faster) <= end(&stages));
    }
}

/// Memory for everybody, and so many tokens a step.
fn roomy(is_async: bool, budget: u32) -> VllmConfig {
    VllmConfig {
        block_size: 16,
        num_gpu_blocks: Some(1 << 16),
        max_num_batched_tokens: Some(budget),
        max_num_seqs: Some(8),
        max_model_len: Some(4096),
        async_scheduling: is_async,
        policy: Policy::Fcfs,
        ..VllmConfig::default()
    }
}

fn run(engine: &VllmConfig, stages: &[Linear], requests: &[Request]) -> Recorder {
    let mut recorder = Recorder::default();
    drive(staged(engine, stages), requests, &[], &mut recorder, |_, _| {});
    recorder
}

/// Requests that were prefilled in one step decode in one batch ever after, and leave the other stages
/// idle meanwhile; those of two steps take turns on the stages.
#[test]
fn stages_work_at_once_only_on_requests_of_different_batches() {
    let stages = [law(0, 0, 500); 2];
    let tokens_per_s = |is_async: bool, prompt: u32| {
        let engine = roomy(is_async, 100);
        let requests = [(); 2].map(|()| Request::new(SimTime::ZERO, prompt, 400));
        let recorder = run(&engine, &stages, &requests);
        let end = recorder.requests.iter().map(|record| record.finish).max().expect("some");
        800.0 / (end - SimTime::ZERO).as_secs_f64()
    };
    for is_async in [false, true] {
        // Two sequences: 1 ms on each stage. One: 0.5 ms, while the other is on the other stage.
        let [together, apart] = [10, 90].map(|prompt| tokens_per_s(is_async, prompt));
        assert!((together / 1000.0 - 1.0).abs() < 0.01, "{together}");
        assert!((apart / 2000.0 - 1.0).abs() < 0.01, "{apart}");
    }
}
