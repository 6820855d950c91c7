//! The experts of a layer, on the GPU of a group that has most to do with them.
//!
//! Where the experts are cut, all GPUs do the same. Where they are spread over G GPUs (expert
//! parallelism), the layer takes as long as on the slowest: the tokens that visit a GPU's experts, and
//! the experts that are visited, differ by chance, and the largest of G is on average some standard
//! deviations above the mean. Both are taken as normal, with the variance of k experts drawn from E for
//! each token: 10 % too few for a single token, 3 % for 16. What comes out is summed up over the GPUs as with tensor parallelism: with attention on
//! the same GPUs there is no exchange of tokens; with data-parallel ranks there is
//! ([`Exchange`](crate::cost::Exchange)).

use super::terms::{Product, TABLE_ROWS, power};
use crate::model::Experts as ExpertShape;
use crate::scenario::ExpertParallelConfig;

/// The mean of the largest of 1, 2, 4, … 256 standard normal numbers.
const LARGEST: [f64; 9] = [0.0, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5944, 2.8260];

/// The expert kernels of a layer on the busiest GPU. `read` is the time to read one expert.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct Experts {
    /// Experts of the GPU.
    pub(super) count: f64,
    /// The share of rows that do not visit a given one of them.
    pub(super) idle_share: f64,
    /// By rows of the step.
    pub(super) product: Product,
    pub(super) spread: Spread,
}

/// How a layer's experts lie on GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// GPUs among which they are divided.
    gpus: f64,
    /// Of all visits, those to the busiest GPU in the long run.
    share: f64,
    /// Standard deviations by which chance puts the busiest above the mean.
    deviations: f64,
    /// Variance of the visits to a GPU, in rows that visit as often, per row.
    variance: f64,
}

impl Spread {
    /// Every GPU has a part of every expert.
    pub(super) const NONE: Self = Self { gpus: 1.0, share: 1.0, deviations: 0.0, variance: 0.0 };

    pub(super) fn of(
        shape: &ExpertShape,
        parallel: Option<ExpertParallelConfig>,
        all: u32,
    ) -> Self {
        let sized = |parallel: ExpertParallelConfig| (parallel, parallel.size.unwrap_or(all));
        let Some((parallel, size)) = parallel.map(sized).filter(|(_, size)| *size > 1) else {
            return Self::NONE;
        };
        let (gpus, experts) = (f64::from(size), f64::from(shape.count));
        let visits = f64::from(shape.per_token);
        // Where they do not divide evenly, the busiest GPU has one expert more than others.
        let held = f64::from(shape.count.div_ceil(size));
        let share = (parallel.imbalance * held / experts).min(1.0);
        // A row visits an expert once at most.
        let apart = (experts - visits) / (experts - 1.0).max(1.0);
        let octave = size.ilog2() as usize;
        let [below, above] = [octave, octave + 1].map(|at| LARGEST[at.min(LARGEST.len() - 1)]);
        let along = gpus / f64::from(1_u32 << octave) - 1.0;
        Self {
            gpus,
            share,
            deviations: below + along * (above - below),
            variance: (1.0 - share) * apart / (visits * share),
        }
    }

    /// GPUs that share each expert, of so many.
    pub(super) fn cut(&self, all: u32) -> u32 {
        (all / self.gpus as u32).max(1)
    }

    /// Experts of the busiest GPU, of so many.
    pub(super) fn held(&self, experts: u32) -> f64 {
        (f64::from(experts) / self.gpus).ceil()
    }

    /// Visits of a row to experts of the busiest GPU, of so many visits.
    pub(super) fn visits(&self, visits: f64) -> f64 {
        visits * self.share
    }

    /// The rows that would visit the busiest GPU's experts, were all rows alike.
    fn rows(&self, rows: f64) -> f64 {
        (rows + self.deviations * (rows * self.variance).sqrt()).min(rows / self.share)
    }
}

impl Experts {
    /// How many are visited.
    pub(super) fn touched(&self, rows: u32) -> f64 {
        // Beyond the table no expert is idle.
        if rows > TABLE_ROWS {
            return self.count;
        }
        let idle = power(self.idle_share, rows);
        let mean = self.count * (1.0 - idle);
        let variance = mean * idle * (1.0 - 1.0 / self.spread.gpus);
        (mean + self.spread.deviations * variance.sqrt()).min(self.count)
    }

    /// The same while the busiest GPU has so many times its share of visits.
    pub(in crate::cost) fn skewed(&self, by: f64) -> Self {
        let spread = self.spread;
        let share = (spread.share * by).min(1.0);
        let by = share / spread.share;
        let spare = if spread.share < 1.0 { (1.0 - share) / (1.0 - spread.share) } else { 1.0 };
        Self {
            idle_share: (1.0 - (1.0 - self.idle_share) * by).max(0.0),
            product: Product {
                read_row: self.product.read_row * by,
                multiply_row: self.product.multiply_row * by,
                ..self.product
            },
            spread: Spread { share, variance: spread.variance * spare / by, ..spread },
            ..*self
        }
    }

    pub(in crate::cost) fn secs(&self, rows: u32) -> f64 {
        let read = self.product.read * self.touched(rows);
        Product { read, ..self.product }.secs(self.spread.rows(f64::from(rows)))
    }
}

#[cfg(test)]
mod tests;
