//! Measured beside simulated: one row a figure, with the signed error.

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::json::JsonLayout;
use super::json::NonFinite;
use super::keys::Figure;
use super::keys::MetricKey;
use super::keys::Tool;
use super::parse::Measured;
use super::summary::BenchSummary;

/// One figure twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparisonRow {
    /// Which figure.
    pub key: MetricKey,
    /// As measured.
    pub measured: f64,
    /// As simulated.
    pub simulated: f64,
}

/// The same in a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// The JSON key of the tool that measured it.
    pub metric: String,
    /// As measured, if finite.
    pub measured: Option<f64>,
    /// As simulated, if finite.
    pub simulated: Option<f64>,
    /// [`ComparisonRow::error_pct`].
    pub error_pct: Option<f64>,
}

/// No server answers as fast, in ms: a shorter gap is one between tokens that a client read together.
const SHORTEST_LATENCY_MS: f64 = 0.1;

impl ComparisonRow {
    /// Whether the measured figure is a latency of nearly 0, of which no error is a percentage.
    pub fn is_measured_as_nearly_zero(&self) -> bool {
        matches!(self.key, MetricKey::Latency(..)) && self.measured.abs() < SHORTEST_LATENCY_MS
    }

    /// (simulated − measured) / measured in percent, positive when the simulation is too high;
    /// nothing when the measured value is [nearly 0](Self::is_measured_as_nearly_zero) and the
    /// simulated is not the same, or either is not finite.
    pub fn error_pct(&self) -> Option<f64> {
        let (measured, simulated) = (self.measured, self.simulated);
        if !(measured.is_finite() && simulated.is_finite()) {
            return None;
        }
        if self.is_measured_as_nearly_zero() {
            return (simulated.to_bits() == measured.to_bits()).then_some(0.0);
        }
        if measured == 0.0 {
            return (simulated == 0.0).then_some(0.0);
        }
        Some((simulated - measured) / measured.abs() * 100.0)
    }
}

/// A simulated run beside a measured one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    tool: Tool,
    rows: Vec<ComparisonRow>,
}

impl Comparison {
    /// Every figure that both have, in the order of the measured ones. Tokens encoded again are
    /// left out, since simulated answers have no text.
    pub fn new(measured: &Measured, simulated: &BenchSummary) -> Self {
        let tool = measured.tool.unwrap_or(Tool::Vllm);
        Self::of_figures(tool, &measured.metrics, simulated)
    }

    /// The same for figures under the names of a tool.
    pub fn of_figures(tool: Tool, told: &[(MetricKey, f64)], simulated: &BenchSummary) -> Self {
        let is_told = |key: MetricKey| key != MetricKey::Figure(Figure::RetokenizedTokens);
        let told = told.iter().filter(|(key, _)| is_told(*key));
        let rows = told.filter_map(|(key, value)| {
            let simulated = simulated.metric(*key)?;
            Some(ComparisonRow { key: *key, measured: *value, simulated })
        });
        Self { tool, rows: rows.collect() }
    }

    /// The rows.
    pub fn rows(&self) -> &[ComparisonRow] {
        &self.rows
    }

    /// The error of this figure in percent.
    pub fn error_pct(&self, key: MetricKey) -> Option<f64> {
        self.rows.iter().find(|row| row.key == key)?.error_pct()
    }

    /// A table with aligned columns: the figure with its unit, measured, simulated, error.
    pub fn text(&self) -> String {
        let mut cells = vec![["", "measured", "simulated", "error"].map(str::to_owned)];
        cells.extend(self.rows.iter().map(|row| {
            let error = row.error_pct().map_or_else(|| "-".to_owned(), |e| format!("{e:+.1} %"));
            let scale = decimals(row);
            let (measured, simulated) = (row.measured, row.simulated);
            [
                row.key.title(self.tool),
                format!("{measured:.scale$}"),
                format!("{simulated:.scale$}"),
                error,
            ]
        }));
        let width = |column: usize| {
            cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; 4] = std::array::from_fn(width);
        let line = |[title, measured, simulated, error]: &[String; 4]| {
            let [w0, w1, w2, w3] = widths;
            format!("{title:<w0$}  {measured:>w1$}  {simulated:>w2$}  {error:>w3$}\n")
        };
        cells.iter().map(line).collect()
    }

    /// The rows as an array of `{metric, measured, simulated, error_pct}`, where the metric is the
    /// JSON key of the tool that measured it.
    pub fn json(&self, layout: JsonLayout) -> String {
        let rows = self.rows.iter().map(|row| {
            Json::Object(vec![
                ("metric".to_owned(), row.key.name(self.tool).into()),
                ("measured".to_owned(), row.measured.into()),
                ("simulated".to_owned(), row.simulated.into()),
                ("error_pct".to_owned(), Json::or_null(row.error_pct())),
            ])
        });
        Json::Array(rows.collect()).to_text(layout, NonFinite::Null)
    }

    /// The rows under the JSON keys of the tool that measured them.
    pub fn figures(&self) -> Vec<ComparedFigure> {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let rows = self.rows.iter().map(|row| ComparedFigure {
            metric: row.key.name(self.tool),
            measured: finite(row.measured),
            simulated: finite(row.simulated),
            error_pct: row.error_pct(),
        });
        rows.collect()
    }
}

/// Whole numbers stay whole; shares get four decimals, everything else two.
fn decimals(row: &ComparisonRow) -> usize {
    match row.key {
        MetricKey::Figure(
            Figure::Completed
            | Figure::Failed
            | Figure::InputTokens
            | Figure::InputTextTokens
            | Figure::InputVisionTokens
            | Figure::OutputTokens
            | Figure::PromptTokens
            | Figure::CachedTokens
            | Figure::PeakRequests,
        ) => 0,
        MetricKey::Figure(Figure::SloAttainment | Figure::MetricAttainment(_)) => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured: f64, simulated: f64) -> ComparisonRow {
        ComparisonRow { key: MetricKey::Figure(Figure::Duration), measured, simulated }
    }

    #[test]
    fn the_error_is_positive_when_the_simulation_is_too_high() {
        assert!((row(200.0, 210.0).error_pct().unwrap() - 5.0).abs() < 1e-12);
        assert!((row(200.0, 190.0).error_pct().unwrap() + 5.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_error_in_percent() {
        assert_eq!(row(0.0, 1.0).error_pct(), None);
        assert_eq!(row(0.0, 0.0).error_pct(), Some(0.0));
        assert_eq!(row(f64::NAN, 1.0).error_pct(), None);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = vec![
            row(13.5, 13.0),
            ComparisonRow {
                key: MetricKey::parse("mean_ttft_ms").unwrap(),
                measured: 0.0,
                simulated: 12.25,
            },
        ];
        let text = Comparison { tool: Tool::Vllm, rows }.text();
        let expected = "                        measured  simulated   error\n\
                        Benchmark duration (s)     13.50      13.00  -3.7 %\n\
                        Mean TTFT (ms)              0.00      12.25       -\n";
        assert_eq!(text, expected);
    }
}
