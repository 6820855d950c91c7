//! Chunks that go down and come up again, by hand.

use super::*;
use crate::cost::{Linear, StepTime};
use crate::kv::Tier;
use crate::scenario::TierEviction;
use crate::units::SimDuration;

const CHUNK: u32 = 8;

fn names(chunks: impl IntoIterator<Item = u64>) -> Vec<BlockHash> {
    chunks.into_iter().map(BlockHash::of).collect()
}

/// Tiers with room for so many chunks each.
fn tiers(write: TierWrite, rooms: [Option<usize>; 3]) -> Tiers {
    let level = |room: usize| Level::own(Tier::new(room, TierEviction::Lru));
    Tiers::new(CHUNK, (write, Fetch::Always), rooms.map(|room| room.map(level)))
}

fn taken(tiers: &mut Tiers) -> Vec<TierMove> {
    let mut moves = Vec::new();
    tiers.take(&mut Vec::new(), &mut moves);
    moves
}

/// Ends all moves and those that follow; tells their ways and sizes.
fn settle(tiers: &mut Tiers) -> Vec<(TierWay, u32)> {
    let mut ways = Vec::new();
    loop {
        let moves = taken(tiers);
        if moves.is_empty() {
            return ways;
        }
        for what in moves {
            ways.push((what.way, what.chunks));
            tiers.end(what.id);
        }
        assert!(tiers.is_balanced());
    }
}

/// Tokens found of a prompt of these chunks of which the GPU holds nothing.
fn found(tiers: &mut Tiers, chunks: &[BlockHash]) -> u32 {
    tiers.find(chunks, chunks.len() as u32 * CHUNK + 1, 0)
}

#[test]
fn written_through_a_chunk_goes_to_every_tier_that_lacks_it() {
    let mut tiers = tiers(TierWrite::Through, [Some(4), Some(9), Some(9)]);
    tiers.write(&names(0..3));
    assert_eq!(found(&mut tiers, &names(0..3)), 0, "it is on its way");
    let ways = settle(&mut tiers);
    let all = [TierWay::GpuToHost, TierWay::HostToDisk, TierWay::HostToPool];
    assert_eq!(ways, all.map(|way| (way, 3)));
    tiers.write(&names(0..3));
    assert!(settle(&mut tiers).is_empty(), "all have it");
    // Two give way in host memory, the end of the sequence; below they stay.
    tiers.write(&names(10..13));
    settle(&mut tiers);
    assert_eq!(found(&mut tiers, &names(0..3)), 24);
    assert_eq!(tiers.found, [TierKind::Host, TierKind::Disk, TierKind::Disk]);
}

#[test]
fn written_back_a_chunk_goes_down_step_by_step() {
    let mut tiers = tiers(TierWrite::Back, [Some(2), Some(2), Some(9)]);
    let mut bring = |chunks: std::ops::Range<u64>| {
        tiers.write(&names(chunks));
        settle(&mut tiers)
    };
    assert_eq!(bring(0..2), [(TierWay::GpuToHost, 2)]);
    let mut ways = bring(10..12);
    ways.sort_by_key(|(way, _)| *way as usize);
    assert_eq!(ways, [(TierWay::GpuToHost, 2), (TierWay::HostToDisk, 2)]);
    let mut ways = bring(20..22);
    ways.sort_by_key(|(way, _)| *way as usize);
    let all = [TierWay::GpuToHost, TierWay::HostToDisk, TierWay::DiskToPool];
    assert_eq!(ways, all.map(|way| (way, 2)));
    assert_eq!(found(&mut tiers, &names(0..2)), 16);
    assert_eq!(tiers.found, [TierKind::Pool; 2]);
}

#[test]
fn what_is_read_from_below_stays_in_host_memory_on_the_way() {
    let mut tiers = tiers(TierWrite::Through, [Some(3), None, Some(9)]);
    tiers.write(&names(0..3));
    settle(&mut tiers);
    tiers.write(&names(10..12));
    settle(&mut tiers);
    let prompt = names(0..3);
    assert_eq!(tiers.find(&prompt, 24, 4), 20, "the GPU holds half of the first chunk");
    let mut loads = Vec::new();
    tiers.load((RequestId(7), true), &prompt, (24, 4));
    let mut moves = Vec::new();
    tiers.take(&mut loads, &mut moves);
    // The last of 24 tokens is computed again.
    assert_eq!(loads, [TierLoad { request: RequestId(7), tokens: [4, 0, 15], is_first: true }]);
    assert_eq!(
        moves.iter().map(|m| (m.way, m.chunks)).collect::<Vec<_>>(),
        [(TierWay::HostToGpu, 1), (TierWay::PoolToGpu, 2),]
    );
    assert_eq!(tiers.end(moves[0].id), None, "the other half is on its way");
    assert_eq!(tiers.end(moves[1].id), Some(RequestId(7)));
    found(&mut tiers, &prompt);
    assert_eq!(tiers.found, [TierKind::Host; 3]);
}

