//! Gaps between tokens, exact: each distinct gap once, with the number of tokens that saw it.

use crate::stats::Weighted;
use crate::units::SimDuration;

/// Counts gaps. Steps are appended and folded together when they outgrow the distinct gaps.
#[derive(Debug, Clone, Default)]
pub struct GapCounter {
    folded: Vec<(u64, u64)>,
    fresh: Vec<(u64, u64)>,
}

const FRESH_MAX: usize = 1 << 16;

impl GapCounter {
    /// `count` tokens came `gap` after the ones before.
    pub fn add(&mut self, gap: SimDuration, count: u32) {
        self.fresh.push((gap.as_nanos(), u64::from(count)));
        if self.fresh.len() >= FRESH_MAX.max(self.folded.len()) {
            self.fold();
        }
    }

    /// The sample of all gaps in seconds.
    pub fn sample(mut self) -> Weighted {
        self.fold();
        let seconds = |nanos: u64| SimDuration::from_nanos(nanos).as_secs_f64();
        Weighted::new(self.folded.iter().map(|&(gap, count)| (seconds(gap), count)).collect())
    }

    fn fold(&mut self) {
        self.folded.append(&mut self.fresh);
        self.folded.sort_unstable_by_key(|&(gap, _)| gap);
        self.folded.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Sample;

    #[test]
    fn every_gap_counts_whenever_it_is_folded() {
        let mut gaps = GapCounter::default();
        for step in 0..200_000_u64 {
            gaps.add(SimDuration::from_micros(10 + step % 7), 3);
        }
        let sample = gaps.sample();
        assert_eq!(sample.count(), 600_000);
        assert_eq!(sample.pairs().count(), 7);
    }
}
