//! The routers: laws over random histories, then examples by hand.

mod adapters;
mod predicted;
mod prefixes;
mod weighted;

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::cluster::{AdapterReport, AdapterView, Caches, Outstanding, Steps};
use crate::cost::{Linear, StepTime};
use crate::engine::scheduler::{Acceptance, Load, Scheduler, VllmV1, VllmV1Settings};
use crate::engine::{AdapterPlace, Instance};
use crate::ids::{AdapterId, RequestId, SessionId};
use crate::kv::{CacheContent, RadixTree};
use crate::request::{Content, Request, Segment};
use crate::scenario::{
    AdapterAffinityConfig, AdapterKnowledge, AssignmentMode, DloraDispatchConfig,
    LatencyPredictingConfig, MakersRouter, PrefixAwareConfig, PrefixMiss, RankAwareConfig,
    RankKernel, SglangRouterConfig, VllmConfig, VllmRouterConfig, WeightedConfig,
};
use crate::units::SimTime;

/// Instances whose requests never leave but when they are told to.
struct Instances {
    outstanding: Vec<Outstanding>,
    signals: Vec<Load>,
    caches: Vec<CacheContent>,
    engines: Vec<Instance>,
    sent: u32,
    down: Vec<InstanceId>,
    ranks: Vec<u32>,
    reports: Vec<AdapterReport>,
    by_adapter: Vec<Vec<u32>>,
    sessions: Vec<u32>,
}

impl Instances {
    fn new(count: u32) -> Self {
        let count = count as usize;
        Self {
            outstanding: vec![Outstanding::default(); count],
            signals: vec![Load { kv_blocks: 100, kv_blocks_free: 100, ..Load::default() }; count],
            caches: vec![CacheContent::default(); count],
            engines: vec![engine(); count],
            sent: 0,
            down: Vec::new(),
            ranks: vec![8, 64],
            reports: vec![AdapterReport::default(); count],
            by_adapter: vec![vec![0; 3]; count],
            sessions: vec![0; count],
        }
    }

    fn with_requests(requests: &[u32]) -> Self {
        let mut instances = Self::new(requests.len() as u32);
        for (outstanding, &requests) in instances.outstanding.iter_mut().zip(requests) {
            outstanding.requests = requests;
        }
        instances
    }

    /// Where a request goes, which then is outstanding there.
    fn send(&mut self, router: &mut impl Route, request: &Request) -> u32 {
        let view = ClusterView {
            now: SimTime::ZERO,
            instances: self.outstanding.len() as u32,
            outstanding: &self.outstanding,
            sessions: &self.sessions,
            signals: &self.signals,
            signals_age: SimDuration::ZERO,
            caches: Caches::known(&self.caches),
            adapters: AdapterView::new(&self.ranks, &self.reports, &self.by_adapter),
            steps: Steps::of(&self.engines),
            down: &self.down,
        };
        let chosen = router.route(request.view(RequestId(self.sent)), &view);
        assert!(view.is_up(chosen), "instance {chosen} is down");
        self.sent += 1;
        self.outstanding[chosen.index()].requests += 1;
        let adapter = request.adapter.map_or(0, |adapter| adapter.index() + 1);
        self.by_adapter[chosen.index()][adapter] += 1;
        self.outstanding[chosen.index()].prompt_tokens += u64::from(request.prompt_tokens);
        chosen.0
    }

    fn requests(&self) -> Vec<u32> {
        self.outstanding.iter().map(|outstanding| outstanding.requests).collect()
    }
}

/// An engine that takes 1 ms for a step, 0.1 ms for each prompt token and 1 ms for each decoding request.
fn engine() -> Instance {
    let config = VllmConfig {
        num_gpu_blocks: Some(100),
        max_num_batched_tokens: Some(50),
        max_num_seqs: Some(8),
        max_model_len: Some(1000),
        ..VllmConfig::default()
    };
    let ms = |ms: f64| SimDuration::from_secs_f64(ms / 1e3);
    let law =
        Linear { base: ms(1.0), prefill_token: ms(0.1), decode_seq: ms(1.0), ..Linear::default() };
    let scheduler =
        VllmV1::new(VllmV1Settings::of(&config).expect("all is given"), Acceptance::NONE);
    Instance::new(Scheduler::VllmV1(Box::new(scheduler)), StepTime::Linear(law))
}

