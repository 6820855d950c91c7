//! The block pool: examples by hand.

use super::*;

fn hash(name: u64) -> BlockHash {
    BlockHash::of(name)
}

#[test]
fn blocks_are_taken_in_order_and_the_null_block_never() {
    let mut pool = BlockPool::numbered(4);
    assert_eq!((pool.free(), pool.usable()), (3, 3));
    assert_eq!([pool.take(), pool.take(), pool.take()], [1, 2, 3]);
    assert_eq!(pool.free(), 0);
    assert!(pool.is_balanced());
}

#[test]
fn unnamed_blocks_return_to_the_front_and_named_ones_to_the_back() {
    let mut pool = BlockPool::numbered(7);
    let held: Vec<_> = (0..4).map(|_| pool.take()).collect();
    pool.cache(held[0], hash(10));
    pool.cache(held[1], hash(11));
    pool.release(&held);
    // unnamed 4, 3 to the front (tail-most first), then the untouched 5, 6, then named 2, 1
    let order: Vec<_> = (0..6).map(|_| pool.take()).collect();
    assert_eq!(order, [4, 3, 5, 6, 2, 1]);
}

#[test]
fn a_block_is_found_until_it_is_taken_again() {
    let mut pool = BlockPool::numbered(3);
    let first = pool.take();
    pool.cache(first, hash(7));
    pool.release(&[first]);
    assert_eq!(pool.find(hash(7)), Some(first));
    assert_eq!(pool.take(), 2);
    assert_eq!(pool.find(hash(7)), Some(first));
    assert_eq!(pool.take(), first);
    assert_eq!(pool.find(hash(7)), None);
}

#[test]
fn of_equal_blocks_the_one_cached_first_is_found() {
    let mut pool = BlockPool::numbered(4);
    let (a, b, c) = (pool.take(), pool.take(), pool.take());
    for id in [b, a, c] {
        pool.cache(id, hash(5));
    }
    assert_eq!(pool.find(hash(5)), Some(b));
    pool.release(&[b]);
    assert_eq!(pool.take(), b);
    assert_eq!(pool.find(hash(5)), Some(a));
}

#[test]
fn a_block_held_twice_stays_until_both_let_go() {
    let mut pool = BlockPool::numbered(3);
    let id = pool.take();
    pool.cache(id, hash(1));
    pool.hold(id);
    pool.release(&[id]);
    assert!(!pool.is_free(id));
    pool.release(&[id]);
    assert!(pool.is_free(id));
    assert!(pool.is_balanced());
}

#[test]
fn plain_blocks_are_taken_in_the_order_of_the_queue() {
    let mut pool = BlockPool::new(11);
    pool.take_plain(5);
    let named = [pool.name(hash(1)), pool.name(hash(2))];
    // the queue: 3 plain, 5 plain, then the named, last first
    pool.release_plain(0, 3);
    pool.release(&named);
    assert_eq!(pool.free(), 10);
    pool.take_plain(9);
    assert_eq!(pool.find(hash(2)), None, "the end of a sequence is forgotten first");
    assert_eq!(pool.find(hash(1)), Some(named[0]));
    assert!(pool.is_balanced());
}

#[test]
fn kept_plain_blocks_wait_behind_named_ones() {
    let mut pool = BlockPool::new(4);
    pool.take_plain(3);
    let named = pool.name(hash(1));
    pool.release(&[named]);
    pool.release_plain(2, 0);
    pool.take_plain(1);
    assert_eq!(pool.find(hash(1)), None);
    assert!(pool.is_balanced());
}
