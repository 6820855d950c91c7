//! What the router knows of caches however late it is told, against a history that is read from its beginning.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;
use crate::cluster::router::dynamo::Overlap;
use crate::kv::Order;

const RANKS: u32 = 4;

/// What an engine holds, by the choices that lead to each block.
type Held = BTreeSet<Vec<u8>>;

/// A change of what an engine holds.
#[derive(Debug, Clone)]
enum Change {
    /// It has all of a path; it says so of what comes after so many blocks.
    Has { path: Vec<u8>, after: usize },
    /// What begins with a path goes, tails first.
    Loses(Vec<u8>),
    /// Nothing is left.
    LosesAll,
}

impl Change {
    fn of(held: &Held, path: Vec<u8>, kind: u8) -> Self {
        match kind {
            0..5 => Self::Has { after: run(held, &path), path },
            5 => Self::Has { after: 0, path },
            6..9 => Self::Loses(path),
            _ => Self::LosesAll,
        }
    }

    fn apply(&self, held: &mut Held) {
        match self {
            Self::Has { path, .. } => held.extend((1..=path.len()).map(|len| path[..len].to_vec())),
            Self::Loses(path) => held.retain(|block| !block.starts_with(path)),
            Self::LosesAll => held.clear(),
        }
    }

    /// How an engine tells of it that holds this.
    fn event(&self, held: &Held) -> Option<CacheEvent> {
        Some(match self {
            Self::Has { path, after } if *after == path.len() => return None,
            Self::Has { path, after } => CacheEvent::Stored {
                request: RequestId(0),
                start: *after as u32,
                parent: after.checked_sub(1).map(|last| name(&path[..=last])),
                names: (after + 1..=path.len()).map(|len| name(&path[..len]).number()).collect(),
            },
            Self::Loses(path) => {
                let mut gone: Vec<_> =
                    held.iter().filter(|block| block.starts_with(path)).collect();
                gone.sort_by_key(|block| std::cmp::Reverse(block.len()));
                let names = gone.into_iter().map(|block| name(block).number()).collect();
                CacheEvent::Removed { names, order: Order::Forward }
            }
            Self::LosesAll => CacheEvent::Cleared,
        })
    }
}

fn name(path: &[u8]) -> BlockHash {
    BlockHash::of(path.iter().fold(1, |number, choice| number * 2 + u64::from(*choice)))
}

/// How many of the first blocks of a path are held.
fn run(held: &Held, path: &[u8]) -> usize {
    (1..=path.len()).take_while(|&len| held.contains(&path[..len])).count()
}

fn at(millis: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(millis)
}

/// A router that hears of changes so many milliseconds late.
fn router(lag_ms: u64, router_event_threads: u32) -> Dynamo {
    let kv_event_lag_ms = lag_ms as f64;
    let config = DynamoConfig { router_event_threads, kv_event_lag_ms, ..DynamoConfig::default() };
    let mut router = Dynamo::new(&config, Pool::Aggregated, Seed(0));
    for id in 0..RANKS {
        let Dynamo { router, stream, outcomes, .. } = &mut router;
        router.add(SimTime::ZERO, Rank(id), Member::of(id), stream, outcomes);
    }
    router
}

/// What a router knows at a moment of these prompts, by rank, and what it would know that had asked each engine.
fn compare(
    router: &mut Dynamo,
    now: SimTime,
    held: &[Held],
    prompts: &[Vec<u8>],
) -> TestCaseResult {
    router.take_in(now);
    let mut overlaps: Vec<Overlap> = Vec::new();
    for path in prompts {
        let named = Arc::new((1..=path.len()).map(|len| name(&path[..len]).number()).collect());
        let prompt = Prompt { named, blocks: path.len() as u32 };
        router.router.look_up(now, &prompt, &mut overlaps);
        let told: Vec<_> = overlaps.iter().map(|overlap| overlap.device as usize).collect();
        let naive: Vec<_> = held.iter().map(|held| run(held, path)).collect();
        prop_assert_eq!(told, naive, "{:?} at {}", path, now);
    }
    Ok(())
}

proptest! {
    /// `routers-kv-aware.md`, section 3: nothing waits for events, and where tails go first the index is a set for each
    /// rank. So it does not matter in which order the events of different ranks come, one by one or many at a time,
    /// before they happen or after: what has come decides what is known, and when all have come nobody can tell. An
    /// instance that goes takes with it what is known and what is on its way.
    #[test]
    fn an_index_that_is_told_late_ends_as_one_that_is_told_at_once(
        steps in proptest::collection::vec(
            // Whose, of which path, what; after how long; how long before it happens it is decided; whether all
            // that is held back of this rank is told now; whether it goes before, and another comes in its place.
            (
                0..RANKS,
                proptest::collection::vec(0..2_u8, 1..8),
                0..10_u8,
                0..20_u64,
                0..15_u64,
                any::<bool>(),
                proptest::bool::weighted(0.1),
            ),
            1..100,
        ),
        lag in prop_oneof![Just(0), 1..60_u64],
        threads in prop_oneof![Just(1), Just(4)],
    ) {
        let (mut at_once, mut late) = (router(0, threads), router(lag, threads));
        let mut held = vec![Held::new(); RANKS as usize];
        // What is held back for each rank, and the end of its history until now.
        let mut batches = vec![Vec::new(); RANKS as usize];
        let mut until = [0; RANKS as usize];
        // Of all that was told late: when it comes, in which order it was told, whose it is.
        let mut told: Vec<(u64, usize, usize, Change)> = Vec::new();
        let mut order = 0;
        let mut batched: Vec<Vec<(u64, Change)>> = vec![Vec::new(); RANKS as usize];
        let mut now = 0;
        let prompts: Vec<_> = steps.iter().map(|step| step.1.clone()).collect();
        for (rank, path, kind, gap, ahead, flushes, goes) in steps {
            now += gap;
            let (place, instance) = (rank as usize, InstanceId(rank));
            if goes {
                for router in [&mut at_once, &mut late] {
                    router.take_in(at(now));
                    router.gone(instance);
                }
                held[place].clear();
                batches[place].clear();
                batched[place].clear();
                told.retain(|told| told.2 != place);
            }
            let change = Change::of(&held[place], path, kind);
            if let Some(event) = change.event(&held[place]) {
                until[place] = until[place].max(now + ahead);
                at_once.hear(at(now), instance, vec![(at(now), event.clone())]);
                batches[place].push((at(until[place]), event));
                batched[place].push((until[place], change.clone()));
            }
            change.apply(&mut held[place]);
            if flushes {
                late.hear(at(now), instance, std::mem::take(&mut batches[place]));
                for (happens, change) in batched[place].drain(..) {
                    order += 1;
                    told.push((now.max(happens + lag), order, place, change));
                }
            }
            compare(&mut at_once, at(now), &held, &prompts[prompts.len().saturating_sub(4)..])?;
            // From the beginning: what has come by now.
            let mut come: Vec<_> = told.iter().filter(|told| told.0 <= now).collect();
            come.sort_by_key(|told| (told.0, told.1));
            let mut known = vec![Held::new(); RANKS as usize];
            for (.., place, change) in come {
                change.apply(&mut known[*place]);
            }
            compare(&mut late, at(now), &known, &prompts)?;
        }
        for (rank, batch) in (0..).zip(batches) {
            late.hear(at(now), InstanceId(rank), batch);
        }
        let end = at(now + 15 + lag);
        compare(&mut late, end, &held, &prompts)?;
        compare(&mut at_once, end, &held, &prompts)?;
    }
}
