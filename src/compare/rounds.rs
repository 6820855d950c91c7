//! How many seeds: rounds, each as long as the deviations of the one before ask for.
//!
//! To look at an interval after every seed and to stop once it is narrow enough would stop where the
//! deviation happens to be underestimated, and the interval would hold the truth less often than it
//! says. C. Stein (A two-sample test for a linear hypothesis whose power is independent of the variance,
//! Annals of Mathematical Statistics, 1945) keeps to the deviation of the first round instead, whatever
//! later ones bring: as the mean of normal figures is independent of all their deviations, the interval then
//! holds the truth exactly as often as it says, whenever one stops because of deviations, and of whichever
//! figure. Of skewed figures the first round often misses the rare large ones, so that the interval by the
//! deviation of all seeds is computed too, and the wider one counts ([`super::Difference`]).

use super::Difference;

/// The seeds of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// Seeds of the first round.
    pub first: usize,
    /// Seeds of all rounds at most.
    pub most: usize,
    /// Half the width of an interval, relative to the baseline, that is narrow enough.
    pub within: f64,
}

impl Rounds {
    /// How many seeds there must be, by the differences over those there are: as many if they suffice or are
    /// the most. Figures that are 0 in the baseline have no relative width and ask for nothing.
    pub fn seeds<'a>(
        &self,
        there: usize,
        differences: impl IntoIterator<Item = &'a Difference>,
    ) -> usize {
        let relative = differences.into_iter().filter_map(|found| found.relative);
        let widest = relative.map(|relative| relative.half_width).fold(0.0, f64::max);
        if widest <= self.within {
            return there;
        }
        let needed = (there as f64 * (widest / self.within).powi(2)).ceil();
        let more = there.saturating_add(1).min(self.most);
        if needed < self.most as f64 { more.max(needed as usize) } else { self.most.max(there) }
    }

    /// Whether a difference is known well enough.
    pub fn is_narrow(&self, difference: &Difference) -> bool {
        difference.relative.is_none_or(|relative| relative.half_width <= self.within)
    }
}
