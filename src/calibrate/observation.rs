//! What was measured, and how well it can be known.

use crate::metrics::bench::{Figure, Latency, MetricKey, Statistic};

/// A figure of a measured run that takes part in a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Which figure.
    pub key: MetricKey,
    /// As measured, above 0.
    pub measured: f64,
    /// Relative standard deviation between repetitions of a run, and between servers.
    pub noise: f64,
}

/// Residual of a figure that the simulation does not have, in standard deviations.
const MISSING: f64 = 100.0;

impl Observation {
    /// The figure as an observation; nothing where it says nothing of the parameters: counts and
    /// totals, largest values, figures that are 0, and throughputs beside the duration.
    ///
    /// `scatter` is the relative standard deviation between the servers that the parameters are to
    /// describe: 0 for one server.
    pub fn new(key: MetricKey, measured: f64, scatter: f64) -> Option<Self> {
        let noise = noise(key)?.hypot(scatter);
        (measured.is_finite() && measured > 0.0).then_some(Self { key, measured, noise })
    }

    /// Those of the figures of a run that take part, in their order.
    pub(super) fn all(measured: &[(MetricKey, f64)], scatter: f64) -> Vec<Self> {
        measured.iter().filter_map(|(key, value)| Self::new(*key, *value, scatter)).collect()
    }

    /// ln(simulated / measured) in standard deviations.
    pub fn residual(&self, simulated: Option<f64>) -> f64 {
        match simulated {
            Some(value) if value.is_finite() && value > 0.0 => {
                ((value / self.measured).ln() / self.noise).clamp(-MISSING, MISSING)
            }
            _ => MISSING,
        }
    }
}

/// How far a figure differs between repetitions of one run, as a share of it: 1 % for durations, 2 %
/// for means and medians, 3 % for 90th and 6 % for higher percentiles and deviations (repetitions
/// among the published runs; largest values are left to chance).
pub fn noise(key: MetricKey) -> Option<f64> {
    match key {
        MetricKey::Figure(Figure::Duration) => Some(0.01),
        MetricKey::Latency(latency, statistic) => match statistic {
            Statistic::Mean | Statistic::Median => Some(0.02),
            Statistic::Percentile(p) if p <= 90.0 => Some(0.03),
            Statistic::Percentile(_) => Some(0.06),
            // The deviation of gaps is made by a few of them.
            Statistic::StdDev if latency != Latency::Itl => Some(0.06),
            Statistic::StdDev | Statistic::Max => None,
        },
        MetricKey::Figure(_) => None,
    }
}
