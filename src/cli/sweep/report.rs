//! What is printed of a sweep: the figures of each point over its runs.

use serde_json::{Map, Value, json};

use super::args::ReportArguments;
use super::folder::Manifest;
use super::journal::Entry;
use super::table;
use crate::cli::Failure;
use crate::cli::args::Format;
use crate::plain;
use crate::profiles;
use crate::study::Figures;
use crate::sweep::{Estimate, Estimator};

/// What is printed where nothing is asked for, if the runs have it.
pub(super) const USUAL: [&str; 8] = [
    "output_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "gpu_hours",
    "slo_attainment",
];

/// Points with failed runs that are told of one by one.
const FAILURES_MAX: usize = 5;

/// What is printed, and how.
#[derive(Debug)]
pub(super) struct Report {
    metrics: Vec<String>,
    pub(super) format: Format,
}

/// The runs of a point.
pub(super) struct PointRuns<'a> {
    pub(super) index: u32,
    entries: &'a [Entry],
}

impl PointRuns<'_> {
    /// A figure of each run that has it.
    pub(super) fn values(&self, name: &str) -> Vec<f64> {
        self.entries.iter().filter_map(|one| one.figure(name)).collect()
    }

    /// Why runs failed.
    pub(super) fn errors(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(Entry::error)
    }
}

/// All runs, point by point.
pub(super) fn by_point(entries: &[Entry]) -> impl Iterator<Item = PointRuns<'_>> {
    let chunks = entries.chunk_by(|one, next| one.point == next.point);
    chunks.map(|entries| PointRuns { index: entries[0].point, entries })
}

impl Report {
    pub(super) fn new(arguments: &ReportArguments) -> Result<Self, Failure> {
        let known: Vec<String> = Figures::names().collect();
        // Those of a class have its name before them.
        let is_known = |name: &String| {
            let of_all = name.rsplit('.').next().unwrap_or(name);
            known.iter().any(|known| known == of_all)
        };
        if let Some(name) = arguments.metrics.iter().find(|name| !is_known(name)) {
            let near = profiles::closest(name, known.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Err(Failure::input(format!("--metric {name}: is no figure of a run{hint}")));
        }
        Ok(Self { metrics: arguments.metrics.clone(), format: arguments.format })
    }

    /// A table with a line for each point.
    pub(super) fn text(&self, manifest: &Manifest, entries: &[Entry]) -> Result<String, Failure> {
        let points = table::points(manifest)?;
        let variants = &manifest.plan.variants;
        let metrics: Vec<&str> = match &self.metrics[..] {
            [] => USUAL.to_vec(),
            asked => asked.iter().map(String::as_str).collect(),
        };
        let has = |name: &&str| entries.iter().any(|entry| entry.figure(name).is_some());
        let metrics: Vec<&str> = metrics.into_iter().filter(has).collect();
        let mut header = vec!["point".to_owned()];
        header.extend((variants.len() > 1).then(|| "variant".to_owned()));
        header.extend(titles(manifest));
        header.extend(metrics.iter().map(|name| (*name).to_owned()));
        let mut lines = vec![header];
        let mut estimator = Estimator::default();
        let mut of_point = |point: &PointRuns<'_>| -> Vec<Option<Estimate>> {
            metrics.iter().map(|name| estimator.estimate(&point.values(name))).collect()
        };
        let estimates: Vec<_> = by_point(entries).map(|point| of_point(&point)).collect();
        let decimals: Vec<usize> = (0..metrics.len())
            .map(|column| decimals(estimates.iter().map(|of_point| of_point[column])))
            .collect();
        for (point, estimates_of) in by_point(entries).zip(&estimates) {
            let told = points.get(point.index);
            let mut line = vec![point.index.to_string()];
            line.extend((variants.len() > 1).then(|| variants[told.variant].clone()));
            line.extend(told.settings.iter().map(|(_, value)| table::text(value)));
            line.extend(estimates_of.iter().zip(&decimals).map(|(one, at)| cell(*one, *at)));
            lines.push(line);
        }
        Ok(title(manifest, entries)
            + &plain::table(&lines, &[usize::from(variants.len() > 1)])
            + &failures(entries))
    }

