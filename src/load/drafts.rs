//! Scenarios with their variants and their calibration, from files, texts and tables.

#[cfg(feature = "cli")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::{Table, Value};

use super::Loaded;
use super::calibration::{
    parse_calibration, put_calibration, put_calibration_of_run, read_calibration,
};
use super::draft::Draft;
use super::error::{LoadError, Origin, fail};
use super::file::{deserialize, parse, put_seed, read};
use super::overrides::{Override, put_all};
use super::settings::set;
use crate::calibration::CalibrationFile;
use crate::problem::Problem;
use crate::resolved::Unstated;
#[cfg(feature = "cli")]
use crate::scenario::MeasuredConfig;
use crate::scenario::ScenarioFile;

/// A change to the scenario that is run beside it, on the same requests.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// A title for reports.
    name: String,
    /// Values by the path of their key, such as `cluster.replicas`.
    #[serde(default)]
    #[cfg_attr(feature = "cli", schemars(with = "BTreeMap<String, serde_json::Value>"))]
    set: Table,
    /// Figures measured of it.
    #[serde(default)]
    #[cfg_attr(feature = "cli", schemars(with = "Option<MeasuredConfig>"))]
    measured: Option<Value>,
}

/// A scenario and its variants, as they are typed.
#[derive(Debug)]
pub struct Drafts {
    /// The scenario, and then its variants.
    pub each: Vec<Draft>,
    /// Parameters that the file wants fitted.
    pub fit: Option<Value>,
    /// Whose parameters are set.
    pub calibration: Option<Arc<CalibrationFile>>,
    /// What a study varies.
    pub sweep: Option<Value>,
}

/// Reads a scenario file in TOML, YAML or JSON. Variants of it are left out; [`load_all`] has them.
///
/// # Errors
/// When the file cannot be read, or is a study of many runs.
pub fn load(path: impl AsRef<Path>) -> Result<Draft, LoadError> {
    Ok(load_all(path)?.each.swap_remove(0))
}

/// Reads a scenario file and its variants, the scenario first.
///
/// # Errors
/// When the file cannot be read, or is a study of many runs.
pub fn load_all(path: impl AsRef<Path>) -> Result<Drafts, LoadError> {
    Changes::default().load(Some(path.as_ref()))
}

/// Reads a scenario in TOML. Paths in it are relative to the working directory.
///
/// # Errors
/// When the text is none.
pub fn from_text(text: &str) -> Result<Draft, LoadError> {
    Ok(single(Changes::default().of_text("scenario", text)?)?.each.swap_remove(0))
}

/// The scenario that `servecast run` simulates when none is given.
///
/// # Panics
/// Never: it is part of the library.
pub fn built_in() -> Draft {
    let all = Changes::default().load(None).expect("the built-in scenario is one");
    all.each.into_iter().next().expect("there is a scenario")
}

/// What is otherwise than a file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// A file of parameters, in place of the one that the scenario names.
    pub calibration: Option<PathBuf>,
    /// Settings, which come before those of the file and of its calibration.
    pub overrides: Vec<Override>,
    /// The seed of every random stream.
    pub seed: Option<u64>,
}

impl Changes {
    /// Nothing but these settings.
    pub fn set(overrides: &[Override]) -> Self {
        Self { overrides: overrides.to_vec(), ..Self::default() }
    }

    /// Reads a scenario file, or that in the folder of a run, or the built-in scenario, and its variants.
    ///
    /// # Errors
    /// When the file cannot be read, or is a study of many runs.
    pub fn load(&self, path: Option<&Path>) -> Result<Drafts, LoadError> {
        single(self.load_study(path)?)
    }

    /// A scenario in TOML and its variants, by their name in messages; it may say what a study varies. Paths in it are
    /// relative to the working directory.
    ///
    /// # Errors
    /// When the text is none, or a change has no place in it.
    pub fn of_text(&self, name: &str, text: &str) -> Result<Drafts, LoadError> {
        self.of_table(name, parse(name, None, text)?)
    }

    /// The same of a table of settings.
    ///
    /// # Errors
    /// When the calibration that it names cannot be read, or a change has no place in it.
    pub fn of_table(&self, name: &str, mut root: Table) -> Result<Drafts, LoadError> {
        put_seed(&mut root, self.seed)?;
        calibrated(name, root, Path::new(""), self.calibration.as_deref(), &self.overrides)
    }

