//! Builders: an engine, a cluster, a workload, a run, in a few readable lines.

use std::hash::BuildHasher;
use std::path::PathBuf;

use proptest::test_runner::Config as ProptestConfig;
use rand::distr::Distribution;
use rand_distr::Exp1;

use rustc_hash::FxBuildHasher;
use servecast::cluster::{Cluster, Router};
use servecast::cost::{Linear, StepTime};
use servecast::des::{Class, EventQueue};
use servecast::engine::scheduler::{
    Acceptance, EngineSettings, FasterTransformer, Handoff, Orca, Sarathi, Scheduler, Sglang,
    SglangSettings, StaticBatch, VllmV0, VllmV1, VllmV1Settings,
};
use servecast::engine::{EngineEvent, Finish, HostTimes, Instance};
use servecast::ids::{InstanceId, RequestId};
use servecast::metrics::{Recorder, Records};
use servecast::request::Request;
use servecast::resolved::Scenario;
use servecast::rng::{Seed, mix};
use servecast::scenario::{
    AcceptanceConfig, ClientConfig, EngineConfig, RouterConfig, ScenarioFile, SglangConfig,
    SpeculationConfig, VllmConfig,
};
use servecast::sim::laws::Watch;
use servecast::sim::{
    Counts, Observer, Occurrence, Requests, Simulation, simulation, simulation_on, step_times,
};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::{Client, Workload};

/// Runs a scenario, each instance on its own where it can.
pub(crate) fn run_text(text: &str) -> (Counts, Recorder) {
    let scenario = resolve(text).expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut recorder = Recorder::default();
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    let counts = run.run_in_lanes(&mut recorder).expect("no trace is read");
    (counts, recorder)
}

/// The records of the requests of a scenario, drawn, on a cluster that is its own or much like it.
pub(crate) fn requests_on(scenario: &Scenario, cluster: Cluster) -> Records {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let run = simulation_on(scenario, cluster, workload).expect("it can be built");
    let mut recorder = Recorder::default();
    run.run(&mut recorder).expect("no trace is read");
    recorder.requests
}

/// As many random cases as a law usually gets, or as `PROPTEST_CASES` asks for.
pub(crate) fn random_cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(usual))
}

/// The folder of reference data. Tests that need it are ignored without it, by `#[ignore = "needs SERVECAST_DATA"]`.
pub(crate) fn data() -> PathBuf {
    let folder = std::env::var_os("SERVECAST_DATA");
    PathBuf::from(folder.expect("SERVECAST_DATA names the folder of reference data"))
}

pub(crate) fn micros(micros: u64) -> SimDuration {
    SimDuration::from_micros(micros)
}

/// An affine law in microseconds: per step, per prompt token, per decoding sequence.
pub(crate) fn law(step: u64, prompt_token: u64, decoding: u64) -> Linear {
    Linear {
        base: micros(step),
        prefill_token: micros(prompt_token),
        decode_seq: micros(decoding),
        ..Linear::default()
    }
}

/// A small engine: 64 blocks of 4 tokens, 4 sequences, 32 tokens a step, 96 a sequence; the rest
/// as by default.
pub(crate) fn small_engine() -> VllmConfig {
    VllmConfig {
        block_size: 4,
        num_gpu_blocks: Some(65),
        max_num_batched_tokens: Some(32),
        max_num_seqs: Some(4),
        max_model_len: Some(96),
        ..VllmConfig::default()
    }
}

/// A queue with one server: a request owns the engine from its prompt, computed in one step, to its
/// last token. Memory and budget never limit it.
pub(crate) fn one_seat() -> VllmConfig {
    VllmConfig {
        block_size: 1 << 26,
        num_gpu_blocks: Some(3),
        max_num_batched_tokens: Some(1 << 26),
        max_num_seqs: Some(1),
        max_model_len: Some(1 << 26),
        enable_prefix_caching: false,
        async_scheduling: false,
        ..VllmConfig::default()
    }
}

/// vLLM's scheduler, of a configuration that gives all sizes.
pub(crate) fn vllm(config: &VllmConfig, acceptance: Acceptance) -> VllmV1 {
    VllmV1::new(VllmV1Settings::of(config).expect("all sizes are given"), acceptance)
}

/// `SGLang`'s scheduler, of a configuration that gives all sizes.
pub(crate) fn sglang(config: &SglangConfig) -> Sglang {
    Sglang::new(SglangSettings::of(config).expect("all sizes are given"))
}

