//! The layouts of a plan, and what came of each, as a table.

use super::Answer;
use crate::plain::table;
use crate::plan::Slo;
use crate::plan::outcome::{Outcome, Row};

impl Answer {
    pub(super) fn table(&self) -> String {
        let slos = &self.study.slos;
        let mut header = vec!["layout".to_owned()];
        let size = if self.seeks_rate() { "requests/s" } else { "replicas" };
        header.extend([size, "GPUs", "USD/h"].map(str::to_owned));
        header.extend(slos.iter().map(Slo::title));
        header.push("what it lacks".to_owned());
        let rows = self.rows.iter().map(|row| self.table_row(row));
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        table(&rows, &[4 + slos.len()])
    }

    fn table_row(&self, row: &Row) -> Vec<String> {
        let slos = &self.study.slos;
        let none = || "–".to_owned();
        let priced = |cost: f64| self.usd(cost).map(|usd| format!("{usd:.2}"));
        let nothing = || [none(), none(), none()];
        let ([size, gpus, usd], lacks) = match &row.outcome {
            Outcome::Impossible(reason) => (nothing(), shortened(reason)),
            Outcome::TooDear { broken, cost } => {
                let usd = priced(*cost).map_or_else(none, |usd| format!("> {usd}"));
                let lacks = "too few, and more are dearer than the runner-up";
                ([format!("> {}", broken.name()), none(), usd], lacks.to_owned())
            }
            Outcome::TooMany if self.seeks_rate() => {
                (nothing(), "meets the SLOs at no rate".to_owned())
            }
            Outcome::TooMany => {
                let most = self.study.question.max_gpus;
                (nothing(), format!("meets the SLOs with no number of up to {most} GPUs"))
            }
            Outcome::Keeps { found, factor, .. } => {
                let size = if self.seeks_rate() {
                    format!("{:.2}", factor * self.study.traffic.rate_per_s())
                } else {
                    found.size.name()
                };
                let usd = priced(found.cost).unwrap_or_else(none);
                ([size, found.gpus.to_string(), usd], String::new())
            }
        };
        let mut cells = vec![self.layout(row.place), size, gpus, usd];
        match row.found() {
            None => cells.extend(slos.iter().map(|_| none())),
            Some(found) => {
                let values = found.trial.values.iter().flatten().zip(slos);
                cells.extend(values.map(|(value, slo)| slo.print(value.value)));
            }
        }
        cells.push(lacks);
        cells
    }
}

/// Where a problem is and what it is, without its particulars, which JSON has.
fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    line.split(": ").take(2).collect::<Vec<_>>().join(": ")
}
