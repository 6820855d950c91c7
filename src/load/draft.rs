//! Scenarios whose settings can still be changed: a file, its variants, and its calibration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::calibration::{
    parse_calibration, put_calibration, put_calibration_of_run, put_parameter, read_calibration,
};
use super::file::{deserialize, fail, parse, put_seed, read};
use super::settings::{blamed, override_all, set};
use super::{Loaded, resolve};
use crate::calibrate::{CalibrationFile, Parameter};
use crate::cli::Failure;
use crate::cli::args::ChangeArguments;
use crate::rng::Seed;
use crate::scenario::{MeasuredConfig, ScenarioFile};

/// A change to the scenario that is run beside it, on the same requests.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    /// A title for reports.
    name: String,
    /// Values by the path of their key, such as `cluster.replicas`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    set: Table,
    /// Figures measured of it.
    #[serde(default)]
    #[schemars(with = "Option<MeasuredConfig>")]
    measured: Option<Value>,
}

/// A scenario whose settings can still be changed.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Draft {
    /// The file, for messages.
    name: String,
    root: Table,
    folder: PathBuf,
    /// What was overridden, for messages.
    overrides: Vec<String>,
    /// Whose parameters it has.
    calibration: Option<Arc<CalibrationFile>>,
}

impl Draft {
    /// The draft of a scenario that was put together in code, by its name in messages.
    pub(in crate::cli) fn of(
        name: &str,
        file: &ScenarioFile,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let root = Table::try_from(file).map_err(|error| fail(name, &error.to_string()))?;
        let (name, folder) = (name.to_owned(), folder.to_path_buf());
        Ok(Self { name, root, folder, overrides: Vec::new(), calibration: None })
    }

    /// The folder that its paths are relative to.
    pub(in crate::cli) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its requests were recorded with their times.
    #[cfg(feature = "calibrate")]
    pub(in crate::cli) fn is_experiment(&self) -> bool {
        self.root.contains_key("requests")
    }

    /// What the file says, as something else than a scenario.
    pub(in crate::cli) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let read = deserialize(&self.root);
        read.map_err(|problem| Failure::input(blamed(&self.name, &self.overrides, &problem)))
    }

    /// Puts a setting.
    pub(in crate::cli) fn put(
        &mut self,
        path: &str,
        value: impl Into<Value>,
    ) -> Result<(), Failure> {
        set(&mut self.root, path, value.into()).map_err(|problem| fail(&self.name, &problem))
    }

    /// Whether `--set` gives this setting.
    fn is_overridden(&self, path: &str) -> bool {
        let paths = self.overrides.iter().filter_map(|text| text.split_once('='));
        paths.map(|(path, _)| path.trim()).any(|known| known == path)
    }

    /// Its seed.
    pub(in crate::cli) fn seed(&self) -> Seed {
        let given = self.root.get("seed").and_then(Value::as_integer);
        given.map_or_else(Seed::default, |seed| Seed(seed.cast_unsigned()))
    }

    /// The same scenario with the seed of a replica, counted from 1. Scenarios of one seed have the same
    /// requests in each replica.
    pub(in crate::cli) fn reseeded(&self, replica: u32) -> Result<Self, Failure> {
        // Seeds of the benchmark tools are 32 bits.
        let own = self.seed().stream("replica", u64::from(replica)).next_u32();
        let mut draft = self.clone();
        draft.put("seed", i64::from(own))?;
        let workload = self.root.get("workload").and_then(Value::as_table);
        if workload.is_some_and(|workload| workload.contains_key("tool_seed")) {
            draft.put("workload.tool_seed", i64::from(own))?;
        }
        Ok(draft)
    }

    /// Puts a parameter that was fitted or drawn, if it is one of this run.
    pub(in crate::cli) fn put_parameter(
        &mut self,
        parameter: &Parameter,
        value: f64,
    ) -> Result<(), Failure> {
        if !parameter.concerns(self.title()) {
            return Ok(());
        }
        put_parameter(&mut self.root, &parameter.path, value)
            .map_err(|problem| fail(&self.name, &problem))
    }

    /// What a setting says, by the keys that lead to it.
    pub(in crate::cli) fn get(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.root.get(*first)?, |at, key| at.as_table()?.get(*key))
    }

    /// The title of the scenario or variant.
    pub(in crate::cli) fn title(&self) -> &str {
        self.root.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The file, for messages.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// Takes a setting out, by the keys that lead to it.
    pub(in crate::cli) fn clear(&mut self, keys: &[&str]) {
        let Some((last, sections)) = keys.split_last() else { return };
        let mut at = Some(&mut self.root);
        for key in sections {
            at = at.and_then(|table| table.get_mut(*key)).and_then(Value::as_table_mut);
        }
        if let Some(table) = at {
            table.remove(*last);
        }
    }

    pub(in crate::cli) fn resolve(&self) -> Result<Loaded, Failure> {
        let mut loaded = resolve(&self.name, &self.overrides, &self.root, &self.folder)?;
        if let Some(calibration) = &self.calibration {
            let doubts = calibration.doubts(&loaded.scenario);
            loaded.scenario = loaded.scenario.with_doubts(doubts);
        }
        Ok(loaded)
    }
}

