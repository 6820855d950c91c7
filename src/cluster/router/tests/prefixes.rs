//! Routers that know prompts: those that were sent, and those that caches hold.

use super::*;

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

#[test]
fn what_is_cached_is_weighed_against_what_is_outstanding() {
    let mut instances = Instances::new(3);
    let mut tree = RadixTree::new(1);
    let beginning = [Segment { stream: 1, start: 0, len: 60 }];
    tree.insert(crate::kv::BlockHash::namespace(0, None).number(), &beginning, 60);
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
