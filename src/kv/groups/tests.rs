//! The shared pool: examples by hand, and random histories.

use std::sync::Arc;

use proptest::prelude::*;

use super::table::NULL;
use super::*;
use crate::ids::RequestId;
use crate::kv::{BlockHash, BlockTable, ChainHasher, Hits, Lookahead};
use crate::model::Groups;
use crate::request::{Content, Segment};

const BLOCK_SIZE: u32 = 4;
const MODEL_LEN: u32 = 256;

fn spec(kind: GroupKind) -> GroupSpec {
    GroupSpec { kind, block_size: BLOCK_SIZE, layers: 1, page_bytes: 1 }
}

fn table(request: u32, runs: &[(u64, u32)]) -> BlockTable {
    let run = |&(stream, len): &(u64, u32)| Segment { stream, start: 0, len };
    let segments: Arc<[Segment]> = runs.iter().map(run).collect();
    let prompt = runs.iter().map(|run| run.1).sum();
    let content = Content { salt: 0, segments: Some(segments) };
    let id = RequestId(request);
    let hasher = ChainHasher::new(id, &content, prompt, None, BLOCK_SIZE, Lookahead::None);
    BlockTable::new(hasher, false)
}

/// Gives a request of `known` tokens blocks for `tokens` more than `computed`, and what it finds before if
/// it has none. Returns what is computed then; nothing without memory.
fn serve(
    pool: &mut GroupedPool,
    table: &mut BlockTable,
    (known, computed, tokens): (u32, u32, u32),
) -> Option<u32> {
    let mut hits = Hits::default();
    if computed == 0 {
        pool.find(table, known, &mut hits);
    }
    let total = computed + hits.tokens;
    let main = (total + tokens).min(known);
    let demand = Demand { total, main, slots: main, in_flight: None };
    pool.drop_passed(table, total);
    if pool.lacking(table, &hits, demand)? > pool.free() {
        return None;
    }
    pool.hold(table, &hits, total);
    pool.take(table, demand);
    pool.publish(table, (known, known), main);
    Some(main)
}

fn found(pool: &GroupedPool, runs: &[(u64, u32)]) -> u32 {
    let mut hits = Hits::default();
    let known = runs.iter().map(|run| run.1).sum();
    pool.find(&mut table(999, runs), known, &mut hits);
    hits.tokens
}

#[test]
fn blocks_before_the_window_come_free() {
    let window = GroupKind::Sliding { window: 9 };
    let groups = Groups::new(vec![spec(window), spec(GroupKind::Full)], None);
    let mut pool = GroupedPool::new(groups, 100, 0, MODEL_LEN);
    let mut held = table(0, &[(1, 40)]);
    assert_eq!(serve(&mut pool, &mut held, (40, 0, 32)), Some(32));
    assert_eq!(pool.free(), 99 - 2 * 8);
    assert_eq!(serve(&mut pool, &mut held, (40, 32, 8)), Some(40));
    // Token 32 sees from token 24 on: six blocks of the window are passed, two of each group are new.
    assert_eq!(pool.free(), 99 - 2 * 10 + 6);
    assert_eq!(held.lists_from(&[])[0][..7], [0, 0, 0, 0, 0, 0, 7]);
}

#[test]
fn a_prefix_is_found_where_all_groups_hold_what_they_need() {
    let window = GroupKind::Sliding { window: 9 };
    let groups = Groups::new(vec![spec(window), spec(GroupKind::Full)], Some(0));
    let mut pool = GroupedPool::new(groups, 100, 0, MODEL_LEN);
    let mut first = table(0, &[(1, 20), (2, 20)]);
    serve(&mut pool, &mut first, (40, 0, 40));
    pool.release(&mut first);
    // The window before token 36 is kept, for the same prompt; that before token 20 is not.
    assert_eq!(found(&pool, &[(1, 20), (2, 20)]), 36);
    assert_eq!(found(&pool, &[(1, 20), (3, 20)]), 0);
    // Who finds that out keeps the window where the prompts part, for the next one.
    let mut second = table(1, &[(1, 20), (3, 20)]);
    serve(&mut pool, &mut second, (40, 0, 40));
    assert_eq!(found(&pool, &[(1, 20), (4, 20)]), 20);
}

#[test]
fn a_state_of_this_step_is_waited_for() {
    let groups = Groups::new(vec![spec(GroupKind::AlignedState), spec(GroupKind::Full)], None);
    let mut pool = GroupedPool::new(groups, 100, 0, MODEL_LEN);
    pool.begin_step();
    let mut first = table(0, &[(1, 16)]);
    assert_eq!(serve(&mut pool, &mut first, (16, 0, 12)), Some(12));
    // The state at token 12 is the only one; two lists of three places, one block and three.
    assert_eq!(pool.free(), 99 - 4);
    let mut second = table(1, &[(1, 16)]);
    assert_eq!(serve(&mut pool, &mut second, (16, 0, 4)), None);
    pool.begin_step();
    assert_eq!(serve(&mut pool, &mut second, (16, 0, 4)), Some(16));
}

