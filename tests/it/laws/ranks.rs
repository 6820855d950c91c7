//! Data-parallel ranks in lock step: nothing is lost, one rank fares as none, equal ranks fare as each
//! alone, and a step lasts as long as its slowest rank.

use proptest::prelude::*;

use servecast::cost::{Exchange, Linear, StepTime, Wave};
use servecast::engine::scheduler::{Acceptance, Dispatch, Ranks, Scheduler};
use servecast::engine::{HostTimes, Instance};
use servecast::metrics::{Recorder, Status};
use servecast::profiles;
use servecast::request::Request;
use servecast::scenario::VllmConfig;
use servecast::sim::{Observer, Occurrence};
use servecast::units::{SimDuration, SimTime};

use super::random::{Case, cases};
use crate::support::{drive, instance, vllm};

/// An idle replica of so many ranks, each of which takes as long as this law says.
fn ranked(engine: &VllmConfig, law: Linear, ranks: usize, dispatch: Dispatch) -> Instance {
    let one = || Scheduler::VllmV1(Box::new(vllm(engine, Acceptance::NONE)));
    let scheduler = Ranks::new((0..ranks).map(|_| one()).collect(), dispatch);
    let model = profiles::model("Qwen3-30B-A3B").expect("it is in the catalogue");
    let cost = StepTime::Linear(law);
    let wave = Wave::new(&model, cost.clone(), ranks as u32, Exchange::NONE);
    Instance::new(Scheduler::Ranks(Box::new(scheduler)), cost)
        .on_host(HostTimes::from(&engine.host))
        .in_waves(Some(wave))
}

/// Any case that ranks may have.
fn ranked_cases() -> impl Strategy<Value = Case> {
    cases().prop_map(|mut case| {
        case.engine.speculation = None;
        case.engine.prefill_schedule_interval = 1;
        case
    })
}

fn dispatches(ranks: usize) -> impl Strategy<Value = Dispatch> {
    prop_oneof![Just(Dispatch::least_score(ranks)), Just(Dispatch::RoundRobin { next: 0 })]
}

/// Panics where a step does not last as long as its slowest rank.
struct Slowest;

impl Observer for Slowest {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        let Occurrence::Planned(_, batch, _) = what else { return };
        let slowest = batch.plan.ranks.iter().map(|rank| rank.own).max();
        assert_eq!(Some(batch.duration), slowest, "a step lasts as long as its slowest rank");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_leaves_once_and_every_token_comes_out_once(
        case in ranked_cases(),
        (ranks, dispatch) in (1_usize..6).prop_flat_map(|n| (Just(n), dispatches(n))),
    ) {
        let engine = ranked(&case.engine, case.law, ranks, dispatch);
        let usable = engine.scheduler().load().kv_blocks / ranks as u32;
        let mut recorder = Recorder::default();
        let (counts, engine) =
            drive(engine, &case.requests, &case.aborts, &mut recorder, |engine, is_idle| {
                let load = engine.scheduler().load();
                assert!(engine.scheduler().is_balanced(), "L3: blocks do not add up");
                assert!(!is_idle || load.running == 0, "an idle instance has running requests");
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
    fn one_rank_fares_as_a_replica_without(case in ranked_cases()) {
        let outcome = |engine: Instance| {
            let mut recorder = Recorder::default();
            let (counts, _) =
                drive(engine, &case.requests, &case.aborts, &mut recorder, |_, _| {});
            (counts, recorder)
        };
        let (counts, one) = outcome(ranked(&case.engine, case.law, 1, Dispatch::least_score(1)));
        let (plain_counts, plain) = outcome(instance(&case.engine, case.law));
        prop_assert_eq!(counts, plain_counts);
        prop_assert_eq!(one.steps, plain.steps);
        prop_assert_eq!(one.requests, plain.requests);
    }

    #[test]
    fn equal_ranks_with_equal_requests_fare_as_each_alone(
        case in ranked_cases(),
        ranks in 2_usize..5,
    ) {
        let engine = |count| {
            ranked(&case.engine, case.law, count, Dispatch::RoundRobin { next: 0 })
        };
        // What an engine refuses goes to no rank.
        let model_len = case.engine.max_model_len.expect("resolved");
        let served = case.requests.iter().filter(|request| request.prompt_tokens < model_len);
        let requests: Vec<Request> = served.cloned().collect();
        let times = requests.iter().flat_map(|request| vec![request.clone(); ranks]);
        let run = |engine: Instance, requests: &[Request]| {
            let mut recorder = Recorder::default();
            drive(engine, requests, &[], &mut recorder, |_, _| {});
            recorder
        };
        let alone = run(engine(1), &requests);
        let together = run(engine(ranks), &times.collect::<Vec<_>>());
        prop_assert_eq!(together.steps, alone.steps);
        for (index, record) in together.requests.iter().enumerate() {
            prop_assert_eq!(record, &alone.requests[index / ranks], "request {}", index);
        }
    }

    #[test]
    fn a_step_lasts_as_long_as_its_slowest_rank(case in ranked_cases(), ranks in 1_usize..6) {
        let mut config = case.engine.clone();
        config.host = servecast::scenario::HostConfig::default();
        let engine = ranked(&config, case.law, ranks, Dispatch::least_score(ranks));
        drive(engine, &case.requests, &case.aborts, &mut Slowest, |_, _| {});
    }

    #[test]
    fn a_rank_with_short_steps_waits_for_one_with_long_ones(
        short in 1_u32..90, longer_by in 1_u32..90, base in 1_u64..500,
    ) {
        // Two prompts at once, a step each: both first tokens come out together.
        let long = short + longer_by;
        let law = Linear {
            base: SimDuration::from_micros(base),
            prefill_token: SimDuration::from_micros(3),
            decode_seq: SimDuration::from_micros(1), ..Linear::default() };
        let engine = ranked(&crate::support::one_seat(), law, 2, Dispatch::least_score(2));
        let requests = [long, short].map(|tokens| Request::new(SimTime::ZERO, tokens, 1));
        let mut recorder = Recorder::default();
        drive(engine, &requests, &[], &mut recorder, |_, _| {});
        let expected = law.base + law.prefill_token * u64::from(long);
        for record in &recorder.requests {
            prop_assert_eq!(record.first_token - SimTime::ZERO, expected);
        }
    }
}
