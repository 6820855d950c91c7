//! Poisson arrivals whose rate goes up and down, as between night and day.

use std::f64::consts::TAU;

use rand::RngExt;
use rand::distr::Distribution;
use rand_distr::Exp1;

use crate::rng::Stream;

/// The process: candidates come at the highest rate, and each is kept with the share of it that the rate
/// is then (thinning; Lewis and Shedler, Naval Research Logistics Quarterly 26, 1979).
#[derive(Debug)]
pub(in crate::workload) struct Sine {
    pub(super) rate_per_s: f64,
    pub(super) amplitude: f64,
    pub(super) period_s: f64,
    pub(super) stream: Box<Stream>,
    pub(super) now_s: f64,
}

impl Sine {
    /// When the next request arrives, in seconds.
    pub(super) fn next_s(&mut self) -> f64 {
        let highest = 1.0 + self.amplitude;
        loop {
            let gap: f64 = Exp1.sample(&mut self.stream);
            self.now_s += gap / (self.rate_per_s * highest);
            let wave = (TAU * (self.now_s / self.period_s).fract()).cos();
            let share = (1.0 - self.amplitude * wave) / highest;
            if self.stream.random::<f64>() < share {
                return self.now_s;
            }
        }
    }
}
