//! Errors of runs, and of families of runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::skip::Skip;
use crate::metrics::Warnings;
use crate::metrics::bench::{ComparisonRow, Figure, Latency, MetricKey, Statistic, Tool};
use crate::resolved::ServerClass;
use crate::stats;

/// What became of a record.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) id: String,
    pub(super) family: String,
    pub(super) result: Result<RunScore, Skip>,
}

/// A run that was simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct RunScore {
    /// The record's name.
    pub id: String,
    /// Its family.
    pub family: String,
    /// What had to be assumed.
    pub assumed: Vec<&'static str>,
    /// What the simulated figures hang on.
    pub warnings: Warnings,
    /// Measured beside simulated.
    pub rows: Vec<ComparisonRow>,
    /// What kind of server it is, where something is expected of that.
    pub class: Option<ServerClass>,
    /// Where figures of nine of ten such servers are; none where the caller set what they are like.
    pub intervals: Vec<(MetricKey, [f64; 2])>,
}

impl RunScore {
    /// Where a figure of nine of ten such servers is.
    pub fn interval(&self, row: &ComparisonRow) -> Option<[f64; 2]> {
        self.intervals.iter().find(|(key, _)| *key == row.key).map(|(_, interval)| *interval)
    }
}

/// Errors of one metric over the runs of a family.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MetricScore {
    /// Runs that have the metric.
    pub n: usize,
    /// Median of the absolute errors in percent.
    pub median_abs_pct: f64,
    /// Mean of the absolute errors in percent.
    pub mean_abs_pct: f64,
    /// Mean of the signed errors in percent, positive when the simulation is too high.
    pub bias_pct: f64,
}

/// The runs of a family together.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Records.
    pub total: usize,
    /// Those that were simulated.
    pub ran: usize,
    /// Those that were not, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Whether measured and simulated runs are in the same order (Kendall's τ); absent when
    /// there is no order.
    pub kendall_tau: Option<f64>,
    /// Errors by metric, in the order of the printed blocks.
    pub metrics: Vec<(MetricKey, MetricScore)>,
    /// Figures that take no part in the errors, since they were measured as nearly 0.
    pub near_zero: Vec<(MetricKey, usize)>,
}

/// What a family is ordered by: the first that its runs have.
const ORDERED_BY: [MetricKey; 5] = [
    MetricKey::Figure(Figure::OutputThroughput),
    MetricKey::Figure(Figure::TotalThroughput),
    MetricKey::Latency(Latency::E2e, Statistic::Mean),
    MetricKey::Latency(Latency::Tpot, Statistic::Mean),
    MetricKey::Latency(Latency::Ttft, Statistic::Mean),
];

impl Family {
    /// The family of these outcomes.
    pub(super) fn of(name: &str, outcomes: &[&Outcome]) -> Self {
        let ran: Vec<&RunScore> =
            outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok()).collect();
        let mut skipped = BTreeMap::new();
        for skip in outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()) {
            *skipped.entry(skip.to_string()).or_insert(0) += 1;
        }
        Self {
            name: name.to_owned(),
            total: outcomes.len(),
            ran: ran.len(),
            skipped,
            kendall_tau: order(&ran),
            metrics: scores(&ran),
            near_zero: near_zero(&ran),
        }
    }
}

/// The name of a metric in the JSON of `vllm bench serve`.
pub(super) fn metric_name(key: MetricKey) -> String {
    key.name(Tool::Vllm)
}

/// Errors by metric.
fn scores(ran: &[&RunScore]) -> Vec<(MetricKey, MetricScore)> {
    let mut errors: Vec<(MetricKey, Vec<f64>)> = Vec::new();
    for row in ran.iter().flat_map(|run| &run.rows) {
        let Some(error) = row.error_pct() else { continue };
        match errors.iter_mut().find(|(key, _)| *key == row.key) {
            Some((_, list)) => list.push(error),
            None => errors.push((row.key, vec![error])),
        }
    }
    errors.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    errors.into_iter().map(|(key, list)| (key, MetricScore::of(&list))).collect()
}

/// Figures without an error because they were measured as nearly 0, by metric.
fn near_zero(ran: &[&RunScore]) -> Vec<(MetricKey, usize)> {
    let mut counts: Vec<(MetricKey, usize)> = Vec::new();
    let rows = ran.iter().flat_map(|run| &run.rows);
    let left_out =
        |row: &&ComparisonRow| row.is_measured_as_nearly_zero() && row.error_pct().is_none();
    for row in rows.filter(left_out) {
        match counts.iter_mut().find(|(key, _)| *key == row.key) {
            Some((_, count)) => *count += 1,
            None => counts.push((row.key, 1)),
        }
    }
    counts.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    counts
}

