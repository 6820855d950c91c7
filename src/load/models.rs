//! Models that a scenario takes from a `config.json` of the user's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::io::text;
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::{EngineConfig, ScenarioFile};

/// The model of a name: a local `config.json` (or the folder that it lies in), else one of the catalogue, else what stands
/// for it there ([`profiles::stand_in`]).
///
/// # Errors
/// When there is such a file and it cannot be read; the problem is at `place`.
pub fn model(place: &str, name: &str, folder: &Path) -> Result<Option<ModelSpec>, Problem> {
    Ok(checkpoint(place, name, folder)?.or_else(|| profiles::model_or_stand_in(name)))
}

/// The model of a local `config.json` (or the folder that it lies in), with `hf_quant_config.json` beside it; of
/// `NAME.config.json` it is `NAME.hf_quant_config.json`.
///
/// # Errors
/// When there is such a file and it cannot be read; the problem is at `place`.
pub fn checkpoint(place: &str, name: &str, folder: &Path) -> Result<Option<ModelSpec>, Problem> {
    let Some(path) = model_file(&folder.join(name)) else { return Ok(None) };
    let read = |path: &Path| {
        let text = text::whole(path, text::SETTINGS_MIB_MAX);
        text.map_err(|error| Problem::new(place, format_args!("{}: {error}", path.display())))
    };
    let own = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let apart = path.with_file_name(match own.strip_suffix(".config.json") {
        Some(stem) => format!("{stem}.hf_quant_config.json"),
        None => "hf_quant_config.json".to_owned(),
    });
    let apart = if apart.is_file() { Some(read(&apart)?) } else { None };
    let checkpoint = ModelSpec::from_hf_config(&read(&path)?, apart.as_deref(), name);
    checkpoint.map(Some).map_err(|error| Problem::new(place, error))
}

/// What to say of a model that is nowhere.
pub fn unknown_model(place: &str, name: &str) -> Problem {
    let what = format!("`{name}` is neither in the catalogue nor a local config.json");
    Problem::new(place, what).or_near(profiles::closest(name, profiles::model_names()))
}

/// The `config.json` that a path of a model leads to.
pub fn model_file(path: &Path) -> Option<PathBuf> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    path.is_file().then_some(path)
}

/// The models that draft.
fn drafting_models(file: &ScenarioFile) -> impl Iterator<Item = (String, &String)> {
    let groups = file.cluster.groups.iter().enumerate().filter_map(|(index, group)| {
        let (key, name) = drafting(group.engine.as_ref()?)?;
        Some((format!("cluster.groups[{index}].engine.speculation.{key}"), name))
    });
    let own = drafting(&file.cluster.engine);
    let own = own.map(|(key, name)| (format!("cluster.engine.speculation.{key}"), name));
    own.into_iter().chain(groups)
}

fn drafting(engine: &EngineConfig) -> Option<(&'static str, &String)> {
    let speculation = engine.speculation()?;
    Some((speculation.keys.model, speculation.model?))
}

/// The local models that a scenario names, by what it calls them.
pub(super) fn local_models(
    file: &ScenarioFile,
    folder: &Path,
) -> Result<BTreeMap<String, ModelSpec>, Problem> {
    let groups = file.cluster.groups.iter().enumerate().filter_map(|(index, group)| {
        Some((format!("cluster.groups[{index}].model"), group.model.as_ref()?))
    });
    let classes = file.workload.classes.iter().enumerate().filter_map(|(index, class)| {
        Some((format!("workload.classes[{index}].model"), class.model.as_ref()?))
    });
    let mut models = BTreeMap::new();
    let of_cluster = ("cluster.model".to_owned(), &file.cluster.model);
    let drafting = drafting_models(file);
    for (path, name) in [of_cluster].into_iter().chain(groups).chain(classes).chain(drafting) {
        if !models.contains_key(name)
            && let Some(model) = checkpoint(&path, name, folder)?
        {
            models.insert(name.clone(), model);
        }
    }
    Ok(models)
}
