//! All that a plan says.

mod fronts;
mod json;
mod slos;
mod table;
mod text;

use super::assumptions::{Assumed, Known};
use super::hunt::Tried;
use super::layouts::Size;
use super::limits::Limits;
use super::outcome::{self, LimitedBy, Outcome, Row};
use super::prices::{GpuCost, Unit};
use super::question::Seeks;
use super::study::Study;
pub use fronts::Front;

/// Hours of a month, of which a year has twelve.
pub(super) const HOURS_PER_MONTH: f64 = 730.0;

/// All that a plan says. [`Display`](std::fmt::Display) gives it in words, [`json`](Self::json) as `plan.json`.
#[derive(Debug)]
pub struct Answer {
    /// What was asked.
    pub study: Study,
    /// The layouts, the best first.
    pub rows: Vec<Row>,
    /// Trials of the traffic that is planned for, with the places of their layouts.
    pub tried: Vec<(usize, Tried)>,
    /// How sure the best layout is.
    pub limits: Limits,
    /// What is assumed of the layouts.
    pub assumptions: Vec<Assumed>,
}

/// What was found for a question.
pub(super) struct Found {
    pub(super) rows: Vec<Row>,
    pub(super) tried: Vec<(usize, Tried)>,
    pub(super) limits: Limits,
    pub(super) known: Vec<Known>,
}

impl Answer {
    /// The cheapest layout that meets all SLOs, if any does.
    pub fn winner(&self) -> Option<(&Row, &Tried)> {
        outcome::winner(&self.rows)
    }

    /// Whether the highest rate is asked for, not the fewest replicas.
    pub(super) fn seeks_rate(&self) -> bool {
        self.study.question.seeks == Seeks::HighestRate
    }

    /// Whether layouts that miss the SLOs on slow servers, all that were tried, were tried on typical ones too.
    pub(super) fn typical_were_tried(&self) -> bool {
        let misses = |row: &Row| row.is_for_slow && matches!(row.outcome, Outcome::TooMany { .. });
        self.winner().is_none() && !self.seeks_rate() && self.rows.iter().any(misses)
    }

    /// Whether the answer is for servers that are slower than most of their class; where there is none, whether some
    /// layout is.
    pub(super) fn is_for_slow(&self) -> bool {
        match self.winner() {
            Some((row, _)) => row.is_for_slow,
            None => self.rows.iter().any(|row| row.is_for_slow),
        }
    }

    /// Whether prices are known; else clusters are compared by their GPUs.
    pub fn has_prices(&self) -> bool {
        self.study.prices.unit() == Unit::UsdPerHour
    }

    /// What an hour of each GPU of the layouts costs.
    pub fn prices(&self) -> &[GpuCost] {
        &self.study.prices.costs
    }

    /// What a cluster costs in US dollars per hour, where there are prices.
    pub fn usd(&self, cost: f64) -> Option<f64> {
        (self.has_prices() && cost.is_finite()).then_some(cost)
    }

    pub(super) fn paid(&self, cost: f64) -> String {
        self.usd(cost).map_or_else(|| "no price known".to_owned(), |usd| format!("{usd:.2} USD/h"))
    }

    /// The same per month.
    pub(super) fn usd_per_month(&self, cost: f64) -> Option<f64> {
        self.usd(cost).map(|usd| HOURS_PER_MONTH * usd)
    }

    /// What a cluster costs a month, as what follows its cost per hour; nothing where there are no prices.
    pub(super) fn paid_monthly(&self, cost: f64) -> String {
        self.usd_per_month(cost).map_or_else(String::new, |usd| {
            format!(", {usd:.0} USD a month of {HOURS_PER_MONTH:.0} hours")
        })
    }

    /// What limits the size or the rate of a layout.
    pub(super) fn limited_by(&self, row: &Row) -> Option<LimitedBy> {
        row.limited_by(self.study.question.seeks)
    }

    /// A cluster of a layout, as in `4 x H100 TP2` or `2 x H100 TP1 prefill and 3 x H100 TP1 decode (2P3D)`.
    pub(super) fn cluster(&self, place: usize, size: Size) -> String {
        self.study.layouts[place].cluster(size)
    }

    /// The layout at a place, as in `H100 TP2`.
    pub fn layout(&self, place: usize) -> String {
        self.study.layouts[place].name()
    }

    /// A trial, as in `4 x H100 TP2 (misses an SLO)`.
    pub fn tried_name(&self, place: usize) -> String {
        let (layout, tried) = &self.tried[place];
        let broken = match &tried.trial {
            trial if trial.is_kept => "",
            trial if trial.is_overloaded => " (requests pile up)",
            _ => " (misses an SLO)",
        };
        format!("{} x {}{broken}", tried.size.name(), self.layout(*layout))
    }
}
