//! Gaps between tokens, exact: each distinct gap once, with the number of tokens that saw it. Where no records
//! are kept, and distinct gaps are too many, only their bins are.

mod binned;

use crate::stats::radix::{sort_by_high_bits, sorted_by_high_bits};
use crate::stats::{LogBins, Weighted};
use crate::threads;
use crate::units::SimDuration;

pub use binned::BinnedGaps;

/// Counts gaps, eight bytes each. Equal ones are joined when there are many, so that memory grows
/// with the distinct ones, up to a limit if there is one.
#[derive(Debug, Clone)]
pub struct GapCounter {
    /// The gap in nanoseconds above, the count in the low [`COUNT_BITS`] bits.
    packed: Vec<u64>,
    /// What is longer or counts more than fits.
    wide: Vec<(u64, u64)>,
    /// How many entries are joined next, and at least.
    join_at: usize,
    join_min: usize,
    /// The most distinct gaps that are kept.
    distinct_max: usize,
    /// All gaps, in nanoseconds, but for the packed ones, once distinct gaps are too many.
    bins: Option<Box<LogBins>>,
}

const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const GAP_MAX: u64 = u64::MAX >> COUNT_BITS;
/// Entries below which nothing is joined.
const JOIN_MIN: usize = 1 << 20;

impl Default for GapCounter {
    fn default() -> Self {
        Self::in_parts(1)
    }
}

impl GapCounter {
    /// One of so many counters that together may grow as far as one.
    pub(super) fn in_parts(parts: u32) -> Self {
        let join_min = (JOIN_MIN / parts.max(1) as usize).max(JOIN_MIN / 8);
        Self {
            packed: Vec::new(),
            wide: Vec::new(),
            join_at: join_min,
            join_min,
            distinct_max: usize::MAX,
            bins: None,
        }
    }

    /// From now on only bins remain of distinct gaps that are too many.
    pub(super) fn bound(&mut self) {
        self.distinct_max = self.join_min;
    }

    /// What was packed since the last time, in exchange for an empty list to go on with.
    pub(super) fn exchange(&mut self, noted: &mut Vec<u64>) {
        debug_assert!(noted.is_empty(), "what was noted before is counted");
        std::mem::swap(&mut self.packed, noted);
    }

    /// Adds what another counter packed.
    pub(super) fn count(&mut self, noted: &mut Vec<u64>) {
        self.packed.append(noted);
        if self.packed.len() >= self.join_at {
            self.join();
        }
    }

    /// Adds what another counter counted.
    pub(super) fn join_with(&mut self, other: Self) {
        if let Some(bins) = other.bins {
            self.bins.get_or_insert_default().join(&bins);
        }
        if self.packed.is_empty() {
            // Nothing to put before: no copy of what may be much.
            self.packed = other.packed;
        } else {
            self.packed.extend(other.packed);
        }
        self.wide.extend(other.wide);
        if self.packed.len() >= self.join_at {
            self.join();
        }
    }

    /// `count` tokens came `gap` after the ones before.
    #[inline]
    pub fn add(&mut self, gap: SimDuration, count: u32) {
        let (gap, count) = (gap.as_nanos(), u64::from(count));
        if gap > GAP_MAX || count > COUNT_MAX || count == 0 {
            self.wide.extend((count > 0).then_some((gap, count)));
            return;
        }
        self.packed.push(gap << COUNT_BITS | count);
        if self.packed.len() >= self.join_at {
            self.join();
        }
    }

    /// The statistics of all gaps in nanoseconds, each of them off by less than 2^-12 of itself; `None` where
    /// all distinct gaps were kept.
    pub fn in_log_bins(&self) -> Option<LogBins> {
        let mut bins = *self.bins.clone()?;
        self.put_in(&mut bins);
        Some(bins)
    }

    fn put_in(&self, bins: &mut LogBins) {
        let packed = self.packed.iter().map(|entry| (entry >> COUNT_BITS, entry & COUNT_MAX));
        for (gap, count) in packed.chain(self.wide.iter().copied()) {
            bins.add_many(gap, count);
        }
    }

