//! The law of the breakdown: the parts of a request's time add up to its end-to-end time, and each
//! is what an observer finds who follows every request through every step.

use proptest::prelude::*;
use servecast::cluster::{Cluster, Router};
use servecast::cost::{Linear, StepTime};
use servecast::engine::Instance;
use servecast::engine::scheduler::{Acceptance, Scheduler};
use servecast::ids::{InstanceId, RequestId};
use servecast::metrics::{Breakdown, Recorder, RequestRecord, Status};
use servecast::request::Request;
use servecast::rng::Seed;
use servecast::scenario::{ClientConfig, RouterConfig, SglangConfig, VllmConfig};
use servecast::sim::{Observer, Occurrence, Requests, Simulation};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

use super::fast_forward::{Case, vllm_case, workload};
use crate::support;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Api,
    Queued,
    Prefill,
    Decode,
    /// Without memory, or catching up since this step.
    Preempted(Option<u64>),
    Gone,
}

/// A request that is followed: its phase, since when, and what it has spent.
#[derive(Debug, Clone, Copy)]
struct Followed {
    instance: InstanceId,
    phase: Phase,
    since: SimTime,
    parts: Breakdown,
}

impl Followed {
    fn spend(&mut self, at: SimTime, holds_prefill: bool) {
        let span = at - std::mem::replace(&mut self.since, at);
        match self.phase {
            Phase::Api => self.parts.api += span,
            Phase::Queued => self.parts.queued += span,
            Phase::Prefill => self.parts.prefill += span,
            Phase::Decode if holds_prefill => self.parts.stalled += span,
            Phase::Decode => self.parts.decode += span,
            Phase::Preempted(_) => self.parts.preempted += span,
            Phase::Gone => {}
        }
    }

    fn enter(&mut self, at: SimTime, phase: Phase) {
        self.spend(at, false);
        self.phase = phase;
    }
}

/// Follows every request through every step; needs every share in the plans.
#[derive(Debug, Default)]
struct Follower {
    requests: Vec<Followed>,
    preemptions: u32,
}

impl Follower {
    fn lose(&mut self, at: SimTime, ids: &[RequestId]) {
        for id in ids {
            self.requests[id.index()].enter(at, Phase::Preempted(None));
            self.preemptions += 1;
        }
    }
}

impl Observer for Follower {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Sent(id, instance) => {
                assert_eq!(id.index(), self.requests.len(), "sent in order");
                let parts = Breakdown::default();
                self.requests.push(Followed { instance, phase: Phase::Api, since: at, parts });
            }
            Occurrence::Queued(_, id, _) => self.requests[id.index()].enter(at, Phase::Queued),
            Occurrence::Displaced(_, ids) => self.lose(at, ids),
            Occurrence::Planned(_, batch, _) => {
                self.lose(at, &batch.plan.preempted);
                for entry in &batch.plan.entries {
                    let request = &mut self.requests[entry.request.index()];
                    match request.phase {
                        Phase::Queued => request.enter(at, Phase::Prefill),
                        Phase::Preempted(None) => {
                            request.enter(at, Phase::Preempted(Some(batch.step)));
                        }
                        _ => {}
                    }
                }
            }
            Occurrence::Stepped(instance, batch, _, _) => {
                let holds_prefill = batch.plan.shape.prefill_tokens > 0;
                for request in self.requests.iter_mut().filter(|r| r.instance == instance) {
                    if request.phase == Phase::Decode {
                        request.spend(at, holds_prefill);
                    }
                }
                for entry in batch.plan.entries.iter().filter(|entry| entry.samples) {
                    let request = &mut self.requests[entry.request.index()];
                    match request.phase {
                        Phase::Prefill => request.enter(at, Phase::Decode),
                        Phase::Preempted(Some(step)) if step <= batch.step => {
                            request.enter(at, Phase::Decode);
                        }
                        _ => {}
                    }
                }
            }
            Occurrence::Left(_, life, _) => self.requests[life.id.index()].enter(at, Phase::Gone),
            Occurrence::Refused(_, id) => self.requests[id.index()].enter(at, Phase::Gone),
            _ => {}
        }
    }
}

pub(super) fn simulate(
    requests: Vec<Request>,
    instances: Vec<Instance>,
    observer: &mut impl Observer,
) {
    let cluster = Cluster::new(instances, Router::new(&RouterConfig::default(), Seed::default()));
    let client = Client::new(&ClientConfig::default());
    let workload = Requests(requests.into_iter());
    Simulation::new(workload, client, cluster, SimDuration::from_micros(300))
        .run(observer)
        .expect("the workload has no errors");
}

/// Follows a run and compares; how often a request lost its memory.
fn follow(
    requests: Vec<Request>,
    instances: u32,
    scheduler: impl Fn() -> Scheduler,
) -> Result<u32, TestCaseError> {
    let law = StepTime::Linear(Linear {
        base: SimDuration::from_micros(2000),
        prefill_token: SimDuration::from_micros(20),
        decode_seq: SimDuration::from_nanos(30_001),
        ..Linear::default()
    });
    let instance = |_| Instance::new(scheduler(), law.clone()).step_by_step();
    let mut observers = (Recorder::default(), Follower::default());
    simulate(requests, (0..instances).map(instance).collect(), &mut observers);
    let (recorder, follower) = observers;
    for (id, (record, followed)) in recorder.requests.iter().zip(&follower.requests).enumerate() {
        if record.status == Status::Unfinished {
            prop_assert_eq!(record.breakdown(), None);
            continue;
        }
        let parts = record.breakdown().expect("it left");
        prop_assert_eq!(parts.total(), record.e2e(), "request {}", id);
        prop_assert_eq!(parts, followed.parts, "request {}", id);
    }
    Ok(follower.preemptions)
}