#[test]
fn states_of_drafts_move_on() {
    let groups = Groups::new(vec![spec(GroupKind::AlignedState)], None);
    let mut pool = GroupedPool::new(groups, 100, 2, MODEL_LEN);
    let mut held = table(0, &[(1, 40)]);
    serve(&mut pool, &mut held, (40, 0, 8));
    assert_eq!(held.lists_from(&[]), [[0, 1, 2, 3]]);
    serve(&mut pool, &mut held, (40, 8, 4));
    assert_eq!(held.lists_from(&[]), [[0, 1, 2, 3, 4]]);
    serve(&mut pool, &mut held, (40, 12, 12));
    // Block 3 is that of token 24; those of drafts stand behind it, block 2 has been the state.
    assert_eq!(held.lists_from(&[]), [[0, 0, 2, 0, 0, 3, 4, 5]]);
}

#[test]
fn a_share_that_passes_a_boundary_leaves_a_state_there() {
    let specs = vec![spec(GroupKind::AlignedState), spec(GroupKind::Full)];
    let mut pool =
        GroupedPool::new(Groups::new(specs, Some(0)).with_checkpoints(), 100, 0, MODEL_LEN);
    let mut held = table(0, &[(1, 15)]);
    serve(&mut pool, &mut held, (15, 0, 15));
    // The states after token 12 and after the last one.
    assert_eq!(held.lists_from(&[])[0], [0, 0, 1, 2]);
    pool.begin_step();
    assert_eq!(found(&pool, &[(1, 15)]), 12);
}

#[test]
fn layers_of_two_sizes_that_see_everything_are_each_looked_for() {
    let wide = GroupSpec { page_bytes: 2, ..spec(GroupKind::Full) };
    let mut pool =
        GroupedPool::new(Groups::new(vec![spec(GroupKind::Full), wide], None), 9, 0, MODEL_LEN);
    let mut first = table(0, &[(1, 16)]);
    serve(&mut pool, &mut first, (16, 0, 16));
    pool.release(&mut first);
    assert_eq!(found(&pool, &[(1, 20)]), 16);
    // Blocks of the second group were let go last, and the end of the sequence before its begin: the blocks of
    // the first one are taken first, from the end.
    let mut other = table(1, &[(2, 4)]);
    serve(&mut pool, &mut other, (4, 0, 4));
    assert_eq!(found(&pool, &[(1, 20)]), 8);
}

#[test]
fn units_are_common_multiples_and_parts() {
    let sized = |block_size, kind| GroupSpec { block_size, ..spec(kind) };
    let groups = Groups::new(
        vec![sized(32, GroupKind::Full), sized(48, GroupKind::Sliding { window: 100 })],
        None,
    );
    assert_eq!((groups.scheduler_block(), groups.hash_block()), (96, 16));
}

/// What a request does next: computes so many tokens, or leaves.
type Turn = (usize, Option<u32>);

fn histories() -> impl Strategy<Value = (Groups, u32, Vec<Turn>)> {
    let kind = (0..4, 1_u32..40).prop_map(|(kind, tokens)| match kind {
        0 => GroupKind::Full,
        1 => GroupKind::Sliding { window: tokens },
        2 => GroupKind::Chunked { chunk: tokens.next_multiple_of(BLOCK_SIZE) },
        _ => GroupKind::AlignedState,
    });
    let specs = prop::collection::vec(kind.prop_map(spec), 1..5);
    let groups = (specs, prop::option::of(0_u32..40))
        .prop_map(|(specs, interval)| Groups::new(specs, interval));
    let turn = (0_usize..6, prop::option::weighted(0.9, 1_u32..24));
    (groups, 0_u32..3, prop::collection::vec(turn, 1..80))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_lost_and_only_equal_content_is_shared((groups, drafts, turns) in histories()) {
        let count = groups.specs().len();
        let mut pool = GroupedPool::new(groups, 80, drafts, MODEL_LEN);
        // Prompts that share beginnings of several lengths.
        let runs = |index: usize| [(1, 8 * (index as u64 % 3 + 1) as u32), (2 + index as u64, 60)];
        let known = |index: usize| runs(index).iter().map(|run| run.1).sum::<u32>();
        let mut tables: Vec<_> = (0..6).map(|index| table(index as u32, &runs(index))).collect();
        let mut computed = [0; 6];
        for (index, turn) in turns {
            pool.begin_step();
            if let Some(tokens) = turn {
                let share = (known(index), computed[index], tokens);
                if let Some(now) = serve(&mut pool, &mut tables[index], share) {
                    computed[index] = now;
                }
            } else {
                pool.release(&mut tables[index]);
                computed[index] = 0;
            }
            prop_assert!(pool.is_balanced());
            let mut holders: std::collections::BTreeMap<u32, Vec<BlockHash>> =
                std::collections::BTreeMap::new();
            for table in &tables {
                for (group, list) in table.lists_from(&[]).iter().enumerate().take(count) {
                    for (place, id) in list.iter().enumerate().filter(|(_, id)| **id != NULL) {
                        let spec = pool.groups().specs()[group];
                        // Blocks behind the last hash belong to one request alone.
                        let own = BlockHash::of(u64::from(*id)).in_group(holders.len());
                        let shared = place < table.names.len();
                        let content = if shared {
                            pool::name(&table.names, &spec, BLOCK_SIZE, (place as u32, group))
                        } else {
                            own
                        };
                        holders.entry(*id).or_default().push(content);
                    }
                }
            }
            for (id, contents) in &holders {
                prop_assert!(contents.windows(2).all(|pair| pair[0] == pair[1]), "block {id}");
            }
            prop_assert_eq!(holders.len() as u32, pool.usable() - pool.free());
        }
        for table in &mut tables {
            pool.release(table);
        }
        prop_assert_eq!(pool.free(), pool.usable());
        prop_assert!(pool.is_balanced());
    }
}
