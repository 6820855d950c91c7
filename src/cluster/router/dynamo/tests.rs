//! Laws of the parts against slow oracles, and decisions worked by hand; those of the index are in
//! [`index`], those of questions without a booking in [`prospect`].

#![allow(clippy::float_cmp, reason = "costs of small numbers are exact")]

mod index;
mod prospect;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::cost::{State, Weights};
use super::*;
use crate::ids::RequestId;
use crate::kv::{BlockHash, ChainHasher, Lookahead, Order};
use crate::request::{Content, Segment};
use crate::rng::{Seed, Stream};
use crate::scenario::{
    DynamoBucket, DynamoClass, DynamoConfig, DynamoPolicy, DynamoQueueOrder, DynamoSelection,
    DynamoTwoTier,
};
use crate::units::{SimDuration, SimTime};

const RANKS: u32 = 4;

/// The names of a path of choices; those of a choice that comes again and again are a run.
fn chain(path: &[u8]) -> Vec<u64> {
    let token = |(start, choice): (u32, &u8)| Segment { stream: u64::from(*choice), start, len: 1 };
    let content = Content { salt: 0, segments: Some((0..).zip(path).map(token).collect()) };
    let tokens = path.len() as u32;
    let mut names = Vec::new();
    ChainHasher::new(RequestId(0), &content, tokens, None, 1, Lookahead::None)
        .extend(tokens, &mut names);
    names.into_iter().map(BlockHash::number).collect()
}

fn names(blocks: &[u64]) -> Names {
    blocks.iter().copied().collect()
}

fn prompt(path: &[u8]) -> Prompt {
    let named = chain(path);
    Prompt { blocks: named.len() as u32, named: Arc::new(names(&named)) }
}

/// Paths that share beginnings.
fn paths() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..2_u8, 1..9)
}

fn at(millis: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(millis)
}

fn run(set: &HashSet<u64>, blocks: &[u64]) -> u32 {
    blocks.iter().take_while(|block| set.contains(block)).count() as u32
}

fn runs_of(tell: impl FnOnce(&mut dyn FnMut(Rank, u32))) -> BTreeMap<Rank, u32> {
    let mut runs = BTreeMap::new();
    tell(&mut |rank, run| {
        if run > 0 {
            runs.insert(rank, run);
        }
    });
    runs
}