impl MetricScore {
    /// The score of these signed errors in percent, at least one.
    pub(super) fn of(errors: &[f64]) -> Self {
        let mut absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        absolute.sort_unstable_by(f64::total_cmp);
        Self {
            n: errors.len(),
            median_abs_pct: stats::percentile_sorted(&absolute, 50.0),
            mean_abs_pct: stats::mean(&absolute),
            bias_pct: stats::mean(errors),
        }
    }
}

fn order(ran: &[&RunScore]) -> Option<f64> {
    ORDERED_BY.iter().find_map(|key| {
        let pairs: Vec<(f64, f64)> = ran
            .iter()
            .filter_map(|run| run.rows.iter().find(|row| row.key == *key))
            .map(|row| (row.measured, row.simulated))
            .collect();
        (pairs.len() >= 2).then(|| kendall_tau(&pairs)).flatten()
    })
}

/// Kendall's τ-b of pairs: 1 when both sides have the same order, −1 when the opposite; nothing
/// when all of one side are equal. Ties count on neither side (Kendall 1945).
pub(super) fn kendall_tau(pairs: &[(f64, f64)]) -> Option<f64> {
    let sign = |a: f64, b: f64| f64::from(i8::from(a > b) - i8::from(a < b));
    let (mut agreement, mut left, mut right) = (0.0, 0.0, 0.0);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[..index] {
            let (x, y) = (sign(a.0, b.0), sign(a.1, b.1));
            agreement += x * y;
            left += x * x;
            right += y * y;
        }
    }
    (left > 0.0 && right > 0.0).then(|| agreement / (left * right).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_orders_agree_and_opposite_ones_do_not() {
        let tau = |pairs: &[(f64, f64)]| kendall_tau(pairs).unwrap();
        assert!((tau(&[(1.0, 10.0), (2.0, 20.0), (3.0, 21.0)]) - 1.0).abs() < 1e-12);
        assert!((tau(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) + 1.0).abs() < 1e-12);
    }

    #[test]
    fn ties_count_on_neither_side() {
        // Of three pairs one is tied on the left: (2 − 0) / √(2 · 3).
        let tau = kendall_tau(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).unwrap();
        assert!((tau - 2.0 / 6.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(kendall_tau(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn a_gap_measured_as_nearly_zero_is_counted_and_takes_no_part_in_the_errors() {
        let key = MetricKey::Latency(Latency::Itl, Statistic::Median);
        let run = |measured| RunScore {
            id: String::new(),
            family: "f".to_owned(),
            assumed: Vec::new(),
            warnings: Warnings { steps: 1, ..Warnings::default() },
            rows: vec![ComparisonRow { key, measured, simulated: 11.0 }],
            class: None,
            intervals: Vec::new(),
        };
        let outcome = |measured| Outcome {
            id: String::new(),
            family: "f".to_owned(),
            result: Ok(run(measured)),
        };
        let outcomes = [outcome(0.01), outcome(10.0), outcome(0.0)];
        let family = Family::of("f", &outcomes.iter().collect::<Vec<_>>());
        assert_eq!(family.near_zero, [(key, 2)]);
        let [(_, score)] = &family.metrics[..] else { panic!("one metric") };
        assert_eq!(score.n, 1);
        assert!((score.mean_abs_pct - 10.0).abs() < 1e-9, "{score:?}");
        let validation = crate::validate::Validation::of(outcomes.to_vec());
        assert!(validation.text().contains("median_itl_ms: 2 measured as nearly 0, left out"));
        assert!(validation.json().contains(r#""near_zero":{"median_itl_ms":2}"#));
    }

    #[test]
    fn a_score_keeps_the_sign_only_in_the_bias() {
        let score = MetricScore::of(&[-10.0, 20.0, 5.0]);
        assert_eq!(score.n, 3);
        assert!((score.median_abs_pct - 10.0).abs() < 1e-12);
        assert!((score.mean_abs_pct - 35.0 / 3.0).abs() < 1e-12);
        assert!((score.bias_pct - 5.0).abs() < 1e-12);
    }
}
