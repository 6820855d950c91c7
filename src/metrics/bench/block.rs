//! The shape of a printed block: labels padded to 40 columns, values to 10, rules of 50.

use std::fmt::Display;

use super::keys::Figure;
use super::keys::Latency;
use super::keys::Statistic;
use super::keys::Tool;
use super::summary::BenchSummary;

/// The title every block begins with.
pub(super) const TITLE: &str = " Serving Benchmark Result ";
const WIDTH: usize = 50;

/// A block while it is written. Trailing blanks are part of it.
#[derive(Debug, Default)]
pub(super) struct Block {
    lines: Vec<String>,
}

impl Block {
    /// A block with its title.
    pub(super) fn new() -> Self {
        let mut block = Self::default();
        block.rule(TITLE, '=');
        block
    }

    /// A rule with a title in its middle; the odd character is on the right, as Python centres.
    pub(super) fn rule(&mut self, title: &str, fill: char) {
        let fills = WIDTH.saturating_sub(title.chars().count());
        let side = |count: usize| fill.to_string().repeat(count);
        self.lines.push(side(fills / 2) + title + &side(fills - fills / 2));
    }

    /// A label and any value.
    pub(super) fn line(&mut self, label: &str, value: impl Display) {
        self.lines.push(format!("{label:<40} {:<10}", value.to_string()));
    }

    /// A label and a value with two decimals.
    pub(super) fn decimal(&mut self, label: &str, value: f64) {
        self.line(label, two_decimals(value));
    }

    /// A line that stands as it is.
    pub(super) fn bare(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    /// A label and a percentage with one decimal, without padding.
    pub(super) fn percent(&mut self, label: &str, value: f64) {
        self.lines.push(format!("{label:<40} {value:.1}%"));
    }

    /// A figure under its usual label, two decimals.
    pub(super) fn figure(&mut self, figure: Figure, value: f64) {
        self.decimal(figure.label(), value);
    }

    /// A count under its usual label.
    pub(super) fn count(&mut self, figure: Figure, value: u64) {
        self.line(figure.label(), value);
    }

    /// One latency: its rule and these statistics.
    pub(super) fn latency(
        &mut self,
        (tool, title): (Tool, &str),
        latency: Latency,
        statistics: &[Statistic],
        summary: &BenchSummary,
    ) {
        self.rule(title, '-');
        for statistic in statistics {
            let label = format!("{} {} (ms):", statistic.label(), latency.label(tool));
            self.decimal(&label, summary.latency(latency).statistic_ms(*statistic));
        }
    }

    /// The block, closed by its last rule.
    pub(super) fn close(mut self) -> String {
        self.rule("", '=');
        self.lines.join("\n") + "\n"
    }
}

/// `format(value, ".2f")` of Python; undefined and infinite values in Python's spelling.
pub(super) fn two_decimals(value: f64) -> String {
    format!("{value:.2}").to_lowercase()
}
