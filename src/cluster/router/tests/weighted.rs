//! Weighted scorers.

use super::*;

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
