//! A tier beside a plain list, and examples by hand.

use proptest::prelude::*;

use super::*;

fn name(chunk: u64) -> BlockHash {
    BlockHash::of(chunk)
}

fn names(chunks: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    chunks.into_iter().map(name).collect()
}

/// Stores chunks that come at once; returns what gave way.
fn store(tier: &mut Tier, chunks: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    let (mut coming, mut evicted) = (names(chunks), Vec::new());
    tier.reserve(&mut coming, &mut evicted);
    for name in coming {
        tier.arrive(name);
    }
    evicted
}

#[test]
fn the_end_of_the_sequence_unused_for_longest_gives_way() {
    let mut tier = Tier::new(5, TierEviction::Lru);
    assert!(store(&mut tier, 1..4).is_empty());
    assert!(store(&mut tier, 11..13).is_empty());
    tier.touch(&names(1..4));
    // 11 and 12 are the older ones now, and of them the end goes first.
    assert_eq!(store(&mut tier, [21]), names([12]));
    assert_eq!(store(&mut tier, [22, 23]), names([11, 3]));
}

#[test]
fn what_came_first_gives_way_first_though_it_is_asked_for() {
    let mut tier = Tier::new(3, TierEviction::Fifo);
    store(&mut tier, [1]);
    store(&mut tier, [2, 3]);
    tier.touch(&names([1]));
    assert_eq!(store(&mut tier, [4, 5]), names([1, 3]));
}

#[test]
fn what_is_read_or_on_its_way_does_not_give_way() {
    let mut tier = Tier::new(2, TierEviction::Lru);
    store(&mut tier, [1]);
    let (mut coming, mut evicted) = (names([2]), Vec::new());
    tier.reserve(&mut coming, &mut evicted);
    tier.hold(name(1));
    assert!(!tier.has(name(2)) && tier.knows(name(2)));
    assert!(store(&mut tier, [3]).is_empty());
    assert!(!tier.knows(name(3)), "there is no room");
    tier.let_go(name(1));
    assert_eq!(store(&mut tier, [3]), names([1]));
    tier.lose(name(2));
    assert_eq!(tier.len(), 1);
}

#[test]
fn a_chunk_that_is_named_twice_has_room_once() {
    let mut tier = Tier::new(3, TierEviction::Lru);
    assert!(store(&mut tier, [1, 2, 1, 2]).is_empty());
    assert_eq!(tier.len(), 2);
    assert!(tier.is_balanced());
}

/// The same rules on a plain list: chunks in the order in which they give way.
#[derive(Debug)]
struct Plain {
    capacity: usize,
    eviction: TierEviction,
    list: Vec<(BlockHash, Option<u32>)>,
}

impl Plain {
    fn at(&mut self, name: BlockHash) -> Option<&mut (BlockHash, Option<u32>)> {
        self.list.iter_mut().find(|chunk| chunk.0 == name)
    }

    fn reserve(&mut self, asked: &[BlockHash]) -> (Vec<BlockHash>, Vec<BlockHash>) {
        let new: Vec<_> = asked.iter().copied().filter(|n| self.at(*n).is_none()).collect();
        let over = (self.list.len() + new.len()).saturating_sub(self.capacity);
        let idle: Vec<_> = self.list.iter().filter(|c| c.1 == Some(0)).map(|c| c.0).collect();
        if idle.len() < over {
            return (Vec::new(), Vec::new());
        }
        let going = idle[..over].to_vec();
        self.list.retain(|chunk| !going.contains(&chunk.0));
        self.list.extend(new.iter().rev().map(|name| (*name, None)));
        (new, going)
    }

    fn touch(&mut self, names: &[BlockHash]) {
        for name in names.iter().rev().filter(|_| self.eviction == TierEviction::Lru) {
            if let Some(at) = self.list.iter().position(|chunk| chunk.0 == *name) {
                let chunk = self.list.remove(at);
                self.list.push(chunk);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_tier_decides_as_a_plain_list(
        capacity in 0_usize..12,
        is_lru: bool,
        steps in prop::collection::vec((0_u32..6, 0_u64..4, 1_u64..7), 0..200),
    ) {
        let eviction = if is_lru { TierEviction::Lru } else { TierEviction::Fifo };
        let mut tier = Tier::new(capacity, eviction);
        let mut plain = Plain { capacity, eviction, list: Vec::new() };
        for (what, stream, count) in steps {
            let asked = names(10 * stream..10 * stream + count);
            match what {
                0 | 1 => {
                    let (mut coming, mut evicted) = (asked.clone(), Vec::new());
                    tier.reserve(&mut coming, &mut evicted);
                    prop_assert_eq!((coming, evicted), plain.reserve(&asked));
                }
                2 | 3 => {
                    for chunk in plain.list.iter_mut().filter(|chunk| asked.contains(&chunk.0)) {
                        match &mut chunk.1 {
                            None if what == 3 => {
                                tier.arrive(chunk.0);
                                chunk.1 = Some(0);
                            }
                            Some(readers) if what == 3 => {
                                tier.hold(chunk.0);
                                *readers += 1;
                            }
                            Some(readers) if *readers > 0 => {
                                tier.let_go(chunk.0);
                                *readers -= 1;
                            }
                            _ => {}
                        }
                    }
                }
                4 => {
                    tier.touch(&asked);
                    plain.touch(&asked);
                }
                _ => {
                    let lost = asked.iter().find(|n| plain.at(**n).is_some_and(|c| c.1.is_none()));
                    if let Some(lost) = lost {
                        tier.lose(*lost);
                        plain.list.retain(|chunk| chunk.0 != *lost);
                    }
                }
            }
            prop_assert!(tier.is_balanced() && tier.len() <= capacity);
            for name in asked {
                prop_assert_eq!(tier.has(name), plain.at(name).is_some_and(|c| c.1.is_some()));
                prop_assert_eq!(tier.knows(name), plain.at(name).is_some());
            }
        }
    }
}
