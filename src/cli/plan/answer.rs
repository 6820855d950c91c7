//! All that a plan says.

use super::hunt::Tried;
use super::limits::Limits;
use super::outcome::{self, Row};
use super::prices::Unit;
use super::study::Study;

/// All that a plan says.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) study: &'a Study<'a>,
    /// The best layout first.
    pub(super) rows: Vec<Row>,
    /// Trials of the traffic that is planned for, with their layouts.
    pub(super) tried: Vec<(usize, Tried)>,
    /// Of the best layout.
    pub(super) limits: Limits,
}

impl Answer<'_> {
    /// The cheapest layout that meets all SLOs.
    pub(super) fn winner(&self) -> Option<(&Row, &Tried)> {
        outcome::winner(&self.rows)
    }

    /// Whether the highest rate is asked for, not the fewest replicas.
    pub(super) fn seeks_rate(&self) -> bool {
        self.study.arguments.rate
    }

    pub(super) fn has_prices(&self) -> bool {
        self.study.prices.unit() == Unit::UsdPerHour
    }

    /// In US dollars per hour, where there are prices.
    pub(super) fn usd(&self, cost: f64) -> Option<f64> {
        (self.has_prices() && cost.is_finite()).then_some(cost)
    }

    pub(super) fn paid(&self, cost: f64) -> String {
        self.usd(cost).map_or_else(|| "no price known".to_owned(), |usd| format!("{usd:.2} USD/h"))
    }

    pub(super) fn layout(&self, place: usize) -> String {
        self.study.layouts[place].name()
    }

    pub(super) fn tried_name(&self, place: usize) -> String {
        let (layout, tried) = &self.tried[place];
        let broken = match &tried.trial {
            trial if trial.is_kept => "",
            trial if trial.is_overloaded => " (requests pile up)",
            _ => " (misses an SLO)",
        };
        format!("{} x {}{broken}", tried.size.name(), self.layout(*layout))
    }
}