/// A scheduler of a configuration that gives all sizes, as its engine has it without anything beside.
pub(crate) fn scheduler(config: &EngineConfig) -> Scheduler {
    match EngineSettings::of(config).expect("all sizes are given") {
        EngineSettings::VllmV1(settings) => {
            Scheduler::VllmV1(Box::new(VllmV1::new(settings, Acceptance::NONE)))
        }
        EngineSettings::Sglang(settings) => Scheduler::Sglang(Box::new(Sglang::new(settings))),
        EngineSettings::VllmV0(settings) => Scheduler::VllmV0(Box::new(VllmV0::new(settings))),
        EngineSettings::Sarathi(settings) => Scheduler::Sarathi(Box::new(Sarathi::new(settings))),
        EngineSettings::Orca(settings) => Scheduler::Orca(Box::new(Orca::new(settings))),
        EngineSettings::FasterTransformer(settings) => {
            Scheduler::FasterTransformer(Box::new(FasterTransformer::new(settings)))
        }
        EngineSettings::StaticBatching(settings) => {
            Scheduler::StaticBatch(Box::new(StaticBatch::new(settings)))
        }
    }
}

/// An idle instance on its engine's host; its draws of accepted drafts depend on nothing but the request.
pub(crate) fn instance(engine: &VllmConfig, law: Linear) -> Instance {
    let acceptance = |s: &SpeculationConfig| match &s.acceptance {
        AcceptanceConfig::PerPosition { probability } => {
            Acceptance::PerPosition { probability: *probability, seed: 1 }
        }
        other => panic!("{other:?} is not drawn here"),
    };
    let acceptance = engine.speculation.as_ref().map_or(Acceptance::NONE, acceptance);
    let scheduler = Scheduler::VllmV1(Box::new(vllm(engine, acceptance)));
    Instance::new(scheduler, StepTime::Linear(law)).on_host(HostTimes::from(&engine.host))
}

/// Identical replicas, each in turn.
pub(crate) fn cluster(replicas: u32, engine: &VllmConfig, law: Linear) -> Cluster {
    Cluster::new(
        (0..replicas).map(|_| instance(engine, law)).collect(),
        Router::new(&RouterConfig::RoundRobin {}, Seed::default()),
    )
}

/// Runs requests, sorted by arrival, on a cluster.
pub(crate) fn run_on<I>(cluster: Cluster, requests: I, observer: &mut impl Observer) -> Counts
where
    I: IntoIterator<Item = Request>,
{
    let client = Client::new(&ClientConfig::default());
    let requests = Requests(requests.into_iter());
    let simulation = Simulation::new(requests, client, cluster, SimDuration::ZERO);
    simulation.run(observer).expect("a list of requests has no errors")
}

/// What became of requests on a cluster.
pub(crate) fn records(cluster: Cluster, requests: &[Request]) -> (Counts, Recorder) {
    let mut recorder = Recorder::default();
    let counts = run_on(cluster, requests.iter().cloned(), &mut recorder);
    (counts, recorder)
}

/// A number that depends on every occurrence of a run and all that it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digest(pub(crate) u64);

impl Digest {
    fn add(&mut self, values: &[u64]) {
        self.0 = values.iter().fold(self.0, |digest, value| mix(digest ^ value));
    }
}

