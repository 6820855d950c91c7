//! Scores as a table, JSON and CSV.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::case::Case;
use super::record::RecordError;
use super::score::{Family, MetricScore, Outcome, RunScore, metric_name};
use super::skip::Skip;

/// Every record and what became of it.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Families in order of their names.
    pub families: Vec<Family>,
    /// All records as one family.
    pub all: Family,
    /// Runs that were simulated, in order of the records.
    pub runs: Vec<RunScore>,
    /// Those that were not.
    pub left_out: Vec<LeftOut>,
}

/// A run that was not simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The record's name.
    pub id: String,
    /// Its family.
    pub family: String,
    /// Why.
    pub reason: String,
}

#[derive(Debug, Serialize)]
struct FamilyJson<'a> {
    family: &'a str,
    total: usize,
    ran: usize,
    skipped: &'a BTreeMap<String, usize>,
    kendall_tau: Option<f64>,
    metrics: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    near_zero: Map<String, Value>,
}

/// Cases and how far they are from their limits.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Their scores.
    pub validation: Validation,
    /// Limits that hold and limits there are.
    pub held: (usize, usize),
    text: String,
}

impl Verdict {
    /// Judges the results of cases, in their order.
    pub(super) fn of(cases: &[Case], results: Vec<Result<RunScore, Skip>>) -> Self {
        let mut text = String::new();
        let mut held = (0, 0);
        for (case, result) in cases.iter().zip(&results) {
            let _ = writeln!(text, "{}", case.id);
            match result {
                Ok(score) => case_text(&mut text, &mut held, case, score),
                Err(skip) => {
                    // A case that cannot be run keeps none of its limits.
                    held.1 +=
                        case.measured.iter().filter(|m| case.limits.of(m.0).is_some()).count();
                    let _ = writeln!(text, "  not simulated: {skip}");
                }
            }
            text.push('\n');
        }
        let outcomes = cases.iter().zip(results);
        let outcomes = outcomes
            .map(|(case, result)| Outcome {
                id: case.id.clone(),
                family: case.family.clone(),
                result,
            })
            .collect();
        Self { validation: Validation::of(outcomes), held, text }
    }

    /// Whether every limit holds.
    pub fn is_positive(&self) -> bool {
        self.held.0 == self.held.1
    }

    /// Measured beside simulated, case by case.
    pub fn text(&self) -> String {
        let (held, limits) = self.held;
        match limits {
            0 => self.text.clone(),
            _ => format!("{}{held} of {limits} errors within their limits\n", self.text),
        }
    }
}