/// A scenario and its variants, as they are typed.
#[derive(Debug)]
pub(in crate::cli) struct Drafts {
    pub(in crate::cli) each: Vec<Draft>,
    /// Parameters that the file wants fitted.
    #[cfg_attr(not(feature = "calibrate"), expect(dead_code, reason = "what fits reads it"))]
    pub(in crate::cli) fit: Option<Value>,
    /// Whose parameters are set.
    pub(in crate::cli) calibration: Option<Arc<CalibrationFile>>,
    /// What a study varies.
    pub(in crate::cli) sweep: Option<Value>,
}

impl Drafts {
    /// The draft at this place with the seed of a replica, counted from 1, and parameters drawn from the
    /// calibration; those that `--set` gives stay.
    pub(in crate::cli) fn replica(&self, index: usize, replica: u32) -> Result<Draft, Failure> {
        let mut draft = self.each[index].reseeded(replica)?;
        let Some(calibration) = &self.calibration else { return Ok(draft) };
        let drawn = calibration.draw(&mut draft.seed().stream("parameters", 0));
        for (found, value) in calibration.parameters.iter().zip(drawn) {
            if !draft.is_overridden(&found.parameter.path) {
                draft.put_parameter(&found.parameter, value)?;
            }
        }
        Ok(draft)
    }
}

impl ChangeArguments {
    /// Reads a scenario file with these changes, as [`drafts`] does.
    pub(in crate::cli) fn drafts(&self, path: Option<&Path>) -> Result<Drafts, Failure> {
        drafts(path, self.calibration.as_deref(), &self.overrides, self.seed)
    }

    /// The same, of a file that may say what a study varies.
    pub(in crate::cli) fn drafts_of_study(&self, path: &Path) -> Result<Drafts, Failure> {
        drafts_of_study(Some(path), self.calibration.as_deref(), &self.overrides, self.seed)
    }
}

/// Reads a scenario file, or the built-in scenario, and its variants; sets the parameters of a
/// calibration (else of the one the file names), then the overrides. A study of many runs is refused.
pub(in crate::cli) fn drafts(
    path: Option<&Path>,
    calibration: Option<&Path>,
    overrides: &[String],
    seed: Option<u64>,
) -> Result<Drafts, Failure> {
    let drafts = drafts_of_study(path, calibration, overrides, seed)?;
    match (&drafts.sweep, drafts.each.first()) {
        (Some(_), Some(draft)) => Err(fail(
            &draft.name,
            "sweep: is a study of many runs; `servecast sweep` takes it, or leave the table out",
        )),
        _ => Ok(drafts),
    }
}