fn request(prompt_tokens: u32) -> Request {
    Request::new(SimTime::ZERO, prompt_tokens, 1)
}

/// A prompt made of runs of token streams, each from its beginning.
fn prompt(runs: &[(u64, u32)]) -> Request {
    let segments: Arc<[Segment]> =
        runs.iter().map(|&(stream, len)| Segment { stream, start: 0, len }).collect();
    let mut request = request(segments.iter().map(|run| run.len).sum());
    request.content = Content { salt: 0, segments: Some(segments) };
    request
}

/// All routers of the project.
fn all() -> Vec<RouterConfig> {
    vec![
        RouterConfig::RoundRobin {},
        RouterConfig::Random {},
        RouterConfig::LeastOutstandingRequests {},
        RouterConfig::LeastOutstandingTokens {},
        RouterConfig::PowerOfTwoChoices {},
        RouterConfig::SessionSticky {},
        RouterConfig::PrefixAware(PrefixAwareConfig {
            balance_abs_threshold: 3,
            max_tree_tokens: 40,
            ..PrefixAwareConfig::default()
        }),
        RouterConfig::PrefixExact(PrefixExactConfig::default()),
        RouterConfig::LatencyPredicting(LatencyPredictingConfig::default()),
        RouterConfig::LatencyPredicting(LatencyPredictingConfig {
            slo_ttft_ms: Some(9.0),
            slo_tpot_ms: Some(3.0),
            ..LatencyPredictingConfig::default()
        }),
        RouterConfig::Weighted(WeightedConfig {
            lru_capacity_per_server: 4,
            ..WeightedConfig::default()
        }),
        RouterConfig::AdapterAffinity(AdapterAffinityConfig::default()),
        RouterConfig::AdapterAffinity(AdapterAffinityConfig {
            knowledge: AdapterKnowledge::Sent { adapters: 1 },
            max_excess_requests: Some(2),
        }),
        RouterConfig::RankAware(RankAwareConfig::default()),
        RouterConfig::RankAware(RankAwareConfig {
            kernel: RankKernel::Triton,
            slo_ms: 18.5,
            ..RankAwareConfig::default()
        }),
        RouterConfig::DloraDispatch(DloraDispatchConfig { batch_size: 2, merged_cost: 0.6 }),
    ]
    .into_iter()
    .chain(makers())
    .collect()
}

/// The policies of `SGLang`'s router and of vLLM's, with limits that small histories meet.
fn makers() -> Vec<RouterConfig> {
    use crate::scenario::{SglangRouterPolicy as Sglang, VllmRouterPolicy as Vllm};
    let sglang = |policy| SglangRouterConfig {
        policy,
        balance_abs_threshold: 3,
        max_tree_size: 160,
        ..SglangRouterConfig::default()
    };
    let sglang = |policy| MakersRouter::Sglang(Box::new(sglang(policy)));
    let vllm = |policy| VllmRouterConfig { policy, ..VllmRouterConfig::default() };
    let vllm = |policy| MakersRouter::VllmRouter(Box::new(vllm(policy)));
    [
        sglang(Sglang::RoundRobin),
        sglang(Sglang::Random),
        sglang(Sglang::PowerOfTwo),
        sglang(Sglang::CacheAware),
        sglang(Sglang::Manual),
        MakersRouter::Sglang(Box::new(SglangRouterConfig {
            policy: Sglang::Manual,
            assignment_mode: AssignmentMode::MinGroup,
            ..SglangRouterConfig::default()
        })),
        sglang(Sglang::ConsistentHashing),
        vllm(Vllm::RoundRobin),
        vllm(Vllm::Random),
        vllm(Vllm::PowerOfTwo),
        vllm(Vllm::CacheAware),
        vllm(Vllm::ConsistentHash),
        vllm(Vllm::StickyLeastLoaded),
    ]
    .map(RouterConfig::Makers)
    .to_vec()
}

