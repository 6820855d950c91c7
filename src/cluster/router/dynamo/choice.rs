//! Which of the ranks by their costs (NVIDIA Dynamo 1.6.1): the least, of equal ones any; or by chance.
//!
//! With a temperature costs are scaled by their own range, so that a rank is drawn with a probability in proportion to
//! `exp(−(cost − least) / ((most − least) · temperature))`.

use rand::RngExt;

use super::{Rank, RequestKey};
use crate::rng::Stream;

/// Who draws where the router leaves something to chance.
pub trait Draw {
    /// One of these ranks, each as likely as the others; there is one at least.
    fn any(&mut self, request: RequestKey, of: &[Rank]) -> Rank;

    /// The first of these ranks in an order of the maker's that is not known; there is one at least.
    fn first(&mut self, request: RequestKey, of: &[Rank]) -> Rank;

    /// One of these ranks, with probabilities in proportion to their weights.
    fn weighted(&mut self, request: RequestKey, of: &[Rank], weights: &[f64]) -> Rank;
}

impl Draw for Stream {
    fn any(&mut self, _: RequestKey, of: &[Rank]) -> Rank {
        of[self.random_range(0..of.len())]
    }

    fn first(&mut self, _: RequestKey, of: &[Rank]) -> Rank {
        of[0]
    }

    fn weighted(&mut self, _: RequestKey, of: &[Rank], weights: &[f64]) -> Rank {
        let mut left = self.random::<f64>() * weights.iter().sum::<f64>();
        let place = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        of[place.unwrap_or(of.len() - 1)]
    }
}

/// Memory to choose in.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    ranks: Vec<Rank>,
    costs: Vec<f64>,
    weights: Vec<f64>,
}

impl Candidates {
    /// One of these ranks, with its cost.
    ///
    /// # Panics
    /// When there is none.
    pub(super) fn choose(
        &mut self,
        of: impl Iterator<Item = (Rank, f64)>,
        temperature: f64,
        request: RequestKey,
        draw: &mut impl Draw,
    ) -> (Rank, f64) {
        self.ranks.clear();
        if temperature <= 0.0 {
            return self.least(of, request, draw);
        }
        self.costs.clear();
        for (rank, cost) in of {
            self.ranks.push(rank);
            self.costs.push(cost);
        }
        probabilities(&self.costs, temperature, &mut self.weights);
        let rank = draw.weighted(request, &self.ranks, &self.weights);
        let place = self.ranks.iter().position(|one| *one == rank).expect("a candidate is drawn");
        (rank, self.costs[place])
    }

    fn least(
        &mut self,
        of: impl Iterator<Item = (Rank, f64)>,
        request: RequestKey,
        draw: &mut impl Draw,
    ) -> (Rank, f64) {
        let mut least = f64::INFINITY;
        for (rank, cost) in of {
            if cost <= least {
                if cost < least {
                    least = cost;
                    self.ranks.clear();
                }
                self.ranks.push(rank);
            }
        }
        match self.ranks[..] {
            [only] => (only, least),
            _ => (draw.any(request, &self.ranks), least),
        }
    }
}

/// The probability of each cost to be drawn.
pub fn probabilities(costs: &[f64], temperature: f64, into: &mut Vec<f64>) {
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    into.clear();
    if most > least {
        let range = (most - least) * temperature;
        into.extend(costs.iter().map(|cost| (-(cost - least) / range).exp()));
    } else {
        into.extend(costs.iter().map(|_| 1.0));
    }
    let sum: f64 = into.iter().sum();
    for weight in into {
        *weight /= sum;
    }
}
