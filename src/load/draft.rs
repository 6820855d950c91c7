//! Scenarios whose settings can still be changed: a file, its variants, and its calibration.

#[cfg(feature = "cli")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use toml::{Table, Value};

use super::Loaded;
use super::calibration::{
    parse_calibration, put_calibration, put_calibration_of_run, put_parameter, read_calibration,
};
use super::error::{LoadError, fail};
use super::file::{deserialize, parse, put_seed, read};
use super::overrides::{Override, blame, put_all};
use super::resolve::resolve;
use super::settings::set;
use crate::calibration::{CalibrationFile, Parameter};
use crate::erased;
use crate::resolved::Unstated;
use crate::rng::Seed;
#[cfg(feature = "cli")]
use crate::scenario::MeasuredConfig;
use crate::scenario::ScenarioFile;
use crate::study::Policies;

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

/// A scenario whose settings can still be changed.
///
/// It can be written, in TOML, and read again elsewhere: with its calibration, and with the folder that its paths are
/// relative to as an absolute path. Other files that it names are not part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Draft {
    /// The file, for messages.
    name: String,
    root: Table,
    #[serde(serialize_with = "absolute")]
    folder: PathBuf,
    /// What was overridden, for messages.
    overrides: Vec<Override>,
    /// Whose parameters it has.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared")]
    calibration: Option<Arc<CalibrationFile>>,
    /// What servers are like of which it says nothing.
    server: Unstated,
    /// Whether they stay so in every draw.
    is_pinned: bool,
    /// In place of the policies that it names. They are code, and are not written.
    #[serde(skip)]
    policies: Option<Arc<Policies<'static>>>,
}

impl Draft {
    /// The draft of a scenario that was put together in code, by its name in messages. Nothing is assumed of servers of
    /// which it says nothing.
    pub fn of(name: &str, file: &ScenarioFile, folder: &Path) -> Result<Self, LoadError> {
        let root = erased::table(file).map_err(|error| fail(name, error))?;
        let (name, folder) = (name.to_owned(), folder.to_path_buf());
        let (overrides, server) = (Vec::new(), Unstated::Bare);
        let calibration = None;
        let policies = None;
        Ok(Self { name, root, folder, overrides, calibration, server, is_pinned: false, policies })
    }

    /// The folder that its paths are relative to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its requests were recorded with their times.
    pub fn is_experiment(&self) -> bool {
        self.root.contains_key("requests")
    }

    /// The same with another value of a setting, by the path of its key, such as `cluster.replicas`.
    ///
    /// # Errors
    /// When there is no place for it; whether the setting is known is found by [`resolve`](Self::resolve).
    pub fn with(mut self, path: &str, value: impl Into<Value>) -> Result<Self, LoadError> {
        let given = Override::new(path, value);
        put_all(&mut self.root, std::slice::from_ref(&given))?;
        self.overrides.push(given);
        Ok(self)
    }

    /// The same with another seed of every random stream.
    ///
    /// # Errors
    /// When the seed is 2^63 or more.
    pub fn with_seed(mut self, seed: u64) -> Result<Self, LoadError> {
        put_seed(&mut self.root, Some(seed))?;
        Ok(self)
    }

