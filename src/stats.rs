//! Statistics as the benchmark tools compute them: numpy's linear percentiles, population
//! deviation, and means over values that carry a weight.

pub(crate) mod arima;
mod gamma;
mod lbfgs;
mod least_squares;
mod log_bins;
pub(crate) mod radix;
mod student;

pub(crate) use gamma::gamma;
pub use log_bins::LogBins;
pub use student::{student_t, student_t_outside};

/// `numpy.percentile(values, p)` of sorted values, linear interpolation: with h = (n−1)·p/100 the
/// result is x⌊h⌋ + (h−⌊h⌋)·(x⌊h⌋₊₁ − x⌊h⌋). 0 for no values, as the tools print.
pub fn percentile_sorted(sorted: &[f64], p: f64) -> f64 {
    percentile_of(sorted.len() as u64, p, |index| sorted[index as usize])
}

/// numpy's interpolation between two order statistics (`numpy/lib/_function_base_impl.py`,
/// `_lerp`): taken from the nearer end, so that it is exact at both.
fn lerp(a: f64, b: f64, t: f64) -> f64 {
    let span = b - a;
    if t >= 0.5 { b - span * (1.0 - t) } else { a + span * t }
}

/// [`percentile_sorted`] of so many values of which the one at each index of the ascending list is known.
pub fn percentile_of(count: u64, p: f64, order_statistic: impl Fn(u64) -> f64) -> f64 {
    let Some(last) = count.checked_sub(1) else { return 0.0 };
    let h = last as f64 * (p / 100.0);
    let low = (h.floor() as u64).min(last);
    lerp(order_statistic(low), order_statistic((low + 1).min(last)), h - low as f64)
}

/// The sum in numpy's order (`pairwise_sum`: eight accumulators up to 128 values, halves above),
/// so that means agree with the tools' to the last bit.
pub fn sum(values: &[f64]) -> f64 {
    let n = values.len();
    let (chunks, rest) = values.as_chunks::<8>();
    let Some((first, chunks)) = chunks.split_first() else {
        return values.iter().fold(0.0, |sum, x| sum + x);
    };
    if n <= 128 {
        let mut r = *first;
        for chunk in chunks {
            // A zip would be a call for each chunk.
            for i in 0..8 {
                r[i] += chunk[i];
            }
        }
        let head = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return rest.iter().fold(head, |sum, x| sum + x);
    }
    let half = n / 2 - (n / 2) % 8;
    sum(&values[..half]) + sum(&values[half..])
}

/// The scalar product.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The arithmetic mean; 0 for no values.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { sum(values) / values.len() as f64 }
}

/// The population standard deviation (`numpy.std`, ddof 0); 0 for no values.
pub fn std_dev(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let centre = mean(values);
    let squares: Vec<f64> = values.iter().map(|x| (x - centre) * (x - centre)).collect();
    (sum(&squares) / values.len() as f64).sqrt()
}

/// The standard deviation of a sample of two values or more: one degree of freedom is spent on the mean.
pub fn sample_std_dev(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    std_dev(values) * (count / (count - 1.0)).sqrt()
}

/// Mean, deviation and percentiles of one metric.
pub trait Sample {
    /// The number of values.
    fn count(&self) -> u64;
    /// The arithmetic mean; 0 for no values.
    fn mean(&self) -> f64;
    /// The population standard deviation; 0 for no values.
    fn std_dev(&self) -> f64;
    /// The `p`-th percentile (0 ≤ p ≤ 100), numpy-linear; 0 for no values.
    fn percentile(&self, p: f64) -> f64;
    /// The largest value; 0 for no values.
    fn max(&self) -> f64;
}

/// Values kept one by one, in the order they were recorded.
#[derive(Debug, Clone, Default)]
pub struct Values {
    recorded: Vec<f64>,
    sorted: Vec<f64>,
}

impl Values {
    /// The sample of these values.
    ///
    /// # Panics
    /// When a value is NaN.
    pub fn new(recorded: Vec<f64>) -> Self {
        assert!(recorded.iter().all(|x| !x.is_nan()), "a sample has no NaN");
        let mut sorted = recorded.clone();
        radix::sort(&mut sorted);
        Self { recorded, sorted }
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }
}

impl Sample for Values {
    fn count(&self) -> u64 {
        self.recorded.len() as u64
    }
    fn mean(&self) -> f64 {
        mean(&self.recorded)
    }
    fn std_dev(&self) -> f64 {
        std_dev(&self.recorded)
    }
    fn percentile(&self, p: f64) -> f64 {
        percentile_sorted(&self.sorted, p)
    }
    fn max(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(0.0)
    }
}