    /// The same, of a file that may say what a study varies.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load_study(&self, path: Option<&Path>) -> Result<Drafts, LoadError> {
        let (name, mut root, folder) = read(path)?;
        put_seed(&mut root, self.seed)?;
        calibrated(&name, root, &folder, self.calibration.as_deref(), &self.overrides)
    }
}

/// Refuses a study of many runs.
fn single(drafts: Drafts) -> Result<Drafts, LoadError> {
    match (&drafts.sweep, drafts.each.first()) {
        (Some(_), Some(draft)) => Err(fail(
            draft.name(),
            "sweep: this file describes a study of many runs; run it with `servecast sweep`, or remove the table",
        )),
        _ => Ok(drafts),
    }
}

/// The drafts of a file with the parameters of a calibration, else of the one that the file names.
fn calibrated(
    name: &str,
    mut root: Table,
    folder: &Path,
    calibration: Option<&Path>,
    overrides: &[Override],
) -> Result<Drafts, LoadError> {
    let named = root.remove("calibration");
    let calibration = match (calibration, named) {
        (Some(path), _) => Some(read_calibration(path)?),
        (None, Some(Value::String(path))) => Some(read_calibration(&folder.join(path))?),
        (None, Some(other)) => {
            return Err(fail(name, format_args!("calibration: must be a path, got {other}")));
        }
        (None, None) => None,
    };
    drafts_of(name, root, folder, calibration, overrides)
}

/// Resolves a scenario that is part of the binary, and its variants, with the calibration that is
/// part of it too; or the reason it gives why it is not simulated.
pub fn load_built_in(
    name: &str,
    text: &str,
    calibration: Option<&str>,
    overrides: &[Override],
) -> Result<Result<Vec<Loaded>, String>, LoadError> {
    let mut root = parse(name, None, text)?;
    if let Some(Value::String(reason)) = root.remove("not_simulated") {
        return Ok(Err(reason));
    }
    root.remove("calibration");
    let calibration = calibration.map(|text| parse_calibration(name, text)).transpose()?;
    let drafts = drafts_of(name, root, Path::new(""), calibration, overrides)?;
    drafts.each.iter().map(Draft::resolve).collect::<Result<Vec<_>, _>>().map(Ok)
}

/// Resolves a scenario that was put together from flags, after the overrides.
pub fn from_flags(file: &ScenarioFile, overrides: &[Override]) -> Result<Loaded, LoadError> {
    let draft = Draft::of("scenario", file, Path::new(""))?;
    let mut draft = draft.of_server(Unstated::TYPICAL);
    put_all(&mut draft.root, overrides)?;
    draft.overridden(overrides).resolve()
}

fn drafts_of(
    name: &str,
    mut root: Table,
    folder: &Path,
    calibration: Option<CalibrationFile>,
    overrides: &[Override],
) -> Result<Drafts, LoadError> {
    let calibration = calibration.map(Arc::new);
    let variants = root.remove("variants");
    let fit = root.remove("fit");
    let sweep = root.remove("sweep");
    if let Some(calibration) = &calibration {
        put_calibration(name, &mut root, calibration)?;
    }
    put_all(&mut root, overrides)?;
    let draft = |name: String, root| {
        Draft::typed(name, root, folder).overridden(overrides).calibrated(calibration.clone())
    };
    let mut drafts = vec![draft(name.to_owned(), root.clone())];
    for variant in read_variants(name, variants, &root)? {
        let title = format!("{name}: variant `{}`", variant.name);
        drafts.push(draft(title, varied(name, root.clone(), variant)?));
    }
    if let Some(calibration) = &calibration {
        for draft in &mut drafts {
            put_of_run(name, &mut draft.root, calibration, overrides)?;
        }
    }
    Ok(Drafts { each: drafts, fit, calibration, sweep })
}

/// Sets the parameters that some runs have, if this is one of them: after the overrides, which still come before them.
pub(super) fn put_of_run(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
    overrides: &[Override],
) -> Result<(), LoadError> {
    put_calibration_of_run(name, root, calibration)?;
    let of_runs = |given: &Override| {
        let mut own = calibration.parameters.iter().map(|found| &found.parameter);
        own.any(|one| one.runs.is_some() && given.path == one.path)
    };
    let again: Vec<Override> = overrides.iter().filter(|given| of_runs(given)).cloned().collect();
    put_all(root, &again)
}

