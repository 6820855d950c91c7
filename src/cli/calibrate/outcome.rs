//! What a fit says, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::runs::MeasuredRun;
use crate::calibrate::{Estimate, Fit, RunFigures, short};
use crate::calibration::{CalibrationFile, Expected, Found, MadeOn};
use crate::metrics::bench::{ComparisonRow, Figure, JsonLayout, MetricKey, Statistic};
use crate::resolved::Scenario;

/// A fit, and the runs that took no part in it.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) fit: &'a Fit,
    pub(super) held_out: &'a [RunFigures],
    /// What the figures of each fitted and of each held-out run hang on.
    pub(super) warnings: [Vec<Vec<String>>; 2],
    pub(super) within_pct: f64,
}

impl Outcome<'_> {
    /// The runs that the verdict is about.
    fn judged(&self) -> &[RunFigures] {
        if self.held_out.is_empty() { &self.fit.fitted } else { self.held_out }
    }

    /// Figures that the verdict is about, and runs that could not be simulated.
    pub(super) fn judged_figures(&self) -> usize {
        let figures = self.judged().iter().map(|run| match &run.comparison {
            None => 1,
            Some(comparison) => comparison.rows().iter().filter(|row| is_judged(row)).count(),
        });
        figures.sum()
    }

    /// Durations, means and medians beyond the limit, and runs that could not be simulated.
    pub(super) fn misses(&self) -> usize {
        let misses = self.judged().iter().map(|run| match &run.comparison {
            None => 1,
            Some(comparison) => {
                let judged = comparison.rows().iter().filter(|row| is_judged(row));
                judged
                    .filter(|row| row.error_pct().is_none_or(|pct| pct.abs() > self.within_pct))
                    .count()
            }
        });
        misses.sum()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let [of_fitted, of_held_out] = &self.warnings;
        let fitted = ("fitted", &self.fit.fitted[..], of_fitted);
        for (title, runs, warnings) in [fitted, ("held out", self.held_out, of_held_out)] {
            for (run, warnings) in runs.iter().zip(warnings) {
                let _ = writeln!(text, "# {} ({title})", run.name);
                for warning in warnings {
                    let _ = writeln!(text, "warning: {warning}");
                }
                match &run.comparison {
                    Some(comparison) => text.push_str(&comparison.text()),
                    None => text.push_str("cannot be simulated with these parameters\n"),
                }
                text.push('\n');
            }
        }
        text.push_str(&parameter_table(&self.fit.estimates));
        for pair in &self.fit.inseparable {
            let _ = writeln!(
                text,
                "{} and {} are not separable from these runs (correlation {:+.2})",
                pair.first, pair.second, pair.correlation
            );
        }
        let _ = writeln!(
            text,
            "misfit: {:.1} times the noise between repetitions of a run",
            self.fit.misfit
        );
        let judged = if self.held_out.is_empty() { "fitted" } else { "held-out" };
        let verdict = match self.misses() {
            _ if self.judged_figures() == 0 => "nothing to judge".to_owned(),
            0 => format!("every duration, mean and median within {} %", self.within_pct),
            misses => format!(
                "{misses} durations, means or medians off by more than {} %",
                self.within_pct
            ),
        };
        let _ = writeln!(text, "verdict on the {judged} runs: {verdict}");
        text
    }

    pub(super) fn json(&self) -> String {
        let run = |(run, warnings): (&RunFigures, &Vec<String>)| -> Value {
            let rows = run.comparison.as_ref().map(|comparison| {
                let rows = comparison.json(JsonLayout::Line);
                serde_json::from_str::<Value>(&rows).expect("a comparison is JSON")
            });
            json!({ "name": run.name, "comparison": rows, "warnings": warnings })
        };
        let [of_fitted, of_held_out] = &self.warnings;
        let value = json!({
            "parameters": self.fit.estimates.iter().map(found).collect::<Vec<_>>(),
            "inseparable": self.fit.inseparable.iter().map(|pair| json!({
                "first": pair.first, "second": pair.second, "correlation": pair.correlation,
            })).collect::<Vec<_>>(),
            "misfit": self.fit.misfit,
            "fitted": self.fit.fitted.iter().zip(of_fitted).map(run).collect::<Vec<_>>(),
            "held_out": self.held_out.iter().zip(of_held_out).map(run).collect::<Vec<_>>(),
            "within_pct": self.within_pct,
            "misses": self.misses(),
        });
        format!("{value:#}\n")
    }

    /// The parameters as a file that scenarios can take.
    pub(super) fn profile(&self, runs: &[MeasuredRun]) -> String {
        let told = |hold_out: bool| {
            let chosen = runs.iter().filter(|run| run.hold_out == hold_out);
            chosen.map(|run| format!("{}: {}", run.name, run.source)).collect()
        };
        let fitted = runs.iter().filter(|run| !run.hold_out);
        let fitted: Vec<Scenario> = fitted.filter_map(MeasuredRun::scenario).collect();
        let file = CalibrationFile {
            servecast: env!("CARGO_PKG_VERSION").to_owned(),
            fitted_to: told(false),
            held_out: told(true),
            misfit: self.fit.misfit,
            covariance: self.fit.covariance.clone(),
            made_on: Some(MadeOn::of(&fitted)),
            parameters: self.fit.estimates.iter().map(found).collect(),
        };
        toml::to_string(&file).expect("numbers and text are TOML")
    }
}

/// Estimates as lines: value, interval, and what was expected.
pub(in crate::cli) fn parameter_table(estimates: &[Estimate]) -> String {
    let header = ["parameter", "value", "90 % interval", "expected", ""].map(str::to_owned);
    let rows = estimates.iter().map(|estimate| {
        let (low, high) = estimate.interval;
        [
            estimate.parameter.title(),
            short(estimate.value),
            format!("{} to {}", short(low), short(high)),
            expected(estimate),
            if estimate.is_determined { "" } else { "not told by these runs" }.to_owned(),
        ]
    });
    let cells: Vec<[String; 5]> = std::iter::once(header).chain(rows).collect();
    let widths: [usize; 5] = std::array::from_fn(|column| {
        cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; 5]| {
        let padded = row.iter().zip(widths).enumerate();
        let padded = padded.map(|(column, (cell, width))| match column {
            1 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    cells.iter().map(line).collect()
}

fn is_judged(row: &ComparisonRow) -> bool {
    match row.key {
        MetricKey::Figure(figure) => figure == Figure::Duration,
        MetricKey::Latency(_, statistic) => {
            matches!(statistic, Statistic::Mean | Statistic::Median)
        }
    }
}

/// An estimate as it is kept in a file.
pub(in crate::cli) fn found(estimate: &Estimate) -> Found {
    let (low, high) = estimate.interval;
    Found {
        parameter: estimate.parameter.clone(),
        value: estimate.value,
        low,
        high,
        determined: estimate.is_determined,
    }
}

fn expected(estimate: &Estimate) -> String {
    match estimate.parameter.expected {
        Expected::Factor { centre, spread } => {
            format!("{} within {:.0} %", short(centre), spread * 100.0)
        }
        Expected::Amount { centre, spread } => format!("{} ± {}", short(centre), short(spread)),
    }
}