/// Values that each stand for several: the gap between two steps counts once for every request
/// that was decoding. Exact: percentiles equal those of the expanded list.
#[derive(Debug, Clone, Default)]
pub struct Weighted {
    /// Distinct values ascending, each with the number of values up to and including it.
    cumulative: Vec<(f64, u64)>,
}

impl Weighted {
    /// The sample in which each `(value, weight)` stands for `weight` equal values.
    ///
    /// # Panics
    /// When a value is NaN.
    pub fn new(mut pairs: Vec<(f64, u64)>) -> Self {
        assert!(pairs.iter().all(|(x, _)| !x.is_nan()), "a sample has no NaN");
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self::of_ascending(pairs.into_iter())
    }

    /// The same sample of pairs that are in ascending order.
    pub fn of_ascending(pairs: impl ExactSizeIterator<Item = (f64, u64)>) -> Self {
        let mut cumulative: Vec<(f64, u64)> = Vec::with_capacity(pairs.len());
        let (mut total, mut last) = (0, None);
        for (value, weight) in pairs.filter(|&(_, weight)| weight > 0) {
            debug_assert!(cumulative.last().is_none_or(|last| last.0 <= value), "{value}");
            total += weight;
            // The same bits: zeros of both signs stay apart, as in the order.
            if last == Some(value.to_bits()) {
                cumulative.pop();
            }
            last = Some(value.to_bits());
            cumulative.push((value, total));
        }
        cumulative.shrink_to_fit();
        Self { cumulative }
    }

    /// The distinct values ascending, each with its weight.
    pub fn pairs(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut below = 0;
        self.cumulative.iter().map(move |&(value, up_to)| {
            let weight = up_to - below;
            below = up_to;
            (value, weight)
        })
    }

    /// The value at this index (from 0) of the expanded, ascending list.
    ///
    /// # Panics
    /// When the sample has no values.
    pub fn order_statistic(&self, index: u64) -> f64 {
        let at = self.cumulative.partition_point(|&(_, up_to)| up_to <= index);
        self.cumulative[at.min(self.cumulative.len() - 1)].0
    }
}

impl Sample for Weighted {
    fn count(&self) -> u64 {
        self.cumulative.last().map_or(0, |last| last.1)
    }
    fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            n => self.pairs().map(|(x, w)| x * w as f64).sum::<f64>() / n as f64,
        }
    }
    fn std_dev(&self) -> f64 {
        let (n, centre) = (self.count(), self.mean());
        if n == 0 {
            return 0.0;
        }
        let squares: f64 = self.pairs().map(|(x, w)| (x - centre).powi(2) * w as f64).sum();
        (squares / n as f64).sqrt()
    }
    fn percentile(&self, p: f64) -> f64 {
        percentile_of(self.count(), p, |index| self.order_statistic(index))
    }
    fn max(&self) -> f64 {
        self.cumulative.last().map_or(0.0, |last| last.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        // h = 3 · 0.5 = 1.5, halfway between 2 and 3
        assert!((percentile_sorted(&[1.0, 2.0, 3.0, 4.0], 50.0) - 2.5).abs() < 1e-12);
        assert!((percentile_sorted(&[1.0, 2.0, 3.0, 4.0], 100.0) - 4.0).abs() < 1e-12);
        assert!((percentile_sorted(&[7.0], 99.0) - 7.0).abs() < 1e-12);
        assert!(percentile_sorted(&[], 99.0).abs() < 1e-12);
    }

    #[test]
    fn the_deviation_is_of_the_population() {
        // mean 2.5, squares 2.25 + 0.25 + 0.25 + 2.25 = 5, over 4 values
        assert!((std_dev(&[1.0, 2.0, 3.0, 4.0]) - 1.25_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_weighted_sample_equals_its_expansion() {
        let pairs = vec![(3.0, 2), (1.0, 5), (2.5, 1), (99.0, 0), (1.0, 1), (9.0, 3)];
        let expanded: Vec<f64> =
            pairs.iter().flat_map(|&(x, w)| std::iter::repeat_n(x, w as usize)).collect();
        let (weighted, plain) = (Weighted::new(pairs), Values::new(expanded));
        assert_eq!(weighted.count(), plain.count());
        assert!((weighted.mean() - plain.mean()).abs() < 1e-12);
        assert!((weighted.std_dev() - plain.std_dev()).abs() < 1e-12);
        assert!((weighted.max() - plain.max()).abs() < 1e-12);
        for p in [0.0, 10.0, 33.0, 50.0, 75.0, 90.0, 99.0, 100.0] {
            assert!((weighted.percentile(p) - plain.percentile(p)).abs() < 1e-12, "p{p}");
        }
    }

    #[test]
    fn the_sum_of_many_values_is_pairwise() {
        let values: Vec<f64> = (0..1000).map(|i| 0.1 * f64::from(i)).collect();
        assert!((sum(&values) - 49_950.0).abs() < 1e-9);
    }
}
