//! What is printed of a sweep: the figures of each point over its runs.

use crate::plain::table;
use crate::sweep::{Estimate, PointReport, Report, is_share};

/// Points with failed runs that are told of one by one.
const FAILURES_MAX: usize = 5;

/// A table with a line for each point.
pub(super) fn text(report: &Report) -> String {
    let has_variants = report.variants.len() > 1;
    let metrics = report.figures();
    let mut header = vec!["point".to_owned()];
    header.extend(has_variants.then(|| "variant".to_owned()));
    header.extend(report.titles.iter().cloned());
    header.extend(metrics.iter().map(|name| (*name).to_owned()));
    let mut lines = vec![header];
    let column = |name: &str| -> Vec<Option<Estimate>> {
        report.points.iter().map(|point| point.figure(name)).collect()
    };
    let columns: Vec<Vec<String>> = metrics.iter().map(|name| cells(name, &column(name))).collect();
    for (row, point) in report.points.iter().enumerate() {
        let mut line = vec![point.index.to_string()];
        line.extend(report.variant(point));
        line.extend((0..point.settings.len()).map(|axis| point.text(axis)));
        line.extend(columns.iter().map(|column| column[row].clone()));
        lines.push(line);
    }
    title(report) + &table(&lines, &[usize::from(has_variants)]) + &failures(report)
}

fn title(report: &Report) -> String {
    let of = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    let part = report.shard.map_or_else(String::new, |shard| {
        format!(", part {}/{} of the runs", shard.index, shard.count)
    });
    let interval = if report.seeds > 1 { "; means with 95 % intervals over seeds" } else { "" };
    format!(
        "{}: {} with {}{part}{interval}\n",
        report.name,
        of(report.points.len(), "point"),
        of(report.seeds as usize, "seed")
    )
}

/// The cells of a column with as many decimals as its largest mean needs: three significant digits at least.
fn cells(name: &str, column: &[Option<Estimate>]) -> Vec<String> {
    let means = column.iter().flatten().map(|one| one.mean.abs());
    let decimals = match means.fold(0.0, f64::max) {
        large if large >= 100.0 => 1,
        small if small > 0.0 && small < 1.0 => 2 + (-small.log10()).ceil() as usize,
        _ => 2,
    };
    let cell = |estimate: &Option<Estimate>| match estimate {
        None => "-".to_owned(),
        Some(share) if is_share(name) => match share.of_share() {
            None => format!("{:.decimals$}", share.mean),
            Some((low, high)) => {
                format!("{:.decimals$} ({low:.decimals$} to {high:.decimals$})", share.mean)
            }
        },
        Some(Estimate { mean, within: None }) => format!("{mean:.decimals$}"),
        Some(Estimate { mean, within: Some(within) }) => {
            format!("{mean:.decimals$} ± {within:.decimals$}")
        }
    };
    column.iter().map(cell).collect()
}

/// Which points have failed runs, and why.
fn failures(report: &Report) -> String {
    let failed: Vec<&PointReport> =
        report.points.iter().filter(|point| !point.errors.is_empty()).collect();
    let told = failed.iter().take(FAILURES_MAX).map(|point| {
        let (errors, runs, why) = (point.errors.len(), point.runs, &point.errors[0]);
        format!("point {}: {errors} of {runs} failed: {why}\n", point.index)
    });
    let rest = failed.len().saturating_sub(FAILURES_MAX);
    let rest = if rest == 0 { String::new() } else { format!("and {rest} points more\n") };
    told.collect::<String>() + &rest
}