proptest! {
    /// Loads against lists of requests, and zero when all have left.
    #[test]
    fn loads_are_what_live_requests_add_up_to(
        steps in proptest::collection::vec((0..RANKS, paths(), 0..4_u32, 0..10_u8, 0..=4_u8), 1..150),
    ) {
        let mut loads = Loads::default();
        loads.grow(RANKS as usize);
        // Of each live request: its rank, prompt, prefill tokens, blocks of its own, and what they count.
        let mut live: BTreeMap<u64, (Rank, Prompt, u64, u32, f64)> = BTreeMap::new();
        let mut weights: HashMap<(Rank, u64), f64> = HashMap::new();
        for (number, (rank, path, unnamed, kind, weight)) in steps.into_iter().enumerate() {
            let some = live.keys().nth(number % live.len().max(1)).copied();
            match (kind, some) {
                (0..5, _) | (_, None) => {
                    let key = number as u64;
                    let mut prompt = prompt(&path);
                    prompt.blocks += unnamed;
                    loads.book(RequestKey(key), Rank(rank), 100 + key, prompt.clone());
                    live.insert(key, (Rank(rank), prompt, 100 + key, 0, 1.0));
                }
                (5, Some(key)) => {
                    loads.prefill_done(RequestKey(key));
                    live.get_mut(&key).unwrap().2 = 0;
                }
                (6, Some(key)) => {
                    loads.output_block(RequestKey(key), None);
                    live.get_mut(&key).unwrap().3 += 1;
                }
                (7, Some(key)) => {
                    let weight = f64::from(weight) / 4.0;
                    loads.output_block(RequestKey(key), Some(weight));
                    let (rank, prompt, ..) = live[&key].clone();
                    for block in prompt.named.all().iter().rev() {
                        let has = |one: &&(Rank, Prompt, u64, u32, f64)| one.0 == rank && one.1.named.last_place(block).is_some();
                        if live.values().filter(has).count() > 1 {
                            break;
                        }
                        weights.insert((rank, block), weight);
                    }
                    let one = live.get_mut(&key).unwrap();
                    (one.3, one.4) = (one.3 + 1, weight);
                }
                (_, Some(key)) => {
                    loads.free(RequestKey(key));
                    live.remove(&key);
                    weights.retain(|(rank, block), _| {
                        live.values().any(|one| one.0 == *rank && one.1.named.last_place(*block).is_some())
                    });
                }
            }
            for rank in (0..RANKS).map(Rank) {
                let here: Vec<_> = live.values().filter(|one| one.0 == rank).collect();
                let blocks: BTreeSet<u64> = here.iter().flat_map(|one| one.1.named.all().iter()).collect();
                let named: f64 = blocks.iter().map(|block| weights.get(&(rank, *block)).unwrap_or(&1.0)).sum();
                let own: f64 = here.iter().map(|one| f64::from(one.1.unnamed() + one.3) * one.4).sum();
                let load = loads.of(rank);
                prop_assert_eq!(load.requests as usize, here.len());
                prop_assert_eq!(load.prefill_tokens, here.iter().map(|one| one.2).sum::<u64>());
                prop_assert_eq!(load.blocks, (named + own).round() as u64);
                prop_assert_eq!(loads.standings()[rank.index()], load.into());
                let asked = prompt(&path);
                let active = blocks.iter().copied().collect::<HashSet<_>>();
                let told = runs_of(|tell| loads.active_runs(&asked, &mut Vec::new(), tell));
                prop_assert_eq!(told.get(&rank).copied().unwrap_or(0), run(&active, &asked.named.all().iter().collect::<Vec<_>>()));
            }
        }
        for key in live.into_keys() {
            loads.free(RequestKey(key));
        }
        for rank in (0..RANKS).map(Rank) {
            prop_assert_eq!(loads.of(rank), Load { prefill_tokens: 0, blocks: 0, requests: 0 });
        }
        prop_assert_eq!(loads.kept(), 0);
    }

    /// Ranks that have nothing of a prompt are weighed in short, to the same bits.
    #[test]
    fn a_rank_without_the_prompt_costs_what_any_rank_does(
        (prefill_tokens, blocks, requests) in (0..1_000_000_u64, 0..100_000_u64, 0..1000_u32),
        (prompt_tokens, block_size) in (1..200_000_u64, 1..129_u32),
        (scale, weight, credit) in (0.0..4.0_f64, 0.0..4.0_f64, 0.0..2.0_f64),
    ) {
        let config = DynamoConfig {
            prefill_load_scale: scale,
            decode_active_request_weight: weight,
            overlap_score_credit: credit,
            ..DynamoConfig::default()
        };
        let weights = Weights::new(&config, Pool::Aggregated, block_size, prompt_tokens, true, 0);
        prop_assert!(weights.know_fresh());
        let more = prompt_tokens as u32 / block_size;
        let overlap = Overlap::default();
        let state = State { overlap, prefill_tokens, blocks: blocks + u64::from(more), requests };
        let load = Load { prefill_tokens, blocks, requests };
        let fresh = weights.fresh(&load.into(), f64::from(more));
        prop_assert_eq!(fresh.to_bits(), weights.cost(&state).to_bits());
    }

    /// What was sent, against a map of expiries.
    #[test]
    fn what_was_sent_expires_on_the_grid(
        steps in proptest::collection::vec((0..RANKS, paths(), 0..400_u64, any::<bool>()), 1..100),
    ) {
        let mut sent = Sent::new(SimDuration::from_millis(1000));
        let mut until: HashMap<(u32, u64), u64> = HashMap::new();
        let mut now = 0;
        for (rank, path, later, books) in steps {
            now += later;
            let asked = prompt(&path);
            let held = |rank: u32| {
                let holds = |block: &u64| until.get(&(rank, *block)).is_some_and(|until| *until > now);
                asked.named.all().iter().take_while(holds).count() as u32
            };
            let naive: BTreeMap<_, _> = (0..RANKS).map(|rank| (Rank(rank), held(rank))).filter(|one| one.1 > 0).collect();
            let told = runs_of(|tell| sent.runs(at(now), &asked, &mut Vec::new(), tell));
            prop_assert_eq!(told, naive);
            if books {
                sent.book(at(now), Rank(rank), &asked);
                for block in asked.named.all().iter() {
                    until.insert((rank, block), (now + 1000).div_ceil(100) * 100);
                }
            }
        }
        sent.book(at(now + 2000), Rank(0), &prompt(&[7]));
        prop_assert_eq!(sent.kept(), 1, "what has expired is forgotten");
    }

    /// Whatever waits is sent once all prefills are over, each request once, and nothing waits while all may go.
    #[test]
    fn queues_serve_everything(
        steps in proptest::collection::vec((paths(), 0..3_u8, 0..4_u8, 0..4_u32), 1..120),
        order in prop_oneof![Just(DynamoQueueOrder::Fcfs), Just(DynamoQueueOrder::Lcfs), Just(DynamoQueueOrder::Wspt)],
        has_classes in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let config = DynamoConfig {
            router_queue_threshold: Some(0.5),
            router_queue_policy: order,
            policy: has_classes.then(two_classes),
            ..DynamoConfig::default()
        };
        let mut stream = Seed(seed).stream("router", 0);
        let (mut router, mut outcomes) = (fleet(&config, &mut stream), Vec::new());
        let (mut open, mut sent, mut asked) = (Vec::new(), BTreeSet::new(), 0);
        for (number, (path, kind, pin, strict)) in steps.iter().enumerate() {
            let now = at(number as u64);
            if *kind < 2 || open.is_empty() {
                let options = Options {
                    pinned: (*pin == 0).then_some(Rank(strict % RANKS)),
                    strict_priority: *strict,
                    ..Options::default()
                };
                let asks = Ask {
                    key: RequestKey(number as u64),
                    prompt_tokens: 16 * path.len() as u64 + 3,
                    prompt: prompt(path),
                    options: Some(Arc::new(options)),
                };
                asked += 1;
                router.arrive(now, asks, &mut stream, &mut outcomes);
            } else {
                let key = open.swap_remove(number % open.len());
                router.prefill_done(now, key, &mut stream, &mut outcomes);
            }
            take(&mut outcomes, &mut open, &mut sent);
        }
        while let Some(key) = open.pop() {
            router.free(at(10_000), key, &mut stream, &mut outcomes);
            take(&mut outcomes, &mut open, &mut sent);
        }
        prop_assert_eq!(sent.len(), asked, "each is sent once");
        prop_assert_eq!(router.waiting(), 0);
    }
}

