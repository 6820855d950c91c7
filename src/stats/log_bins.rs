//! The statistics of whole numbers that are too many to be kept: in bins of equal relative width.
//!
//! Every doubling is cut into 2^12 bins. Numbers below 2^13 have bins of their own; from there on an order
//! statistic, and with it a percentile, is off by less than 2^-12 of itself (0.025 %), the least and the
//! largest by nothing. Means and deviations are of exact sums of whole numbers, so that neither the order
//! of what is added nor who adds it shows in them. A doubling takes 32 KB once all its bins are met.

use super::{Sample, percentile_of};

/// Bins for each doubling, as a power of two.
const BINS_PER_DOUBLING: u32 = 12;
/// Bins that are kept together, as a power of two.
const PAGE: u32 = 8;
const PAGE_BINS: usize = 1 << PAGE;

/// Counts whole numbers in bins.
#[derive(Debug, Clone)]
pub struct LogBins {
    /// Only those with something in them.
    pages: Vec<Option<Box<[u64; PAGE_BINS]>>>,
    count: u64,
    least: u64,
    largest: u64,
    sum: u128,
    /// The sum of squares modulo 2^128.
    squares: u128,
}

impl Default for LogBins {
    fn default() -> Self {
        Self { pages: Vec::new(), count: 0, least: u64::MAX, largest: 0, sum: 0, squares: 0 }
    }
}

/// The bin of a number, from that of zero on.
#[inline]
fn place(value: u64) -> usize {
    let shift = (value | 1 << BINS_PER_DOUBLING).ilog2() - BINS_PER_DOUBLING;
    ((u64::from(shift) << BINS_PER_DOUBLING) + (value >> shift)) as usize
}

/// The least number of a bin, and how many it is for.
fn extent(place: usize) -> (u64, u64) {
    let place = place as u64;
    let shift = (place >> BINS_PER_DOUBLING).saturating_sub(1);
    ((place - (shift << BINS_PER_DOUBLING)) << shift, 1 << shift)
}

impl LogBins {
    /// One more number.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// The same number so many times more.
    #[inline]
    pub fn add_many(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        let place = place(value);
        self.page(place >> PAGE)[place % PAGE_BINS] += count;
        self.count += count;
        self.least = self.least.min(value);
        self.largest = self.largest.max(value);
        // Most products fit into 64 bits, and cost a tenth of what those of 128 do.
        let (sum, squares) = if let Some(sum) = value.checked_mul(count) {
            (u128::from(sum), u128::from(sum) * u128::from(value))
        } else {
            let (value, count) = (u128::from(value), u128::from(count));
            (value * count, value.pow(2).wrapping_mul(count))
        };
        self.sum += sum;
        self.squares = self.squares.wrapping_add(squares);
    }

    /// The numbers of another.
    pub fn join(&mut self, other: &Self) {
        for (index, page) in other.pages.iter().enumerate() {
            let Some(page) = page else { continue };
            for (sum, count) in self.page(index).iter_mut().zip(page.iter()) {
                *sum += count;
            }
        }
        self.count += other.count;
        self.least = self.least.min(other.least);
        self.largest = self.largest.max(other.largest);
        self.sum += other.sum;
        self.squares = self.squares.wrapping_add(other.squares);
    }

    #[inline]
    fn page(&mut self, index: usize) -> &mut [u64; PAGE_BINS] {
        if self.pages.get(index).is_none_or(Option::is_none) {
            self.begin_page(index);
        }
        self.pages[index].as_deref_mut().expect("the page was begun")
    }

    #[cold]
    fn begin_page(&mut self, index: usize) {
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        self.pages[index] = Some(Box::new([0; PAGE_BINS]));
    }

    /// The sum of all numbers.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The number at this index (from 0) of the ascending list, less than 2^-12 of itself away: numbers
    /// of a bin are taken to lie evenly in it.
    ///
    /// # Panics
    /// When there are not so many numbers.
    pub fn order_statistic(&self, index: u64) -> f64 {
        assert!(index < self.count, "number {index} of {}", self.count);
        if index == 0 {
            return self.least as f64;
        }
        if index + 1 == self.count {
            return self.largest as f64;
        }
        let mut below = 0;
        for (page, counts) in self.pages.iter().enumerate() {
            let Some(counts) = counts else { continue };
            for (bin, &count) in counts.iter().enumerate() {
                if index - below < count {
                    return self.within((page << PAGE) + bin, (index - below, count));
                }
                below += count;
            }
        }
        unreachable!("the bins hold all {} numbers", self.count)
    }

