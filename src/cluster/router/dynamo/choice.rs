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

/// Ranks that may be chosen, with their costs and, once asked for, weights.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    pub ranks: Vec<Rank>,
    pub costs: Vec<f64>,
    ties: Vec<Rank>,
    weights: Vec<f64>,
}

impl Candidates {
    pub(super) fn clear(&mut self) {
        self.ranks.clear();
        self.costs.clear();
    }

    pub(super) fn push(&mut self, rank: Rank, cost: f64) {
        self.ranks.push(rank);
        self.costs.push(cost);
    }

    /// One of them, with its cost.
    ///
    /// # Panics
    /// When there is none.
    pub(super) fn choose(
        &mut self,
        temperature: f64,
        request: RequestKey,
        draw: &mut impl Draw,
    ) -> (Rank, f64) {
        let least = self.costs.iter().copied().fold(f64::INFINITY, f64::min);
        let rank = if temperature > 0.0 {
            probabilities(&self.costs, temperature, &mut self.weights);
            draw.weighted(request, &self.ranks, &self.weights)
        } else {
            self.ties.clear();
            let equal = self.ranks.iter().zip(&self.costs).filter(|(_, cost)| **cost <= least);
            self.ties.extend(equal.map(|(rank, _)| *rank));
            match self.ties[..] {
                [only] => only,
                _ => draw.any(request, &self.ties),
            }
        };
        let place = self.ranks.iter().position(|one| *one == rank).expect("a candidate is drawn");
        (rank, self.costs[place])
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