/// The same, of a file that may say what a study varies.
fn drafts_of_study(
    path: Option<&Path>,
    calibration: Option<&Path>,
    overrides: &[String],
    seed: Option<u64>,
) -> Result<Drafts, Failure> {
    let (name, mut root, folder) = read(path)?;
    put_seed(&mut root, seed)?;
    let named = root.remove("calibration");
    let calibration = match (calibration, named) {
        (Some(path), _) => Some(read_calibration(path)?),
        (None, Some(Value::String(path))) => Some(read_calibration(&folder.join(path))?),
        (None, Some(other)) => {
            return Err(fail(&name, &format!("calibration: must be a path, got {other}")));
        }
        (None, None) => None,
    };
    drafts_of(&name, root, &folder, calibration, overrides)
}

/// Resolves a scenario that is part of the binary, and its variants, with the calibration that is
/// part of it too; or the reason it gives why it is not simulated.
pub(in crate::cli) fn load_built_in(
    name: &str,
    text: &str,
    calibration: Option<&str>,
    overrides: &[String],
) -> Result<Result<Vec<Loaded>, String>, Failure> {
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
pub(in crate::cli) fn from_flags(
    file: &ScenarioFile,
    overrides: &[String],
) -> Result<Loaded, Failure> {
    let mut draft = Draft::of("scenario", file, Path::new(""))?;
    override_all(&mut draft.root, overrides)?;
    draft.overrides = overrides.to_vec();
    draft.resolve()
}

fn drafts_of(
    name: &str,
    mut root: Table,
    folder: &Path,
    calibration: Option<CalibrationFile>,
    overrides: &[String],
) -> Result<Drafts, Failure> {
    let calibration = calibration.map(Arc::new);
    let variants = root.remove("variants");
    let fit = root.remove("fit");
    let sweep = root.remove("sweep");
    if let Some(calibration) = &calibration {
        put_calibration(name, &mut root, calibration)?;
    }
    override_all(&mut root, overrides)?;
    let draft = |name: String, root| {
        let (folder, overrides) = (folder.to_path_buf(), overrides.to_vec());
        Draft { name, root, folder, overrides, calibration: calibration.clone() }
    };
    let mut drafts = vec![draft(name.to_owned(), root.clone())];
    for variant in read_variants(name, variants)? {
        let title = format!("{name}: variant `{}`", variant.name);
        drafts.push(draft(title, varied(name, root.clone(), variant)?));
    }
    if let Some(calibration) = &calibration {
        for draft in &mut drafts {
            put_calibration_of_run(name, &mut draft.root, calibration)?;
            override_again(&mut draft.root, calibration, overrides)?;
        }
    }
    Ok(Drafts { each: drafts, fit, calibration, sweep })
}

/// Parameters of single runs are set after the overrides, which still come before them.
fn override_again(
    root: &mut Table,
    calibration: &CalibrationFile,
    overrides: &[String],
) -> Result<(), Failure> {
    let of_runs = |text: &String| {
        let path = text.split_once('=').map(|(path, _)| path.trim());
        let mut own = calibration.parameters.iter().map(|found| &found.parameter);
        own.any(|one| one.runs.is_some() && path == Some(one.path.as_str()))
    };
    let again: Vec<String> = overrides.iter().filter(|text| of_runs(text)).cloned().collect();
    override_all(root, &again)
}

fn read_variants(name: &str, variants: Option<Value>) -> Result<Vec<Variant>, Failure> {
    let Some(variants) = variants else { return Ok(Vec::new()) };
    variants.try_into().map_err(|error| fail(name, &format!("variants: {error}")))
}

fn varied(name: &str, mut root: Table, variant: Variant) -> Result<Table, Failure> {
    for (path, value) in variant.set {
        set(&mut root, &path, value)
            .map_err(|problem| fail(name, &format!("variants.{}: {problem}", variant.name)))?;
    }
    root.insert("name".to_owned(), Value::String(variant.name));
    match variant.measured {
        Some(measured) => root.insert("measured".to_owned(), measured),
        None => root.remove("measured"),
    };
    Ok(root)
}
