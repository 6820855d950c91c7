//! Scenario files: TOML, YAML or JSON of one shape, with overrides and variants.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::Failure;
use crate::calibrate::CalibrationFile;
use crate::io::acceptance;
use crate::metrics::bench::MetricKey;
use crate::model::ModelSpec;
use crate::profiles;
use crate::rng::Seed;
use crate::scenario::{
    AcceptanceConfig, EngineConfig, LayerTableConfig, MeasuredConfig, Scenario, ScenarioError,
    ScenarioFile, StepTimeConfig, TraceConfig, WorkloadConfig,
};
use crate::validate::Experiment;

/// The scenario that runs without arguments.
const BUILT_IN: &str = include_str!("../../scenarios/a10-sonnet-1024.toml");

/// A scenario ready to run, with the folder its paths are relative to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) scenario: Scenario,
    pub(super) folder: PathBuf,
}

/// A change to the scenario that is run beside it, on the same requests.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Variant {
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
pub(super) struct Draft {
    /// The file, for messages.
    name: String,
    root: Table,
    folder: PathBuf,
}

impl Draft {
    /// Puts a setting.
    pub(super) fn put(&mut self, path: &str, value: impl Into<Value>) -> Result<(), Failure> {
        set(&mut self.root, path, value.into()).map_err(|problem| fail(&self.name, &problem))
    }

    pub(super) fn resolve(&self) -> Result<Loaded, Failure> {
        resolve(&self.name, self.root.clone(), &self.folder)
    }
}

/// A scenario and its variants, as they are typed.
#[derive(Debug)]
pub(super) struct Drafts {
    pub(super) each: Vec<Draft>,
    /// Parameters that the file wants fitted.
    pub(super) fit: Option<Value>,
    /// Whose parameters are set.
    pub(super) calibration: Option<CalibrationFile>,
}

/// Reads a scenario file, or the built-in scenario, and its variants; sets the parameters of a
/// calibration (else of the one the file names), then the overrides.
pub(super) fn drafts(
    path: Option<&Path>,
    calibration: Option<&Path>,
    overrides: &[String],
    seed: Option<u64>,
) -> Result<Drafts, Failure> {
    let (name, mut root, folder) = read(path)?;
    put_seed(&mut root, seed)?;
    drafts_of(&name, root, &folder, calibration, overrides)
}

/// Resolves a scenario that is part of the binary, and its variants, with the calibration that is
/// part of it too; or the reason it gives why it is not simulated.
pub(super) fn load_built_in(
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
    if let Some(text) = calibration {
        put_calibration(name, &mut root, &parse_calibration(name, text)?)?;
    }
    let drafts = drafts_of(name, root, Path::new(""), None, overrides)?;
    drafts.each.iter().map(Draft::resolve).collect::<Result<Vec<_>, _>>().map(Ok)
}

/// Reads an experiment, with the folder its paths are relative to.
pub(super) fn experiment(
    path: &Path,
    overrides: &[String],
) -> Result<(Experiment, PathBuf), Failure> {
    let (name, mut root, folder) = read(Some(path))?;
    override_all(&mut root, overrides)?;
    let experiment = serde_path_to_error::deserialize(Value::Table(root));
    Ok((experiment.map_err(|error| fail(&name, &explain(&error)))?, folder))
}

fn drafts_of(
    name: &str,
    mut root: Table,
    folder: &Path,
    calibration: Option<&Path>,
    overrides: &[String],
) -> Result<Drafts, Failure> {
    let variants = root.remove("variants");
    let fit = root.remove("fit");
    let named = root.remove("calibration");
    let calibration = match (calibration, named) {
        (Some(path), _) => Some(read_calibration(path)?),
        (None, Some(Value::String(path))) => Some(read_calibration(&folder.join(path))?),
        (None, Some(other)) => {
            return Err(fail(name, &format!("calibration: must be a path, got {other}")));
        }
        (None, None) => None,
    };
    if let Some(calibration) = &calibration {
        put_calibration(name, &mut root, calibration)?;
    }
    override_all(&mut root, overrides)?;
    let draft = |root| Draft { name: name.to_owned(), root, folder: folder.to_path_buf() };
    let mut drafts = vec![draft(root.clone())];
    for variant in read_variants(name, variants)? {
        drafts.push(draft(varied(name, root.clone(), variant)?));
    }
    Ok(Drafts { each: drafts, fit, calibration })
}

