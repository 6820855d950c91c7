//! What the data-parallel ranks of a replica did in the steps that they took together.

use serde::Serialize;

use crate::engine::Batch;
use crate::units::SimDuration;

/// Sums over the steps of one replica; empty where it has no ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankLog {
    steps: u64,
    /// Of all steps.
    duration: SimDuration,
    ranks: Vec<OneRank>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct OneRank {
    /// Steps without a request of its own.
    dummies: u64,
    /// Tokens computed.
    tokens: u64,
    /// While the slowest still computed on its own.
    waited: SimDuration,
}

impl RankLog {
    /// A step was decided.
    #[inline]
    pub(super) fn planned(&mut self, batch: &Batch) {
        if !batch.plan.ranks.is_empty() {
            self.count(batch);
        }
    }

    fn count(&mut self, batch: &Batch) {
        let steps = &batch.plan.ranks;
        self.ranks.resize(steps.len(), OneRank::default());
        self.steps += 1;
        self.duration += batch.duration;
        let slowest = steps.iter().map(|rank| rank.own).fold(SimDuration::ZERO, SimDuration::max);
        for (rank, step) in self.ranks.iter_mut().zip(steps) {
            rank.dummies += u64::from(step.is_dummy());
            rank.tokens += u64::from(step.shape.tokens());
            let waited = slowest.as_nanos() - step.own.as_nanos();
            rank.waited += SimDuration::from_nanos(waited);
        }
    }
}

/// What the ranks of a replica did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RanksReport {
    /// How many there are.
    pub ranks: u32,
    /// Of the steps of ranks, the share without a request of the rank.
    pub dummy_steps: f64,
    /// The share of the time in steps that a rank waits for the slowest, on average over ranks.
    pub waiting: f64,
    /// The same of the rank that waits the most.
    pub waiting_max: f64,
    /// Tokens computed by the rank with the most over the mean; 1 where all compute as many.
    pub tokens_max_over_mean: f64,
}

impl RanksReport {
    /// Nothing of a replica without ranks, or without steps.
    pub(super) fn new(log: &RankLog) -> Option<Self> {
        let ranks = log.ranks.len() as f64;
        if log.ranks.len() < 2 || log.duration == SimDuration::ZERO {
            return None;
        }
        let sum = |of: fn(&OneRank) -> f64| log.ranks.iter().map(of).sum::<f64>();
        let most = |of: fn(&OneRank) -> f64| log.ranks.iter().map(of).fold(0.0, f64::max);
        let (tokens, waited) =
            (|rank: &OneRank| rank.tokens as f64, |rank: &OneRank| rank.waited.as_secs_f64());
        let spent = log.duration.as_secs_f64();
        Some(Self {
            ranks: log.ranks.len() as u32,
            dummy_steps: sum(|rank| rank.dummies as f64) / (ranks * log.steps as f64),
            waiting: sum(waited) / (ranks * spent),
            waiting_max: most(waited) / spent,
            tokens_max_over_mean: most(tokens) * ranks / sum(tokens),
        })
    }

    /// One line for a report.
    pub(super) fn text(&self) -> String {
        let Self { ranks, dummy_steps, waiting, waiting_max, tokens_max_over_mean } = self;
        format!(
            "{ranks} data-parallel ranks: {:.1} % of the time in steps waiting for the slowest (most {:.1} %), {:.1} \
             % of steps without requests, tokens max/mean {tokens_max_over_mean:.2}\n",
            100.0 * waiting,
            100.0 * waiting_max,
            100.0 * dummy_steps
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{RankStep, StepShape};
    use crate::engine::StepPlan;

    fn step(ranks: &[(u32, u64)], micros: u64) -> Batch {
        let rank = |(decodes, own): &(u32, u64)| {
            let shape = StepShape { decode_seqs: *decodes, ..StepShape::default() };
            RankStep { shape, own: SimDuration::from_micros(*own), ..RankStep::default() }
        };
        let ranks = ranks.iter().map(rank).collect();
        let plan = StepPlan { ranks, ..StepPlan::default() };
        Batch { plan, duration: SimDuration::from_micros(micros), ..Batch::default() }
    }

    #[test]
    fn ranks_wait_for_the_slowest_and_go_along_without_requests() {
        let mut log = RankLog::default();
        log.planned(&step(&[(3, 30), (1, 10)], 50));
        log.planned(&step(&[(2, 20), (0, 10)], 50));
        let report = RanksReport::new(&log).unwrap();
        assert_eq!(report.ranks, 2);
        assert!((report.dummy_steps - 0.25).abs() < 1e-12);
        assert!((report.waiting - 30.0 / 200.0).abs() < 1e-12);
        assert!((report.waiting_max - 30.0 / 100.0).abs() < 1e-12);
        assert!((report.tokens_max_over_mean - 5.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_replica_without_ranks_has_nothing_to_say_of_them() {
        let mut log = RankLog::default();
        log.planned(&step(&[], 50));
        assert_eq!(log, RankLog::default());
        assert_eq!(RanksReport::new(&log), None);
    }
}