impl Observer for Digest {
    #[expect(clippy::too_many_lines, reason = "a number for each occurrence")]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        if matches!(what, Occurrence::Loading(..)) {
            // What it comes to is told as what is loaded.
            return;
        }
        // Which of the occurrences it is tells no number that somebody has to keep unique.
        let kind = FxBuildHasher.hash_one(std::mem::discriminant(&what));
        self.add(&[at.as_nanos(), kind]);
        match what {
            Occurrence::Arrived(id, request) => {
                let lengths = [request.prompt_tokens, request.output_tokens, request.max_tokens];
                self.add(&[id.0.into(), request.arrival.as_nanos()]);
                self.add(&lengths.map(u64::from));
            }
            Occurrence::Reached(id) | Occurrence::TurnedAway(id, _) => self.add(&[id.0.into()]),
            Occurrence::Sent(id, instance) | Occurrence::Forwarded(id, instance) => {
                self.add(&[id.0.into(), instance.0.into()]);
            }
            Occurrence::CameBack(id, from) => {
                let from = from.map_or(u64::MAX, |instance| instance.0.into());
                self.add(&[id.0.into(), from]);
            }
            Occurrence::Queued(instance, id, load) => {
                self.add(&[id.0.into(), instance.0.into(), load.waiting.into()]);
            }
            Occurrence::Planned(instance, batch, load) => {
                let levels = [load.waiting, load.running, load.kv_blocks_free].map(u64::from);
                self.add(&[instance.0.into(), batch.step]);
                self.add(&[batch.starts_at.as_nanos(), batch.duration.as_nanos()]);
                self.add(&levels);
                for entry in &batch.plan.entries {
                    let share = [entry.request.0, entry.tokens, entry.computed, entry.drafts];
                    self.add(&share.map(u64::from));
                }
                for id in &batch.plan.preempted {
                    self.add(&[id.0.into()]);
                }
            }
            Occurrence::Stepped(instance, batch, result, load) => {
                let counts = [result.tokens, load.waiting, load.running].map(u64::from);
                self.add(&[instance.0.into(), batch.step]);
                self.add(&counts);
                for gap in &result.gaps {
                    self.add(&[gap.gap.as_nanos(), gap.count.into()]);
                }
            }
            Occurrence::Landed(instance, result, load) => {
                let counts = [result.tokens, load.waiting, load.running].map(u64::from);
                self.add(&[instance.0.into()]);
                self.add(&counts);
                self.add(&result.landed.iter().map(|id| id.0.into()).collect::<Vec<u64>>());
            }
            Occurrence::Displaced(instance, ids) => {
                self.add(&[instance.0.into()]);
                self.add(&ids.iter().map(|id| id.0.into()).collect::<Vec<u64>>());
            }
            Occurrence::Quiet(instance, run) => {
                self.add(&[instance.0.into(), run.first_step, run.rows.into()]);
                for step in run.steps {
                    let times = [step.boundary, step.start].map(SimTime::as_nanos);
                    self.add(&times);
                    self.add(&[step.duration.as_nanos(), step.claims.into()]);
                }
            }
            Occurrence::LoadBegan(instance, what, load) => {
                self.add(&[instance.0.into(), what.request.0.into(), load.waiting.into()]);
                self.add(&what.tokens.map(u64::from));
            }
            Occurrence::Loading(..) => {}
            Occurrence::LoadEnded(instance, id)
            | Occurrence::SendingBegan(instance, id)
            | Occurrence::Released(instance, id)
            | Occurrence::Refused(instance, id)
            | Occurrence::Unreserved(instance, id, _)
            | Occurrence::TransferFailed(instance, id) => {
                self.add(&[instance.0.into(), id.0.into()]);
            }
            Occurrence::TierMoved(instance, way, bytes) => {
                self.add(&[instance.0.into(), way as u64, bytes.0]);
            }
            Occurrence::TiersEvicted(instance, bytes) => {
                self.add(&[instance.0.into()]);
                self.add(&bytes.map(|bytes| bytes.0));
            }
            Occurrence::HandedOver(instance, life) | Occurrence::Dropped(instance, life, _) => {
                self.add(&[instance.0.into(), life.id.0.into(), life.generated.into()]);
            }
            Occurrence::TransferBegan(instance, id, bytes) => {
                self.add(&[instance.0.into(), id.0.into(), bytes.0]);
            }
            Occurrence::Left(instance, life, finish) => {
                let ids = [instance.0, life.id.0, finish as u32, life.generated];
                let counts = [life.cached_tokens, life.preemptions].map(u64::from);
                let times = [life.first_scheduled, life.first_token, Some(life.last_token)];
                self.add(&ids.map(u64::from));
                self.add(&counts);
                self.add(&times.map(|time| time.map_or(u64::MAX, SimTime::as_nanos)));
            }
            Occurrence::GaveUp { request, life, finish, tries_again } => {
                let generated = life.map_or(0, |life| life.generated);
                self.add(&[request.0.into(), finish as u64, tries_again.into()]);
                self.add(&[generated.into()]);
            }
            Occurrence::Retried { retry, of } => self.add(&[retry.0.into(), of.0.into()]),
            Occurrence::Crashed(instance, _) | Occurrence::Recovered(instance) => {
                self.add(&[instance.0.into()]);
            }
            Occurrence::Slowed(instance, slowness, is_slow) => {
                self.add(&[instance.0.into(), slowness as u64, is_slow.into()]);
            }
            Occurrence::Scaled(instance, stage) => {
                self.add(&[instance.0.into(), stage as u64]);
            }
            Occurrence::Looked(_, look) => {
                let value = look.value.unwrap_or(-1.0).to_bits();
                self.add(&[value, look.replicas.into(), look.decided.into()]);
            }
            Occurrence::Moved { from, to, life, .. } => {
                let ids = [from.0, to.0, life.id.0, life.generated];
                self.add(&ids.map(u64::from));
            }
            Occurrence::Swapped(swap) => {
                let ids = [swap.instance.0, swap.given_up.0, swap.taken_in.0];
                self.add(&ids.map(u64::from));
            }
            Occurrence::Rebalanced { between: [a, b], requests, adapters } => {
                self.add(&[a.0.into(), b.0.into(), requests.into(), adapters.into()]);
            }
        }
    }
}

