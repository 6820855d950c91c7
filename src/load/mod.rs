//! Scenario files: TOML, YAML or JSON of one shape, with overrides and variants.

mod calibration;
mod draft;
mod file;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

pub(super) use self::draft::{Draft, Drafts, drafts, from_flags, load_built_in};
pub(super) use self::settings::value_of;

use self::draft::Variant;
use self::file::{deserialize, fail, put_seed, read};
use self::settings::{blamed, override_all};
use super::Failure;
use super::sweep::SweepTable;
use crate::io::acceptance;
use crate::io::text;
use crate::metrics::bench::MetricKey;
use crate::model::ModelSpec;
use crate::profiles;
use crate::resolved::{Scenario, ScenarioError};
use crate::rng::Seed;
use crate::scenario::{
    AcceptanceConfig, EngineConfig, ScenarioFile, StepTimeConfig, TraceConfig, WorkloadConfig,
};

/// A scenario ready to run, with the folder its paths are relative to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) scenario: Scenario,
    pub(super) folder: PathBuf,
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
    for other in [
        "name",
        "cluster",
        "faults",
        "report",
        "measured",
        "variants",
        "fit",
        "calibration",
        "sweep",
    ] {
        root.remove(other);
    }
    override_all(&mut root, overrides)?;
    put_seed(&mut root, seed)?;
    let file = deserialize(&root);
    Ok((file.map_err(|problem| Failure::input(blamed(&name, overrides, &problem)))?, folder))
}

/// A scenario with overrides, read again so that every rule of the file format holds.
pub(super) fn overridden(file: ScenarioFile, overrides: &[String]) -> Result<ScenarioFile, String> {
    if overrides.is_empty() {
        return Ok(file);
    }
    let mut root = Table::try_from(&file).map_err(|error| error.to_string())?;
    override_all(&mut root, overrides).map_err(|failure| failure.to_string())?;
    deserialize(&root).map_err(|problem| blamed(&file.name, overrides, &problem))
}

/// The model of a name: a local `config.json`, else one of the catalogue.
pub(super) fn model(name: &str, folder: &Path) -> Result<Option<ModelSpec>, Failure> {
    Ok(local_model("cluster.model", name, folder)?.or_else(|| profiles::model(name)))
}

/// A resolved scenario whose paths hold wherever its file lies.
pub(super) fn relocated(loaded: &Loaded) -> ScenarioFile {
    let mut file = loaded.scenario.file.clone();
    for_each_path(&mut file, &loaded.folder, |name, path| {
        *name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    });
    file
}

/// Shows every path in a scenario, as it is typed and from here: of its trace, of recorded acceptance, of
/// step times, and of local models.
pub(super) fn for_each_path(
    file: &mut ScenarioFile,
    folder: &Path,
    mut show: impl FnMut(&mut String, &Path),
) {
    let mut show = |name: &mut String| {
        let path = folder.join(&*name);
        show(name, &path);
    };
    if let Some(trace) = &mut file.trace {
        show(&mut trace.path);
    }
    if let EngineConfig::VllmV1(vllm) = &mut file.cluster.engine
        && let Some(speculation) = &mut vllm.speculation
        && let AcceptanceConfig::Recorded { path } = &mut speculation.acceptance
    {
        show(path);
    }
    let cluster = &mut file.cluster;
    let of_groups = cluster.groups.iter_mut().filter_map(|group| group.step_time.as_mut());
    let step_times = of_groups.chain([&mut cluster.step_time]);
    step_times.filter_map(StepTimeConfig::file_mut).for_each(&mut show);
    let of_groups = file.cluster.groups.iter_mut().filter_map(|group| group.model.as_mut());
    let of_classes = file.workload.classes.iter_mut().filter_map(|class| class.model.as_mut());
    for name in of_groups.chain(of_classes).chain([&mut file.cluster.model]) {
        if model_file(&folder.join(&*name)).is_some() {
            show(name);
        }
    }
}

/// The `config.json` that a path of a model leads to.
pub(super) fn model_file(path: &Path) -> Option<PathBuf> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    path.is_file().then_some(path)
}

/// What to say of a model that is nowhere.
pub(super) fn unknown_model(place: &str, name: &str) -> Failure {
    let near = profiles::closest(name, profiles::model_names());
    let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    fail(place, &format!("`{name}` is neither in the catalogue nor a local config.json{hint}"))
}

/// Resolves a scenario.
fn from_file(
    name: &str,
    overrides: &[String],
    file: ScenarioFile,
    folder: &Path,
) -> Result<Loaded, Failure> {
    check_measured(name, &file)?;
    let models = local_models(&file, folder)?;
    let broken = |error: ScenarioError| {
        let lines: Vec<String> =
            error.problems.iter().map(|p| blamed(name, overrides, p)).collect();
        Failure::input(lines.join("\n       "))
    };
    let mut scenario =
        with_step_times(Scenario::resolve_with(file, &models).map_err(broken)?, folder)?;
    if let Some((path, drafts)) = scenario.acceptance_recording() {
        let accepted = acceptance::read(&folder.join(path), drafts);
        let accepted = accepted.map_err(|error| Failure::Input(error.into()))?;
        scenario = scenario.with_accepted_drafts(accepted).map_err(broken)?;
    }
    Ok(Loaded { scenario, folder: folder.to_path_buf() })
}

/// Resolves a scenario that was put together in code.
pub(super) fn resolved(file: ScenarioFile, folder: &Path) -> Result<Scenario, Failure> {
    from_file("scenario", &[], file, folder).map(|loaded| loaded.scenario)
}

