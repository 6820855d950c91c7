//! The routers: laws over random histories, then examples by hand.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::cluster::{Caches, Outstanding, Steps};
use crate::cost::{Linear, StepTime};
use crate::engine::Instance;
use crate::engine::scheduler::{Acceptance, Load, Scheduler, VllmV1};
use crate::ids::{AdapterId, RequestId, SessionId};
use crate::kv::{CacheContent, RadixTree};
use crate::request::{Content, Request, Segment};
use crate::scenario::{
    LatencyPredictingConfig, PrefixAwareConfig, PrefixMiss, VllmConfig, WeightedConfig,
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
            instances: self.outstanding.len() as u32,
            outstanding: &self.outstanding,
            signals: &self.signals,
            signals_age: SimDuration::ZERO,
            caches: Caches::known(&self.caches),
            steps: Steps::of(&self.engines),
            down: &self.down,
        };
        let chosen = router.route(request.view(RequestId(self.sent)), &view);
        assert!(view.is_up(chosen), "instance {chosen} is down");
        self.sent += 1;
        self.outstanding[chosen.index()].requests += 1;
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
    let law = Linear { base: ms(1.0), prefill_token: ms(0.1), decode_seq: ms(1.0) };
    let scheduler = VllmV1::new(config, Acceptance::NONE);
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
        RouterConfig::Weighted(WeightedConfig { max_tree_tokens: 40, ..WeightedConfig::default() }),
    ]
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
        instances.signals[changed].kv_blocks_free = draw % 101;
        if draw.is_multiple_of(3) {
            let at = &mut instances.outstanding[chosen as usize];
            at.requests -= 1;
            at.prompt_tokens -= u64::from(request.prompt_tokens);
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

#[test]
fn a_prompt_goes_where_more_than_the_threshold_of_it_was_sent_before() {
    let mut instances = Instances::new(3);
    let mut router = PrefixAware::new(PrefixAwareConfig::default());
    // Nothing is known: the shortest queues, in order.
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 100)])), 0);
    assert_eq!(instances.send(&mut router, &prompt(&[(2, 100)])), 1);
    // 31 of 100 tokens are those of stream 1: 0.31 > 0.3, though instance 2 is idle.
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 31), (3, 69)])), 0);
    // 30 of 100 are not more than the threshold.
    assert_eq!(instances.send(&mut router, &prompt(&[(2, 30), (4, 70)])), 2);
    // Now instance 1 holds 30 tokens of stream 2 and 2 does too; the longer match wins.
    assert_eq!(instances.send(&mut router, &prompt(&[(2, 90)])), 1);
}

#[test]
fn of_equal_matches_the_shorter_queue_wins() {
    let mut instances = Instances::with_requests(&[5, 0]);
    let mut router = PrefixAware::new(PrefixAwareConfig::default());
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 1);
    instances.outstanding[1].requests = 9;
    // The queues differ by 4, not by more than 64; the prompt is known to instance 1 alone.
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 1);
    instances.outstanding[1].requests = 100;
    // 100 − 5 > 64 and 100 > 1.5 · 5: the shortest queue, which learns the prompt.
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 0);
    instances.outstanding[1].requests = 20;
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 0);
    instances.outstanding[1].requests = 1;
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 1);
}

#[test]
fn a_load_is_imbalanced_by_difference_and_factor_both() {
    let config = PrefixAwareConfig { balance_abs_threshold: 10, ..PrefixAwareConfig::default() };
    let goes = |requests: [u32; 2]| {
        let mut router = PrefixAware::new(config);
        let mut instances = Instances::with_requests(&[0, 1]);
        assert_eq!(instances.send(&mut router, &prompt(&[(1, 10)])), 0);
        let mut instances = Instances::with_requests(&requests);
        instances.send(&mut router, &prompt(&[(1, 10)]))
    };
    assert_eq!(goes([10, 0]), 0, "10 − 0 is not more than 10");
    assert_eq!(goes([11, 0]), 1, "11 − 0 > 10 and 11 > 0");
    assert_eq!(goes([60, 40]), 0, "60 is not more than 1.5 · 40");
    assert_eq!(goes([61, 40]), 1, "61 − 40 > 10 and 61 > 60");
}

