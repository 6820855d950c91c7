//! What a sweep varies: the table `sweep` of its file, and what is asked beside it.

use std::path::Path;

use serde::Deserialize;
use toml::Value;

use super::axis::{Axis, Levels};
use super::design::Design;
use super::error::SweepError;
use super::plan::{BrokenRule, Plan, Point, Points};
use super::text;
use crate::load::{Changes, Draft, Drafts, LoadError, Origin};
use crate::problem::Problem;
use crate::scenario::ScenarioFile;

/// What a study varies.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepTable {
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
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct AxisTable {
    /// The path of its key, such as `cluster.replicas`.
    path: String,
    /// A list, or text as `--vary` takes it, such as `1..16`.
    #[cfg_attr(feature = "cli", schemars(with = "AxisValues"))]
    values: Value,
}

/// The schema of values.
#[cfg(feature = "cli")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes")]
enum AxisValues {
    List(Vec<serde_json::Value>),
    Text(String),
}

/// Which combinations of values are points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DesignName {
    /// Every value of each setting with every value of the others
    #[default]
    Grid,
    /// The first values of all settings together, then the second ones, and so on
    Zip,
    /// Values drawn independently
    Random,
    /// Values drawn so that every setting is spread evenly over its range
    LatinHypercube,
}

/// What is asked beside what the file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vary {
    /// Settings with their values; one that the file varies too is varied over these.
    pub axes: Vec<Axis>,
    /// Which combinations are points; as the file says if absent, and a grid where it says nothing.
    pub design: Option<DesignName>,
    /// How many points are drawn, of designs that draw them.
    pub points: Option<u32>,
    /// Runs of each point, with different seeds; as the file says if absent, and 1 where it says nothing.
    pub seeds: Option<u32>,
}

impl Vary {
    /// Nothing but these settings, as in `cluster.replicas=1..4`.
    ///
    /// # Errors
    /// When one has no values, or a range is none.
    pub fn over<'a>(axes: impl IntoIterator<Item = &'a str>) -> Result<Self, BrokenRule> {
        let axes = axes.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { axes, ..Self::default() })
    }

    /// The same with so many runs of each point.
    #[must_use]
    pub fn with_seeds(self, seeds: u32) -> Self {
        Self { seeds: Some(seeds), ..self }
    }

    /// Axes of the file and those that are asked for. Two of the latter for one setting are a mistake, which
    /// the plan tells.
    fn axes(&self, table: Vec<AxisTable>) -> Result<Vec<Axis>, BrokenRule> {
        let mut axes = table.into_iter().map(AxisTable::axis).collect::<Result<Vec<_>, _>>()?;
        let of_file = axes.len();
        for axis in &self.axes {
            let is_given_twice = self.axes.iter().filter(|one| one.path == axis.path).count() > 1;
            match axes[..of_file].iter_mut().find(|before| before.path == axis.path) {
                Some(before) if !is_given_twice => before.clone_from(axis),
                _ => axes.push(axis.clone()),
            }
        }
        axes.iter().try_for_each(check_path)?;
        Ok(axes)
    }

    fn plan(&self, table: SweepTable, drafts: &[Draft]) -> Result<Plan, BrokenRule> {
        let axes = self.axes(table.axes)?;
        let (points, seed) = (self.points.or(table.points), drafts[0].seed());
        let design = match (self.design.unwrap_or(table.design), points) {
            (DesignName::Grid, None) => Design::Grid,
            (DesignName::Zip, None) => Design::Zip,
            (DesignName::Random, Some(points)) => Design::Random { points, seed },
            (DesignName::LatinHypercube, Some(points)) => Design::LatinHypercube { points, seed },
            (DesignName::Grid | DesignName::Zip, Some(points)) => {
                let problem = format!(
                    "{points} are drawn by the designs `random` and `latin-hypercube`; the others have the \
                     points of their values"
                );
                return Err(BrokenRule { place: "points".to_owned(), problem });
            }
            (DesignName::Random | DesignName::LatinHypercube, None) => {
                let problem = "how many? give --points N".to_owned();
                return Err(BrokenRule { place: "points".to_owned(), problem });
            }
        };
        let variants = drafts.iter().map(|draft| draft.title().to_owned()).collect();
        Ok(Plan { variants, axes, design, seeds: self.seeds.or(table.seeds).unwrap_or(1) })
    }
}

