//! Twelve policies that are broken on purpose, each as somebody may break one who means to improve it. The suite
//! has to catch every one of them, in the scenario that is there for it.

use servecast::check::{Policies, Suite};
use servecast::cluster::{ClusterView, Needs, Route, Router};
use servecast::engine::scheduler::{
    Acceptance, Admit, Doorkeeper, EngineSettings, Held, Load, Scheduler, VllmV1, VllmV1Settings,
};
use servecast::ids::InstanceId;
use servecast::request::RequestView;
use servecast::resolved::{ReplicaGroup, Scenario};
use servecast::scenario::Policy;
use servecast::units::{SimDuration, SimTime};

/// A line: the policies, and the scenario that catches them by this figure.
fn assert_caught(policies: &Policies<'_>, scenario: &str, figure: &str) {
    let suite = Suite::built_in();
    assert!(suite.members.iter().any(|member| member.name == scenario), "{scenario} is there");
    let outcomes = suite.check(policies).expect("the suite can be simulated");
    let outcome = outcomes.iter().find(|outcome| outcome.scenario == scenario).expect("it was run");
    assert_eq!(outcome.left_out, None);
    let failed: Vec<&str> = outcome.failures().map(|found| found.figure.as_str()).collect();
    assert!(failed.contains(&figure), "{scenario} fails by {failed:?} only");
}

fn door<A: Admit + Sync + 'static>(policy: A) -> Policies<'static> {
    Policies::shipped()
        .with_scheduler(move |_, _, engine| Ok(Doorkeeper::new(policy.clone(), engine).into()))
}

/// vLLM's scheduler with other settings, where nothing else has to be built into it.
fn vllm(change: impl Fn(&mut VllmV1Settings) + Send + Sync + 'static) -> Policies<'static> {
    Policies::shipped().with_scheduler(move |scenario, group, _| {
        let mut settings = plain_vllm(scenario, group)?;
        change(&mut settings);
        Ok(Scheduler::VllmV1(Box::new(VllmV1::new(settings, Acceptance::NONE))))
    })
}

fn plain_vllm(scenario: &Scenario, group: &ReplicaGroup) -> Result<VllmV1Settings, String> {
    let cluster = &group.cluster;
    let is_plain = cluster.lora.is_none()
        && cluster.kv_tiers.is_none()
        && cluster.pipeline_parallel_size == 1
        && cluster.data_parallel_size == 1
        && scenario.disaggregation().is_none();
    match &group.settings {
        EngineSettings::VllmV1(vllm) if is_plain && vllm.drafts.is_none() => Ok(vllm.clone()),
        _ => Err("is more than vLLM's scheduler".to_owned()),
    }
}

#[derive(Debug, Clone)]
struct NewestFirst;

impl Admit for NewestFirst {
    fn next(&mut self, waiting: &[Held], engine: &Load, _: SimTime) -> Option<usize> {
        (engine.waiting == 0).then(|| waiting.len() - 1)
    }
}

#[test]
fn newest_first_is_caught() {
    assert_caught(&door(NewestFirst), "burst", "p99_ttft_ms");
}

#[derive(Debug, Clone)]
struct OneAtATime;

impl Admit for OneAtATime {
    fn next(&mut self, _: &[Held], engine: &Load, _: SimTime) -> Option<usize> {
        (engine.waiting + engine.running == 0).then_some(0)
    }
}

#[test]
fn one_request_at_a_time_is_caught() {
    assert_caught(&door(OneAtATime), "closed-loop", "output_throughput");
}

/// A request a step: whoever comes in a burst waits for the steps of all before.
#[derive(Debug, Clone)]
struct OnePerStep;

impl Admit for OnePerStep {
    fn next(&mut self, _: &[Held], engine: &Load, _: SimTime) -> Option<usize> {
        (engine.waiting == 0).then_some(0)
    }
}

#[test]
fn one_admission_a_step_is_caught() {
    assert_caught(&door(OnePerStep), "burst", "mean_ttft_ms");
}

#[derive(Debug, Clone)]
struct LongLast;

impl Admit for LongLast {
    fn next(&mut self, waiting: &[Held], _: &Load, _: SimTime) -> Option<usize> {
        waiting.iter().position(|held| held.view().prompt_tokens < 4000)
    }
}

#[test]
fn starving_long_prompts_is_caught() {
    assert_caught(&door(LongLast), "long-prompts", "long.p99_ttft_ms");
}

#[derive(Debug, Clone)]
struct PrefillWhenIdle;

impl Admit for PrefillWhenIdle {
    fn next(&mut self, _: &[Held], engine: &Load, _: SimTime) -> Option<usize> {
        (engine.running == 0).then_some(0)
    }
}

#[test]
fn prefilling_only_when_idle_is_caught() {
    assert_caught(&door(PrefillWhenIdle), "sglang", "mean_ttft_ms");
}

#[test]
fn never_batching_decodes_is_caught() {
    let alone = |settings: &mut VllmV1Settings| {
        settings.max_num_active_seqs = 1;
    };
    assert_caught(&vllm(alone), "saturation", "output_throughput");
}

#[test]
fn forgetting_what_is_cached_is_caught() {
    let forget = |settings: &mut VllmV1Settings| settings.enable_prefix_caching = false;
    assert_caught(&vllm(forget), "prefix-sharing", "mean_ttft_ms");
}

#[test]
fn ignoring_the_token_budget_is_caught() {
    let ignore = |settings: &mut VllmV1Settings| settings.max_num_batched_tokens = 1_000_000;
    assert_caught(&vllm(ignore), "chunked-prefill", "p99_itl_ms");
}

#[test]
fn dropping_priorities_is_caught() {
    let drop = |settings: &mut VllmV1Settings| settings.policy = Policy::Fcfs;
    assert_caught(&vllm(drop), "priorities", "urgent.p99_ttft_ms");
}

#[test]
fn losing_half_of_the_memory_is_caught() {
    let halve = |settings: &mut VllmV1Settings| {
        settings.num_gpu_blocks /= 2;
        let tokens = (settings.num_gpu_blocks - 1) * settings.block_size;
        settings.max_model_len = settings.max_model_len.min(tokens);
    };
    assert_caught(&vllm(halve), "preemption", "mean_e2el_ms");
}

#[derive(Debug)]
struct AlwaysFirst;

impl Route for AlwaysFirst {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        view.least(|id| id.0)
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

#[test]
fn sending_all_to_one_replica_is_caught() {
    let policies =
        Policies::shipped().with_router(|_, _| Ok(Router::Custom(Box::new(AlwaysFirst))));
    assert_caught(&policies, "router-load", "mean_ttft_ms");
}

/// The fewest outstanding requests, as they were seconds ago.
#[derive(Debug, Default)]
struct Stale {
    seen: Option<(SimTime, Vec<u32>)>,
}

impl Route for Stale {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let age = SimDuration::from_millis(2000);
        let is_old = self.seen.as_ref().is_none_or(|(at, _)| request.arrival > *at + age);
        if is_old {
            let now = view.outstanding.iter().map(|there| there.requests).collect();
            self.seen = Some((request.arrival, now));
        }
        let seen = self.seen.as_ref().map(|(_, seen)| seen.as_slice()).unwrap_or_default();
        view.least(|id| seen.get(id.index()).copied())
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}

#[test]
fn routing_by_stale_data_is_caught() {
    let policies =
        Policies::shipped().with_router(|_, _| Ok(Router::Custom(Box::<Stale>::default())));
    assert_caught(&policies, "router-load", "mean_ttft_ms");
}