/// Requests that share beginnings and sessions.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (vec((0_u64..4, 1_u32..20), 0..4), option::of(0_u32..5), option::of(0_u32..2));
    let one = one.prop_map(|(runs, session, adapter)| {
        let mut request = if runs.is_empty() { request(7) } else { prompt(&runs) };
        request.session = session.map(SessionId);
        request.adapter = adapter.map(AdapterId);
        request
    });
    vec(one, 1..60)
}

/// Sends requests, some of which leave and some of which change what engines report or which of them are
/// down; where each went.
fn history(router: &mut Router, count: u32, requests: &[Request], noise: &[u32]) -> Vec<u32> {
    let mut instances = Instances::new(count);
    let mut went = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let draw = noise[index % noise.len()];
        let is_down = |id: &InstanceId| draw >> (8 + id.0) & 1 == 1;
        instances.down = (0..count).map(InstanceId).filter(is_down).collect();
        if instances.down.len() as u32 == count {
            instances.down.pop();
        }
        let chosen = instances.send(router, request);
        went.push(chosen);
        let changed = (draw % count) as usize;
        instances.signals[changed].waiting = draw % 7;
        instances.sessions[changed] = draw % 5;
        instances.reports[changed] = AdapterReport {
            places: vec![AdapterPlace::Slot, AdapterPlace::Host],
            running: vec![draw % 2, draw % 3, draw % 4],
            longest_waiting: draw % 100,
        };
        instances.signals[changed].kv_blocks_free = draw % 101;
        if draw.is_multiple_of(3) {
            let at = &mut instances.outstanding[chosen as usize];
            at.requests -= 1;
            at.prompt_tokens -= u64::from(request.prompt_tokens);
            let adapter = request.adapter.map_or(0, |adapter| adapter.index() + 1);
            instances.by_adapter[chosen as usize][adapter] -= 1;
        }
    }
    went
}

proptest! {
    #[test]
    fn every_router_names_an_instance_that_is_up_and_repeats_itself(
        count in 1_u32..6, requests in requests(), noise in vec(any::<u32>(), 1..20), seed: u64,
    ) {
        for config in all() {
            let run = || history(&mut Router::new(&config, Seed(seed)), count, &requests, &noise);
            let went = run();
            prop_assert!(went.iter().all(|&instance| instance < count), "{config:?}");
            prop_assert_eq!(went, run(), "{:?}", config);
        }
    }

    #[test]
    fn the_fewest_outstanding_requests_are_the_fewest(loads in vec(0_u32..9, 1..8)) {
        let mut instances = Instances::with_requests(&loads);
        let chosen = instances.send(&mut LeastOutstandingRequests, &request(1)) as usize;
        prop_assert_eq!(loads[chosen], *loads.iter().min().unwrap());
        prop_assert!(loads[..chosen].iter().all(|&load| load > loads[chosen]), "the lowest id");
    }

    #[test]
    fn the_fewest_outstanding_tokens_are_the_fewest(loads in vec((0_u32..3, 0_u64..4), 1..8)) {
        let mut instances = Instances::new(loads.len() as u32);
        for (at, &(requests, prompt_tokens)) in instances.outstanding.iter_mut().zip(&loads) {
            *at = Outstanding { requests, prompt_tokens };
        }
        let chosen = instances.send(&mut LeastOutstandingTokens, &request(1)) as usize;
        let key = |index: usize| (loads[index].1, loads[index].0, index);
        prop_assert!((0..loads.len()).all(|index| key(chosen) <= key(index)));
    }

    #[test]
    fn the_better_of_two_is_never_the_worst(loads in vec(0_u32..50, 2..8), seed: u64) {
        let mut instances = Instances::with_requests(&loads);
        let mut router = PowerOfTwoChoices::new(Seed(seed).stream("router", 0));
        let chosen = instances.send(&mut router, &request(1)) as usize;
        let is_worst_alone = (0..loads.len()).all(|i| i == chosen || loads[i] < loads[chosen]);
        prop_assert!(!is_worst_alone);
    }

    #[test]
    fn a_session_stays_where_it_began(requests in requests(), count in 1_u32..6) {
        let mut router = Router::new(&RouterConfig::SessionSticky {}, Seed(0));
        let went = history(&mut router, count, &requests, &[1, 2, 3]);
        for (one, a) in requests.iter().zip(&went) {
            for (other, b) in requests.iter().zip(&went) {
                prop_assert!(one.session.is_none() || one.session != other.session || a == b);
            }
        }
    }
}

