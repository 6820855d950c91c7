//! What the folder of a sweep tells to those who show it.

use std::path::Path;

use toml::Value;

use super::folder::{JOURNAL, Manifest};
use super::journal::{self, Entry};
use super::report::{USUAL, by_point, titles};
use super::table;
use crate::cli::Failure;
use crate::sweep::{Design, Estimate, Estimator};

/// A sweep.
#[derive(Debug)]
pub(in crate::cli) struct Told {
    /// Of its scenario.
    pub(in crate::cli) name: String,
    /// The version that computed it.
    pub(in crate::cli) servecast: String,
    /// What is varied: paths.
    pub(in crate::cli) paths: Vec<String>,
    /// The same, as short as they can be told apart.
    pub(in crate::cli) titles: Vec<String>,
    /// Of the scenario and its variants.
    pub(in crate::cli) variants: Vec<String>,
    /// Which combinations.
    pub(in crate::cli) design: Design,
    /// Runs of each point.
    pub(in crate::cli) seeds: u32,
    /// The seeds of the first point's runs.
    pub(in crate::cli) first_seeds: Vec<u64>,
    /// Runs that have ended.
    pub(in crate::cli) runs: usize,
    /// Runs that it has when all have ended.
    pub(in crate::cli) planned: u32,
    /// Points of which a run has ended.
    pub(in crate::cli) points: Vec<ToldPoint>,
}

/// A point of a sweep.
#[derive(Debug)]
pub(in crate::cli) struct ToldPoint {
    /// From 0.
    pub(in crate::cli) index: u32,
    /// Which of the variants.
    pub(in crate::cli) variant: usize,
    /// By axis.
    pub(in crate::cli) settings: Vec<Value>,
    /// Why runs failed.
    pub(in crate::cli) errors: Vec<String>,
    /// In the order in which runs tell them.
    figures: Vec<(String, Estimate)>,
}

impl Told {
    /// Reads a folder; nothing where it holds no sweep.
    pub(in crate::cli) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let Some(manifest) = Manifest::read(folder)? else { return Ok(None) };
        let latest = journal::latest(&folder.join(JOURNAL), &manifest.sweep)?;
        let entries: Vec<Entry> = latest.into_values().collect();
        let points = table::points(&manifest)?;
        let names = table::figures(&entries);
        let mut estimator = Estimator::default();
        let of_point = by_point(&entries).map(|runs| {
            let point = points.get(runs.index);
            let figures = names
                .iter()
                .filter_map(|name| Some((name.clone(), estimator.estimate(&runs.values(name))?)));
            ToldPoint {
                index: runs.index,
                variant: point.variant,
                settings: point.settings.into_iter().map(|(_, value)| value).collect(),
                figures: figures.collect(),
                errors: runs.errors().map(str::to_owned).collect(),
            }
        });
        let of_point: Vec<ToldPoint> = of_point.collect();
        let first = entries.first().map(|entry| entry.point);
        let seeds = entries.iter().filter(|entry| Some(entry.point) == first);
        Ok(Some(Self {
            titles: titles(&manifest),
            first_seeds: seeds.map(|entry| entry.seed).collect(),
            runs: entries.len(),
            planned: points.count() * manifest.plan.seeds,
            points: of_point,
            name: manifest.name,
            servecast: manifest.servecast,
            paths: manifest.plan.axes.into_iter().map(|axis| axis.path).collect(),
            variants: manifest.plan.variants,
            design: manifest.plan.design,
            seeds: manifest.plan.seeds,
        }))
    }

    /// The figures that are shown where nothing is asked for, of those that there are.
    pub(in crate::cli) fn usual(&self) -> Vec<&'static str> {
        USUAL.into_iter().filter(|name| self.has(name)).collect()
    }

    /// Whether any point has a figure.
    pub(in crate::cli) fn has(&self, name: &str) -> bool {
        self.points.iter().any(|point| point.figure(name).is_some())
    }

    /// The variant of a point, where there are several.
    pub(in crate::cli) fn variant(&self, point: &ToldPoint) -> Option<String> {
        (self.variants.len() > 1).then(|| self.variants[point.variant].clone())
    }

    /// The value of a point on an axis, as people read it.
    pub(in crate::cli) fn text(value: &Value) -> String {
        table::text(value)
    }
}

impl ToldPoint {
    /// A figure over the runs of the point.
    pub(in crate::cli) fn figure(&self, name: &str) -> Option<Estimate> {
        self.figures.iter().find(|(known, _)| known == name).map(|(_, found)| *found)
    }

    /// A setting as a number, if it is one.
    pub(in crate::cli) fn number(&self, axis: usize) -> Option<f64> {
        table::number(self.settings.get(axis)?)
    }
}
