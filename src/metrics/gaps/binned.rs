//! The statistics of gaps without sorting them all.
//!
//! Gaps lie in bins of equal relative width, about two in a thousand. A percentile looks at one bin
//! only, and is exact; means are of whole nanoseconds, so that no order shows in them.

use std::ops::RangeInclusive;

use super::{COUNT_BITS, COUNT_MAX};
use crate::stats::{Sample, percentile_of};
use crate::threads;
use crate::units::SimDuration;

/// Bins for each doubling, as a power of two.
const BINS_PER_DOUBLING: u32 = 9;
/// Entries that are sorted to find one among them.
const FEW: usize = 128;

/// Gaps, each with the number of tokens that saw it, in bins.
#[derive(Debug, Clone, Default)]
pub struct BinnedGaps {
    /// Gap above count as in [`GapCounter`](super::GapCounter): bin after bin, in any order within one.
    entries: Vec<u64>,
    bins: Vec<Bin>,
    tokens: u64,
    /// The longest gap in nanoseconds.
    longest: u64,
    mean_s: f64,
    std_dev_s: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    /// Where its entries begin.
    start: u32,
    /// Tokens in all bins before.
    below: u64,
}

/// The gap of an entry, and how many tokens saw it.
#[inline]
fn parts(entry: u64) -> (u64, u64) {
    (entry >> COUNT_BITS, entry & COUNT_MAX)
}

/// The bin of a gap, from that of a gap of nothing on: the exponent and the first digits of a float
/// ascend with it.
#[inline]
fn place(gap: u64) -> usize {
    let float = (gap + 1).cast_signed() as f64;
    (float.to_bits() >> (f64::MANTISSA_DIGITS - 1 - BINS_PER_DOUBLING)) as usize
}

fn seconds(nanos: u64) -> f64 {
    SimDuration::from_nanos(nanos).as_secs_f64()
}

impl BinnedGaps {
    /// The gaps of these entries, each of at least one token.
    pub(super) fn new(entries: &[u64]) -> Self {
        let Some(&any) = entries.first() else { return Self::default() };
        let (shortest, longest) = entries
            .iter()
            .fold((any, any), |(low, high), &entry| (low.min(entry), high.max(entry)));
        let (shortest, longest) = (parts(shortest).0, parts(longest).0);
        let first = place(shortest);
        let tally = |entries| Tally::of(entries, first..=place(longest), parts(any).0);
        let (lower, upper) = entries.split_at(entries.len() / 2);
        let (mut tally, other) = threads::both(|| tally(lower), || tally(upper));
        tally.add(&other);
        let Tally { mut bins, moments } = tally;
        let mut before = Bin::default();
        for bin in &mut bins {
            before = Bin { start: before.start + bin.start, below: before.below + bin.below };
            *bin = before;
        }
        let mut next: Vec<u32> = bins.iter().map(|bin| bin.start).collect();
        let mut in_bins = vec![0; entries.len()];
        for &entry in entries {
            let at = &mut next[place(parts(entry).0) - first];
            in_bins[*at as usize] = entry;
            *at += 1;
        }
        let tokens = before.below;
        let (mean_s, std_dev_s) = moments.mean_and_deviation(tokens);
        Self { entries: in_bins, bins, tokens, longest, mean_s, std_dev_s }
    }

    /// The gap at this index (from 0) of the ascending list of what every token saw, in seconds.
    ///
    /// # Panics
    /// When there are no gaps.
    pub fn order_statistic(&self, index: u64) -> f64 {
        assert!(index < self.tokens, "gap {index} of {}", self.tokens);
        let bin = self.bins.partition_point(|bin| bin.below <= index) - 1;
        let until = self.bins.get(bin + 1).map_or(self.entries.len(), |next| next.start as usize);
        let entries = &self.entries[self.bins[bin].start as usize..until];
        seconds(nth(entries, index - self.bins[bin].below))
    }
}

/// What is in each bin, one place on, so that sums over them are what lies before.
struct Tally {
    bins: Vec<Bin>,
    moments: Moments,
}

impl Tally {
    /// The gaps of these entries, all of them in these bins.
    fn of(entries: &[u64], places: RangeInclusive<usize>, centre: u64) -> Self {
        let first = *places.start();
        let mut bins = vec![Bin::default(); places.count() + 1];
        let mut moments = Moments { centre, ..Moments::default() };
        for (gap, count) in entries.iter().copied().map(parts) {
            let bin = &mut bins[place(gap) - first + 1];
            bin.start += 1;
            bin.below += count;
            moments.add(gap, count);
        }
        Self { bins, moments }
    }

    fn add(&mut self, other: &Self) {
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.start += other.start;
            bin.below += other.below;
        }
        self.moments.above += other.moments.above;
        self.moments.below += other.moments.below;
        self.moments.squares += other.moments.squares;
    }
}

/// Sums of whole numbers, in which no order shows, of how far gaps are from one of them.
#[derive(Default)]
struct Moments {
    centre: u64,
    above: u128,
    below: u128,
    squares: u128,
}

impl Moments {
    #[inline]
    fn add(&mut self, gap: u64, count: u64) {
        let off = gap.abs_diff(self.centre);
        let times = u128::from(off * count);
        if gap >= self.centre {
            self.above += times;
        } else {
            self.below += times;
        }
        // Less than 2^64 for gaps that differ by less than four seconds: one multiplication.
        let square = off.checked_mul(off).map_or_else(|| u128::from(off).pow(2), u128::from);
        self.squares += square * u128::from(count);
    }

    /// In seconds.
    fn mean_and_deviation(&self, tokens: u64) -> (f64, f64) {
        let tokens = tokens as f64;
        let off = (self.above as f64 - self.below as f64) / tokens;
        let variance = self.squares as f64 / tokens - off * off;
        ((self.centre as f64 + off) / 1e9, variance.max(0.0).sqrt() / 1e9)
    }
}

/// The gap at an index of the ascending list of what every token saw of these entries, bit by bit from
/// the highest in which they differ.
fn nth(entries: &[u64], mut index: u64) -> u64 {
    let mut left = entries.to_vec();
    while left.len() > FEW {
        let differ = left.iter().fold(0, |bits, entry| bits | (entry ^ left[0])) >> COUNT_BITS;
        if differ == 0 {
            break;
        }
        let highest = COUNT_BITS + differ.ilog2();
        let is_lower = |entry: &u64| entry >> highest & 1 == 0;
        let below: u64 = left.iter().filter(|entry| is_lower(entry)).map(|e| parts(*e).1).sum();
        let goes_lower = index < below;
        left.retain(|entry| is_lower(entry) == goes_lower);
        if !goes_lower {
            index -= below;
        }
    }
    left.sort_unstable();
    for (gap, count) in left.iter().copied().map(parts) {
        if index < count {
            return gap;
        }
        index -= count;
    }
    unreachable!("the index is one of these entries'")
}

impl Sample for BinnedGaps {
    fn count(&self) -> u64 {
        self.tokens
    }
    fn mean(&self) -> f64 {
        self.mean_s
    }
    fn std_dev(&self) -> f64 {
        self.std_dev_s
    }
    fn percentile(&self, p: f64) -> f64 {
        percentile_of(self.tokens, p, |index| self.order_statistic(index))
    }
    fn max(&self) -> f64 {
        seconds(self.longest)
    }
}
