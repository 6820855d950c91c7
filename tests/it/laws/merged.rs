//! Adapters merged into the weights and not: nothing is lost whichever rule makes batches, never two
//! adapters are in a merged step, and one adapter alone fares as the model.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use servecast::cost::{Linear, LoraTimes, StepTime};
use servecast::engine::scheduler::{Memory, Orca, OrcaLora, OrcaSettings, Scheduler, StepSeconds};
use servecast::engine::{Adapters, Execution, Instance};
use servecast::ids::{AdapterId, RequestId};
use servecast::metrics::{Recorder, Status};
use servecast::model::LoraModules;
use servecast::profiles;
use servecast::request::Request;
use servecast::scenario::{
    AdapterBatchingConfig, DloraCreditConfig, LoraConfig, LoraKernels, MergedOnlyConfig,
    Reservation, SloraClustersConfig,
};
use servecast::sim::{Observer, Occurrence};
use servecast::units::{SimDuration, SimTime};

use super::random::{laws, served};
use crate::support::{Abort, drive, micros};

const MODEL_LEN: u32 = 200;

#[derive(Debug, Clone)]
struct Case {
    batching: AdapterBatchingConfig,
    engine: OrcaSettings,
    adapters: u32,
    in_host: u32,
    law: Linear,
    requests: Vec<Request>,
    aborts: Vec<Abort>,
}

fn merged_only(switch_ms: f64) -> AdapterBatchingConfig {
    AdapterBatchingConfig::MergedOnly(MergedOnlyConfig { switch_ms })
}

/// Little credit, so that it is used up often.
fn dlora(switch_ms: f64, credit: f64) -> AdapterBatchingConfig {
    let defaults = DloraCreditConfig::default();
    AdapterBatchingConfig::DloraCredit(DloraCreditConfig { switch_ms, credit, ..defaults })
}

fn batchings() -> impl Strategy<Value = AdapterBatchingConfig> {
    (0_u32..4, 0.05_f64..4.0, 0_u32..5).prop_map(|(switch_ms, credit, which)| {
        let switch_ms = f64::from(switch_ms);
        match which {
            0 => AdapterBatchingConfig::Unmerged {},
            1 => merged_only(switch_ms),
            2 | 3 => AdapterBatchingConfig::SloraClusters(SloraClustersConfig {
                max_adapters: 1 + which % 2 * 2,
                fills_with_others: credit < 2.0,
            }),
            _ => dlora(switch_ms, credit),
        }
    })
}

fn engines() -> impl Strategy<Value = OrcaSettings> {
    (1_u32..6, 1_u32..5, 0_u32..300).prop_map(|(max_batch_size, slots, spare)| OrcaSettings {
        max_batch_size,
        max_loras: Some(slots),
        memory: Memory::unpaged(MODEL_LEN + spare, MODEL_LEN),
        reservation: Reservation::Request,
    })
}

/// Random requests, some of which use adapters and some of which are given up.
fn cases() -> impl Strategy<Value = Case> {
    let used = vec(option::weighted(0.8, 0_u32..4), 24);
    let given_up = vec((0_u32..24, 0_u64..200_000), 0..4);
    let asked = (served(), used, 1_u32..5, given_up);
    (batchings(), engines(), laws(), 0_u32..3, asked).prop_map(
        |(batching, engine, law, spare, ((_, mut requests), used, adapters, given_up))| {
            for (request, adapter) in requests.iter_mut().zip(used) {
                request.adapter = adapter.map(|id| AdapterId(id % adapters));
            }
            let aborts = given_up.into_iter().map(|(request, after)| {
                let request = RequestId(request % requests.len() as u32);
                Abort { at: requests[request.index()].arrival + micros(after), request }
            });
            let in_host = engine.max_loras.expect("given") + spare;
            Case { aborts: aborts.collect(), batching, engine, adapters, in_host, law, requests }
        },
    )
}

fn instance(case: &Case) -> Instance {
    let model = profiles::model("meta-llama/Llama-2-7b-hf").expect("in the catalogue");
    let gpu = profiles::gpu("A100-SXM4-80GB").expect("in the catalogue");
    let shape = model.lora_shape(LoraModules::All, 1).expect("it has adapters");
    let config = LoraConfig {
        max_rank: Some(16),
        batching: case.batching,
        kernels: LoraKernels::DLORA,
        ..LoraConfig::default()
    };
    let slots = case.engine.max_loras.expect("given");
    let ranks: Arc<[u32]> = (0..case.adapters).map(|_| 16).collect();
    let adapters = Adapters::new(ranks, slots, case.in_host);
    let steps = StepSeconds { merged: 0.015, unmerged: 0.027 };
    let adapters = (adapters, case.adapters as usize);
    let scheduler = OrcaLora::new(case.engine, &case.batching, adapters, steps);
    Instance::new(Scheduler::OrcaLora(Box::new(scheduler)), StepTime::Linear(case.law))
        .with_lora(LoraTimes::new(&shape, 8, &gpu, &config))
}

/// The same engine without adapters.
fn plain(case: &Case) -> Instance {
    let scheduler = Scheduler::Orca(Box::new(Orca::new(case.engine)));
    Instance::new(scheduler, StepTime::Linear(case.law))
}

/// Panics where a step is not what its execution says.
struct Steps<'a> {
    case: &'a Case,
    merged: Option<AdapterId>,
    free_at: SimTime,
}