/// Arrivals of a Poisson process, without end.
pub(crate) fn poisson(seed: Seed, rate_per_s: f64) -> impl Iterator<Item = SimTime> {
    let mut stream = seed.stream("arrivals", 0);
    let mut now = SimTime::ZERO;
    std::iter::repeat_with(move || {
        let gap: f64 = Exp1.sample(&mut stream);
        now += SimDuration::from_secs_f64(gap / rate_per_s);
        now
    })
}

/// A client that goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abort {
    pub(crate) at: SimTime,
    pub(crate) request: RequestId,
}

#[derive(Debug, Clone, Copy)]
enum Input {
    Arrival(RequestId),
    Abort(RequestId),
    Advance(u32),
}

/// More events than a run of a few requests can have.
const EVENTS_MAX: u32 = 100_000;

/// Drives one instance by hand, with clients that go away, and tells observers what a simulation
/// would tell them. `look` sees the instance after every call of it, and whether it is idle then.
pub(crate) fn drive(
    mut instance: Instance,
    requests: &[Request],
    aborts: &[Abort],
    observer: &mut impl Observer,
    mut look: impl FnMut(&Instance, bool),
) -> (Counts, Instance) {
    const HERE: InstanceId = InstanceId(0);
    let mut watch = Watch::default();
    let mut observer = (&mut watch, observer);
    let mut queue = EventQueue::default();
    for (index, request) in requests.iter().enumerate() {
        let event = Input::Arrival(RequestId::from_index(index));
        queue.push(request.arrival, Class::Input, event);
    }
    for abort in aborts {
        queue.push(abort.at, Class::Input, Input::Abort(abort.request));
    }
    let mut counts = Counts::default();
    let mut is_awaited = false;
    let mut events = 0;
    let mut epoch = 0;
    while let Some((now, input)) = queue.pop() {
        events += 1;
        assert!(events < EVENTS_MAX, "the run does not end");
        if matches!(input, Input::Arrival(_) | Input::Abort(_)) {
            let changed = instance.interrupt(now, |_, event| {
                if let EngineEvent::Quiet(run) = event {
                    observer.on(now, Occurrence::Quiet(HERE, run));
                }
            });
            if let Some(at) = changed {
                epoch += 1;
                queue.push(at, Class::Step, Input::Advance(epoch));
            }
        }
        match input {
            Input::Arrival(id) => {
                let request = &requests[id.index()];
                counts.arrived += 1;
                observer.on(now, Occurrence::Arrived(id, request));
                observer.on(now, Occurrence::Sent(id, HERE));
                if instance.enqueue_at(now, id, request, Handoff::None).is_err() {
                    counts.rejected += 1;
                    observer.on(now, Occurrence::Refused(HERE, id));
                } else {
                    let load = instance.scheduler().load();
                    observer.on(now, Occurrence::Queued(HERE, id, load));
                }
            }
            Input::Abort(id) => instance.abort(id),
            Input::Advance(stale) if stale != epoch => continue,
            Input::Advance(_) => {
                let next = instance.advance(now, |instance, event| {
                    let load = instance.scheduler().load();
                    let left = match event {
                        EngineEvent::Planned(batch) => {
                            return observer.on(now, Occurrence::Planned(HERE, batch, load));
                        }
                        EngineEvent::Empty(_) => return,
                        EngineEvent::Quiet(run) => {
                            return observer.on(now, Occurrence::Quiet(HERE, run));
                        }
                        EngineEvent::Completed(batch, result) => {
                            observer.on(now, Occurrence::Stepped(HERE, batch, result, load));
                            result
                        }
                        EngineEvent::Landed(_) => unreachable!("nothing comes from elsewhere"),
                        EngineEvent::Left(result) => result,
                    };
                    for (life, finish) in &left.finished {
                        match finish {
                            Finish::Done => counts.finished += 1,
                            Finish::Aborted => counts.aborted += 1,
                            Finish::Rejected => counts.rejected += 1,
                            Finish::TimedOut | Finish::Failed => unreachable!("no client waits"),
                        }
                        observer.on(now, Occurrence::Left(HERE, life, *finish));
                    }
                });
                look(&instance, next.is_none());
                is_awaited = next.is_some();
                if let Some(at) = next {
                    queue.push(at, Class::Step, Input::Advance(epoch));
                }
                continue;
            }
        }
        if !is_awaited {
            queue.push(now, Class::Step, Input::Advance(epoch));
            is_awaited = true;
        }
    }
    let load = instance.scheduler().load();
    counts.stuck = u64::from(load.waiting + load.running);
    watch.close(&counts);
    (counts, instance)
}

/// A resolved scenario from its text.
///
/// # Errors
/// What the user would be told.
pub(super) fn resolve(text: &str) -> Result<Scenario, String> {
    let file: ScenarioFile = toml::from_str(text).map_err(|error| error.to_string())?;
    Scenario::resolve(file, None).map_err(|error| error.to_string())
}
