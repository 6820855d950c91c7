//! The tree of hybrid models: examples by hand, and laws on random histories.

use super::*;
use crate::rng::mix;

fn run(stream: u64, start: u32, len: u32) -> Segment {
    Segment { stream, start, len }
}

const ALL: WindowShare = WindowShare { protected: 0, dropped: 0 };

fn of_window(window: u32) -> HybridTree {
    HybridTree::of_windows(1, TreeKeys::Tokens, window)
}

#[test]
fn a_prefix_can_be_used_where_a_whole_window_before_its_end_is_there() {
    let mut tree = of_window(4);
    let prompt = [run(1, 0, 20)];
    // the first 10 have lost their window slots; of the other 10 the last window is a node of its own
    let inserted = tree.insert_window(0, &prompt, 20, WindowShare { protected: 0, dropped: 10 });
    assert_eq!((inserted.tokens_freed, inserted.window_freed), (0, 0));
    let windows = |tree: &HybridTree| tree.windows().map(Windows::evictable);
    assert_eq!((tree.evictable(), windows(&tree)), (20, Some(10)));
    assert_eq!(tree.find(0, &prompt, 20).usable.tokens, 20);
    // 3 tokens behind the gap are no window
    let short = tree.find(0, &prompt, 13);
    assert_eq!((short.usable.tokens, short.kv_tokens), (0, 13));
    assert_eq!(tree.find(0, &prompt, 14).usable.tokens, 14);
    assert!(tree.is_balanced());
}

#[test]
fn window_slots_of_a_request_bring_a_tombstone_back() {
    let mut tree = of_window(4);
    let prompt = [run(1, 0, 12)];
    tree.insert_window(0, &prompt, 12, WindowShare { protected: 0, dropped: 12 });
    assert_eq!(tree.find(0, &prompt, 12).usable.tokens, 0);
    let healed = tree.insert_window(0, &prompt, 12, WindowShare { protected: 0, dropped: 5 });
    // all of its KV is there twice; window slots of tokens 5 to 11 are the tree's now
    assert_eq!((healed.tokens_freed, healed.window_freed), (12, 0));
    assert_eq!(tree.find(0, &prompt, 12).usable.tokens, 12);
    let again = tree.insert_window(0, &prompt, 12, ALL);
    assert_eq!((again.tokens_freed, again.window_freed), (12, 7));
    assert!(tree.is_balanced());
}

#[test]
fn a_lock_protects_one_window_and_all_kv() {
    let mut tree = of_window(4);
    let prompt = [run(1, 0, 12)];
    let node = tree.insert_window(0, &prompt, 12, ALL).node;
    let lock = tree.lock(node);
    // the front node of 8 can lose its window slots, the last window cannot
    assert_eq!(tree.evict_window(12), Evicted { window: 8, ..Evicted::default() });
    assert_eq!(tree.evict(12), Evicted::default());
    // a split of the locked node leaves the end of the lock at its front
    assert_eq!(tree.find(0, &prompt, 10).kv_tokens, 10);
    tree.unlock(lock);
    let windows = tree.windows().expect("it is a tree of windows");
    assert_eq!((windows.locked(), windows.evictable(), tree.locked()), (0, 4, 0));
    // a leaf goes with its KV, what is above becomes a tombstone
    assert_eq!(tree.evict_window(1), Evicted { window: 2, ..Evicted::default() });
    assert_eq!(tree.evict_window(1), Evicted { window: 2, tokens: 2, ..Evicted::default() });
    assert!(tree.is_balanced());
}

#[test]
fn a_prefix_can_be_used_where_a_state_is() {
    let mut tree = HybridTree::of_states(1);
    let prompt = [run(1, 0, 10), run(2, 0, 10)];
    assert!(tree.insert_state(0, &prompt, 20).is_stored);
    assert!(!tree.insert_state(0, &prompt, 20).is_stored);
    // others share 10 tokens of KV, but no state is there
    let other = tree.find(0, &[run(1, 0, 10), run(3, 0, 10)], 20);
    assert_eq!((other.usable.tokens, other.kv_tokens), (0, 10));
    assert!(tree.insert_state(0, &prompt, 10).is_stored);
    assert_eq!(tree.find(0, &[run(1, 0, 10), run(3, 0, 10)], 20).usable.tokens, 10);
    // the state of the longer one is older: its leaf goes; the other then is one
    assert_eq!(tree.evict_states(1), Evicted { tokens: 10, states: 1, ..Evicted::default() });
    let node = tree.find(0, &prompt, 20).usable.node;
    let lock = tree.lock(node);
    assert_eq!(tree.evict_states(1), Evicted::default());
    tree.unlock(lock);
    assert_eq!(tree.evict_states(9), Evicted { tokens: 10, states: 1, ..Evicted::default() });
    assert!(tree.is_balanced());
}

