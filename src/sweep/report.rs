//! What a sweep has found, point by point.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, json};
use toml::Value;

use super::design::Design;
use super::error::SweepError;
use super::journal::Entry;
use super::plan::{Plan, Shard};
use super::results::{Results, number, text};
use super::summary::{Estimate, Estimator};
use crate::load::Listener;
use crate::metrics::Warning;

/// The figures that are shown where none is asked for, if the runs have them.
pub const USUAL: [&str; 8] = [
    "output_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "gpu_hours",
    "slo_attainment",
];

/// What a sweep has found.
#[derive(Debug)]
pub struct Report {
    /// The title of its scenario.
    pub name: String,
    /// The version of servecast that computed it.
    pub servecast: String,
    /// What is varied: paths.
    pub paths: Vec<String>,
    /// The same, as short as they can be told apart.
    pub titles: Vec<String>,
    /// The titles of the scenario and its variants.
    pub variants: Vec<String>,
    /// Which combinations.
    pub design: Design,
    /// Runs of each point.
    pub seeds: u32,
    /// The seeds of the first point's runs.
    pub first_seeds: Vec<u64>,
    /// Which part of the sweep it is of; all of it if absent.
    pub shard: Option<Shard>,
    /// Runs that have ended.
    pub runs: usize,
    /// Runs that the sweep has when all have ended.
    pub planned: u32,
    /// Points of which a run has ended, in their order.
    pub points: Vec<PointReport>,
}

/// A point of a sweep.
#[derive(Debug)]
pub struct PointReport {
    /// Which, from 0.
    pub index: u32,
    /// Which of the variants, from 0.
    pub variant: usize,
    /// The value of each setting that is varied.
    pub settings: Vec<Value>,
    /// Runs that have ended.
    pub runs: usize,
    /// Why runs failed.
    pub errors: Vec<String>,
    /// What its runs are warned of, once for each kind: what is said of the first of them. Caveats are told once each.
    pub warnings: Vec<Warning>,
    /// In the order in which runs tell them.
    figures: Vec<Option<Estimate>>,
    /// Their names, which all points share.
    names: Arc<[String]>,
}

impl Results {
    /// What they say, point by point, with all figures.
    pub fn report(&self) -> Report {
        self.report_of(self.figures())
    }

    /// The same with these figures alone.
    pub fn report_of(&self, figures: Vec<String>) -> Report {
        let names: Arc<[String]> = figures.into();
        let mut estimator = Estimator::default();
        let runs_of = self.entries.chunk_by(|one, next| one.point == next.point);
        let points = runs_of.map(|runs| {
            let index = runs[0].point;
            let point = self.points.get(index);
            let mut estimate = |name: &String| {
                let values: Vec<f64> = runs.iter().filter_map(|one| one.figure(name)).collect();
                estimator.estimate(&values)
            };
            PointReport {
                index,
                variant: point.variant,
                settings: point.settings.into_iter().map(|(_, value)| value).collect(),
                runs: runs.len(),
                errors: runs.iter().filter_map(Entry::error).map(str::to_owned).collect(),
                warnings: first_of_each_kind(runs),
                figures: names.iter().map(&mut estimate).collect(),
                names: names.clone(),
            }
        });
        let points = points.collect();
        let first = self.entries.first().map(|entry| entry.point);
        let seeds = self.entries.iter().filter(|entry| Some(entry.point) == first);
        let plan = self.plan();
        Report {
            name: self.name().to_owned(),
            servecast: self.version().to_owned(),
            paths: plan.axes.iter().map(|axis| axis.path.clone()).collect(),
            titles: titles(plan),
            variants: plan.variants.clone(),
            design: plan.design,
            seeds: plan.seeds,
            first_seeds: seeds.map(|entry| entry.seed).collect(),
            shard: self.shard(),
            runs: self.entries.len(),
            planned: self.planned(),
            points,
        }
    }
}

impl Report {
    /// Reads the folder of a sweep; nothing where it holds none.
    ///
    /// # Errors
    /// When its files cannot be read, or are not those of a sweep.
    pub fn read(folder: &Path, listener: &Listener) -> Result<Option<Self>, SweepError> {
        Ok(Results::read(folder, listener)?.map(|results| results.report()))
    }

    /// The names of the figures that any point has.
    pub fn figures(&self) -> Vec<&str> {
        let names = self.points.first().map_or(&[][..], |point| &point.names);
        names.iter().map(String::as_str).filter(|name| self.has(name)).collect()
    }

    /// The figures that are shown where none is asked for, of those that there are.
    pub fn usual(&self) -> Vec<&'static str> {
        USUAL.into_iter().filter(|name| self.has(name)).collect()
    }

    /// Whether any point has a figure.
    pub fn has(&self, name: &str) -> bool {
        self.points.iter().any(|point| point.figure(name).is_some())
    }

    /// The variant of a point, where there are several.
    pub fn variant(&self, point: &PointReport) -> Option<String> {
        (self.variants.len() > 1).then(|| self.variants[point.variant].clone())
    }

    /// All of it as JSON; equal sweeps give equal bytes.
    pub fn json(&self) -> serde_json::Value {
        let of_point = |point: &PointReport| {
            let settings = self.paths.iter().zip(&point.settings);
            let settings = settings.map(|(path, value)| (path.clone(), json!(value)));
            let figures = point.figures().map(|(name, found)| {
                let value = json!({ "mean": found.mean, "within_95_pct": found.within });
                (name.to_owned(), value)
            });
            json!({
                "point": point.index,
                "variant": self.variants[point.variant],
                "settings": settings.collect::<Map<_, _>>(),
                "runs": point.runs,
                "errors": point.errors,
                "warnings": point.warnings,
                "figures": figures.collect::<Map<_, _>>(),
            })
        };
        json!({
            "name": self.name,
            "shard": self.shard,
            "runs": self.runs,
            "failed": self.points.iter().map(|point| point.errors.len()).sum::<usize>(),
            "points": self.points.iter().map(of_point).collect::<Vec<_>>(),
        })
    }
}

impl PointReport {
    /// A figure over the runs of the point.
    pub fn figure(&self, name: &str) -> Option<Estimate> {
        self.figures().find(|(known, _)| *known == name).map(|(_, found)| found)
    }

    /// All figures that its runs have, by name.
    pub fn figures(&self) -> impl Iterator<Item = (&str, Estimate)> {
        let figures = self.names.iter().zip(&self.figures);
        figures.filter_map(|(name, found)| Some((name.as_str(), (*found)?)))
    }

    /// A setting as a number, if it is one.
    pub fn number(&self, axis: usize) -> Option<f64> {
        number(self.settings.get(axis)?)
    }

    /// A setting as people read it.
    pub fn text(&self, axis: usize) -> String {
        self.settings.get(axis).map(text).unwrap_or_default()
    }
}

/// What runs are warned of, the first of each kind, and every caveat.
fn first_of_each_kind(runs: &[Entry]) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    for warning in runs.iter().flat_map(|run| &run.warnings) {
        if !found.iter().any(|known| known.topic() == warning.topic()) {
            found.push(warning.clone());
        }
    }
    found
}

/// The last keys of the paths that are varied; whole paths where two end alike.
fn titles(plan: &Plan) -> Vec<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let paths: Vec<&str> = plan.axes.iter().map(|axis| axis.path.as_str()).collect();
    let is_alone = |path: &str| paths.iter().filter(|one| last(one) == last(path)).count() == 1;
    paths.iter().map(|path| if is_alone(path) { last(path) } else { (*path).to_owned() }).collect()
}
