//! What the real router drew, taken again where it could have been drawn.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cluster::router::dynamo::{Draw, Rank, RequestKey};

/// Recorded draws, and what they were drawn from as the replay found it.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// What was chosen of each request.
    pub chosen: FxHashMap<RequestKey, Rank>,
    /// What could have been chosen at its last draw.
    pub allowed: FxHashMap<RequestKey, Vec<Rank>>,
    /// Of an order that is not known: ranks that were taken though others were there.
    before: FxHashSet<(Rank, Rank)>,
    /// Of weighted draws: the sum of what was less expected than the mean, and of its variances.
    surprise: f64,
    variance: f64,
}

impl Recorded {
    /// How many standard deviations the surprise of weighted draws lies from what is expected of it.
    pub(super) fn deviation(&self) -> f64 {
        if self.variance > 0.0 { self.surprise / self.variance.sqrt() } else { 0.0 }
    }

    /// Orders that are not known are others from now on.
    pub(super) fn forget_order(&mut self) {
        self.before.clear();
    }

    fn take(&mut self, request: RequestKey, of: &[Rank]) -> Rank {
        self.allowed.insert(request, of.to_vec());
        let recorded = self.chosen.get(&request).copied();
        recorded.filter(|rank| of.contains(rank)).unwrap_or(of[0])
    }
}

impl Draw for Recorded {
    fn any(&mut self, request: RequestKey, of: &[Rank]) -> Rank {
        self.take(request, of)
    }

    fn first(&mut self, request: RequestKey, of: &[Rank]) -> Rank {
        let is_behind = |rank: &Rank| of.iter().any(|one| self.before.contains(&(*one, *rank)));
        let may_be: Vec<_> = of.iter().copied().filter(|rank| !is_behind(rank)).collect();
        let first = self.take(request, if may_be.is_empty() { of } else { &may_be });
        let others = of.iter().filter(|rank| **rank != first);
        self.before.extend(others.map(|rank| (first, *rank)));
        first
    }

    fn weighted(&mut self, request: RequestKey, of: &[Rank], weights: &[f64]) -> Rank {
        let rank = self.take(request, of);
        let sum: f64 = weights.iter().sum();
        let parts = weights.iter().map(|weight| weight / sum).filter(|part| *part > 0.0);
        let (mean, square) = parts.fold((0.0, 0.0), |(mean, square), part| {
            let bits = -part.ln();
            (mean + part * bits, square + part * bits * bits)
        });
        let place = of.iter().position(|one| *one == rank).unwrap_or(0);
        self.surprise += -(weights[place] / sum).ln() - mean;
        self.variance += square - mean * mean;
        rank
    }
}