/// An engine of SGLang as tight in memory as the engine of the case.
pub(super) fn sglang(case: &Case) -> SglangConfig {
    let bits = case.seed;
    let page_size = [1, 16][(bits & 1) as usize];
    SglangConfig {
        max_total_tokens: Some(600 + (bits >> 8) as u32 % 2000),
        max_running_requests: case.vllm().max_num_seqs,
        context_length: case.vllm().max_model_len,
        chunked_prefill_size: Some(if bits & 2 == 0 { 128 } else { 0 }),
        page_size: Some(page_size),
        disable_radix_cache: bits & 4 == 0,
        enable_mixed_chunk: bits & 8 == 0 && bits & 2 == 0,
        disable_overlap_schedule: bits & 16 == 0,
        enable_priority_scheduling: bits & 32 == 0,
        schedule_conservativeness: 0.3,
        ..SglangConfig::default()
    }
}

proptest! {
    #![proptest_config(crate::support::random_cases(120))]

    #[test]
    fn the_parts_of_a_requests_time_add_up_in_vllm(case in vllm_case()) {
        follow(workload(&case), case.instances, || {
            let vllm = support::vllm(case.vllm(), Acceptance::NONE).request_by_request();
            Scheduler::VllmV1(Box::new(vllm))
        })?;
    }

    #[test]
    fn the_parts_of_a_requests_time_add_up_in_sglang(case in vllm_case()) {
        follow(workload(&case), case.instances, || {
            Scheduler::Sglang(Box::new(support::sglang(&sglang(&case)).request_by_request()))
        })?;
    }
}

#[test]
fn each_part_of_a_small_run_is_as_worked_by_hand() {
    // Steps take 1 ms + 10 µs a prompt token. A (100 tokens, 4 answers) is sent at 0, B (200
    // tokens, 1 answer) at 2.6 ms; both reach the queue 0.3 ms later. The engine is synchronous.
    //   0.3 … 2.3  A prefills: 1 + 1 ms          → first token of A at 2.3
    //   2.3 … 3.3  A decodes; B in the queue at 2.9
    //   3.3 … 6.3  A decodes beside B's prefill: 1 + 2 ms; B is done
    //   6.3 … 7.3  A decodes its last token
    let law = StepTime::Linear(Linear {
        base: SimDuration::from_millis(1),
        prefill_token: SimDuration::from_micros(10),
        decode_seq: SimDuration::ZERO,
        ..Linear::default()
    });
    let config = VllmConfig {
        num_gpu_blocks: Some(1000),
        max_num_batched_tokens: Some(2048),
        max_num_seqs: Some(8),
        max_model_len: Some(4096),
        async_scheduling: false,
        ..VllmConfig::default()
    };
    let vllm = Scheduler::VllmV1(Box::new(support::vllm(&config, Acceptance::NONE)));
    let later = SimTime::ZERO + SimDuration::from_micros(2600);
    let requests = vec![Request::new(SimTime::ZERO, 100, 4), Request::new(later, 200, 1)];
    let mut recorder = Recorder::default();
    simulate(requests, vec![Instance::new(vllm, law)], &mut recorder);
    let micros = |parts: Breakdown| {
        [parts.api, parts.queued, parts.prefill, parts.decode, parts.preempted, parts.stalled]
            .map(|part| part.as_nanos() / 1000)
    };
    let parts: Vec<_> = recorder.requests.iter().filter_map(RequestRecord::breakdown).collect();
    assert_eq!(micros(parts[0]), [300, 0, 2000, 2000, 0, 3000]);
    assert_eq!(micros(parts[1]), [300, 400, 3000, 0, 0, 0]);
}

#[test]
fn requests_that_lose_their_memory_say_for_how_long() {
    // Two requests of 150 + 100 tokens that may stop at any time, 500 together, in memory for 384
    // (vLLM) and 420 (SGLang, which admits the second only if its whole limit fits at first).
    let requests = || {
        let stopping = |_| {
            let request = Request::new(SimTime::ZERO, 150, 100);
            Request { max_tokens: 101, ignore_eos: false, ..request }
        };
        (0..2).map(stopping).collect::<Vec<_>>()
    };
    let vllm = VllmConfig {
        num_gpu_blocks: Some(25),
        max_num_batched_tokens: Some(512),
        max_num_seqs: Some(8),
        max_model_len: Some(300),
        ..VllmConfig::default()
    };
    let preemptions = follow(requests(), 1, || {
        let vllm = support::vllm(&vllm, Acceptance::NONE).request_by_request();
        Scheduler::VllmV1(Box::new(vllm))
    });
    assert!(preemptions.expect("the parts add up") > 0, "vLLM");
    let sglang = SglangConfig {
        max_total_tokens: Some(420),
        max_running_requests: Some(8),
        context_length: Some(300),
        chunked_prefill_size: Some(0),
        schedule_conservativeness: 0.1,
        ..SglangConfig::default()
    };
    let preemptions =
        follow(requests(), 1, || Scheduler::Sglang(Box::new(support::sglang(&sglang))));
    assert!(preemptions.expect("the parts add up") > 0, "SGLang");
}

#[test]
fn a_record_stays_small() {
    assert!(size_of::<RequestRecord>() <= 112);
}