impl Observer for Steps<'_> {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let Occurrence::Planned(_, batch, _) = what else { return };
        let plan = &batch.plan;
        let used = plan.entries.iter().map(|e| self.case.requests[e.request.index()].adapter);
        let mut used: Vec<Option<AdapterId>> = used.collect();
        used.sort_unstable();
        used.dedup();
        let seconds = self.case.law;
        let bare = seconds.base
            + seconds.prefill_token * u64::from(plan.shape.prefill_tokens)
            + seconds.decode_seq * u64::from(plan.shape.decode_seqs);
        let merged = match plan.execution {
            Execution::Merged(adapter) => {
                assert_eq!(used, [adapter], "a merged step is of one adapter, or of none");
                assert_eq!(batch.duration, bare, "a merged step lasts as long as the model's");
                adapter
            }
            Execution::Unmerged => {
                let slots = self.case.engine.max_loras.expect("given") as usize;
                let adapters = used.iter().flatten().count();
                assert!(adapters <= slots, "a step has no more adapters than slots");
                assert_eq!(usize::from(plan.shape.adapters), adapters);
                assert!(batch.duration > bare, "kernels take time");
                None
            }
        };
        let before = std::mem::replace(&mut self.merged, merged);
        assert_eq!(before != merged, plan.merges > 0, "a change is counted");
        let switch_ms = self.case.batching.switch_ms();
        let times = if before == merged {
            0
        } else {
            u32::from(before.is_some()) + u32::from(merged.is_some())
        };
        let switching = SimDuration::from_secs_f64(1e-3 * switch_ms * f64::from(times));
        assert_eq!(batch.switching, switching, "each merge takes its time");
        assert_eq!(batch.starts_at, at + batch.loading + switching);
        assert!(at >= self.free_at, "one step after the other");
        self.free_at = batch.ends_at();
    }
}

fn outcome(instance: Instance, requests: &[Request]) -> Recorder {
    let mut recorder = Recorder::default();
    drive(instance, requests, &[], &mut recorder, |_, _| {});
    recorder
}

proptest! {
    #![proptest_config(crate::support::random_cases(300))]

    #[test]
    fn every_request_leaves_once_whichever_rule_makes_batches(case in cases()) {
        let mut recorder = Recorder::default();
        let steps = Steps { case: &case, merged: None, free_at: SimTime::ZERO };
        let mut observer = (steps, &mut recorder);
        let (counts, engine) =
            drive(instance(&case), &case.requests, &case.aborts, &mut observer, |engine, is_idle| {
                let load = engine.scheduler().load();
                assert!(engine.scheduler().is_balanced(), "L3: memory does not add up");
                assert!(!is_idle || load.waiting + load.running == 0, "an idle engine could work");
            });
        prop_assert_eq!(counts.arrived, counts.finished + counts.rejected + counts.aborted);
        let load = engine.scheduler().load();
        prop_assert_eq!(load.kv_blocks_free, load.kv_blocks);
        let mut tokens = 0;
        for (request, record) in case.requests.iter().zip(&recorder.requests) {
            let whole = request.output_tokens.min(MODEL_LEN.saturating_sub(request.prompt_tokens));
            if record.status == Status::Finished {
                prop_assert_eq!(record.output_tokens, whole);
            }
            tokens += record.output_tokens;
        }
        prop_assert_eq!(recorder.tokens_by_second.total(), u64::from(tokens));
    }

    #[test]
    fn one_merged_adapter_alone_fares_as_the_model_where_switches_take_no_time(
        mut case in cases(), credit in 0.05_f64..4.0, by_credit in any::<bool>(),
    ) {
        case.batching = if by_credit { dlora(0.0, credit) } else { merged_only(0.0) };
        case.adapters = 1;
        for request in &mut case.requests {
            request.adapter = Some(AdapterId(0));
        }
        let (merged, model) =
            (outcome(instance(&case), &case.requests), outcome(plain(&case), &case.requests));
        prop_assert_eq!(merged.requests, model.requests);
        prop_assert_eq!(merged.steps, model.steps);
    }

    #[test]
    fn the_first_switch_delays_all_that_comes_together_once(
        mut case in cases(), switch_ms in 1_u32..50,
    ) {
        case.batching = merged_only(f64::from(switch_ms));
        case.adapters = 1;
        for request in &mut case.requests {
            request.adapter = Some(AdapterId(0));
            request.arrival = SimTime::ZERO;
        }
        let (merged, model) =
            (outcome(instance(&case), &case.requests), outcome(plain(&case), &case.requests));
        let switch = SimDuration::from_millis(u64::from(switch_ms));
        for (merged, model) in merged.requests.iter().zip(&model.requests) {
            if model.status == Status::Finished {
                prop_assert_eq!(merged.first_token, model.first_token + switch);
                prop_assert_eq!(merged.finish, model.finish + switch);
            }
        }
    }

    #[test]
    fn requests_without_adapters_fare_as_without_the_rules_that_merge(
        mut case in cases(), credit in 0.05_f64..4.0, by_credit in any::<bool>(),
    ) {
        case.batching = if by_credit { dlora(20.0, credit) } else { merged_only(20.0) };
        for request in &mut case.requests {
            request.adapter = None;
        }
        let (with, without) =
            (outcome(instance(&case), &case.requests), outcome(plain(&case), &case.requests));
        prop_assert_eq!(with.requests, without.requests);
        prop_assert_eq!(with.steps, without.steps);
    }
}