    /// The statistics of all gaps; `None` where some are too long, or of too many tokens, for bins.
    pub fn binned(&self) -> Option<BinnedGaps> {
        debug_assert!(self.bins.is_none(), "only bins are left of gaps");
        self.wide.is_empty().then(|| BinnedGaps::new(&self.packed))
    }

    /// The sample of all gaps in seconds, every one of them in order.
    ///
    /// # Panics
    /// When there were too many distinct ones to keep: the sample of the rest would be wrong.
    pub fn sample(&self) -> Weighted {
        assert!(self.bins.is_none(), "only bins are left of gaps");
        let seconds = |nanos: u64| SimDuration::from_nanos(nanos).as_secs_f64();
        let (lower, upper) = self.sorted_halves();
        let packed = Merged { lower: &lower, upper: &upper };
        let packed = packed.map(|entry| (seconds(entry >> COUNT_BITS), entry & COUNT_MAX));
        if self.wide.is_empty() {
            return Weighted::of_ascending(packed);
        }
        let wide = self.wide.iter().map(|&(gap, count)| (seconds(gap), count));
        Weighted::new(packed.chain(wide).collect())
    }

    /// Each half sorted by gap.
    fn sorted_halves(&self) -> (Vec<u64>, Vec<u64>) {
        let (lower, upper) = self.packed.split_at(self.packed.len() / 2);
        threads::both(
            || sorted_by_high_bits(lower, COUNT_BITS),
            || sorted_by_high_bits(upper, COUNT_BITS),
        )
    }

    #[cold]
    fn join(&mut self) {
        if self.bins.is_some() {
            return self.bin();
        }
        sort_by_high_bits(&mut self.packed, COUNT_BITS);
        self.packed.dedup_by(|next, kept| {
            let joins = *next >> COUNT_BITS == *kept >> COUNT_BITS
                && (*next & COUNT_MAX) + (*kept & COUNT_MAX) <= COUNT_MAX;
            if joins {
                *kept += *next & COUNT_MAX;
            }
            joins
        });
        if self.packed.len() > self.distinct_max {
            return self.bin();
        }
        self.join_at = self.join_min.max(2 * self.packed.len());
    }

    /// Only bins remain of what was packed.
    fn bin(&mut self) {
        let mut bins = self.bins.take().unwrap_or_default();
        self.put_in(&mut bins);
        self.bins = Some(bins);
        self.packed.clear();
        self.wide.clear();
        self.join_at = self.join_min;
        self.packed.shrink_to(self.join_min);
    }
}

/// The entries of two sorted lists, by gap.
struct Merged<'a> {
    lower: &'a [u64],
    upper: &'a [u64],
}

