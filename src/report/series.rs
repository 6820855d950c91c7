//! The points of a sweep as lines: which setting is to the right, and which points are on a line.

use crate::sweep::{Design, PointReport, Report};

/// The share of requests within their limits below which a cluster is taken for full.
pub(super) const KNEE: f64 = 0.95;

/// Points on a line.
#[derive(Debug)]
pub(super) struct Series {
    /// The variant and the settings that its points share; empty where nothing else varies.
    pub(super) name: String,
    /// Where each point is, and its place in the sweep; to the right in rising order.
    pub(super) points: Vec<(f64, usize)>,
}

/// A sweep over one of its settings.
#[derive(Debug)]
pub(super) struct Lines {
    /// Which setting: the one with most levels that are numbers.
    pub(super) axis: usize,
    /// In the order of the sweep.
    pub(super) series: Vec<Series>,
    /// Whether points of a series differ in nothing else; of a design that draws its points, they do.
    pub(super) is_joined: bool,
}

impl Lines {
    /// Nothing where no setting takes two numbers.
    pub(super) fn new(told: &Report) -> Option<Self> {
        let axes = numeric(told);
        // Of several with equally many levels the last, which varies fastest.
        let (axis, _) = axes.iter().copied().max_by_key(|(axis, levels)| (*levels, *axis))?;
        let is_grid = told.design == Design::Grid;
        let moves_along = |other: usize| !is_grid && axes.iter().any(|(known, _)| *known == other);
        let mut lines =
            Self { axis, series: Vec::new(), is_joined: is_grid || told.design == Design::Zip };
        for (place, point) in told.points.iter().enumerate() {
            let Some(x) = point.number(axis) else { continue };
            let others =
                (0..told.paths.len()).filter(|other| *other != axis && !moves_along(*other));
            let name = name(told, point, others);
            match lines.series.iter_mut().find(|one| one.name == name) {
                Some(series) => series.points.push((x, place)),
                None => lines.series.push(Series { name, points: vec![(x, place)] }),
            }
        }
        for series in &mut lines.series {
            series.points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        Some(lines)
    }
}

/// The axes of which all values are numbers, at least two of them, and how many they are.
pub(super) fn numeric(told: &Report) -> Vec<(usize, usize)> {
    let levels = |axis: usize| {
        let values = told.points.iter().map(|point| point.number(axis));
        let mut values = values.collect::<Option<Vec<f64>>>()?;
        values.sort_by(f64::total_cmp);
        values.dedup();
        (values.len() > 1).then_some((axis, values.len()))
    };
    (0..told.paths.len()).filter_map(levels).collect()
}

/// What tells a series from others.
fn name(told: &Report, point: &PointReport, others: impl Iterator<Item = usize>) -> String {
    let settings = others.map(|axis| format!("{} {}", told.titles[axis], point.text(axis)));
    told.variant(point).into_iter().chain(settings).collect::<Vec<_>>().join(", ")
}
