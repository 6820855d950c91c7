//! Gaps between tokens, exact: each distinct gap once, with the number of tokens that saw it.

use crate::stats::Weighted;
use crate::units::SimDuration;

/// Counts gaps, eight bytes each. Equal ones are joined when there are many, so that memory grows
/// with the distinct ones.
#[derive(Debug, Clone)]
pub struct GapCounter {
    /// The gap in nanoseconds above, the count in the low [`COUNT_BITS`] bits.
    packed: Vec<u64>,
    /// What is longer or counts more than fits.
    wide: Vec<(u64, u64)>,
    /// How many entries are joined next.
    join_at: usize,
}

const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const GAP_MAX: u64 = u64::MAX >> COUNT_BITS;
/// Entries below which nothing is joined.
const JOIN_MIN: usize = 1 << 20;
/// Bits of a gap that one pass of the sort looks at.
const DIGIT_BITS: u32 = 11;

impl Default for GapCounter {
    fn default() -> Self {
        Self { packed: Vec::new(), wide: Vec::new(), join_at: JOIN_MIN }
    }
}

impl GapCounter {
    /// `count` tokens came `gap` after the ones before.
    #[inline]
    pub fn add(&mut self, gap: SimDuration, count: u32) {
        let (gap, count) = (gap.as_nanos(), u64::from(count));
        if gap > GAP_MAX || count > COUNT_MAX {
            self.wide.push((gap, count));
            return;
        }
        self.packed.push(gap << COUNT_BITS | count);
        if self.packed.len() >= self.join_at {
            self.join();
        }
    }

    /// The sample of all gaps in seconds.
    pub fn sample(mut self) -> Weighted {
        sort_by_gap(&mut self.packed);
        let seconds = |nanos: u64| SimDuration::from_nanos(nanos).as_secs_f64();
        let packed =
            self.packed.iter().map(|&entry| (seconds(entry >> COUNT_BITS), entry & COUNT_MAX));
        if self.wide.is_empty() {
            return Weighted::of_ascending(packed);
        }
        let wide = self.wide.iter().map(|&(gap, count)| (seconds(gap), count));
        Weighted::new(packed.chain(wide).collect())
    }

    #[cold]
    fn join(&mut self) {
        sort_by_gap(&mut self.packed);
        self.packed.dedup_by(|next, kept| {
            let joins = *next >> COUNT_BITS == *kept >> COUNT_BITS
                && (*next & COUNT_MAX) + (*kept & COUNT_MAX) <= COUNT_MAX;
            if joins {
                *kept += *next & COUNT_MAX;
            }
            joins
        });
        self.join_at = JOIN_MIN.max(2 * self.packed.len());
    }
}

/// Sorts by gap, digit by digit from the lowest: gaps of one run have few digits in which they
/// differ.
fn sort_by_gap(packed: &mut Vec<u64>) {
    let differ = packed.windows(2).fold(0, |bits, pair| bits | (pair[0] ^ pair[1]));
    let mut target = vec![0; packed.len()];
    for shift in (COUNT_BITS..u64::BITS).step_by(DIGIT_BITS as usize) {
        let digit = |entry: u64| (entry >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        if digit(differ) == 0 {
            continue;
        }
        let mut places = [0_usize; 1 << DIGIT_BITS];
        for &entry in packed.iter() {
            places[digit(entry)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &entry in packed.iter() {
            let place = &mut places[digit(entry)];
            target[*place] = entry;
            *place += 1;
        }
        std::mem::swap(packed, &mut target);
    }
}

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
    }
}