/// The most requests on one of so many instances after as many requests.
fn fullest(config: &RouterConfig, count: u32, seed: u64) -> u32 {
    let mut router = Router::new(config, Seed(seed));
    let mut instances = Instances::new(count);
    for _ in 0..count {
        instances.send(&mut router, &request(1));
    }
    instances.requests().into_iter().max().unwrap()
}

#[test]
fn two_choices_keep_the_fullest_far_below_one_choice() {
    // n balls in n bins: the fullest holds about ln n / ln ln n with one choice, ln ln n / ln 2 + O(1)
    // with two (Azar, Broder, Karlin, Upfal: Balanced allocations, 1999). For n = 10,000 these are
    // 4.1, below which one choice hardly ever stays, and 3.2.
    for seed in 0..20 {
        let random = fullest(&RouterConfig::Random {}, 10_000, seed);
        let two = fullest(&RouterConfig::PowerOfTwoChoices {}, 10_000, seed);
        assert!(two <= 4, "{two}");
        assert!(random >= 6, "{random}");
    }
}

#[test]
fn random_takes_every_instance_equally_often() {
    let mut router = Random::new(Seed(3).stream("router", 0));
    let mut instances = Instances::new(10);
    for _ in 0..100_000 {
        instances.send(&mut router, &request(1));
    }
    // Binomial with mean 10,000: five standard deviations are 5·√(100,000·0.1·0.9) = 474.
    assert!(instances.requests().iter().all(|&n| n.abs_diff(10_000) < 474));
}

#[test]
fn those_that_are_up_share_what_those_that_are_down_do_not_get() {
    for config in [RouterConfig::RoundRobin {}, RouterConfig::Random {}] {
        let mut instances = Instances::new(5);
        instances.down = vec![InstanceId(1), InstanceId(2)];
        let mut router = Router::new(&config, Seed(5));
        for _ in 0..3000 {
            instances.send(&mut router, &request(1));
        }
        let requests = instances.requests();
        assert_eq!(requests[1..3], [0, 0], "{config:?}");
        // Six standard deviations of a third of 3000.
        let fair = [0, 3, 4].iter().all(|&id| requests[id].abs_diff(1000) < 155);
        assert!(fair, "{config:?}: {requests:?}");
    }
}

#[test]
fn a_session_begins_anew_where_its_instance_is_down() {
    let mut instances = Instances::with_requests(&[0, 5, 9]);
    let mut router = SessionSticky::default();
    let mut one = request(1);
    one.session = Some(SessionId(4));
    assert_eq!(instances.send(&mut router, &one), 0);
    instances.down = vec![InstanceId(0)];
    assert_eq!(instances.send(&mut router, &one), 1);
    instances.down.clear();
    assert_eq!(instances.send(&mut router, &one), 1, "it stays there");
}

#[test]
fn another_seed_draws_other_instances() {
    for config in [RouterConfig::Random {}, RouterConfig::PowerOfTwoChoices {}] {
        let requests = vec![request(1); 50];
        let run = |seed| history(&mut Router::new(&config, Seed(seed)), 5, &requests, &[1]);
        assert_ne!(run(1), run(2), "{config:?}");
    }
}

#[test]
fn every_instance_gets_its_turn() {
    let mut instances = Instances::new(3);
    let mut router = RoundRobin::default();
    let chosen: Vec<u32> = (0..5).map(|_| instances.send(&mut router, &request(1))).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1]);
}