/// Reads the step times that are in files of the user's own.
fn with_step_times(mut scenario: Scenario, folder: &Path) -> Result<Scenario, Failure> {
    for group in &mut scenario.groups {
        if let Some(name) = group.cluster.step_time.file_mut() {
            let path = folder.join(name);
            let text = text::whole(&path, text::SETTINGS_MIB_MAX).map_err(|error| {
                fail("cluster.step_time.profile", &format!("{}: {error}", path.display()))
            })?;
            group.step_time_profile = Some(text.into());
        }
    }
    Ok(scenario)
}

/// The JSON schema of scenario files.
pub(super) fn schema() -> String {
    let mut generator = schemars::SchemaGenerator::default();
    let mut variants = generator.subschema_for::<Vec<Variant>>();
    let text = "Changes to the scenario that are run beside it, on the same requests.";
    variants.insert("description".to_owned(), text.into());
    let sweep = generator.subschema_for::<SweepTable>();
    let mut schema = generator.into_root_schema_for::<ScenarioFile>();
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    let properties = properties.expect("a file has keys");
    properties.insert("variants".to_owned(), variants.into());
    let calibration = serde_json::json!({
        "description": "Parameters that `servecast calibrate --output` wrote, a path from this file.",
        "type": "string",
    });
    properties.insert("calibration".to_owned(), calibration);
    let fit = serde_json::json!({
        "description": "Parameters that `servecast calibrate` fits.",
        "type": "array",
        "items": { "type": "object" },
    });
    properties.insert("fit".to_owned(), fit);
    properties.insert("sweep".to_owned(), sweep.into());
    let mut schema = serde_json::Value::from(schema);
    leave_out_null(&mut schema);
    serde_json::to_string_pretty(&schema).expect("a schema is JSON")
}

/// What is absent is left out of a file, and not `null`.
fn leave_out_null(schema: &mut serde_json::Value) {
    use serde_json::Value as Json;
    let is_null = |kind: &Json| kind == "null" || kind.get("type").is_some_and(|t| t == "null");
    match schema {
        Json::Object(keys) => {
            for list in ["type", "anyOf"] {
                let Some(Json::Array(kinds)) = keys.get_mut(list) else { continue };
                kinds.retain(|kind| !is_null(kind));
                if let [only] = &kinds[..] {
                    let only = only.clone();
                    match only {
                        Json::Object(only) => {
                            keys.remove(list);
                            keys.extend(only);
                        }
                        only => drop(keys.insert(list.to_owned(), only)),
                    }
                }
            }
            keys.values_mut().for_each(leave_out_null);
        }
        Json::Array(values) => values.iter_mut().for_each(leave_out_null),
        _ => {}
    }
}

fn resolve(
    name: &str,
    overrides: &[String],
    root: &Table,
    folder: &Path,
) -> Result<Loaded, Failure> {
    let file: ScenarioFile =
        deserialize(root).map_err(|problem| Failure::input(blamed(name, overrides, &problem)))?;
    let loaded = from_file(name, overrides, file, folder)?;
    check_replicas(root, &loaded.scenario)
        .map_err(|problem| Failure::input(blamed(name, overrides, &problem)))?;
    Ok(loaded)
}

/// A number of replicas that is given and not the one that the parts of the cluster make is no default: it is
/// refused also where it is that of a cluster without parts.
fn check_replicas(root: &Table, scenario: &Scenario) -> Result<(), String> {
    let cluster = root.get("cluster").and_then(Value::as_table);
    let given = cluster.and_then(|cluster| cluster.get("replicas")).and_then(Value::as_integer);
    let counted = i64::from(scenario.file.cluster.replicas);
    match given {
        Some(given) if given != counted => Err(format!(
            "cluster.replicas: must be absent, or the {counted} replicas of the autoscaler, the groups or \
             the two sides, got {given}"
        )),
        _ => Ok(()),
    }
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

/// The local models that a scenario names, by what it calls them.
fn local_models(
    file: &ScenarioFile,
    folder: &Path,
) -> Result<BTreeMap<String, ModelSpec>, Failure> {
    let groups = file.cluster.groups.iter().enumerate().filter_map(|(index, group)| {
        Some((format!("cluster.groups[{index}].model"), group.model.as_ref()?))
    });
    let classes = file.workload.classes.iter().enumerate().filter_map(|(index, class)| {
        Some((format!("workload.classes[{index}].model"), class.model.as_ref()?))
    });
    let mut models = BTreeMap::new();
    let of_cluster = ("cluster.model".to_owned(), &file.cluster.model);
    for (path, name) in [of_cluster].into_iter().chain(groups).chain(classes) {
        if !models.contains_key(name)
            && let Some(model) = local_model(&path, name, folder)?
        {
            models.insert(name.clone(), model);
        }
    }
    Ok(models)
}

/// The model of a local `config.json`, if that is what the name is.
fn local_model(place: &str, name: &str, folder: &Path) -> Result<Option<ModelSpec>, Failure> {
    let Some(path) = model_file(&folder.join(name)) else { return Ok(None) };
    let text = text::whole(&path, text::SETTINGS_MIB_MAX)
        .map_err(|error| fail(place, &format!("{}: {error}", path.display())))?;
    let apart = path.with_file_name("hf_quant_config.json");
    if apart.is_file() && !text.contains("\"quantization_config\"") {
        let problem = format!(
            "{}: the quantisation is not read from there; write it into `quantization_config` of \
             config.json",
            apart.display()
        );
        return Err(fail(place, &problem));
    }
    let spec = ModelSpec::from_hf_config(&text, name);
    spec.map(Some).map_err(|error| fail(place, &error.to_string()))
}