fn case_text(text: &mut String, held: &mut (usize, usize), case: &Case, score: &RunScore) {
    for what in &score.assumed {
        let _ = writeln!(text, "  assumed: {what}");
    }
    for what in score.warnings.texts() {
        let _ = writeln!(text, "  warning: {what}");
    }
    let _ = writeln!(
        text,
        "  {:<24}{:>12}{:>12}{:>10}{:>9}",
        "", "measured", "simulated", "error", "limit"
    );
    for row in &score.rows {
        let name = metric_name(row.key);
        let error = row.error_pct().map_or_else(|| "-".to_owned(), |e| format!("{e:+.1} %"));
        let limit = case.limits.of(row.key).map_or_else(String::new, |limit| format!("{limit} %"));
        let verdict = match case.limits.holds(row) {
            None => "",
            Some(true) => "  held",
            Some(false) => "  missed",
        };
        if let Some(holds) = case.limits.holds(row) {
            held.0 += usize::from(holds);
            held.1 += 1;
        }
        let (measured, simulated) = (row.measured, row.simulated);
        let line =
            format!("  {name:<24}{measured:>12.2}{simulated:>12.2}{error:>10}{limit:>9}{verdict}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

impl Validation {
    /// Scores outcomes, in order of the records.
    pub(super) fn of(outcomes: Vec<Outcome>) -> Self {
        let mut by_family: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
        for outcome in &outcomes {
            by_family.entry(&outcome.family).or_default().push(outcome);
        }
        let families = by_family.iter().map(|(name, members)| Family::of(name, members)).collect();
        let all = Family::of("all", &outcomes.iter().collect::<Vec<_>>());
        let (mut runs, mut left_out) = (Vec::new(), Vec::new());
        for Outcome { id, family, result } in outcomes {
            match result {
                Ok(run) => runs.push(run),
                Err(skip) => left_out.push(LeftOut { id, family, reason: skip.to_string() }),
            }
        }
        Self { families, all, runs, left_out }
    }

    /// Counts lines that are no records among the runs that were left out, as a family of their own.
    pub fn add_broken(&mut self, lines: &[RecordError]) {
        if lines.is_empty() {
            return;
        }
        let mut broken = Family::of("unreadable lines", &[]);
        broken.total = lines.len();
        self.all.total += lines.len();
        for line in lines {
            let reason = line.to_string();
            *self.all.skipped.entry(reason.clone()).or_insert(0) += 1;
            *broken.skipped.entry(reason).or_insert(0) += 1;
        }
        self.families.push(broken);
    }

    /// One block a family, then all together.
    pub fn text(&self) -> String {
        let blocks = self.families.iter().chain([&self.all]);
        blocks.map(family_text).collect::<Vec<_>>().join("\n")
    }

    /// The same as JSON, with every run, on one line.
    pub fn json(&self) -> String {
        let families: Vec<FamilyJson<'_>> = self
            .families
            .iter()
            .map(|family| FamilyJson {
                family: &family.name,
                total: family.total,
                ran: family.ran,
                skipped: &family.skipped,
                kendall_tau: family.kendall_tau,
                metrics: family
                    .metrics
                    .iter()
                    .map(|(key, score)| (metric_name(*key), json!(score)))
                    .collect(),
                near_zero: family
                    .near_zero
                    .iter()
                    .map(|(key, count)| (metric_name(*key), json!(count)))
                    .collect(),
            })
            .collect();
        let runs: Vec<Value> = self.runs.iter().map(run_json).collect();
        format!("{}\n", json!({ "families": families, "runs": runs, "left_out": self.left_out }))
    }

    /// One line a run and metric.
    pub fn csv(&self) -> String {
        let mut text = "family,id,metric,measured,simulated,error_pct,approximated\n".to_owned();
        for run in &self.runs {
            let quoted = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
            let (family, id) = (quoted(&run.family), quoted(&run.id));
            let assumed = quoted(&run.assumed.join("; "));
            for row in &run.rows {
                let (metric, measured) = (metric_name(row.key), row.measured);
                let error = row.error_pct().map_or_else(String::new, |error| error.to_string());
                let simulated = row.simulated;
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{family},{id},{metric},{measured},{simulated},{error},{assumed}"
                );
            }
        }
        text
    }
}

fn run_json(run: &RunScore) -> Value {
    let mut metrics: Map<String, Value> = run
        .rows
        .iter()
        .map(|row| {
            let mut value = json!({
                "measured": row.measured,
                "simulated": row.simulated,
                "error_pct": row.error_pct(),
            });
            if let Some(interval) = run.interval(row) {
                value["interval_90"] = json!(interval);
            }
            (metric_name(row.key), value)
        })
        .collect();
    // The name that the records have for it, beside that of the benchmark JSON.
    if let Some(duration) = metrics.get("duration").cloned() {
        metrics.insert("benchmark_duration_s".to_owned(), duration);
    }
    let warnings = run.warnings.texts();
    let mut run_json = json!({ "id": run.id, "family": run.family, "metrics": metrics });
    if let Some(class) = run.class {
        run_json["class"] = json!(class.name());
    }
    if !warnings.is_empty() {
        run_json["warnings"] = json!(warnings);
    }
    if !run.assumed.is_empty() {
        run_json["approximated"] = json!(run.assumed);
    }
    run_json
}

fn family_text(family: &Family) -> String {
    let tau = family.kendall_tau.map_or_else(String::new, |tau| format!(", Kendall tau {tau:.2}"));
    let mut text = format!("{}: {} of {} simulated{tau}\n", family.name, family.ran, family.total);
    for (reason, count) in &family.skipped {
        let _ = writeln!(text, "  {count} skipped: {reason}");
    }
    for (key, count) in &family.near_zero {
        let name = metric_name(*key);
        let _ = writeln!(text, "  {name}: {count} measured as nearly 0, left out");
    }
    if family.metrics.is_empty() {
        return text;
    }
    let names: Vec<String> = family.metrics.iter().map(|(key, _)| metric_name(*key)).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    let _ = writeln!(
        text,
        "  {:<width$}  {:>5}  {:>10}  {:>10}  {:>10}",
        "", "runs", "median |%|", "mean |%|", "bias %"
    );
    for (name, (_, score)) in names.iter().zip(&family.metrics) {
        let MetricScore { n, median_abs_pct, mean_abs_pct, bias_pct } = score;
        let _ = writeln!(
            text,
            "  {name:<width$}  {n:>5}  {median_abs_pct:>10.1}  {mean_abs_pct:>10.1}  {bias_pct:>+10.1}"
        );
    }
    text
}
