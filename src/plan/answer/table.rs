//! The layouts of a plan, and what came of each, as a table.

use super::Answer;
use super::text::replicas;
use crate::metrics::TooLong;
use crate::plain::table;
use crate::plan::Slo;
use crate::plan::outcome::{Obstacle, Outcome, Row};

/// Layouts that are named in a line.
const NAMED_MAX: usize = 8;

impl Answer {
    pub(super) fn table(&self) -> String {
        let slos = &self.study.slos;
        let mut header = vec!["layout".to_owned()];
        let size = if self.seeks_rate() { "requests/s" } else { "replicas" };
        header.extend([size, "GPUs", "USD/h"].map(str::to_owned));
        header.extend(self.has_prices().then(|| "USD/month".to_owned()));
        header.extend(slos.iter().map(Slo::title));
        header.push("what it lacks".to_owned());
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .filter(|row| !self.is_folded(row))
            .map(|row| self.table_row(row))
            .collect();
        if rows.is_empty() {
            return self.folds();
        }
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        let last = rows[0].len() - 1;
        table(&rows, &[last]) + &self.folds()
    }

    /// Whether a layout shares a line with others that lack the same.
    fn is_folded(&self, row: &Row) -> bool {
        !self.study.question.all
            && matches!(
                row.outcome,
                Outcome::Impossible(Obstacle::NoPrice(_) | Obstacle::Memory(_))
            )
    }

    /// A line for the layouts of each GPU that have no price, and one for those that its memory does not hold.
    fn folds(&self) -> String {
        let mut lines: Vec<(bool, &str, Vec<usize>)> = Vec::new();
        for row in self.rows.iter().filter(|row| self.is_folded(row)) {
            let gpu = self.study.layouts[row.place].gpu().name.as_str();
            let is_price = matches!(row.outcome, Outcome::Impossible(Obstacle::NoPrice(_)));
            match lines.iter_mut().find(|(price, of, _)| (*price, *of) == (is_price, gpu)) {
                Some((_, _, places)) => places.push(row.place),
                None => lines.push((is_price, gpu, vec![row.place])),
            }
        }
        let line = |(is_price, gpu, places): (bool, &str, Vec<usize>)| {
            let (count, names) = (places.len(), self.names_on_gpu(&places));
            let s = if count == 1 { "" } else { "s" };
            if is_price {
                format!("No price of {gpu} is known, which leaves {count} layout{s} out: {names}\n")
            } else {
                let verb = if count == 1 { "does" } else { "do" };
                format!("{count} layout{s} {verb} not fit the memory of {gpu}: {names}\n")
            }
        };
        lines.into_iter().map(line).collect()
    }

    fn names_on_gpu(&self, places: &[usize]) -> String {
        let names: Vec<String> =
            places.iter().map(|place| self.study.layouts[*place].name_on_gpu()).collect();
        let between = if names.iter().any(|name| name.contains(',')) { "; " } else { ", " };
        let named = names[..names.len().min(NAMED_MAX)].join(between);
        match names.len().saturating_sub(NAMED_MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }

    /// What an hour of each GPU costs, and who says so.
    pub(super) fn prices_table(&self) -> String {
        let head = ["GPU", "USD/h", "price from"].map(str::to_owned).to_vec();
        let rows = self.prices().iter().map(|cost| {
            let usd = cost.usd_per_hour.map_or_else(|| "–".to_owned(), |usd| format!("{usd:.2}"));
            let from = match cost.usd_per_hour {
                Some(_) => cost.from.clone(),
                None => format!("{}; give --price {}=USD or --price-file", cost.from, cost.gpu),
            };
            vec![cost.gpu.clone(), usd, from]
        });
        table(&std::iter::once(head).chain(rows).collect::<Vec<_>>(), &[2])
    }

    fn table_row(&self, row: &Row) -> Vec<String> {
        let slos = &self.study.slos;
        let none = || "–".to_owned();
        let priced = |cost: f64| self.usd(cost).map(|usd| format!("{usd:.2}"));
        let nothing = || [none(), none(), none()];
        let ([size, gpus, usd], lacks) = match &row.outcome {
            Outcome::Impossible(Obstacle::Memory(_)) => {
                let gpu = &self.study.layouts[row.place].gpu().name;
                (nothing(), format!("does not fit the memory of {gpu}"))
            }
            Outcome::Impossible(Obstacle::NoPrice(gpu)) => {
                let hint = format!("give one as in --price {gpu}=2.5, or --price-file");
                (nothing(), format!("no price is known; {hint}"))
            }
            Outcome::Impossible(reason @ (Obstacle::Size { .. } | Obstacle::Room { .. })) => {
                (nothing(), format!("{reason} (--max-gpus)"))
            }
            Outcome::Impossible(reason) => (nothing(), shortened(&reason.to_string())),
            Outcome::TooDear { broken, cost } => {
                let usd = priced(*cost).map_or_else(none, |usd| format!("> {usd}"));
                let lacks = "too few; more are dearer than the runner-up (--all goes on)";
                ([format!("> {}", broken.name()), none(), usd], lacks.to_owned())
            }
            Outcome::TooMany { .. } if self.seeks_rate() => {
                (nothing(), "misses the SLOs at every rate".to_owned())
            }
            Outcome::TooMany { largest } => {
                let most = self.study.question.max_gpus;
                let lacks = match largest.as_deref() {
                    Some((size, trial)) => {
                        let long = trial.warnings.too_long.map_or_else(String::new, |long| {
                            let TooLong { max_model_len, key, .. } = long;
                            format!("; {} are rejected ({key} {max_model_len})", long.rejected())
                        });
                        format!("misses {} even with {}{long}", self.missed(trial), replicas(*size))
                    }
                    None => format!("misses the SLOs with any number of up to {most} GPUs"),
                };
                (nothing(), lacks)
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
        let per_month = match &row.outcome {
            Outcome::Keeps { found, .. } => self.usd_per_month(found.cost).map(whole),
            Outcome::TooDear { cost, .. } => {
                self.usd_per_month(*cost).map(|usd| format!("> {}", whole(usd)))
            }
            _ => None,
        };
        cells.extend(self.has_prices().then(|| per_month.unwrap_or_else(none)));
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

fn whole(usd: f64) -> String {
    format!("{usd:.0}")
}

/// Where a problem is, what it is and what to set, without its particulars, which JSON has.
fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let parts = line.split(": ").enumerate();
    let kept = parts.filter(|(place, part)| *place < 2 || part.starts_with("set "));
    kept.map(|(_, part)| part).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shortened_to_its_place_its_rule_and_its_remedy() {
        let long = "cluster: 9 tokens need more than 8; the engine refuses to start: set `max_model_len` to at most 8";
        assert_eq!(shortened(long), long);
        assert_eq!(shortened("model: no such layer: of three kinds\nmore"), "model: no such layer");
    }
}