impl Iterator for Merged<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let (first, second) = (self.lower.first(), self.upper.first());
        let is_lower = match (first, second) {
            (Some(first), Some(second)) => first >> COUNT_BITS <= second >> COUNT_BITS,
            (first, _) => first.is_some(),
        };
        let list = if is_lower { &mut self.lower } else { &mut self.upper };
        list.split_off_first().copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.lower.len() + self.upper.len();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Merged<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;
    use crate::stats::Sample;

    #[test]
    fn every_gap_counts_however_often_it_is_joined() {
        let mut gaps = GapCounter::default();
        for step in 0..3_000_000_u64 {
            gaps.add(SimDuration::from_micros(10 + step % 7), 3);
        }
        let sample = gaps.sample();
        assert_eq!(sample.count(), 9_000_000);
        assert_eq!(sample.pairs().count(), 7);
    }

    #[test]
    fn a_sample_is_that_of_the_gaps_as_they_came() {
        let mut gaps = GapCounter::default();
        let mut plain = Vec::new();
        for step in 0..20_000_u64 {
            // from nanoseconds to half an hour, some counts beyond the packed ones
            let gap = mix(step) >> (23 + mix(step) % 40);
            let count = if step % 1000 == 0 { u32::MAX } else { (step % 300) as u32 };
            gaps.add(SimDuration::from_nanos(gap), count);
            plain.push((SimDuration::from_nanos(gap).as_secs_f64(), u64::from(count)));
        }
        let (sample, plain) = (gaps.sample(), Weighted::new(plain));
        assert!(sample.pairs().eq(plain.pairs()));
        assert!(gaps.binned().is_none(), "some are beyond what is packed");
    }

    /// Counts are equal, and percentiles as near as bins are.
    fn are_alike(bins: &LogBins, exact: &Weighted) {
        assert_eq!(bins.count(), exact.count());
        for p in [0.0, 1.0, 50.0, 99.0, 100.0] {
            let (ours, theirs) = (bins.percentile(p) / 1e9, exact.percentile(p));
            assert!((ours / theirs - 1.0).abs() < 1.0 / 4096.0, "p{p}: {ours}, {theirs}");
        }
    }

    #[test]
    fn too_many_distinct_gaps_leave_their_bins() {
        let mut exact = GapCounter::default();
        let mut bounded = [(); 2].map(|()| GapCounter::in_parts(8));
        for gaps in &mut bounded {
            gaps.bound();
        }
        for step in 0..1_000_000_u64 {
            let (gap, count) = (7_000_000 + mix(step) % 900_000, (mix(step + 7) % 300) as u32);
            let gap = SimDuration::from_nanos(gap);
            exact.add(gap, count);
            bounded[step as usize % 2].add(gap, count);
        }
        let [mut all, other] = bounded;
        // One is too long to be packed.
        let long = SimDuration::from_nanos(GAP_MAX + 1);
        exact.add(long, 5);
        all.add(long, 5);
        assert!(all.packed.capacity() <= 2 * JOIN_MIN / 8 && other.bins.is_some());
        all.join_with(other);
        let (exact, bins) = (exact.sample(), all.in_log_bins().expect("they are many"));
        are_alike(&bins, &exact);
        assert!((bins.mean() / 1e9 / exact.mean() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_noted_in_slices_is_counted_as_by_one() {
        let mut exact = GapCounter::default();
        let [mut noting, mut apart] = [(); 2].map(|()| GapCounter::in_parts(8));
        apart.bound();
        let mut noted = Vec::new();
        for step in 0..600_000_u64 {
            let (gap, count) = (7_000_000 + mix(step) % 900_000, (mix(step + 7) % 300) as u32);
            exact.add(SimDuration::from_nanos(gap), count);
            noting.add(SimDuration::from_nanos(gap), count);
            if step % 50_000 == 0 {
                noting.exchange(&mut noted);
                apart.count(&mut noted);
            }
        }
        assert!(apart.bins.is_some() && apart.packed.capacity() <= 2 * JOIN_MIN / 8);
        noting.join_with(apart);
        let (exact, bins) = (exact.sample(), noting.in_log_bins().expect("they are many"));
        are_alike(&bins, &exact);
    }

    #[test]
    fn bins_have_the_statistics_of_the_sorted_list() {
        // All equal; alike within a bin; from nothing to a quarter of an hour; nearly all alike beside a long one.
        let laws: [fn(u64) -> u64; 4] = [
            |_| 7_000_000,
            |step| 7_000_000 + mix(step) % 500,
            |step| mix(step) >> (24 + mix(step) % 40),
            |step| if step == 999 { 800_000_000_000 } else { 6_900_000 + mix(step) % 300_000 },
        ];
        for (law, gap) in laws.iter().enumerate() {
            for steps in [1, 2, 1000, 50_000] {
                let mut gaps = GapCounter::default();
                for step in 0..steps {
                    gaps.add(SimDuration::from_nanos(gap(step)), (mix(step + 7) % 300) as u32);
                }
                let (binned, sorted) = (gaps.binned().expect("all are packed"), gaps.sample());
                assert_eq!(binned.count(), sorted.count());
                assert_eq!(binned.max().to_bits(), sorted.max().to_bits());
                for p in [0.0, 0.1, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                    let (ours, theirs) = (binned.percentile(p), sorted.percentile(p));
                    assert_eq!(ours.to_bits(), theirs.to_bits(), "law {law}, {steps} steps, p{p}");
                }
                let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-9 * sorted.max();
                assert!(near(binned.mean(), sorted.mean()), "law {law}, {steps} steps");
                assert!(near(binned.std_dev(), sorted.std_dev()), "law {law}, {steps} steps");
            }
        }
        let nothing = GapCounter::default().binned().expect("nothing is packed");
        assert_eq!((nothing.count(), nothing.percentile(50.0).to_bits()), (0, 0));
    }
}
