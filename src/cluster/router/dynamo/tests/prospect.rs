//! Who only asks is told where it would go, and leaves nothing behind.

use super::*;

/// All that is booked and known, as requests with this prompt see it.
fn seen(router: &mut KvRouter, asks: &Ask) -> (Vec<Potential>, Vec<Overlap>, u64) {
    let mut overlaps = Vec::new();
    router.look_up(SimTime::ZERO, &asks.prompt, &mut overlaps);
    let potentials = router.potential(SimTime::ZERO, asks, &overlaps);
    (potentials, overlaps, router.waiting())
}

proptest! {
    #[test]
    fn a_question_is_answered_as_the_request_is_that_follows_it(
        steps in proptest::collection::vec((paths(), 0..3_u8, 0..40_u64), 1..60),
        (scale, credit) in (0.0..4.0_f64, 0.0..2.0_f64),
        pool in prop_oneof![Just(Pool::Prefill), Just(Pool::Decode)],
        seed in any::<u64>(),
    ) {
        let config = DynamoConfig {
            prefill_load_scale: scale,
            overlap_score_credit: credit,
            ..DynamoConfig::default()
        };
        let mut stream = Seed(seed).stream("router", 0);
        let mut router = KvRouter::new(&config, pool, 16);
        let mut outcomes = Vec::new();
        for worker in 0..RANKS {
            let member = Member {
                max_num_batched_tokens: Some(200),
                total_kv_blocks: (worker > 0).then_some(u64::from(worker) * 100),
                ..Member::of(worker)
            };
            router.add(SimTime::ZERO, Rank(worker), member, &mut stream, &mut outcomes);
        }
        for (number, (path, kind, more)) in steps.into_iter().enumerate() {
            let asks = ask(number as u64, &path, 16 * path.len() as u64 + more % 16);
            let before = seen(&mut router, &asks);
            let prospect = router.prospect(SimTime::ZERO, &asks, &mut stream).unwrap();
            let after = seen(&mut router, &asks);
            prop_assert_eq!(&before, &after, "nothing is booked or learnt");

            // It is one of those that cost least by the rule, weighed one by one.
            let (potentials, overlaps, _) = before;
            let cost = |one: &Potential| {
                let (booked, _, _) = router.booked(one.rank);
                let credit = credit * f64::from(overlaps[one.rank.index()].device);
                let raw = (booked + asks.prompt_tokens) as f64 / 16.0;
                scale * (raw - credit).max(0.0) + one.blocks as f64
            };
            let least = potentials.iter().map(cost).fold(f64::INFINITY, f64::min);
            let rank = prospect.rank;
            let own = potentials.iter().find(|one| one.rank == rank).unwrap();
            prop_assert!(cost(own) <= least * (1.0 + 1e-12), "{} is not {least}", cost(own));
            prop_assert_eq!(prospect.prefill_tokens, router.booked(rank).0);
            prop_assert_eq!(prospect.max_num_batched_tokens, 200);
            prop_assert_eq!(prospect.total_kv_blocks, [None, Some(100), Some(200), Some(300)][rank.index()]);

            // The request that is pinned there is booked as was said.
            let options = Options { pinned: Some(rank), ..Options::default() };
            let decision = sent(&mut router, Ask { options: Some(options.into()), ..asks }, &mut stream);
            let missing = (16 * path.len() as u64 + more % 16).saturating_sub(prospect.cached_tokens);
            prop_assert_eq!((decision.rank, decision.prefill_tokens), (rank, missing));
            prop_assert_eq!(decision.blocks, prospect.blocks);
            prop_assert_eq!(router.booked(rank).0, prospect.prefill_tokens + missing);
            match kind {
                0 => router.stored(rank, Tier::Device, None, &names(&chain(&path))),
                1 => router.prefill_done(SimTime::ZERO, decision.key, &mut stream, &mut outcomes),
                _ => router.free(SimTime::ZERO, decision.key, &mut stream, &mut outcomes),
            }
        }
    }
}

#[test]
fn a_question_is_answered_while_requests_have_to_wait() {
    let config = DynamoConfig { router_queue_threshold: Some(0.0), ..DynamoConfig::default() };
    let mut stream = Seed(1).stream("router", 0);
    let mut router = fleet(&config, &mut stream);
    let mut outcomes = Vec::new();
    for key in 0..5 {
        router.arrive(SimTime::ZERO, ask(key, &[0], 16), &mut stream, &mut outcomes);
    }
    assert_eq!((outcomes.len(), router.waiting()), (4, 1), "each worker has one");
    let prospect = router.prospect(SimTime::ZERO, &ask(9, &[1], 20), &mut stream).unwrap();
    assert_eq!((prospect.prefill_tokens, prospect.blocks, prospect.cached_tokens), (16, 2, 0));
    assert_eq!(router.waiting(), 1);
    for rank in 0..RANKS {
        router.set_up(Rank(rank), false);
    }
    let ranks_down = router.prospect(SimTime::ZERO, &ask(9, &[1], 20), &mut stream);
    assert_eq!(ranks_down, None);
}
