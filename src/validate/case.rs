//! One measured run with limits: what a built-in reference run and an experiment have in common.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::run;
use super::score::RunScore;
use super::skip::Skip;
use crate::metrics::bench::{Comparison, ComparisonRow, MetricKey, Tool};
use crate::request::Request;
use crate::resolved::Scenario;

/// The largest absolute error of a metric in percent, by the names of the benchmark JSON.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Limits(BTreeMap<String, f64>);

/// What the project aims at for a run of which nothing was fitted. These are goals: a run that
/// misses one is to be simulated better, not given a wider one.
const GOALS: [(&str, f64); 10] = [
    ("mean_ttft_ms", 7.0),
    ("median_ttft_ms", 7.0),
    ("p90_ttft_ms", 6.0),
    ("mean_tpot_ms", 2.5),
    ("median_tpot_ms", 2.5),
    ("mean_e2el_ms", 2.5),
    ("median_e2el_ms", 2.5),
    ("request_throughput", 4.0),
    ("output_throughput", 4.0),
    ("total_token_throughput", 4.0),
];

/// A measured run to be simulated.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of the run.
    pub id: String,
    /// What it belongs to.
    pub family: String,
    /// What is simulated.
    pub scenario: Scenario,
    /// The requests, where no workload of the scenario draws them.
    pub requests: Option<Vec<Request>>,
    /// What was measured.
    pub measured: Vec<(MetricKey, f64)>,
    /// How far the simulation may be from it.
    pub limits: Limits,
    /// What had to be assumed.
    pub assumed: Vec<&'static str>,
}

impl Limits {
    /// The goals of the project.
    pub fn goals() -> Self {
        Self(GOALS.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect())
    }

    /// The first name that is no metric, or limit that is not above 0.
    ///
    /// # Errors
    /// The name and the rule.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |(name, limit): (&String, &f64)| {
            if MetricKey::parse(name).is_none() {
                return Some(format!(
                    "limits.{name}: is not a figure of the benchmark JSON, such as mean_ttft_ms"
                ));
            }
            (*limit <= 0.0 || !limit.is_finite())
                .then(|| format!("limits.{name}: must be above 0 (percent), got {limit}"))
        };
        self.0.iter().find_map(wrong).map_or(Ok(()), Err)
    }

    /// The metrics with a limit, by their names.
    pub(super) fn keys(&self) -> Vec<(&str, MetricKey)> {
        let key = |name: &String| MetricKey::parse(name);
        self.0.keys().filter_map(|name| Some((name.as_str(), key(name)?))).collect()
    }

    /// The limit of a metric in percent.
    pub fn of(&self, key: MetricKey) -> Option<f64> {
        let is_it = |(name, _): &(&String, &f64)| MetricKey::parse(name) == Some(key);
        self.0.iter().find(is_it).map(|(_, limit)| *limit)
    }

    /// Whether the error of a metric is within its limit; nothing where none is stated.
    pub fn holds(&self, row: &ComparisonRow) -> Option<bool> {
        let limit = self.of(row.key)?;
        Some(row.error_pct().is_some_and(|error| error.abs() <= limit))
    }
}

impl Case {
    /// Simulates the run and compares.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run(&self) -> Result<RunScore, Skip> {
        let (report, warnings) = run::simulate(&self.scenario, self.requests.clone())?;
        let comparison = Comparison::of_figures(Tool::Vllm, &self.measured, &report.summary);
        Ok(RunScore {
            class: None,
            intervals: Vec::new(),
            id: self.id.clone(),
            family: self.family.clone(),
            assumed: self.assumed.clone(),
            warnings,
            rows: comparison.rows().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, simulated: f64) -> ComparisonRow {
        ComparisonRow { key: MetricKey::parse(name).unwrap(), measured: 100.0, simulated }
    }

    #[test]
    fn a_limit_holds_on_both_sides() {
        let goals = Limits::goals();
        assert_eq!(goals.holds(&row("mean_ttft_ms", 106.9)), Some(true));
        assert_eq!(goals.holds(&row("mean_ttft_ms", 92.9)), Some(false));
        assert_eq!(goals.holds(&row("p99_ttft_ms", 300.0)), None);
    }

    #[test]
    fn every_goal_is_a_metric() {
        assert_eq!(Limits::goals().check(), Ok(()));
    }

    #[test]
    fn a_limit_of_no_metric_is_refused_by_name() {
        let limits = Limits([("mean_tftf_ms".to_owned(), 5.0)].into());
        assert!(limits.check().unwrap_err().starts_with("limits.mean_tftf_ms: is not a figure"));
    }
}