    /// The same whose draws all have the servers that it has.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { is_pinned: true, ..self }
    }

    /// The same with policies in place of those that it names: whatever simulates it has these.
    #[must_use]
    pub fn with_policies(self, policies: Arc<Policies<'static>>) -> Self {
        Self { policies: Some(policies), ..self }
    }

    /// The policies that stand in place of those that it names, if there are some.
    pub fn policies(&self) -> Option<&Policies<'static>> {
        self.policies.as_deref()
    }

    /// What the file says, as something else than a scenario.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, LoadError> {
        let read = deserialize(&self.root);
        read.map_err(|problem| blame(&self.name, &self.overrides, problem.into()))
    }

    /// Puts a setting.
    pub fn put(&mut self, path: &str, value: impl Into<Value>) -> Result<(), LoadError> {
        set(&mut self.root, path, value.into()).map_err(|problem| fail(&self.name, problem))
    }

    /// Whether `--set` gives this setting.
    fn is_overridden(&self, path: &str) -> bool {
        self.overrides.iter().any(|given| given.path == path)
    }

    /// Its seed.
    pub fn seed(&self) -> Seed {
        let given = self.root.get("seed").and_then(Value::as_integer);
        given.map_or_else(Seed::default, |seed| Seed(seed.cast_unsigned()))
    }

    /// The same scenario with the seed of this number, counted from 1. Scenarios of one seed have the same
    /// requests under each number.
    pub fn reseeded(&self, number: u32) -> Result<Self, LoadError> {
        // Seeds of the benchmark tools are 32 bits.
        let own = self.seed().stream("replica", u64::from(number)).next_u32();
        let mut draft = self.clone();
        draft.put("seed", i64::from(own))?;
        let workload = self.root.get("workload").and_then(Value::as_table);
        if workload.is_some_and(|workload| workload.contains_key("tool_seed")) {
            draft.put("workload.tool_seed", i64::from(own))?;
        }
        Ok(draft)
    }

    /// The same scenario with the seed of this number, counted from 1, and parameters drawn from its calibration;
    /// those that were overridden stay. Without a calibration, servers of which nothing is said are drawn from those
    /// of their class.
    pub fn drawn(&self, number: u32) -> Result<Self, LoadError> {
        let mut draft = self.reseeded(number)?;
        let Some(calibration) = &self.calibration else {
            if let Unstated::Server { slower } = &mut draft.server
                && !self.is_pinned
            {
                let mut stream = self.seed().stream("server", u64::from(number));
                *slower = stream.sample::<f64, _>(StandardNormal);
            }
            return Ok(draft);
        };
        let drawn = calibration.draw(&mut draft.seed().stream("parameters", 0));
        for (found, value) in calibration.parameters.iter().zip(drawn) {
            if !draft.is_overridden(&found.parameter.path) {
                draft.put_parameter(&found.parameter, value)?;
            }
        }
        Ok(draft)
    }

    /// Whether [`drawn`](Self::drawn) draws servers of this scenario, which is what it resolves to.
    pub(super) fn draws_servers(&self, loaded: &Loaded) -> bool {
        !self.is_pinned && loaded.scenario.groups.iter().any(|group| group.class.is_some())
    }

    /// Whether parameters of it come from a calibration.
    pub fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    /// Puts a parameter that was fitted or drawn, if it is one of this run.
    pub fn put_parameter(&mut self, parameter: &Parameter, value: f64) -> Result<(), LoadError> {
        if !parameter.concerns(self.title()) {
            return Ok(());
        }
        put_parameter(&mut self.root, &parameter.path, value)
            .map_err(|problem| fail(&self.name, problem))
    }

    /// What a setting says, by the keys that lead to it.
    pub fn get(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.root.get(*first)?, |at, key| at.as_table()?.get(*key))
    }

    /// The title of the scenario or variant.
    pub fn title(&self) -> &str {
        self.root.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a setting out, by the keys that lead to it.
    pub fn clear(&mut self, keys: &[&str]) {
        let Some((last, sections)) = keys.split_last() else { return };
        let mut at = Some(&mut self.root);
        for key in sections {
            at = at.and_then(|table| table.get_mut(*key)).and_then(Value::as_table_mut);
        }
        if let Some(table) = at {
            table.remove(*last);
        }
    }

    /// The same where servers of which it says nothing are like this. Where parameters come from a calibration,
    /// nothing is assumed of them.
    #[must_use]
    pub fn of_server(self, server: Unstated) -> Self {
        Self { server, ..self }
    }

    /// Decides everything that the scenario leaves open, and checks its rules.
    ///
    /// # Errors
    /// Every rule that it breaks, and files that cannot be read.
    pub fn resolve(&self) -> Result<Loaded, LoadError> {
        let about = (self.name.as_str(), self.overrides.as_slice());
        let server = if self.is_calibrated() { Unstated::Bare } else { self.server };
        let mut loaded = resolve(about, &self.root, &self.folder, server)?;
        loaded.policies.clone_from(&self.policies);
        if let Some(calibration) = &self.calibration {
            let doubts = calibration.doubts(&loaded.scenario);
            loaded.scenario = loaded.scenario.with_doubts(doubts);
        }
        Ok(loaded)
    }
}

fn absolute<S: Serializer>(folder: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let found = std::path::absolute(if folder == "" { Path::new(".") } else { folder });
    found.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

/// What drafts share is written with each of them.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "as serde calls it")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(
        shared: &Option<Arc<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map(Arc::new))
    }
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

/// A scenario that is a table of settings already, by its name in messages. Paths in it are relative to the working
/// directory.
///
/// # Errors
/// When it is a study of many runs, or the calibration that it names cannot be read.
pub fn from_table(name: &str, root: Table) -> Result<Draft, LoadError> {
    Ok(single(Changes::default().of_table(name, root)?)?.each.swap_remove(0))
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

    /// Reads a scenario file, or the built-in scenario, and its variants.
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
            &draft.name,
            "sweep: is a study of many runs; `servecast sweep` takes it, or leave the table out",
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
    draft.overrides = overrides.to_vec();
    draft.resolve()
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
        let (folder, overrides) = (folder.to_path_buf(), overrides.to_vec());
        let (calibration, server) = (calibration.clone(), Unstated::TYPICAL);
        let policies = None;
        Draft { name, root, folder, overrides, calibration, server, is_pinned: false, policies }
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
    overrides: &[Override],
) -> Result<(), LoadError> {
    let of_runs = |given: &Override| {
        let mut own = calibration.parameters.iter().map(|found| &found.parameter);
        own.any(|one| one.runs.is_some() && given.path == one.path)
    };
    let again: Vec<Override> = overrides.iter().filter(|given| of_runs(given)).cloned().collect();
    put_all(root, &again)
}

fn read_variants(name: &str, variants: Option<Value>) -> Result<Vec<Variant>, LoadError> {
    let Some(variants) = variants else { return Ok(Vec::new()) };
    variants.try_into().map_err(|error| fail(name, format_args!("variants: {error}")))
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