#[test]
fn an_unknown_prompt_goes_to_the_smallest_tree_if_asked() {
    let config =
        PrefixAwareConfig { on_miss: PrefixMiss::SmallestTree, ..PrefixAwareConfig::default() };
    let mut router = PrefixAware::new(config);
    let mut instances = Instances::new(2);
    assert_eq!(instances.send(&mut router, &request(100)), 0);
    assert_eq!(instances.send(&mut router, &request(30)), 1);
    // 30 tokens are fewer than 100, whatever the queues.
    instances.outstanding[1].requests = 7;
    assert_eq!(instances.send(&mut router, &request(30)), 1);
    assert_eq!(instances.send(&mut router, &request(30)), 1);
    assert_eq!(instances.send(&mut router, &request(20)), 1, "90 are fewer than 100");
    assert_eq!(instances.send(&mut router, &request(20)), 0, "110 are not");
}

#[test]
fn what_was_sent_longest_ago_is_forgotten() {
    let config = PrefixAwareConfig { max_tree_tokens: 25, ..PrefixAwareConfig::default() };
    let mut router = PrefixAware::new(config);
    for stream in 1..=3 {
        // The other instance is always busier.
        let mut instances = Instances::with_requests(&[0, 9]);
        assert_eq!(instances.send(&mut router, &prompt(&[(stream, 10)])), 0);
    }
    // 30 tokens are 5 too many: the 10 of stream 1 are gone, so it goes to the shortest queue.
    let goes = |router: &mut PrefixAware, stream| {
        Instances::with_requests(&[9, 0]).send(router, &prompt(&[(stream, 10)]))
    };
    assert_eq!(goes(&mut router, 1), 1);
    assert_eq!(goes(&mut router, 2), 0);
    assert_eq!(goes(&mut router, 3), 0);
}

#[test]
fn a_prompt_that_is_cut_otherwise_is_the_same() {
    let mut router = PrefixAware::new(PrefixAwareConfig::default());
    assert_eq!(Instances::with_requests(&[1, 0]).send(&mut router, &prompt(&[(1, 20)])), 1);
    let mut cut = request(20);
    let runs = [(0, 3), (3, 9), (12, 8)].map(|(start, len)| Segment { stream: 1, start, len });
    cut.content = Content { salt: 0, segments: Some(runs.into()) };
    assert_eq!(Instances::with_requests(&[0, 1]).send(&mut router, &cut), 1);
}

#[test]
fn adapters_and_salts_have_no_prompts_in_common() {
    let mut router = PrefixAware::new(PrefixAwareConfig::default());
    let plain = prompt(&[(1, 20)]);
    assert_eq!(Instances::with_requests(&[1, 0]).send(&mut router, &plain), 1);
    let adapted = Request { adapter: Some(AdapterId(0)), ..plain.clone() };
    assert_eq!(Instances::with_requests(&[0, 1]).send(&mut router, &adapted), 0);
    let mut salted = plain.clone();
    salted.content.salt = 5;
    assert_eq!(Instances::with_requests(&[0, 1]).send(&mut router, &salted), 0);
    assert_eq!(Instances::with_requests(&[0, 1]).send(&mut router, &plain), 1);
}

fn weighted(queue: f64, kv_utilization: f64, prefix: f64) -> Weighted {
    Weighted::new(WeightedConfig {
        queue_weight: queue,
        kv_utilization_weight: kv_utilization,
        prefix_weight: prefix,
        ..WeightedConfig::default()
    })
}

#[test]
fn the_highest_sum_of_scores_wins() {
    let instances = |states: [(u32, u32); 3]| {
        let mut instances = Instances::new(3);
        for (load, (waiting, kv_blocks_free)) in instances.signals.iter_mut().zip(states) {
            (load.waiting, load.kv_blocks_free) = (waiting, kv_blocks_free);
        }
        instances
    };
    // Queues 4, 0, 2 score 0, 1, 0.5; free memory scores 0.9, 0.1, 0.8.
    let states = [(4, 90), (0, 10), (2, 80)];
    assert_eq!(instances(states).send(&mut weighted(1.0, 0.0, 0.0), &request(1)), 1);
    assert_eq!(instances(states).send(&mut weighted(0.0, 1.0, 0.0), &request(1)), 0);
    // 0.9, 1.1, 1.3.
    assert_eq!(instances(states).send(&mut weighted(1.0, 1.0, 0.0), &request(1)), 2);
    // Equal queues: memory alone decides between 2 + 0.9, 2 + 0.1 and 2 + 0.8.
    let equal = [(3, 90), (3, 10), (3, 80)];
    assert_eq!(instances(equal).send(&mut weighted(2.0, 1.0, 0.0), &request(1)), 0);
}