#[test]
fn a_state_is_evicted_without_the_kv_before_others() {
    let mut tree = HybridTree::of_states(1);
    let prompt = [run(1, 0, 20)];
    tree.insert_state(0, &prompt, 10);
    tree.insert_state(0, &prompt, 20);
    assert_eq!(tree.evict_states(1), Evicted { states: 1, ..Evicted::default() });
    assert_eq!(tree.find(0, &prompt, 15).kv_tokens, 15);
    assert_eq!(tree.find(0, &prompt, 20).usable.tokens, 20);
    // the split left the state with the end
    assert_eq!(tree.states().map(States::evictable), Some(1));
    assert!(tree.is_balanced());
}

/// A random sequence of a few that share beginnings.
fn sequence(draw: &mut impl FnMut(u64) -> u32) -> ([Segment; 2], u32) {
    let (shared, own) = (1 + draw(40), 1 + draw(20));
    ([run(u64::from(draw(2)), 0, shared), run(10 + u64::from(draw(3)), 0, own)], shared + own)
}

/// Draws from a seed.
fn drawing(seed: u64) -> impl FnMut(u64) -> u32 {
    let mut state = mix(seed);
    move |below| {
        state = mix(state);
        (state % below) as u32
    }
}

#[test]
fn with_windows_longer_than_every_sequence_it_is_the_tree_of_full_attention() {
    for seed in 0..300 {
        let mut draw = drawing(seed);
        let page = [1, 1, 4][draw(3) as usize];
        let mut full = RadixTree::new(page);
        let mut tree = HybridTree::of_windows(page, TreeKeys::Tokens, 1000);
        let mut locks = Vec::new();
        for round in 0..150 {
            let place = format!("seed {seed}, round {round}");
            let (sequence, tokens) = sequence(&mut draw);
            match draw(5) {
                0 | 1 => {
                    let found = tree.find(0, &sequence, tokens).usable;
                    assert_eq!(found, full.find(0, &sequence, tokens), "{place}");
                    full.lock(found.node);
                    locks.push((tree.lock(found.node), found.node));
                }
                2 => {
                    let inserted = tree.insert_window(0, &sequence, tokens, ALL);
                    let known = full.insert(0, &sequence, tokens);
                    assert_eq!(inserted.node, known.node, "{place}");
                    assert_eq!(inserted.tokens_freed, known.tokens, "{place}");
                    assert_eq!(inserted.window_freed, known.tokens, "{place}");
                }
                3 if !locks.is_empty() => {
                    let (lock, node) = locks.swap_remove(draw(locks.len() as u64) as usize);
                    tree.unlock(lock);
                    full.unlock(node);
                }
                _ => {
                    let tokens = draw(30);
                    let gone = tree.evict(tokens);
                    assert_eq!(gone.tokens, full.evict(tokens), "{place}");
                    assert_eq!(gone.window, gone.tokens, "{place}");
                }
            }
            assert_eq!((tree.evictable(), tree.locked()), (full.evictable(), full.locked()));
            assert!(tree.is_balanced() && full.is_balanced(), "{place}");
        }
    }
}

#[test]
fn whatever_happens_everything_can_be_evicted_once_nobody_holds_it() {
    for seed in 0..300 {
        let mut draw = drawing(seed);
        let page = [1, 1, 4][draw(3) as usize];
        let is_window = seed % 2 == 0;
        let mut tree = if is_window {
            HybridTree::of_windows(page, TreeKeys::Tokens, 1 + draw(30))
        } else {
            HybridTree::of_states(page)
        };
        let mut locks = Vec::new();
        for round in 0..150 {
            let (sequence, tokens) = sequence(&mut draw);
            match draw(6) {
                0 | 1 => {
                    let found = tree.find(0, &sequence, tokens);
                    assert!(found.usable.tokens <= found.kv_tokens);
                    assert_eq!(tree.matched(0, &sequence, tokens), found.usable.tokens);
                    locks.push(tree.lock(found.usable.node));
                }
                2 if is_window => {
                    let dropped = draw(u64::from(tokens)) / page * page;
                    let share = WindowShare { protected: 0, dropped };
                    tree.insert_window(0, &sequence, tokens, share);
                }
                2 => {
                    tree.insert_state(0, &sequence, tokens);
                }
                3 if !locks.is_empty() => {
                    tree.unlock(locks.swap_remove(draw(locks.len() as u64) as usize));
                }
                4 if is_window => {
                    tree.evict_window(draw(30));
                }
                4 => {
                    tree.evict_states(draw(3));
                }
                _ => {
                    tree.evict(draw(30));
                }
            }
            assert!(tree.is_balanced(), "seed {seed}, round {round}");
        }
        locks.drain(..).for_each(|lock| tree.unlock(lock));
        assert_eq!(tree.locked(), 0, "seed {seed}");
        tree.evict(u32::MAX);
        let left = (
            tree.evictable(),
            tree.windows().map_or(0, |all| all.evictable() + all.locked()),
            tree.states().map_or(0, |all| all.evictable() + all.locked()),
        );
        assert_eq!(left, (0, 0, 0), "seed {seed}");
    }
}