fn take(outcomes: &mut Vec<Outcome>, open: &mut Vec<RequestKey>, sent: &mut BTreeSet<RequestKey>) {
    for outcome in outcomes.drain(..) {
        let Outcome::Sent(decision) = outcome else { panic!("nothing is rejected: {outcome:?}") };
        assert!(sent.insert(decision.key), "{decision:?} is sent once");
        open.push(decision.key);
    }
}

fn two_classes() -> DynamoPolicy {
    let class = |bucket: &str, quantum, threshold| DynamoClass {
        name: bucket.to_owned(),
        policy_family: Some("all".to_owned()),
        cache_bucket: Some(bucket.to_owned()),
        queue_policy: DynamoQueueOrder::Wspt,
        quantum,
        prefill_busy_threshold: Some(threshold),
        prefill_busy_threshold_frac: None,
        request_queue_limit_per_worker: None,
        raw_isl_token_queue_limit_per_worker: None,
        cached_token_queue_limit_per_worker: None,
    };
    DynamoPolicy {
        default_policy_family: "all".to_owned(),
        uncached_isl_buckets: vec![
            DynamoBucket { min_tokens: 0, bucket: "short".to_owned() },
            DynamoBucket { min_tokens: 64, bucket: "long".to_owned() },
        ],
        policy_classes: vec![class("short", 64, 100), class("long", 16, 50)],
    }
}

fn fleet(config: &DynamoConfig, stream: &mut Stream) -> KvRouter {
    config.check().unwrap();
    let mut router = KvRouter::new(config, Pool::Aggregated, 16);
    for worker in 0..RANKS {
        let member = Member { max_num_batched_tokens: Some(200), ..Member::of(worker) };
        router.add(SimTime::ZERO, Rank(worker), member, stream, &mut Vec::new());
    }
    router
}

fn ask(key: u64, path: &[u8], tokens: u64) -> Ask {
    Ask { key: RequestKey(key), prompt_tokens: tokens, prompt: prompt(path), options: None }
}

fn sent(router: &mut KvRouter, asks: Ask, stream: &mut Stream) -> Decision {
    let mut outcomes = Vec::new();
    router.arrive(SimTime::ZERO, asks, stream, &mut outcomes);
    match outcomes[..] {
        [Outcome::Sent(decision)] => decision,
        _ => panic!("it is sent at once: {outcomes:?}"),
    }
}

