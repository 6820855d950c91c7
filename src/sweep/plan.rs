//! Which runs a sweep has, and in which order.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::axis::{Axis, Levels};
use super::design::Design;

/// The most runs of one sweep: all their figures are held in memory when it ends.
pub const RUNS_MAX: u32 = 100_000;

/// What is swept over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The names of the scenario and its variants; each has every point of the design.
    pub variants: Vec<String>,
    /// What is varied.
    pub axes: Vec<Axis>,
    /// Which combinations.
    pub design: Design,
    /// Runs of each point, with different seeds.
    pub seeds: u32,
}

/// A rule that a plan breaks: what, and which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct BrokenRule {
    /// The path of the axis, or a property of the plan.
    pub place: String,
    /// The rule and the value.
    pub problem: String,
}

/// All points of a plan: variant by variant, within one as the design orders them.
#[derive(Debug, Clone)]
pub struct Points {
    paths: Vec<String>,
    /// The values of each axis.
    columns: Vec<Vec<Value>>,
    is_product: bool,
    of_variant: u32,
    variants: u32,
}

/// A variant and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Which of the variants, from 0.
    pub variant: usize,
    /// Values by path, in the order of the axes.
    pub settings: Vec<(String, Value)>,
}

/// One of several equal parts of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Shard {
    /// Whether it has this run, counted from 0 over all points and their seeds.
    pub fn has(self, run: u32) -> bool {
        run % self.count == self.index - 1
    }
}

impl Plan {
    /// Its points.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn points(&self) -> Result<Points, BrokenRule> {
        let fail =
            |place: &str, problem: String| Err(BrokenRule { place: place.to_owned(), problem });
        if self.seeds == 0 {
            return fail("seeds", "must be at least 1, got 0".to_owned());
        }
        if let Design::Random { points: 0, .. } | Design::LatinHypercube { points: 0, .. } =
            self.design
        {
            return fail("points", "must be at least 1, got 0".to_owned());
        }
        for (index, axis) in self.axes.iter().enumerate() {
            if self.axes[..index].iter().any(|before| before.path == axis.path) {
                return fail(&axis.path, "is varied twice".to_owned());
            }
            if let Some(problem) = axis.levels.problem().or_else(|| self.uncounted(axis)) {
                return fail(&axis.path, problem);
            }
        }
        self.check_size()?;
        let columns = self.axes.iter().enumerate();
        let columns: Vec<Vec<Value>> =
            columns.map(|(index, axis)| self.design.column(index, axis)).collect();
        let lengths = columns.iter().map(Vec::len);
        let of_variant = match self.design {
            Design::Grid => lengths.product(),
            Design::Zip => lengths.max().unwrap_or(1),
            Design::Random { points, .. } | Design::LatinHypercube { points, .. } => {
                points as usize
            }
        };
        if self.design == Design::Zip
            && let Some(at) = columns.iter().position(|one| one.len() != of_variant)
        {
            let got = columns[at].len();
            let problem =
                format!("has {got} values, another axis {of_variant}: pairs need equally many");
            return fail(&self.axes[at].path, problem);
        }
        Ok(Points {
            paths: self.axes.iter().map(|axis| axis.path.clone()).collect(),
            columns,
            is_product: self.design == Design::Grid,
            of_variant: of_variant as u32,
            variants: self.variants.len() as u32,
        })
    }

    /// A range whose levels are counted where they are drawn, or not counted where they are not.
    fn uncounted(&self, axis: &Axis) -> Option<String> {
        let Levels::Range(range) = &axis.levels else { return None };
        if self.design.is_drawn() {
            let count = range.count?;
            return Some(format!("{count} levels are for grids; this design draws from the range"));
        }
        axis.levels.count().is_none().then(|| {
            "how many levels? End the range with their number, as in 0.1..10:log:8".to_owned()
        })
    }

    /// Before anything is listed that may be too long to be.
    fn check_size(&self) -> Result<(), BrokenRule> {
        let levels = self.axes.iter().map(|axis| u128::from(axis.levels.count().unwrap_or(1)));
        let of_variant = match self.design {
            Design::Grid => levels.fold(1, u128::saturating_mul),
            Design::Zip => levels.max().unwrap_or(1),
            Design::Random { points, .. } | Design::LatinHypercube { points, .. } => points.into(),
        };
        let points = of_variant.saturating_mul(self.variants.len() as u128);
        let runs = points.saturating_mul(u128::from(self.seeds));
        if runs <= u128::from(RUNS_MAX) {
            return Ok(());
        }
        let seeds = self.seeds;
        let problem =
            format!("{points} points with {seeds} seeds are {runs} runs, more than {RUNS_MAX}");
        Err(BrokenRule { place: "points".to_owned(), problem })
    }
}

impl Points {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.variants * self.of_variant
    }

    /// The point of this index, from 0.
    pub fn get(&self, index: u32) -> Point {
        let mut rest = (index % self.of_variant) as usize;
        let mut settings: Vec<(String, Value)> = Vec::with_capacity(self.columns.len());
        for (path, column) in self.paths.iter().zip(&self.columns).rev() {
            let place = if self.is_product { rest % column.len() } else { rest };
            if self.is_product {
                rest /= column.len();
            }
            settings.push((path.clone(), column[place].clone()));
        }
        settings.reverse();
        Point { variant: (index / self.of_variant) as usize, settings }
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Point> {
        (0..self.count()).map(|index| self.get(index))
    }
}
