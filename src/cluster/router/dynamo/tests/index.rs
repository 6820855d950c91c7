//! The index against sets of blocks, in random histories.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use rand::RngExt;

use super::*;

/// Blocks of ranks as sets.
type Sets = Vec<HashSet<u64>>;

/// What naive sets say.
fn naive_runs(sets: &Sets, blocks: &[u64]) -> BTreeMap<Rank, u32> {
    let runs = sets.iter().enumerate().map(|(rank, set)| (Rank(rank as u32), run(set, blocks)));
    runs.filter(|(_, run)| *run > 0).collect()
}

proptest! {
    /// Children leave before their parents, as engines free them: then the tree knows what sets know.
    #[test]
    fn an_index_is_a_set_per_rank_where_tails_go_first(
        steps in proptest::collection::vec((0..RANKS, paths(), 0..9_usize, 0..10_u8), 1..120),
        threads in prop_oneof![Just(Threads::One), Just(Threads::Several)],
    ) {
        let mut index = Index::new(threads);
        let tree = tree();
        let (mut sets, mut probe): (Sets, _) = (vec![HashSet::new(); RANKS as usize], chain(&[1; 8]));
        for (rank, path, count, kind) in steps {
            let blocks = chain(&path);
            let set = &mut sets[rank as usize];
            match kind {
                // Stored behind what is there.
                0..6 => {
                    let held = run(set, &blocks) as usize;
                    let parent = held.checked_sub(1).map(|at| blocks[at]);
                    if held < blocks.len() {
                        index.store(Rank(rank), parent, &names(&blocks[held..]));
                        set.extend(&blocks[held..]);
                    }
                }
                // Stored from the root, though some is there.
                6 => {
                    index.store(Rank(rank), None, &names(&blocks));
                    set.extend(&blocks);
                }
                7..9 => {
                    // Whoever is behind the last of them has to go before.
                    let from = count.min(blocks.len() - 1);
                    let gone = blocks[from];
                    let is_behind = |(block, (_, whole)): (&u64, &(usize, Vec<u64>))| {
                        (set.contains(block) && whole.contains(&gone)).then_some(*block)
                    };
                    let mut leave: Vec<_> = tree.iter().filter_map(is_behind).collect();
                    leave.sort_by_key(|block| std::cmp::Reverse(tree[block].0));
                    index.remove(Rank(rank), &names(&leave), Order::Forward);
                    for block in leave {
                        set.remove(&block);
                    }
                }
                _ => {
                    index.clear(Rank(rank));
                    set.clear();
                }
            }
            prop_assert!(index.knows_what_is_covered());
            for blocks in [&blocks, &tree[&blocks[blocks.len() - 1]].1, &probe] {
                let told = runs_of(|tell| index.runs(&names(blocks), tell));
                prop_assert_eq!(told, naive_runs(&sets, blocks));
            }
            probe = blocks;
        }
    }

    /// Any order of events: nothing is credited but what was stored, and memory is given back.
    #[test]
    fn an_index_of_one_thread_never_credits_what_was_never_stored(
        steps in proptest::collection::vec((0..RANKS, paths(), 0..9_usize, any::<bool>()), 1..200),
    ) {
        let mut index = Index::new(Threads::One);
        let mut ever: Sets = vec![HashSet::new(); RANKS as usize];
        for (rank, path, count, stores) in steps {
            let blocks = chain(&path);
            let at = count % blocks.len();
            if stores {
                let parent = at.checked_sub(1).map(|at| blocks[at]);
                index.store(Rank(rank), parent, &names(&blocks[at..]));
                ever[rank as usize].extend(&blocks[at..]);
            } else {
                index.remove(Rank(rank), &names(&blocks[at..=at]), Order::Forward);
            }
            prop_assert!(index.knows_what_is_covered());
            let told = runs_of(|tell| index.runs(&names(&blocks), tell));
            for (rank, run) in told {
                prop_assert!(blocks[..run as usize].iter().all(|one| ever[rank.index()].contains(one)));
            }
        }
        for rank in 0..RANKS {
            index.clear(Rank(rank));
        }
        prop_assert!(runs_of(|tell| index.runs(&names(&chain(&[0, 0])), tell)).is_empty());
        prop_assert!(index.kept() <= 200 * 9 + 1);
    }

    /// Any order of events of several blocks: what is taken for known is known.
    #[test]
    fn an_index_knows_what_it_need_not_look_for(
        steps in proptest::collection::vec(
            (0..RANKS, paths(), 0..9_usize, 0..6_u8),
            1..200,
        ),
    ) {
        let mut index = Index::new(Threads::Several);
        for (rank, path, count, kind) in steps {
            let mut blocks = chain(&path);
            let at = count % blocks.len();
            let parent = at.checked_sub(1).map(|at| blocks[at]);
            match kind {
                0 => index.store(Rank(rank), None, &names(&blocks)),
                1..4 => index.store(Rank(rank), parent, &names(&blocks[at..])),
                4 => index.remove(Rank(rank), &names(&blocks[at..]), Order::Forward),
                _ => {
                    blocks.reverse();
                    index.remove(Rank(rank), &names(&blocks[..=at]), Order::Forward);
                }
            }
            prop_assert!(index.knows_what_is_covered());
        }
    }

    /// Any order of events: an index in which last blocks stand for others tells what one tells in which each is known.
    #[test]
    fn an_index_tells_the_same_however_briefly_it_knows(
        steps in proptest::collection::vec(
            (0..RANKS, paths(), 0..9_usize, 0..12_u8),
            1..200,
        ),
        threads in prop_oneof![Just(Threads::One), Just(Threads::Several)],
    ) {
        let (mut index, mut each) = (Index::new(threads), Index::new(threads));
        let mut probes: Vec<Vec<u64>> = Vec::new();
        for (rank, path, count, kind) in steps {
            let mut blocks = chain(&path);
            let at = count % blocks.len();
            let parent = at.checked_sub(1).map(|at| blocks[at]);
            for index in [&mut index, &mut each] {
                match kind {
                    0..3 => index.store(Rank(rank), None, &names(&blocks)),
                    3..6 => index.store(Rank(rank), parent, &names(&blocks[at..])),
                    6..8 => index.remove(Rank(rank), &names(&blocks[at..]), Order::Forward),
                    8 => index.remove(Rank(rank), &names(&blocks[at..=at]), Order::Forward),
                    9 => index.remove(Rank(rank), &names(&blocks[at..]), Order::Backward),
                    10 => {
                        let gone: Vec<_> = blocks[at..].iter().rev().copied().collect();
                        index.remove(Rank(rank), &names(&gone), Order::Forward);
                    }
                    _ => index.clear(Rank(rank)),
                }
            }
            each = each.spelled_out();
            blocks.extend_from_slice(&[3, 4]);
            probes.push(blocks);
            prop_assert!(index.knows_what_is_covered());
            prop_assert_eq!(index.kept(), each.kept());
            for probe in &probes[probes.len().saturating_sub(8)..] {
                let told = runs_of(|tell| index.runs(&names(probe), tell));
                prop_assert_eq!(told, runs_of(|tell| each.runs(&names(probe), tell)));
            }
        }
    }
}

/// All blocks of all paths of two choices, each with its depth and the blocks of the path to it.
fn tree() -> BTreeMap<u64, (usize, Vec<u64>)> {
    let paths = (1..=8).flat_map(|len| (0..1_u32 << len).map(move |bits| (len, bits)));
    let paths = paths.map(|(len, bits)| (0..len).map(|i| (bits >> i & 1) as u8).collect());
    let chained = paths.map(|path: Vec<u8>| chain(&path));
    chained.map(|blocks| (blocks[blocks.len() - 1], (blocks.len(), blocks))).collect()
}

#[test]
fn a_large_index_forgets_branches_that_nobody_has() {
    let mut index = Index::new(Threads::Several);
    let mut stream = Seed(11).stream("router", 0);
    for _ in 0..50_000 {
        let path: Vec<u8> = (0..6).map(|_| stream.random_range(0..=255)).collect();
        let blocks = chain(&path);
        index.store(Rank(0), None, &names(&blocks));
        let tail_first: Vec<_> = blocks.into_iter().rev().collect();
        index.remove(Rank(0), &names(&tail_first), Order::Forward);
    }
    assert!(index.kept() < 3000, "{} edges are kept", index.kept());
}