#[test]
fn a_known_prefix_counts_by_its_share_of_the_prompt() {
    let mut router = weighted(2.0, 2.0, 3.0);
    let mut instances = Instances::new(2);
    instances.signals[0].waiting = 1;
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 50)])), 1);
    // Instance 1 has the longer queue now: 2 + 2 for the other, 2 + 3 · share for it.
    (instances.signals[0].waiting, instances.signals[1].waiting) = (0, 1);
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 50), (2, 20)])), 1, "3 · 5/7 > 2");
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 50), (3, 50)])), 0, "3 · 1/2 < 2");
}

#[test]
fn instances_with_equal_sums_take_turns() {
    let mut router = weighted(2.0, 2.0, 0.0);
    let mut instances = Instances::new(3);
    let went: Vec<u32> = (0..6).map(|_| instances.send(&mut router, &request(1))).collect();
    assert_eq!(went, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn what_is_cached_is_weighed_against_what_is_outstanding() {
    let mut instances = Instances::new(3);
    let mut tree = RadixTree::new(1);
    let beginning = [Segment { stream: 1, start: 0, len: 60 }];
    tree.insert(crate::rng::mix(0), &beginning, 60);
    instances.caches[2] = CacheContent::Tree(Box::new(tree));
    let mut router = PrefixExact::new(PrefixExactConfig::default());
    let again = prompt(&[(1, 60), (2, 40)]);
    // 100 not cached, or 40: outstanding prompts of less than 60 tokens do not outweigh that.
    instances.outstanding[2].prompt_tokens = 59;
    assert_eq!(instances.send(&mut router, &again), 2);
    assert_eq!(instances.send(&mut router, &again), 0, "100 beside 40 and 159");
    let mut load_alone =
        PrefixExact::new(PrefixExactConfig { overlap_score_weight: 0.0, ..Default::default() });
    assert_eq!(instances.send(&mut load_alone, &again), 1, "nothing is outstanding there");
}

/// Three instances: the first prefills 100 tokens before anything that comes, on the second four requests
/// decode, the third is idle.
fn in_need_of_a_prediction() -> Instances {
    let mut instances = Instances::with_requests(&[1, 4, 0]);
    instances.outstanding[0].prompt_tokens = 100;
    instances.outstanding[1].prompt_tokens = 400;
    instances.signals[1].running = 4;
    instances
}

#[test]
fn the_least_predicted_latency_is_that_of_an_idle_instance() {
    let mut instances = in_need_of_a_prediction();
    let mut router = LatencyPredicting::new(LatencyPredictingConfig::default());
    // 20 tokens: three steps of 6 ms, 6 ms and 3 ms and then 3 ms a token; 7 ms and 6 ms; 3 ms and 2 ms.
    assert_eq!(instances.send(&mut router, &request(20)), 2);
}

#[test]
fn a_request_goes_where_its_limits_hold_with_the_least_headroom() {
    let within = |slo_ttft_ms, slo_tpot_ms| {
        let config = LatencyPredictingConfig {
            slo_ttft_ms: Some(slo_ttft_ms),
            slo_tpot_ms: Some(slo_tpot_ms),
            ..LatencyPredictingConfig::default()
        };
        in_need_of_a_prediction().send(&mut LatencyPredicting::new(config), &request(20))
    };
    // Times to the first token are 15, 7 and 3 ms, those of each further one 3, 6 and 2 ms.
    assert_eq!(within(20.0, 10.0), 0, "all hold both");
    assert_eq!(within(14.9, 10.0), 1, "the first takes too long to its first token");
    assert_eq!(within(14.9, 5.9), 2, "the second takes too long for the others");
    assert_eq!(within(2.9, 10.0), 2, "none holds: the least latency");
}