fn read_calibration(path: &Path) -> Result<CalibrationFile, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| fail(&name, &error.to_string()))?;
    parse_calibration(&name, &text)
}

fn parse_calibration(name: &str, text: &str) -> Result<CalibrationFile, Failure> {
    let file: CalibrationFile = toml::from_str(text)
        .map_err(|error| fail(name, &format!("is no calibration: {}", error.message())))?;
    file.check().map_err(|problem| fail(name, &problem))?;
    Ok(file)
}

fn put_calibration(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), Failure> {
    for found in &calibration.parameters {
        set(root, &found.parameter.path, Value::Float(found.value))
            .map_err(|problem| fail(name, &format!("calibration: {problem}")))?;
    }
    Ok(())
}

/// The part of a scenario that says what is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFile {
    #[serde(default)]
    pub(super) seed: Seed,
    #[serde(default)]
    pub(super) trace: Option<TraceConfig>,
    pub(super) workload: WorkloadConfig,
}

/// Reads that part of a scenario file, with the folder its paths are relative to.
pub(super) fn workload(
    path: Option<&Path>,
    overrides: &[String],
    seed: Option<u64>,
) -> Result<(WorkloadFile, PathBuf), Failure> {
    let (name, mut root, folder) = read(path)?;
    for other in ["name", "cluster", "report", "measured", "variants", "fit", "calibration"] {
        root.remove(other);
    }
    override_all(&mut root, overrides)?;
    put_seed(&mut root, seed)?;
    let file = serde_path_to_error::deserialize(Value::Table(root));
    Ok((file.map_err(|error| fail(&name, &explain(&error)))?, folder))
}

/// The name of a scenario file, what it says, and its folder.
fn read(path: Option<&Path>) -> Result<(String, Table, PathBuf), Failure> {
    let (name, text, folder) = match path {
        None => ("built-in scenario".to_owned(), BUILT_IN.to_owned(), PathBuf::from(".")),
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| fail(&name, &error.to_string()))?;
            (name, text, path.parent().map(Path::to_path_buf).unwrap_or_default())
        }
    };
    let root = parse(&name, path, &text)?;
    Ok((name, root, folder))
}

fn put_seed(root: &mut Table, seed: Option<u64>) -> Result<(), Failure> {
    if let Some(seed) = seed {
        let seed = i64::try_from(seed)
            .map_err(|_| fail("--seed", &format!("must be below 2^63, got {seed}")))?;
        root.insert("seed".to_owned(), Value::Integer(seed));
    }
    Ok(())
}

/// Resolves a scenario that was put together from flags, after the overrides.
pub(super) fn from_flags(file: &ScenarioFile, overrides: &[String]) -> Result<Loaded, Failure> {
    let mut root = Table::try_from(file).map_err(|error| fail("scenario", &error.to_string()))?;
    override_all(&mut root, overrides)?;
    resolve("scenario", root, Path::new(""))
}

/// A scenario with overrides, read again so that every rule of the file format holds.
pub(super) fn overridden(file: ScenarioFile, overrides: &[String]) -> Result<ScenarioFile, String> {
    if overrides.is_empty() {
        return Ok(file);
    }
    let mut root = Table::try_from(&file).map_err(|error| error.to_string())?;
    override_all(&mut root, overrides).map_err(|failure| failure.to_string())?;
    serde_path_to_error::deserialize(Value::Table(root)).map_err(|error| explain(&error))
}

/// The model of a name: a local `config.json`, else one of the catalogue.
pub(super) fn model(name: &str, folder: &Path) -> Result<Option<ModelSpec>, Failure> {
    Ok(local_model(name, folder)?.or_else(|| profiles::model(name)))
}