impl AxisTable {
    fn axis(self) -> Result<Axis, BrokenRule> {
        let Self { path, values } = self;
        let levels = match values {
            Value::Array(values) => Ok(Levels::List(values)),
            Value::String(text) => text::levels(&text),
            other => Err(format!("must be a list or text, got {other}")),
        };
        match levels {
            Ok(levels) => Ok(Axis { path, levels }),
            Err(problem) => Err(BrokenRule { place: path, problem }),
        }
    }
}

/// Settings that are not varied by an axis.
fn check_path(axis: &Axis) -> Result<(), BrokenRule> {
    let hint = match axis.path.as_str() {
        "seed" | "workload.tool_seed" => "is not varied; --seeds N runs every point N times",
        "name" => "is a title; vary what it stands for",
        "" => "the path is empty",
        _ => return Ok(()),
    };
    Err(BrokenRule { place: axis.path.clone(), problem: hint.to_owned() })
}

/// A scenario and its variants, and the points at which they are run.
///
/// ```
/// # #[cfg(feature = "sweep")] {
/// use servecast::load::Changes;
/// use servecast::Sweep;
/// use servecast::sweep::{Vary, Watch};
///
/// let vary = Vary::over(["workload.num_requests=20", "cluster.replicas=1,2"])?.with_seeds(3);
/// let sweep = Sweep::built_in(&Changes::default(), &vary)?;
/// let report = sweep.run(&Watch::default())?.report();
/// for point in &report.points {
///     let ttft = point.figure("p99_ttft_ms").expect("requests were answered");
///     println!("{:?}: P99 TTFT {:.0} ms", point.settings, ttft.mean);
/// }
/// // The scenario has a variant, which is run at both points too.
/// assert_eq!((report.points.len(), report.runs), (4, 12));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sweep {
    pub(super) drafts: Vec<Draft>,
    plan: Plan,
    points: Points,
}

impl Sweep {
    /// Reads a scenario file with its variants and what it varies. Every point is a scenario by its form.
    ///
    /// # Errors
    /// When the file cannot be read, nothing varies, or a rule is broken.
    pub fn load(
        path: impl AsRef<Path>,
        changes: &Changes,
        vary: &Vary,
    ) -> Result<Self, SweepError> {
        Self::of(changes.load_study(Some(path.as_ref()))?, vary)
    }

    /// The same of the scenario that `servecast run` simulates when none is given.
    ///
    /// # Errors
    /// When nothing varies, or a rule is broken.
    pub fn built_in(changes: &Changes, vary: &Vary) -> Result<Self, SweepError> {
        Self::of(changes.load_study(None)?, vary)
    }

    /// The same of a scenario that was read already, with its variants and what it varies.
    ///
    /// # Errors
    /// When nothing varies, or a rule is broken.
    ///
    /// # Panics
    /// When there is no scenario.
    pub fn of(read: Drafts, vary: &Vary) -> Result<Self, SweepError> {
        let name = read.each[0].name().to_owned();
        let fail = |place: &str, rule: &str| -> LoadError {
            Origin::File(name.clone()).fail(Problem::new(place, rule))
        };
        let table = read.sweep.map_or_else(|| Ok(SweepTable::default()), Value::try_into);
        let table = table.map_err(|error| {
            let problem = error.to_string();
            fail("sweep", problem.trim().lines().next().unwrap_or_default())
        })?;
        let plan = vary.plan(table, &read.each)?;
        let points = plan.points()?;
        if plan.axes.is_empty() && plan.variants.len() == 1 && plan.seeds == 1 {
            let rule =
                "nothing varies; give --vary PATH=VALUES, --seeds N, a table `sweep`, or variants";
            return Err(fail("", rule).into());
        }
        let sweep = Self { drafts: read.each, plan, points };
        for point in sweep.points.iter() {
            sweep.draft(&point)?.read::<ScenarioFile>()?;
        }
        Ok(sweep)
    }

    /// What is varied.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Its points.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// The scenario of a point, with the seed of its first run.
    ///
    /// # Errors
    /// When a setting has no place in it.
    pub fn draft(&self, point: &Point) -> Result<Draft, LoadError> {
        let mut draft = self.drafts[point.variant].clone();
        for (path, value) in &point.settings {
            draft.put(path, value.clone())?;
        }
        Ok(draft)
    }
}
