//! The laws of the simulator (`ARCHITECTURE.md` numbers them), on random scenarios.
//!
//! Randomised tests print the seed of a failure; those found once are kept in
//! `tests/proptest-regressions` and tried first.

mod displaced;
mod forgotten;
mod golden;
mod kv_groups;
mod memory;
mod merged;
mod more;
mod pipelines;
mod queueing;
mod random;
mod ranks;
mod requests;
mod same;

pub(crate) use random::{hosts, laws, served};

/// The mean of independent values, and the half-width of its confidence interval: `quantile` of
/// Student's t times the standard error.
fn student_t(values: &[f64], quantile: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, quantile * (squares / (n - 1.0) / n).sqrt())
}
