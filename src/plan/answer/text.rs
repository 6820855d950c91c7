//! A plan in words.

use std::fmt;

use super::Answer;
use crate::plan::assumptions::Assumed;
use crate::plan::hunt::{MOST_OF_A_TRACE, Tried};
use crate::plan::layouts::Size;
use crate::plan::limits::Windows;
use crate::plan::outcome::Row;
use crate::plan::{Slo, Trial, Value};

/// How to plan for what a server is like.
const POINT: &str = "--calibration plans for servers that were measured, --point for typical ones";

/// Replicas in words.
pub(super) fn replicas(size: Size) -> String {
    match size {
        Size::Mixed(1) => "1 replica".to_owned(),
        size => format!("{} replicas", size.name()),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let study = &self.study;
        let traffic = format!(
            "{}: {}, {} requests, {:.2} requests/s\nSLOs: {}\n\n",
            study.name,
            study.model,
            study.traffic.len(),
            study.traffic.rate_per_s(),
            study.slos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
        let answer = self.verdict();
        let fronts = if self.tried.is_empty() { String::new() } else { self.fronts_text() };
        let (table, prices) = (self.table(), self.prices_table());
        let assumed = self.assumptions_text();
        write!(f, "{traffic}{answer}\n{table}\n{prices}{assumed}{fronts}")
    }
}

impl Answer {
    fn assumptions_text(&self) -> String {
        let lines: String = self.assumptions.iter().map(Assumed::text).collect();
        if lines.is_empty() { lines } else { format!("\nAssumptions\n{lines}") }
    }

    /// What was asked for, and how sure that is.
    pub(super) fn verdict(&self) -> String {
        match self.winner() {
            None if self.is_for_slow() => format!(
                "No layout meets all SLOs with servers slower than 19 of 20 like them; {POINT}\n"
            ),
            None => "No layout meets all SLOs.\n".to_owned(),
            Some((row, found)) => self.winner_text(row, found),
        }
    }

    fn winner_text(&self, row: &Row, found: &Tried) -> String {
        let name = self.layout(row.place);
        let mut text = if self.seeks_rate() {
            let rate = row.factor() * self.study.traffic.rate_per_s();
            format!(
                "Highest rate per price: {rate:.2} requests/s on {} x {name}, {:.3} requests/s per GPU, {}\n",
                found.size.name(),
                rate / f64::from(found.gpus),
                self.paid(found.cost)
            )
        } else {
            format!(
                "Cheapest: {} x {name} = {} GPU{}, {}\n",
                found.size.name(),
                found.gpus,
                if found.gpus == 1 { "" } else { "s" },
                self.paid(found.cost)
            )
        };
        text += &self.slos_text(&found.trial);
        if !found.trial.cut.is_none() {
            text.extend(["  ", &found.trial.cut.to_string(), "\n"]);
        }
        text += &self.misses_text(row);
        if !self.seeks_rate() && found.least > 1 && found.size == Size::Mixed(found.least) {
            text += "  fewer replicas have no room for all adapters\n";
        }
        text += &self.carries_text(row);
        text += &self.faster_text();
        text += &self.stretches_text();
        text += &self.rates_text();
        text += &self.limits.windows.as_ref().map(Windows::text).unwrap_or_default();
        text
    }

    fn slos_text(&self, trial: &Trial) -> String {
        let Some(values) = &trial.values else { return String::new() };
        let binding = trial.binding();
        let line = |(place, (slo, value)): (usize, (&Slo, &Value))| {
            let note = if binding == Some(place) { ", the binding SLO" } else { "" };
            format!(
                "  {} {}, {:.0} % of what is allowed{note}\n",
                slo.title(),
                slo.print(value.value),
                100.0 * value.used
            )
        };
        self.study.slos.iter().zip(values).enumerate().map(line).collect()
    }

    /// What the next smaller size, or the next higher rate, misses.
    fn misses_text(&self, row: &Row) -> String {
        let Some((size, trial)) = row.misses() else { return String::new() };
        let who = match size {
            _ if self.seeks_rate() => "the next higher rate".to_owned(),
            size => replicas(*size),
        };
        if trial.is_overloaded {
            return format!("  {who}: requests pile up, and a longer run would miss every SLO\n");
        }
        let missed = self.missed(trial);
        if missed.is_empty() { String::new() } else { format!("  {who}: missed is {missed}\n") }
    }

    /// The SLO that a trial misses by most, with its value; of a trial in which requests pile up, all.
    pub(super) fn missed(&self, trial: &Trial) -> String {
        if trial.is_overloaded {
            return "every SLO in the long run, because requests pile up,".to_owned();
        }
        let Some(place) = trial.binding() else { return String::new() };
        let slo = &self.study.slos[place];
        let value = trial.values.as_ref().map(|values| slo.print(values[place].value));
        let value = value.map_or(String::new(), |value| format!(" ({value})"));
        format!("{}{value}", slo.title())
    }

    fn carries_text(&self, row: &Row) -> String {
        let factor = if self.seeks_rate() { Some(row.factor()) } else { self.limits.carries };
        match factor {
            Some(factor) if self.study.is_trace && factor >= MOST_OF_A_TRACE => {
                "  it carries this traffic at any speed: it is too short to say how much\n"
                    .to_owned()
            }
            Some(factor) if !self.seeks_rate() => {
                let rate = factor * self.study.traffic.rate_per_s();
                format!("  it carries up to {factor:.2} times this traffic, {rate:.2} requests/s\n")
            }
            _ => String::new(),
        }
    }

    /// What faster servers need than those that are planned for.
    fn faster_text(&self) -> String {
        let size = |size: Option<Size>| match size {
            None => "more than there may be".to_owned(),
            Some(Size::Mixed(1)) => "1 replica".to_owned(),
            Some(size) => format!("{} replicas", size.name()),
        };
        let (verb, [typical, fast], unit) =
            match (&self.limits.sizes_of_faster, &self.limits.rates_of_faster) {
                (Some(of), _) => ("need", [of.typical, of.fast].map(size), ""),
                (None, Some(of)) => {
                    ("carry", [of.typical, of.fast].map(|rate| format!("{rate:.2}")), " requests/s")
                }
                (None, None) => return String::new(),
            };
        format!(
            "  nothing was measured of these servers, so they are taken to be slower than 19 of 20 like them: typical \
             ones {verb} {typical}{unit}, the fastest 5 % {verb} {fast}{unit}\n  {POINT}\n"
        )
    }

    /// Where the traffic comes from that is resampled.
    fn others(&self, count: usize) -> String {
        let what = match (self.study.is_trace, self.is_for_slow()) {
            (true, false) => ["stretch", "es", " resampled from the trace"],
            (true, true) => {
                ["stretch", "es", " resampled from the trace, each on servers drawn anew"]
            }
            (false, false) => ["other draw", "s", " of the requests"],
            (false, true) => ["other draw", "s", " of the requests and of such servers"],
        };
        let [one, plural, of] = what;
        let plural = if count == 1 { "" } else { plural };
        format!("{count} {one}{plural}{of}")
    }

    fn stretches_text(&self) -> String {
        let stretches = &self.limits.stretches;
        if stretches.is_empty() {
            return String::new();
        }
        let others = self.others(stretches.len());
        let enough = stretches.iter().filter(|other| other.is_enough).count();
        let mut sizes: Vec<(f64, String)> =
            stretches.iter().filter_map(|other| Some((other.cost, other.size?.name()))).collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let range = match (sizes.first(), sizes.last()) {
            (Some((_, least)), _) if stretches.len() == 1 => format!("it needs {least}"),
            (Some((_, least)), Some((_, most))) if least == most => format!("all need {least}"),
            (Some((_, least)), Some((_, most))) => format!("they need {least} to {most}"),
            _ => "none is served by any number".to_owned(),
        };
        let never = stretches.len() - sizes.len();
        let never = if never > 0 { format!(", {never} are served by none") } else { String::new() };
        format!("  of {others} it is enough for {enough}; {range}{never}\n")
    }

    fn rates_text(&self) -> String {
        let rates = &self.limits.rates;
        if rates.is_empty() {
            return String::new();
        }
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        format!("  with {} it is {least:.2} to {most:.2} requests/s\n", self.others(rates.len()))
    }
}
