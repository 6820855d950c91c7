//! The table of results: one row per run.

use toml::Value;

use super::folder::Manifest;
use super::journal::Entry;
use crate::cli::Failure;
use crate::io::results::{Cells, NamedCells};
use crate::sweep::{Point, Points};

/// The columns of a sweep: which run, what was varied, its figures, and why it failed.
pub(super) fn columns(manifest: &Manifest, entries: &[Entry]) -> Result<Vec<NamedCells>, Failure> {
    let points = points(manifest)?;
    let of_run: Vec<Point> = entries.iter().map(|entry| points.get(entry.point)).collect();
    let integers = |of: fn(&Entry) -> i64| {
        Cells::Integers(entries.iter().map(|entry| Some(of(entry))).collect())
    };
    let mut columns = vec![("point".to_owned(), integers(|entry| entry.point.into()))];
    let variants = &manifest.plan.variants;
    if variants.len() > 1 {
        let names = of_run.iter().map(|point| Some(variants[point.variant].clone()));
        columns.push(("variant".to_owned(), Cells::Texts(names.collect())));
    }
    columns.push(("seed_number".to_owned(), integers(|entry| entry.seed_number.into())));
    columns.push(("seed".to_owned(), integers(|entry| entry.seed.cast_signed())));
    let keys = entries.iter().map(|entry| Some(entry.scenario.clone()));
    columns.push(("scenario".to_owned(), Cells::Texts(keys.collect())));
    for (place, axis) in manifest.plan.axes.iter().enumerate() {
        let values: Vec<&Value> = of_run.iter().map(|point| &point.settings[place].1).collect();
        columns.push((axis.path.clone(), settings(&values)));
    }
    for name in figures(entries) {
        let values = entries.iter().map(|entry| entry.figure(&name)).collect();
        columns.push((name, Cells::Numbers(values)));
    }
    let errors = entries.iter().map(|entry| entry.error().map(str::to_owned));
    columns.push(("error".to_owned(), Cells::Texts(errors.collect())));
    Ok(columns)
}

/// The points of a sweep.
pub(super) fn points(manifest: &Manifest) -> Result<Points, Failure> {
    manifest.plan.points().map_err(|error| Failure::Input(error.into()))
}

/// A value as people read it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a number, if it is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|number| number as f64))
}

/// The cells of settings: numbers, if all are.
fn settings(values: &[&Value]) -> Cells {
    let integer = |value: &&Value| value.as_integer();
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| is(value));
    if all(Value::is_integer) {
        Cells::Integers(values.iter().map(integer).collect())
    } else if all(|value| number(value).is_some()) {
        Cells::Numbers(values.iter().map(|value| number(value)).collect())
    } else if all(Value::is_bool) {
        Cells::Booleans(values.iter().map(|value| value.as_bool()).collect())
    } else {
        Cells::Texts(values.iter().map(|value| Some(text(value))).collect())
    }
}

/// The figures that any run has, in the order in which the runs tell them.
pub(super) fn figures(entries: &[Entry]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for figures in entries.iter().filter_map(Entry::figures) {
        for (place, (name, _)) in figures.iter().enumerate() {
            // Most runs have the same.
            let is_known = names.get(place).is_some_and(|known| known == name);
            if !is_known && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}
