//! Routers that know adapters.

use super::*;

fn with(adapter: u32, prompt_tokens: u32) -> Request {
    Request { adapter: Some(AdapterId(adapter)), ..request(prompt_tokens) }
}

#[test]
fn a_slot_comes_before_host_memory_and_that_before_a_short_queue() {
    let mut instances = Instances::with_requests(&[0, 7, 9, 9]);
    instances.reports[1].places = vec![AdapterPlace::Host, AdapterPlace::Disk];
    instances.reports[2].places = vec![AdapterPlace::Slot, AdapterPlace::Host];
    instances.reports[3].places = vec![AdapterPlace::Slot, AdapterPlace::Host];
    let mut router = AdapterAffinity::new(AdapterAffinityConfig::default());
    // Instances 2 and 3 have it in a slot; of equal queues the first, then the other.
    assert_eq!(instances.send(&mut router, &with(0, 1)), 2);
    assert_eq!(instances.send(&mut router, &with(0, 1)), 3);
    instances.down = vec![InstanceId(2), InstanceId(3)];
    assert_eq!(instances.send(&mut router, &with(0, 1)), 1, "in host memory");
    assert_eq!(instances.send(&mut router, &with(1, 1)), 0, "nobody who is up holds it");
    assert_eq!(instances.send(&mut router, &request(1)), 0, "it needs none");
}

#[test]
fn a_holder_with_too_many_requests_counts_as_none() {
    let config =
        AdapterAffinityConfig { max_excess_requests: Some(3), ..AdapterAffinityConfig::default() };
    let goes = |requests: [u32; 2]| {
        let mut instances = Instances::with_requests(&requests);
        instances.reports[1].places = vec![AdapterPlace::Slot];
        instances.send(&mut AdapterAffinity::new(config), &with(0, 1))
    };
    assert_eq!(goes([2, 5]), 1, "5 is 2 and 3");
    assert_eq!(goes([2, 6]), 0, "6 is more");
}

#[test]
fn what_was_sent_last_is_remembered_for_so_many_adapters() {
    let knowledge = AdapterKnowledge::Sent { adapters: 1 };
    let mut router =
        AdapterAffinity::new(AdapterAffinityConfig { knowledge, max_excess_requests: None });
    let mut instances = Instances::new(2);
    assert_eq!(instances.send(&mut router, &with(0, 1)), 0);
    assert_eq!(instances.send(&mut router, &with(1, 1)), 1);
    assert_eq!(instances.send(&mut router, &with(0, 1)), 0);
    assert_eq!(instances.send(&mut router, &with(0, 1)), 0, "though the other has fewer");
    instances.down = vec![InstanceId(1)];
    assert_eq!(instances.send(&mut router, &with(1, 1)), 0, "it has forgotten adapter 0 for it");
    instances.down.clear();
    assert_eq!(instances.send(&mut router, &with(0, 1)), 1, "the shortest queue");
}

#[test]
fn a_request_of_a_large_rank_goes_where_ranks_are_large_already() {
    // Two requests run on each, of rank 8 or of rank 64. One of rank 64 makes a step of 3 · 64 of both,
    // with triton: of 2 · 8 and of 2 · 64 before. In units of α it adds 192 − 16 = 176 to the first and 64
    // to the second, and to their empty queues the same.
    let config = RankAwareConfig {
        kernel: RankKernel::Triton,
        alpha_ms: Some(1.0),
        beta_ms: Some(0.0),
        slo_ms: 1e6,
        ..RankAwareConfig::default()
    };
    let running = |config| {
        let mut instances = Instances::with_requests(&[2, 2]);
        instances.by_adapter = vec![vec![0, 2, 0], vec![0, 0, 2]];
        instances.reports[0].running = vec![0, 2, 0];
        instances.reports[1].running = vec![0, 0, 2];
        let mut router = RankAware::new(config);
        let large = instances.send(&mut router, &with(1, 100));
        (large, instances)
    };
    assert_eq!(running(config).0, 1);
    // One of rank 8 makes 3 · 8 of the first and 3 · 64 of the second: 8 and 64 more.
    let (_, mut instances) = running(config);
    instances.by_adapter[1][2] = 2;
    assert_eq!(instances.send(&mut RankAware::new(config), &with(0, 100)), 0);
    // With the root, √24 − √16 = 0.90 for rank 8 in the first, √192 − √128 = 2.54 in the second.
    let root = RankAwareConfig { kernel: RankKernel::Csgmv, ..config };
    assert_eq!(running(root).0, 1, "√192 − √16 = 9.86 or 2.54");
    // A limit between 64 · 3 and that: none of them may take it, so the fewest requests do.
    let tight = RankAwareConfig { slo_ms: 191.0, ..config };
    assert_eq!(running(tight).0, 0, "both are beyond the limit");
}

#[test]
fn the_queue_costs_by_its_longest_prompt_and_the_answer() {
    // α = 1, β = 10, ranks 8, triton. The first has one request of 50 tokens that waits, the second one that
    // runs. To the first a prompt of 100 adds (2 · 8 + 10) · 100 − (8 + 10) · 50 = 1700, by 100 tokens of an
    // answer 17, and 16 − 8 = 8 to the decode: 25. To the second (8 + 10) · 100 / 100 = 18, and 8: 26.
    let config = RankAwareConfig {
        kernel: RankKernel::Triton,
        alpha_ms: Some(1.0),
        beta_ms: Some(10.0),
        mean_output_tokens: 100.0,
        ..RankAwareConfig::default()
    };
    let goes = |longest_waiting: u32| {
        let mut instances = Instances::with_requests(&[1, 1]);
        instances.by_adapter = vec![vec![0, 1, 0], vec![0, 1, 0]];
        instances.reports[0].longest_waiting = longest_waiting;
        instances.reports[1].running = vec![0, 1, 0];
        instances.send(&mut RankAware::new(config), &with(0, 100))
    };
    assert_eq!(goes(50), 0);
    // With 40 tokens that wait 2600 − 18 · 40 = 1880 is added: 18.8 and 8.
    assert_eq!(goes(40), 1);
}

#[test]
fn batches_of_one_adapter_cost_less_than_mixed_ones() {
    let config = DloraDispatchConfig { batch_size: 4, merged_cost: 0.6 };
    let goes = |counts: [[u32; 3]; 2]| {
        let mut instances = Instances::with_requests(&counts.map(|of| of.iter().sum()));
        instances.by_adapter = counts.map(Vec::from).into();
        instances.send(&mut DloraDispatch::new(config), &with(0, 1))
    };
    // ⌊(2 + 2) / 4⌋ = 1 mixed batch; one merged batch of 0.6.
    assert_eq!(goes([[0, 2, 2], [0, 4, 0]]), 1);
    // 0.6; nothing, as three requests are no batch, though more merged ones follow.
    assert_eq!(goes([[0, 4, 0], [0, 3, 0]]), 1);
    // 2 · 0.6 = 1.2; 1 mixed.
    assert_eq!(goes([[0, 8, 0], [3, 1, 3]]), 1);
    assert_eq!(goes([[0, 1, 1], [0, 1, 0]]), 1, "both are free: the fewest requests");
}
