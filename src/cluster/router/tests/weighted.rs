//! Weighted scorers.

use super::*;

fn weighted(queue: f64, kv_utilization: f64, prefix: f64) -> Weighted {
    with(WeightedConfig {
        queue_weight: queue,
        kv_utilization_weight: kv_utilization,
        prefix_weight: prefix,
        ..WeightedConfig::default()
    })
}

fn with(config: WeightedConfig) -> Weighted {
    Weighted::new(config, Seed(1).stream("router", 0))
}

const NONE: WeightedConfig = WeightedConfig {
    queue_weight: 0.0,
    kv_utilization_weight: 0.0,
    prefix_weight: 0.0,
    running_requests_weight: 0.0,
    load_aware_weight: 0.0,
    active_request_weight: 0.0,
    token_load_weight: 0.0,
    no_hit_lru_weight: 0.0,
    signal_interval_ms: 0.0,
    lru_capacity_per_server: 31_250,
};

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
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 80)])), 1);
    // Instance 1 has the longer queue now: 2 + 2 for the other, 2 + 3 · share of five blocks for it.
    (instances.signals[0].waiting, instances.signals[1].waiting) = (0, 1);
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 80), (2, 30)])), 1, "3 · 5/7 > 2");
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 80), (3, 80)])), 0, "3 · 5/10 < 2");
}

#[test]
fn blocks_count_on_their_own_once_somebody_has_those_before() {
    // Instance 0 gets three blocks, then remembers the last two only; 1 has the first.
    let mut router =
        with(WeightedConfig { prefix_weight: 1.0, lru_capacity_per_server: 2, ..NONE });
    let mut instances = Instances::new(2);
    let send =
        |router: &mut Weighted, instances: &mut Instances, runs: &[(u64, u32)], down: u32| {
            instances.down = vec![InstanceId(down)];
            let chosen = instances.send(router, &prompt(runs));
            instances.down.clear();
            chosen
        };
    assert_eq!(send(&mut router, &mut instances, &[(1, 48)], 1), 0);
    assert_eq!(send(&mut router, &mut instances, &[(1, 16)], 0), 1);
    // Two of the three blocks against one.
    assert_eq!(instances.send(&mut router, &prompt(&[(1, 48)])), 0);
}

#[test]
fn of_equal_sums_any_is_chosen() {
    let mut router = weighted(2.0, 2.0, 0.0);
    let mut instances = Instances::new(3);
    let mut counts = [0; 3];
    (0..3000).for_each(|_| counts[instances.send(&mut router, &request(1)) as usize] += 1);
    // 1000 each, with a deviation of 26.
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
}

#[test]
fn what_was_sent_counts_as_requests_and_as_tokens() {
    let choose = |config: WeightedConfig| {
        let mut instances = Instances::new(3);
        let sent = [(4, 10), (2, 4_000_000), (3, 5)];
        for (outstanding, (requests, prompt_tokens)) in instances.outstanding.iter_mut().zip(sent) {
            (outstanding.requests, outstanding.prompt_tokens) = (requests, prompt_tokens);
        }
        instances.send(&mut with(config), &request(1))
    };
    assert_eq!(choose(WeightedConfig { active_request_weight: 1.0, ..NONE }), 1);
    assert_eq!(choose(WeightedConfig { token_load_weight: 1.0, ..NONE }), 2);
    // 0 + 1, 0.5 + 0.05, 0.25 + 1.
    let both = WeightedConfig { active_request_weight: 1.0, token_load_weight: 1.0, ..NONE };
    assert_eq!(choose(both), 2);
}

#[test]
fn running_and_waiting_requests_have_scores_of_their_own() {
    let mut instances = Instances::new(2);
    (instances.signals[0].running, instances.signals[1].running) = (9, 3);
    (instances.signals[0].waiting, instances.signals[1].waiting) = (0, 64);
    let mut running = with(WeightedConfig { running_requests_weight: 1.0, ..NONE });
    assert_eq!(instances.send(&mut running, &request(1)), 1);
    let mut waiting = with(WeightedConfig { load_aware_weight: 1.0, ..NONE });
    assert_eq!(instances.send(&mut waiting, &request(1)), 0);
    // 0.5 · 3 against 0.25 · 3 + 1.
    let both = WeightedConfig { running_requests_weight: 1.0, load_aware_weight: 3.0, ..NONE };
    assert_eq!(instances.send(&mut with(both), &request(1)), 1);
}

#[test]
fn prompts_that_nobody_knows_go_round() {
    let mut router = with(WeightedConfig { no_hit_lru_weight: 1.0, prefix_weight: 1.0, ..NONE });
    let mut instances = Instances::new(3);
    let cold: Vec<u32> =
        (1..7).map(|stream| instances.send(&mut router, &prompt(&[(stream, 32)]))).collect();
    assert_eq!(cold, [0, 1, 2, 0, 1, 2]);
    // A known one goes where it is known and changes nothing for the next.
    assert_eq!(instances.send(&mut router, &prompt(&[(3, 32)])), 2);
    assert_eq!(instances.send(&mut router, &prompt(&[(9, 32)])), 0);
}
