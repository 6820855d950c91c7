//! Another stretch of time that could have been a recorded one: blocks of it, of equal duration and drawn with
//! replacement, one after the other (Künsch: The jackknife and the bootstrap for general stationary observations, 1989;
//! here without overlap). What is repeated shares no content with its first time.

use rand::RngExt;

use super::TraceRow;
use crate::rng::{Stream, mix};
use crate::scenario::TraceArrivalConfig;
use crate::units::{SimDuration, SimTime};

/// Blocks of a trace that are drawn anew.
pub const STRETCH_BLOCKS: u32 = 24;

/// Requests for each block at least: of fewer some stretches would hold next to none.
const REQUESTS_PER_BLOCK: usize = 2;

/// How often blocks are drawn that may hold no requests.
pub const STRETCH_DRAWS_MAX: u32 = 100;

/// Draws blocks of what is in order of time, and gives each of them in turn with its new time and how often its block came
/// before.
pub fn resample<T>(
    all: &[T],
    time: impl Fn(&T) -> SimTime,
    (blocks, stream): (u32, &mut Stream),
    mut give: impl FnMut(&T, SimTime, u64),
) {
    let (Some(first), Some(last)) = (all.first().map(&time), all.last().map(&time)) else {
        return;
    };
    let width = SimDuration::from_nanos((last - first).as_nanos() / u64::from(blocks) + 1);
    let start = |block: u32| first + width * u64::from(block);
    let place = |at: SimTime| all.partition_point(|one| time(one) < at);
    let mut uses = vec![0_u64; blocks as usize];
    for slot in 0..blocks {
        let block = stream.random_range(0..blocks);
        let before = uses[block as usize];
        uses[block as usize] += 1;
        for one in &all[place(start(block))..place(start(block + 1))] {
            give(one, start(slot) + (time(one) - start(block)), before);
        }
    }
}

/// Another stretch of the rows that a workload plays, at most so many requests; nothing where they have no times, are
/// fewer than two for each block, or come at one moment.
pub fn resampled_rows(
    rows: &[TraceRow],
    config: &TraceArrivalConfig,
    requests: Option<u32>,
    stream: &mut Stream,
) -> Option<Vec<TraceRow>> {
    let from = config.window_start_s.map_or(SimTime::ZERO, SimTime::from_secs_f64);
    let until = config.window_end_s.map_or(SimTime::MAX, SimTime::from_secs_f64);
    let time = |row: &TraceRow| row.arrival.unwrap_or_default();
    let played = |row: &&TraceRow| {
        let has_tokens = row.prompt_tokens > 0 && row.output_tokens > 0;
        has_tokens && row.arrival.is_some_and(|at| (from..until).contains(&at))
    };
    let mut played: Vec<&TraceRow> = rows.iter().filter(played).collect();
    played.sort_by_key(|row| time(row));
    if let Some(requests) = requests {
        played.truncate(requests.div_ceil(config.copies.max(1)) as usize);
    }
    let takes_time = played.first().zip(played.last()).is_some_and(|(a, b)| time(a) < time(b));
    if !takes_time || played.len() < REQUESTS_PER_BLOCK * STRETCH_BLOCKS as usize {
        return None;
    }
    (0..STRETCH_DRAWS_MAX).find_map(|_| {
        let mut drawn: Vec<TraceRow> = Vec::with_capacity(played.len());
        let blocks = (STRETCH_BLOCKS, &mut *stream);
        resample(
            &played,
            |row| time(row),
            blocks,
            |row, at, before| {
                let mut row = (*row).clone();
                row.arrival = Some(at);
                if before > 0 {
                    let salt = mix(before);
                    row.hash_ids.iter_mut().chain(&mut row.session).for_each(|id| *id ^= salt);
                }
                drawn.push(row);
            },
        );
        let span = drawn.first().zip(drawn.last()).map(|(first, last)| (time(first), time(last)));
        span.is_some_and(|(first, last)| first < last).then_some(drawn)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Seed;

    fn every_second(count: u64) -> Vec<TraceRow> {
        let row = |second: u64| TraceRow {
            arrival: Some(SimTime::from_secs_f64(second as f64)),
            prompt_tokens: 8,
            output_tokens: 4,
            hash_ids: vec![second],
            hash_block_tokens: 8,
            ..TraceRow::default()
        };
        (0..count).map(row).collect()
    }

    fn drawn(
        rows: &[TraceRow],
        config: &TraceArrivalConfig,
        requests: Option<u32>,
    ) -> Option<Vec<TraceRow>> {
        resampled_rows(rows, config, requests, &mut Seed(7).stream("stretch", 1))
    }

    #[test]
    fn another_stretch_has_rows_of_this_one_in_order_of_time_and_none_of_them_twice() {
        let (rows, config) = (every_second(1000), TraceArrivalConfig::default());
        let other = drawn(&rows, &config, None).expect("it is long enough");
        assert!(other.is_sorted_by_key(|row| row.arrival));
        // 24 blocks of 41 or 42 rows each.
        assert!((24 * 41..=24 * 42).contains(&other.len()), "{}", other.len());
        let ids: BTreeSet<u64> = other.iter().map(|row| row.hash_ids[0]).collect();
        assert_eq!(ids.len(), other.len());
        let recorded = ids.iter().filter(|id| **id < 1000).count();
        assert!(recorded < other.len() && recorded > other.len() / 2, "{recorded}");
        let mut again = Seed(7).stream("stretch", 2);
        assert_ne!(resampled_rows(&rows, &config, None, &mut again).expect("as long"), other);
    }

    #[test]
    fn only_what_is_played_is_drawn_from() {
        let rows = every_second(1000);
        let window = TraceArrivalConfig {
            window_start_s: Some(200.0),
            window_end_s: Some(500.0),
            ..TraceArrivalConfig::default()
        };
        for (config, requests, times) in [
            (&window, None, 200.0..500.0),
            (&window, Some(100), 200.0..300.0),
            (&TraceArrivalConfig { copies: 2, ..window.clone() }, Some(200), 200.0..300.0),
        ] {
            let other = drawn(&rows, config, requests).expect("it is long enough");
            let recorded = other.iter().map(|row| row.hash_ids[0]).filter(|id| *id < 1000);
            let recorded: Vec<u64> = recorded.collect();
            assert!(recorded.iter().all(|id| times.contains(&(*id as f64))), "{recorded:?}");
            let at = |row: &TraceRow| row.arrival.unwrap_or_default().as_secs_f64();
            assert!(other.iter().all(|row| times.contains(&at(row))));
        }
    }

    #[test]
    fn of_few_rows_or_rows_without_times_there_is_no_other_stretch() {
        let config = TraceArrivalConfig::default();
        assert!(drawn(&every_second(48), &config, None).is_some());
        assert!(drawn(&every_second(47), &config, None).is_none());
        assert!(drawn(&every_second(1000), &config, Some(47)).is_none());
        // Without times, and all at once.
        for arrival in [None, Some(SimTime::ZERO)] {
            let rows = every_second(100).into_iter().map(|row| TraceRow { arrival, ..row });
            assert!(drawn(&rows.collect::<Vec<_>>(), &config, None).is_none());
        }
    }
}
