//! What a study varies: the table `sweep` of its file, and what the command line adds.

use serde::Deserialize;
use toml::Value;

use super::args::{DesignName, SweepArguments};
use crate::cli::Failure;
use crate::cli::vary;
use crate::load::Draft;
use crate::scenario::ScenarioFile;
use crate::sweep::{Axis, BrokenRule, Design, Levels, Plan, Point, Points};

/// What a study varies.
#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct SweepTable {
    /// The settings that are varied; the last one varies fastest.
    #[serde(default)]
    axes: Vec<AxisTable>,
    /// Which combinations of values are points.
    #[serde(default)]
    design: DesignName,
    /// How many points are drawn.
    points: Option<u32>,
    /// Runs of each point, with different seeds; 1 if absent.
    seeds: Option<u32>,
}

/// A setting that is varied.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct AxisTable {
    /// The path of its key, such as `cluster.replicas`.
    path: String,
    /// A list, or text as `--vary` takes it, such as `1..16`.
    #[schemars(with = "AxisValues")]
    values: Value,
}

/// The schema of values.
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes")]
enum AxisValues {
    List(Vec<serde_json::Value>),
    Text(String),
}

/// A scenario and its variants, and where they are run.
#[derive(Debug)]
pub(super) struct Study {
    pub(super) drafts: Vec<Draft>,
    pub(super) plan: Plan,
    pub(super) points: Points,
}

/// Reads a study, and checks that every point of it is a scenario by its form.
pub(super) fn read(arguments: &SweepArguments) -> Result<Study, Failure> {
    let path = &arguments.scenario;
    let read = arguments.changes.changes()?.load_study(Some(path))?;
    let table = read.sweep.map_or_else(|| Ok(SweepTable::default()), Value::try_into);
    let name = path.display();
    let table = table.map_err(|error| {
        let problem = error.to_string();
        let problem = problem.trim().lines().next().unwrap_or_default();
        Failure::input(format!("{name}: sweep: {problem}"))
    })?;
    let plan = plan(arguments, table, &read.each)?;
    let points = plan.points().map_err(|error| refused(&error))?;
    if plan.axes.is_empty() && plan.variants.len() == 1 && plan.seeds == 1 {
        return Err(Failure::input(format!(
            "{name}: nothing varies; give --vary PATH=VALUES, --seeds N, a table `sweep`, or variants"
        )));
    }
    let study = Study { drafts: read.each, plan, points };
    study.points.iter().try_for_each(|point| study.check(&point))?;
    Ok(study)
}

fn refused(error: &BrokenRule) -> Failure {
    Failure::input(format!("sweep: {error}"))
}

fn plan(arguments: &SweepArguments, table: SweepTable, drafts: &[Draft]) -> Result<Plan, Failure> {
    let mut axes = Vec::new();
    for AxisTable { path, values } in table.axes {
        let levels = match values {
            Value::Array(values) => Ok(Levels::List(values)),
            Value::String(text) => vary::levels(&text),
            other => Err(format!("must be a list or text, got {other}")),
        };
        let levels =
            levels.map_err(|problem| Failure::input(format!("sweep: {path}: {problem}")))?;
        axes.push(Axis { path, levels });
    }
    // A flag takes the place of an axis of the file; two flags for one setting are a mistake.
    let of_file = axes.len();
    for text in &arguments.vary {
        let axis = vary::axis(text)?;
        match axes[..of_file].iter_mut().find(|before| before.path == axis.path) {
            Some(before) if !arguments.is_given_twice(&axis.path) => *before = axis,
            _ => axes.push(axis),
        }
    }
    check_paths(&axes)?;
    let (points, seed) = (arguments.points.or(table.points), drafts[0].seed());
    let design = arguments.design.unwrap_or(table.design);
    let design = match (design, points) {
        (DesignName::Grid, None) => Design::Grid,
        (DesignName::Zip, None) => Design::Zip,
        (DesignName::Random, Some(points)) => Design::Random { points, seed },
        (DesignName::LatinHypercube, Some(points)) => Design::LatinHypercube { points, seed },
        (DesignName::Grid | DesignName::Zip, Some(points)) => {
            return Err(Failure::input(format!(
                "sweep: points: {points} are drawn by the designs `random` and `latin-hypercube`; \
                 the others have the points of their values"
            )));
        }
        (DesignName::Random | DesignName::LatinHypercube, None) => {
            return Err(Failure::input("sweep: points: how many? give --points N"));
        }
    };
    let variants = drafts.iter().map(|draft| draft.title().to_owned()).collect();
    let seeds = arguments.seeds.or(table.seeds).unwrap_or(1);
    Ok(Plan { variants, axes, design, seeds })
}

impl SweepArguments {
    fn is_given_twice(&self, path: &str) -> bool {
        let paths = self.vary.iter().filter_map(|text| text.split_once('='));
        paths.filter(|(known, _)| known.trim() == path).count() > 1
    }
}

/// Settings that are not varied by an axis.
fn check_paths(axes: &[Axis]) -> Result<(), Failure> {
    for axis in axes {
        let hint = match axis.path.as_str() {
            "seed" | "workload.tool_seed" => "is not varied; --seeds N runs every point N times",
            "name" => "is a title; vary what it stands for",
            "" => "the path is empty",
            _ => continue,
        };
        return Err(Failure::input(format!("sweep: {}: {hint}", axis.path)));
    }
    Ok(())
}

impl Study {
    /// The scenario of a point, with the seed of its first run.
    pub(super) fn draft(&self, point: &Point) -> Result<Draft, Failure> {
        let mut draft = self.drafts[point.variant].clone();
        for (path, value) in &point.settings {
            draft.put(path, value.clone())?;
        }
        Ok(draft)
    }

    fn check(&self, point: &Point) -> Result<(), Failure> {
        Ok(self.draft(point)?.read::<ScenarioFile>().map(drop)?)
    }
}