#[test]
fn a_cost_worked_by_hand() {
    let mut stream = Seed(1).stream("router", 0);
    let mut router = fleet(&DynamoConfig::default(), &mut stream);
    // 40 tokens: 2.5 blocks of prefill and 2 complete blocks that are not active anywhere.
    let first = sent(&mut router, ask(0, &[0, 0], 40), &mut stream);
    assert_eq!((first.cost, first.prefill_tokens), (4.5, 40));
    // Where the first is: (40 + 40)/16 − 0 + 2 shared blocks = 7; elsewhere 4.5 again.
    let second = sent(&mut router, ask(1, &[0, 0], 40), &mut stream);
    assert_ne!(second.rank, first.rank);
    assert_eq!(second.cost, 4.5);
    // Its engine tells of both blocks: 40/16 − 2 + 2 = 2.5 once the prefill is over.
    router.prefill_done(SimTime::ZERO, RequestKey(0), &mut stream, &mut Vec::new());
    router.stored(first.rank, Tier::Device, None, &names(&chain(&[0, 0])));
    let third = sent(&mut router, ask(2, &[0, 0], 40), &mut stream);
    assert_eq!((third.rank, third.cost, third.prefill_tokens), (first.rank, 2.5, 8));
}

#[test]
fn ranks_that_cost_the_same_are_drawn_alike() {
    let mut counts = [0; RANKS as usize];
    let mut stream = Seed(7).stream("router", 0);
    for _ in 0..4000 {
        let mut router = fleet(&DynamoConfig::default(), &mut stream);
        counts[sent(&mut router, ask(0, &[0], 16), &mut stream).rank.index()] += 1;
    }
    // 1000 each, give or take 27; five of them are one chance in a million.
    assert!(counts.iter().all(|count| (870..1130).contains(count)), "{counts:?}");
}

#[test]
fn two_tiers_go_by_requests_until_much_is_cached() {
    let config = DynamoConfig {
        worker_selection: Some(DynamoSelection::TwoTier(DynamoTwoTier::default())),
        ..DynamoConfig::default()
    };
    let mut stream = Seed(3).stream("router", 0);
    let mut router = fleet(&config, &mut stream);
    let first = sent(&mut router, ask(0, &[0, 0, 0, 0], 64), &mut stream);
    assert_ne!(sent(&mut router, ask(1, &[1], 16), &mut stream).rank, first.rank);
    router.stored(first.rank, Tier::Device, None, &names(&chain(&[0, 0, 0])));
    let third = sent(&mut router, ask(2, &[0, 0, 0, 0], 64), &mut stream);
    assert_eq!((third.rank, third.overlap.device), (first.rank, 3));
}

#[test]
fn lower_tiers_go_on_where_the_device_ends() {
    let mut stream = Seed(3).stream("router", 0);
    let mut router = fleet(&DynamoConfig::default(), &mut stream);
    let blocks = chain(&[0, 1, 0, 1]);
    router.stored(Rank(2), Tier::Device, None, &names(&blocks[..1]));
    router.stored(Rank(2), Tier::Host, Some(blocks[0]), &names(&blocks[1..3]));
    router.stored(Rank(2), Tier::Disk, Some(blocks[2]), &names(&blocks[3..]));
    router.stored(Rank(1), Tier::Disk, Some(blocks[0]), &names(&blocks[1..]));
    let decision = sent(&mut router, ask(0, &[0, 1, 0, 1], 64), &mut stream);
    assert_eq!(decision.overlap, Overlap { device: 1, host: 2, disk: 1 });
    // 16 · (1 + 0.75 · 2 + 0.25) = 44 tokens are cached.
    assert_eq!((decision.rank, decision.prefill_tokens), (Rank(2), 20));
}

#[test]
fn a_rank_that_goes_leaves_nothing_behind() {
    let mut stream = Seed(5).stream("router", 0);
    let config = DynamoConfig { router_predicted_ttl_secs: Some(9.0), ..DynamoConfig::default() };
    let mut router = fleet(&config, &mut stream);
    let first = sent(&mut router, ask(0, &[0, 0], 40), &mut stream);
    router.stored(first.rank, Tier::Device, None, &names(&chain(&[0, 0])));
    let mut outcomes = Vec::new();
    router.remove(SimTime::ZERO, first.rank, &mut stream, &mut outcomes);
    router.add(SimTime::ZERO, first.rank, Member::of(9), &mut stream, &mut outcomes);
    assert_eq!(router.booked(first.rank), (0, 0, 0));
    router.free(SimTime::ZERO, RequestKey(0), &mut stream, &mut outcomes);
    let mut overlaps = Vec::new();
    router.look_up(SimTime::ZERO, &prompt(&[0, 0]), &mut overlaps);
    assert!(overlaps.iter().all(|overlap| *overlap == Overlap::default()));
}
