//! What the runs of a point say together.

use std::collections::BTreeMap;

use crate::stats;

/// The share of intervals that hold the mean of all seeds.
pub const CONFIDENCE: f64 = 0.95;

/// The mean of a figure over seeds, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval of [`CONFIDENCE`] around it (Student's t); of one value there
    /// is none.
    pub within: Option<f64>,
}

/// Whether a figure of a run is a share of a whole, from 0 to 1.
pub fn is_share(figure: &str) -> bool {
    figure == "slo_attainment" || figure.starts_with("slo_attainment_by_metric.")
}

impl Estimate {
    /// The interval of a share: no part of it lies below 0 or above 1.
    pub fn of_share(&self) -> Option<(f64, f64)> {
        let within = self.within?;
        Some(((self.mean - within).max(0.0), (self.mean + within).min(1.0)))
    }
}

/// Makes estimates, and remembers quantiles.
#[derive(Debug, Default)]
pub struct Estimator {
    /// By the number of values.
    quantiles: BTreeMap<usize, f64>,
}

impl Estimator {
    /// The mean of these values with its interval; nothing of no values.
    pub fn estimate(&mut self, values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        let within = (values.len() > 1).then(|| {
            let quantile = self.quantiles.entry(values.len());
            let quantile = quantile.or_insert_with(|| stats::student_t(CONFIDENCE, count - 1.0));
            *quantile * stats::sample_std_dev(values) / count.sqrt()
        });
        (!values.is_empty()).then(|| Estimate { mean: stats::mean(values), within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student() {
        // Squares 4 + 0 + 4 + 0 over 3 degrees of freedom, where the quantile is 3.182.
        let mut estimator = Estimator::default();
        let found = estimator.estimate(&[8.0, 10.0, 12.0, 10.0]).expect("there are values");
        let deviation = (8.0_f64 / 3.0).sqrt();
        assert!((found.mean - 10.0).abs() < 1e-12);
        let within = found.within.expect("more than one");
        assert!((within - 3.182 * deviation / 2.0).abs() < 0.001, "{within}");
    }

    #[test]
    fn intervals_of_shares_stay_within_the_whole() {
        let share = Estimate { mean: 0.75, within: Some(0.5) };
        assert_eq!(share.of_share(), Some((0.25, 1.0)));
        assert_eq!(Estimate { mean: 0.25, within: Some(0.5) }.of_share(), Some((0.0, 0.75)));
        assert_eq!(Estimate { mean: 0.25, within: None }.of_share(), None);
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        let mut estimator = Estimator::default();
        let one = estimator.estimate(&[7.0]).expect("a value");
        assert!((one.mean - 7.0).abs() < 1e-12 && one.within.is_none());
        assert_eq!(estimator.estimate(&[]), None);
    }
}