fn read_variants(
    name: &str,
    variants: Option<Value>,
    root: &Table,
) -> Result<Vec<Variant>, LoadError> {
    let each = match variants {
        None => return Ok(Vec::new()),
        Some(Value::Array(each)) => each,
        Some(other) => {
            let problem = Problem::must_be("variants", "a list of tables, `[[variants]]`", other);
            return Err(Origin::File(name.to_owned()).fail(problem));
        }
    };
    let mut read: Vec<Variant> = Vec::with_capacity(each.len());
    for (place, value) in each.into_iter().enumerate() {
        let wrong = |problem: Problem| {
            Origin::File(name.to_owned()).fail(problem.below(&format!("variants[{place}]")))
        };
        let table = match value {
            Value::Table(table) => table,
            other => return Err(wrong(Problem::must_be("", "a table", other))),
        };
        let variant: Variant = deserialize(&table).map_err(wrong)?;
        check_paths(&variant.set, root).map_err(wrong)?;
        if read.iter().any(|other| other.name == variant.name) {
            let rule = format_args!("variants: the name `{}` is given twice", variant.name);
            return Err(fail(name, rule));
        }
        read.push(variant);
    }
    Ok(read)
}

/// Refuses paths without quotes: TOML makes tables of them, which would take the place of other keys that the scenario has
/// there. A table that has all of these is meant as a whole.
fn check_paths(set: &Table, root: &Table) -> Result<(), Problem> {
    let unquoted = set.iter().find(|(path, value)| match (root.get(*path), value) {
        (Some(Value::Table(there)), Value::Table(new)) => takes_away(there, new),
        _ => false,
    });
    let Some((first, value)) = unquoted else { return Ok(()) };
    let meant = quoted(first, value);
    let rule = if meant.is_empty() {
        "a path must be in quotes and whole, as in `set = { \"cluster.replicas\" = 2 }`".to_owned()
    } else {
        format!("a path must be in quotes; write `set = {{ {} }}`", meant.join(", "))
    };
    Err(Problem::new(format!("set.{first}"), rule))
}

/// Whether keys of a table are none of the one in its place. A table with a `type` within it is meant as a whole.
fn takes_away(there: &Table, new: &Table) -> bool {
    there.iter().any(|(key, value)| match (value, new.get(key)) {
        (_, None) => true,
        (Value::Table(there), Some(Value::Table(new))) => {
            !new.contains_key("type") && takes_away(there, new)
        }
        _ => false,
    })
}

/// What a path without quotes was meant to set, one for each value or table with a `type`, which stays whole.
fn quoted(path: &str, value: &Value) -> Vec<String> {
    match value.as_table() {
        Some(table) if !table.contains_key("type") => {
            let each =
                table.iter().flat_map(|(key, inner)| quoted(&format!("{path}.{key}"), inner));
            each.collect()
        }
        _ => vec![format!("\"{path}\" = {value}")],
    }
}

fn varied(name: &str, mut root: Table, variant: Variant) -> Result<Table, LoadError> {
    for (path, value) in variant.set {
        set(&mut root, &path, value)
            .map_err(|problem| fail(name, format_args!("variants.{}: {problem}", variant.name)))?;
    }
    root.insert("name".to_owned(), Value::String(variant.name));
    match variant.measured {
        Some(measured) => root.insert("measured".to_owned(), measured),
        None => root.remove("measured"),
    };
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_all_keys_is_meant_as_a_whole() {
        let table = |text: &str| -> Table { toml::from_str(text).expect("a table") };
        let root = table(
            "limits = { mean_ttft_ms = 8.0 }\ncluster = { replicas = 1, gpu = 'H100' }\n\
             report = { goodput = { ttft = 500, tpot = 50 } }\n\
             workload = { lengths = { type = 'fixed', input_tokens = 9 } }",
        );
        for set in [
            "limits = { mean_ttft_ms = 6.0, mean_e2el_ms = 4.0 }",
            "trace = { path = 'a.csv' }",
            "report.goodput = { ttft = 300, tpot = 20 }",
            "workload.lengths = { type = 'sampled' }",
        ] {
            assert_eq!(check_paths(&table(set), &root), Ok(()), "{set}");
        }
        for set in [
            "cluster.replicas = 2",
            "report.goodput.ttft = 300",
            "workload.lengths.input_tokens = 5",
        ] {
            assert!(check_paths(&table(set), &root).is_err(), "{set}");
        }
    }
}