    /// The same for programs, with all figures if none is asked for.
    pub(super) fn json(&self, manifest: &Manifest, entries: &[Entry]) -> Result<String, Failure> {
        let points = table::points(manifest)?;
        let metrics =
            if self.metrics.is_empty() { table::figures(entries) } else { self.metrics.clone() };
        let mut estimator = Estimator::default();
        let of_point = |point: PointRuns<'_>| {
            let told = points.get(point.index);
            let settings: Map<String, Value> =
                told.settings.into_iter().map(|(path, value)| (path, json!(value))).collect();
            let figure = |name: &String| {
                let found = estimator.estimate(&point.values(name))?;
                let value = json!({ "mean": found.mean, "within_95_pct": found.within });
                Some((name.clone(), value))
            };
            let figures = metrics.iter().filter_map(figure).collect::<Map<_, _>>();
            json!({
                "point": point.index,
                "variant": manifest.plan.variants[told.variant],
                "settings": settings,
                "runs": point.entries.len(),
                "errors": point.errors().collect::<Vec<_>>(),
                "figures": figures,
            })
        };
        let value = json!({
            "name": manifest.name,
            "shard": manifest.shard,
            "runs": entries.len(),
            "failed": entries.iter().filter_map(Entry::error).count(),
            "points": by_point(entries).map(of_point).collect::<Vec<_>>(),
        });
        Ok(format!("{value:#}\n"))
    }
}

fn title(manifest: &Manifest, entries: &[Entry]) -> String {
    let (points, seeds) = (by_point(entries).count(), manifest.plan.seeds);
    let of = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    let part = manifest.shard.map_or_else(String::new, |shard| {
        format!(", part {}/{} of the runs", shard.index, shard.count)
    });
    let interval = if seeds > 1 { "; mean ± 95 % interval over seeds" } else { "" };
    format!(
        "{}: {} with {}{part}{interval}\n",
        manifest.name,
        of(points, "point"),
        of(seeds as usize, "seed")
    )
}

/// The last keys of the paths that are varied; whole paths where two end alike.
pub(super) fn titles(manifest: &Manifest) -> Vec<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let paths: Vec<&str> = manifest.plan.axes.iter().map(|axis| axis.path.as_str()).collect();
    let is_alone = |path: &str| paths.iter().filter(|one| last(one) == last(path)).count() == 1;
    paths.iter().map(|path| if is_alone(path) { last(path) } else { (*path).to_owned() }).collect()
}

/// Decimals of a column, by its largest mean: three significant digits at least.
fn decimals(column: impl Iterator<Item = Option<Estimate>>) -> usize {
    match column.flatten().map(|one| one.mean.abs()).fold(0.0, f64::max) {
        large if large >= 100.0 => 1,
        small if small > 0.0 && small < 1.0 => 2 + (-small.log10()).ceil() as usize,
        _ => 2,
    }
}

fn cell(estimate: Option<Estimate>, decimals: usize) -> String {
    match estimate {
        None => "-".to_owned(),
        Some(Estimate { mean, within: None }) => format!("{mean:.decimals$}"),
        Some(Estimate { mean, within: Some(within) }) => {
            format!("{mean:.decimals$} ± {within:.decimals$}")
        }
    }
}

/// Which points have failed runs, and why.
fn failures(entries: &[Entry]) -> String {
    let failed: Vec<PointRuns<'_>> =
        by_point(entries).filter(|point| point.errors().next().is_some()).collect();
    let told = failed.iter().take(FAILURES_MAX).map(|point| {
        let (errors, runs) = (point.errors().count(), point.entries.len());
        let why = point.errors().next().unwrap_or_default();
        format!("point {}: {errors} of {runs} failed: {why}\n", point.index)
    });
    let rest = failed.len().saturating_sub(FAILURES_MAX);
    let rest = if rest == 0 { String::new() } else { format!("and {rest} points more\n") };
    told.collect::<String>() + &rest
}