/// A resolved scenario whose paths hold wherever its file lies.
pub(super) fn relocated(loaded: &Loaded) -> ScenarioFile {
    let mut file = loaded.scenario.file.clone();
    let absolute = |name: &str| {
        let path = loaded.folder.join(name);
        std::path::absolute(&path).unwrap_or(path)
    };
    if let Some(trace) = &mut file.trace {
        trace.path = absolute(&trace.path).display().to_string();
    }
    if let EngineConfig::VllmV1(vllm) = &mut file.cluster.engine
        && let Some(speculation) = &mut vllm.speculation
        && let AcceptanceConfig::Recorded { path } = &mut speculation.acceptance
    {
        *path = absolute(path).display().to_string();
    }
    if let Some(profile) = loaded.scenario.step_time_file().map(absolute)
        && let StepTimeConfig::OperatorTable { profile: name, .. }
        | StepTimeConfig::LayerTable(LayerTableConfig { profile: name, .. }) =
            &mut file.cluster.step_time
    {
        *name = Some(profile.display().to_string());
    }
    let model = absolute(&file.cluster.model);
    if model.is_file() || model.join("config.json").is_file() {
        file.cluster.model = model.display().to_string();
    }
    file
}

/// What to say of a model that is nowhere.
pub(super) fn unknown_model(place: &str, name: &str) -> Failure {
    let near = profiles::closest(name, profiles::model_names());
    let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    fail(place, &format!("`{name}` is neither in the catalogue nor a local config.json{hint}"))
}

/// Resolves a scenario.
fn from_file(name: &str, file: ScenarioFile, folder: &Path) -> Result<Loaded, Failure> {
    check_measured(name, &file)?;
    let model = local_model(&file.cluster.model, folder)?;
    let broken = |error: ScenarioError| {
        let lines: Vec<String> = error.problems.iter().map(|p| format!("{name}: {p}")).collect();
        Failure::input(lines.join("\n       "))
    };
    let mut scenario = with_step_times(Scenario::resolve(file, model).map_err(broken)?, folder)?;
    if let Some((path, drafts)) = scenario.acceptance_recording() {
        let accepted = acceptance::read(&folder.join(path), drafts);
        let accepted = accepted.map_err(|error| Failure::Input(error.into()))?;
        scenario = scenario.with_accepted_drafts(accepted).map_err(broken)?;
    }
    Ok(Loaded { scenario, folder: folder.to_path_buf() })
}

/// Resolves a scenario that was put together in code.
pub(super) fn resolved(file: ScenarioFile, folder: &Path) -> Result<Scenario, Failure> {
    from_file("scenario", file, folder).map(|loaded| loaded.scenario)
}

/// Reads the step times that are in a file of the user's own.
fn with_step_times(mut scenario: Scenario, folder: &Path) -> Result<Scenario, Failure> {
    if let Some(name) = scenario.step_time_file() {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| {
            fail("cluster.step_time.profile", &format!("{}: {error}", path.display()))
        })?;
        scenario.step_time_profile = Some(text.into());
    }
    Ok(scenario)
}

/// The JSON schema of scenario files.
pub(super) fn schema() -> String {
    let mut generator = schemars::SchemaGenerator::default();
    let mut variants = generator.subschema_for::<Vec<Variant>>();
    let text = "Changes to the scenario that are run beside it, on the same requests.";
    variants.insert("description".to_owned(), text.into());
    let mut schema = generator.into_root_schema_for::<ScenarioFile>();
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    properties.expect("a file has keys").insert("variants".to_owned(), variants.into());
    serde_json::to_string_pretty(&schema).expect("a schema is JSON")
}

fn fail(place: &str, problem: &str) -> Failure {
    Failure::input(format!("{place}: {problem}"))
}

fn parse(name: &str, path: Option<&Path>, text: &str) -> Result<Table, Failure> {
    let text = text.trim_start_matches('\u{feff}');
    let extension = path.and_then(Path::extension).and_then(|e| e.to_str()).unwrap_or("toml");
    let table = match extension.to_ascii_lowercase().as_str() {
        "toml" => toml::from_str(text).map_err(|error| error.to_string()),
        "yaml" | "yml" => serde_yaml_ng::from_str(text).map_err(|error| error.to_string()),
        "json" => serde_json::from_str(text).map_err(|error| error.to_string()),
        other => Err(format!("`.{other}` is no scenario file: use .toml, .yaml or .json")),
    };
    table.map_err(|problem| fail(name, &problem))
}

