//! What a calibration finds.

use serde_json::{Value, json};

use super::fit::{Fit, RunFigures};
use crate::calibration::CalibrationFile;
use crate::metrics::bench::{
    Comparison, ComparisonRow, Figure, JsonLayout, MetricKey, Statistic, Tool,
};

/// A fit, and the runs that took no part in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The fit.
    pub fit: Fit,
    /// Runs that were scored and not fitted to.
    pub held_out: Vec<RunFigures>,
    /// The parameters as scenarios take them.
    pub file: CalibrationFile,
}

/// How near the runs of a verdict are: those held out, or those fitted where none was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The largest error that is accepted, in percent.
    pub within_pct: f64,
    /// Durations, means and medians, and runs that could not be simulated.
    pub judged: usize,
    /// Those of them that err by more, all that could not be simulated among them.
    pub misses: usize,
    /// Of high percentiles, which are not judged, the one that errs most, and by how many percent.
    pub worst_percentile: Option<(MetricKey, f64)>,
}

impl Answer {
    /// Whether durations, means and medians err by so many percent at most.
    pub fn verdict(&self, within_pct: f64) -> Verdict {
        let runs = if self.held_out.is_empty() { &self.fit.fitted } else { &self.held_out };
        let rows =
            || runs.iter().filter_map(|run| run.comparison.as_ref()).flat_map(Comparison::rows);
        let percentiles = rows().filter(|row| is_high_percentile(row));
        let errors = percentiles.filter_map(|row| Some((row.key, row.error_pct()?)));
        let worst_percentile = errors.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        let mut verdict = Verdict { within_pct, judged: 0, misses: 0, worst_percentile };
        for run in runs {
            let rows = run.comparison.iter().flat_map(Comparison::rows);
            let misses =
                |row: &ComparisonRow| row.error_pct().is_none_or(|error| error.abs() > within_pct);
            let judged: Vec<bool> = match run.comparison {
                None => vec![true],
                Some(_) => rows.filter(|row| is_judged(row)).map(misses).collect(),
            };
            verdict.judged += judged.len();
            verdict.misses += judged.iter().filter(|is_miss| **is_miss).count();
        }
        verdict
    }

    /// The same as JSON, with a verdict.
    ///
    /// # Panics
    /// Never: a comparison is JSON.
    pub fn json(&self, verdict: &Verdict) -> Value {
        let run = |run: &RunFigures| -> Value {
            let rows = run.comparison.as_ref().map(|comparison| {
                let rows = comparison.json(JsonLayout::Line);
                serde_json::from_str::<Value>(&rows).expect("a comparison is JSON")
            });
            json!({ "name": run.name, "comparison": rows, "warnings": run.warnings })
        };
        json!({
            "parameters": self.file.parameters,
            "inseparable": self.fit.inseparable.iter().map(|pair| json!({
                "first": pair.first, "second": pair.second, "correlation": pair.correlation,
            })).collect::<Vec<_>>(),
            "misfit": self.fit.misfit,
            "fitted": self.fit.fitted.iter().map(run).collect::<Vec<_>>(),
            "held_out": self.held_out.iter().map(run).collect::<Vec<_>>(),
            "within_pct": verdict.within_pct,
            "misses": verdict.misses,
            "worst_percentile": verdict.worst_percentile.map(|(key, error_pct)| json!({
                "metric": key.name(Tool::Vllm), "error_pct": error_pct,
            })),
        })
    }
}

fn is_high_percentile(row: &ComparisonRow) -> bool {
    matches!(row.key, MetricKey::Latency(_, Statistic::Percentile(percentile)) if percentile > 50.0)
}

fn is_judged(row: &ComparisonRow) -> bool {
    match row.key {
        MetricKey::Figure(figure) => figure == Figure::Duration,
        MetricKey::Latency(_, statistic) => {
            matches!(statistic, Statistic::Mean | Statistic::Median)
        }
    }
}