#[test]
fn a_pool_survives_an_engine_that_stops_and_is_whole_again() {
    let pool = std::sync::Arc::new(std::sync::Mutex::new(Tier::new(3, TierEviction::Lru)));
    let shared = || Some(Level::Shared(std::sync::Arc::clone(&pool)));
    let engine = || Tiers::new(CHUNK, (TierWrite::Through, Fetch::Always), [None, None, shared()]);
    let (mut one, mut other) = (engine(), engine());
    one.write(&names(0..2));
    settle(&mut one);
    assert_eq!(found(&mut other, &names(0..2)), 16);
    // It reads two chunks and writes another one when it stops.
    other.load((RequestId(1), true), &names(0..2), (17, 0));
    other.write(&names([5]));
    let passed = taken(&mut other).into_iter().find(|m| m.way == TierWay::GpuToHost);
    other.end(passed.expect("it passes host memory").id);
    other.abandon();
    assert_eq!(found(&mut one, &names([5])), 0);
    // Nothing is held any more: all three places can be taken.
    one.write(&names(20..23));
    settle(&mut one);
    assert_eq!(found(&mut one, &names(20..23)), 24);
}

#[test]
fn two_copies_of_a_chunk_go_down_as_one() {
    for write in [TierWrite::Through, TierWrite::Back] {
        let mut tiers = tiers(write, [Some(2), None, Some(4)]);
        tiers.write(&names([0, 1, 1]));
        assert_eq!(settle(&mut tiers)[0], (TierWay::GpuToHost, 2));
        assert_eq!(found(&mut tiers, &names(0..2)), 16);
    }
}

#[test]
fn tiers_without_room_move_nothing() {
    for write in [TierWrite::Through, TierWrite::Back] {
        let mut tiers = tiers(write, [Some(0), None, None]);
        tiers.write(&names(0..3));
        assert!(settle(&mut tiers).is_empty());
    }
}

/// 1 ms for a token; a chunk takes so many ms from each tier.
fn times(chunk_ms: [u64; 3]) -> Fetch {
    let law = Linear {
        base: SimDuration::ZERO,
        prefill_token: SimDuration::from_millis(1),
        decode_seq: SimDuration::ZERO,
        ..Linear::default()
    };
    Fetch::WhenFaster(Box::new(FetchTimes {
        cost: StepTime::Linear(law),
        step_tokens: 100,
        latency_s: 0.002,
        chunk_s: chunk_ms.map(|ms| ms as f64 / 1e3),
    }))
}

#[test]
fn what_is_slower_to_fetch_is_computed() {
    use TierKind::{Host, Pool};
    let found = [Host, Host, Pool, Pool];
    let worth = |ms| times(ms).worth(&found, (CHUNK, 40, 0));
    // 2 ms + 2 · 3 ms from the host for 16 ms; 2 ms + 2 · 6 ms from the pool for 16 ms.
    assert_eq!(worth([3, 0, 6]), 4);
    // 2 ms + 2 · 8 ms from the pool: the host's alone.
    assert_eq!(worth([3, 0, 8]), 2);
    assert_eq!(worth([8, 0, 8]), 0);
    // All together: 8 + 14 ms of 32, though the host's part is not worth it alone.
    assert_eq!(worth([8, 0, 1]), 4);
}

#[test]
fn few_tokens_are_computed() {
    let found = [TierKind::Host; 2];
    assert_eq!(Fetch::MinTokens(12).worth(&found, (CHUNK, 40, 4)), 2, "16 tokens end 12 later");
    assert_eq!(Fetch::MinTokens(13).worth(&found, (CHUNK, 40, 4)), 0);
    assert_eq!(Fetch::MinTokens(1).worth(&[], (CHUNK, 40, 4)), 0);
}

#[test]
fn a_look_up_is_done_again_when_what_can_be_found_has_changed() {
    let mut tiers = tiers(TierWrite::Through, [Some(3), None, None]);
    assert_eq!(found(&mut tiers, &names(0..3)), 0);
    tiers.write(&names(0..2));
    assert_eq!(found(&mut tiers, &names(0..3)), 0, "they are on their way");
    settle(&mut tiers);
    assert_eq!(found(&mut tiers, &names(0..3)), 2 * CHUNK);
    assert_eq!(found(&mut tiers, &names(0..3)), 2 * CHUNK, "nothing has changed");
    tiers.write(&names(7..9));
    assert_eq!(found(&mut tiers, &names(0..3)), CHUNK, "the second has given way");
}