fn override_all(root: &mut Table, overrides: &[String]) -> Result<(), Failure> {
    for text in overrides {
        let (path, value) = parse_override(text)?;
        set(root, &path, value).map_err(|problem| fail("--set", &problem))?;
    }
    Ok(())
}

/// `path=value`; the value as TOML, or as text where it is none.
fn parse_override(text: &str) -> Result<(String, Value), Failure> {
    let Some((path, value)) = text.split_once('=') else {
        return Err(fail("--set", &format!("`{text}` has no `=`; write path=value")));
    };
    let parsed = toml::from_str::<Table>(&format!("value = {value}"));
    let parsed = parsed.ok().and_then(|mut table| table.remove("value"));
    let is_number = || {
        let digits = value.trim().replace('_', "");
        digits.ends_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok()
    };
    match parsed {
        Some(value) => Ok((path.trim().to_owned(), value)),
        None if is_number() => Err(fail("--set", &format!("{text}: the number is out of range"))),
        None => Ok((path.trim().to_owned(), Value::String(value.to_owned()))),
    }
}

/// Puts a value at a path; tables on the way are made where there are none.
fn set(root: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or("the path is empty")?;
    let mut table = root;
    let mut place = String::new();
    for key in keys {
        place = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
        let entry = table.entry(key).or_insert_with(|| Value::Table(default_of(&place)));
        table = entry.as_table_mut().ok_or(format!("{path}: `{key}` is a value, not a table"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// A table that is made for a key in it: of the type that holds where none is given.
fn default_of(place: &str) -> Table {
    let whole = match place {
        "cluster.engine" => Table::try_from(EngineConfig::default()),
        "cluster.step_time" => Table::try_from(StepTimeConfig::default()),
        _ => return Table::new(),
    };
    let whole = whole.expect("a default is a table");
    whole.into_iter().filter(|(key, _)| key == "type").collect()
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

fn resolve(name: &str, root: Table, folder: &Path) -> Result<Loaded, Failure> {
    let file: ScenarioFile = serde_path_to_error::deserialize(Value::Table(root))
        .map_err(|error| fail(name, &explain(&error)))?;
    from_file(name, file, folder)
}

/// The path of the field, the rule, and the key that was probably meant.
fn explain(error: &serde_path_to_error::Error<toml::de::Error>) -> String {
    let message = error.inner().to_string();
    let message = message.trim().lines().next().unwrap_or_default();
    let path = error.path().to_string();
    let place = if path == "." { String::new() } else { format!("{path}: ") };
    format!("{place}{message}{}", did_you_mean(message))
}

fn did_you_mean(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let Some(unknown) = quoted.next().filter(|_| is_unknown) else { return String::new() };
    profiles::closest(unknown, quoted)
        .map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

fn check_measured(name: &str, file: &ScenarioFile) -> Result<(), Failure> {
    let mut metrics = file.measured.iter().flat_map(|measured| measured.metrics.keys());
    match metrics.find(|metric| MetricKey::parse(metric).is_none()) {
        None => Ok(()),
        Some(metric) => Err(fail(
            name,
            &format!(
                "measured.metrics.{metric}: is no figure of the benchmark JSON, such as \
                 mean_ttft_ms, p99_tpot_ms or output_throughput"
            ),
        )),
    }
}

/// The model of a local `config.json`, if that is what the name is.
fn local_model(name: &str, folder: &Path) -> Result<Option<ModelSpec>, Failure> {
    let path = folder.join(name);
    let path = if path.is_dir() { path.join("config.json") } else { path };
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path)
        .map_err(|error| fail("cluster.model", &format!("{}: {error}", path.display())))?;
    let spec = ModelSpec::from_hf_config(&text, name);
    spec.map(Some).map_err(|error| fail("cluster.model", &error.to_string()))
}
