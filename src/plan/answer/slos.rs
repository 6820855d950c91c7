//! What a plan says of its SLOs, and of what limits it.

use super::Answer;
use super::text::replicas;
use crate::plan::layouts::Size;
use crate::plan::outcome::{LimitedBy, Row};
use crate::plan::{Objective, Slo, Trial, Value};

impl Answer {
    /// Each SLO with its value, and whether it is the one that limits the plan.
    pub(super) fn slos_text(&self, row: &Row, trial: &Trial) -> String {
        let Some(values) = &trial.values else { return String::new() };
        let limited_by = self.limited_by(row);
        let typical = self.limits.on_typical.as_ref().and_then(|trial| trial.values.as_ref());
        let line = |(place, (slo, value)): (usize, (&Slo, &Value))| {
            let is_of_share = matches!(slo.objective, Objective::Attainment(_));
            let share = format!(", {:.0} % of what is allowed", 100.0 * value.used);
            let kept = match limited_by {
                Some(LimitedBy::Slo(limits)) if limits == place => {
                    share + ", the SLO that limits it"
                }
                _ if value.is_kept_by_all && is_of_share => ", met by every request".to_owned(),
                _ if value.is_kept_by_all => share + ", met by every request",
                _ => share,
            };
            let typical = typical.map_or_else(String::new, |values| {
                format!("; on typical servers {}", slo.print(values[place].value))
            });
            let value = slo.print(value.value);
            format!("  {} {value}{kept}{typical}\n", slo.title())
        };
        self.study.slos.iter().zip(values).enumerate().map(line).collect()
    }

    /// What the next smaller size, or the next higher rate, misses.
    pub(super) fn misses_text(&self, row: &Row) -> String {
        let Some((size, trial)) = row.misses() else { return String::new() };
        let (who, miss) = match size {
            _ if self.seeks_rate() => ("the next higher rate".to_owned(), "misses"),
            Size::Mixed(1) => (replicas(*size), "misses"),
            size => (replicas(*size), "miss"),
        };
        if trial.is_overloaded {
            let so = match self.limited_by(row) {
                Some(LimitedBy::Throughput) => "; so throughput limits it, no SLO does",
                _ => "",
            };
            return format!(
                "  {who}: requests pile up, and a longer run would miss every SLO{so}\n"
            );
        }
        let missed = self.missed(trial);
        if missed.is_empty() { String::new() } else { format!("  {who} {miss} {missed}\n") }
    }

    /// The SLOs that a trial misses, with their values; of one that was broken off, which for; of one in which requests
    /// pile up, all.
    pub(super) fn missed(&self, trial: &Trial) -> String {
        if trial.is_overloaded {
            return "every SLO in the long run, because requests pile up,".to_owned();
        }
        let Some(values) = &trial.values else {
            let binding = trial.binding().map(|place| self.study.slos[place].title());
            return binding.unwrap_or_default();
        };
        let slos = values.iter().zip(&self.study.slos);
        let slos = slos.filter(|(value, slo)| !slo.is_kept(value.value));
        let missed: Vec<String> = slos
            .map(|(value, slo)| format!("{} ({})", slo.title(), slo.print(value.value)))
            .collect();
        match &missed[..] {
            [several @ .., last] if !several.is_empty() => {
                format!("{} and {last}", several.join(", "))
            }
            _ => missed.concat(),
        }
    }

    /// Why there is no smaller size, where that is not for an SLO.
    pub(super) fn least_text(&self, row: &Row) -> &'static str {
        match self.limited_by(row) {
            Some(LimitedBy::Room) => "  fewer replicas have no room for all adapters\n",
            Some(LimitedBy::Least) => "  no SLO limits it: there cannot be fewer replicas\n",
            Some(LimitedBy::Slo(_) | LimitedBy::Throughput) | None => "",
        }
    }
}