    /// The number at an index of those in a bin.
    fn within(&self, place: usize, (index, count): (u64, u64)) -> f64 {
        let (start, numbers) = extent(place);
        let share = (index as f64 + 0.5) / count as f64;
        let value = start as f64 + (numbers - 1) as f64 * share;
        value.clamp(self.least as f64, self.largest as f64)
    }
}

impl Sample for LogBins {
    fn count(&self) -> u64 {
        self.count
    }
    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
    /// Exact but for rounding where the squares of what numbers are off their mean add up to less than
    /// 2^128.
    fn std_dev(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let count = u128::from(self.count);
        let (centre, rest) = (self.sum / count, self.sum % count);
        // Σ(x−c)² = Σx² − 2cΣx + nc²: what overflows on the way there cancels out.
        let square = count.wrapping_mul(centre).wrapping_mul(centre);
        let mixed = centre.wrapping_mul(self.sum).wrapping_mul(2);
        let squares = self.squares.wrapping_sub(mixed).wrapping_add(square);
        let off = rest as f64 / self.count as f64;
        (squares as f64 / self.count as f64 - off * off).max(0.0).sqrt()
    }
    fn percentile(&self, p: f64) -> f64 {
        percentile_of(self.count, p, |index| self.order_statistic(index))
    }
    fn max(&self) -> f64 {
        self.largest as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;
    use crate::stats::Values;

    #[test]
    fn bins_follow_one_another_and_hold_their_numbers() {
        for value in (0..20_000).chain((0..64).flat_map(|bit| [1 << bit, u64::MAX >> bit])) {
            let (start, numbers) = extent(place(value));
            assert!(start <= value && value - start < numbers, "{value} in {start} + {numbers}");
            assert!(numbers == 1 || numbers << BINS_PER_DOUBLING <= start, "{value}");
            if let Some(before) = value.checked_sub(1) {
                assert!(place(value) - place(before) <= 1, "{value}");
            }
        }
    }

    #[test]
    fn bins_have_the_statistics_of_the_sorted_list_within_their_width() {
        // All equal; each its own bin; over a small stretch; over twelve decades; far from zero.
        let laws: [fn(u64) -> u64; 5] = [
            |_| 7_654_321,
            |index| mix(index) % 5_000,
            |index| 40_000_000 + mix(index) % 9_000_000,
            |index| mix(index) >> (20 + mix(index + 9) % 40),
            |index| (1 << 45) + mix(index) % 1_000_000,
        ];
        for (law, value) in laws.iter().enumerate() {
            for count in [1, 2, 3, 1_000, 50_000_u64] {
                let (mut bins, mut halves) =
                    (LogBins::default(), [(); 2].map(|()| LogBins::default()));
                for index in 0..count {
                    bins.add(value(index));
                    halves[index as usize % 2].add(value(index));
                }
                let exact = Values::new((0..count).map(|index| value(index) as f64).collect());
                let [mut joined, other] = halves;
                joined.join(&other);
                for bins in [&bins, &joined] {
                    let here = format!("law {law}, {count} numbers");
                    assert_eq!(bins.count(), exact.count());
                    assert_eq!(bins.max().to_bits(), exact.max().to_bits(), "{here}");
                    for p in [0.0, 0.1, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                        let (ours, theirs) = (bins.percentile(p), exact.percentile(p));
                        let most = theirs / f64::from(1 << BINS_PER_DOUBLING);
                        assert!((ours - theirs).abs() <= most, "{here}, p{p}: {ours}, {theirs}");
                    }
                    let near = |ours: f64, theirs: f64, of: f64| (ours - theirs).abs() <= 1e-9 * of;
                    assert!(near(bins.mean(), exact.mean(), exact.mean()), "{here}");
                    assert!(near(bins.std_dev(), exact.std_dev(), exact.std_dev() + 1.0), "{here}");
                }
            }
        }
        let none = LogBins::default();
        assert_eq!(
            (none.count(), none.percentile(50.0).to_bits(), none.std_dev().to_bits()),
            (0, 0, 0)
        );
    }
}
