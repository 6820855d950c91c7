//! From a table of settings to a scenario in which everything is decided.

use std::path::Path;

use toml::{Table, Value};

use super::Loaded;
use super::error::{LoadError, fail};
use super::file::deserialize;
use super::gpus::local_gpus;
use super::models::local_models;
use super::overrides::{Override, blame, put_all};
use crate::erased;
use crate::io::{acceptance, text};
use crate::metrics::bench::MetricKey;
use crate::problem::Problem;
use crate::resolved::{OwnFiles, Scenario, ScenarioError, Unstated};
use crate::scenario::ScenarioFile;

/// Resolves what a table says, for servers that are like this where it says nothing of them.
pub(super) fn resolve(
    (name, overrides): (&str, &[Override]),
    root: &Table,
    folder: &Path,
    server: Unstated,
) -> Result<Loaded, LoadError> {
    let blamed = |error: ScenarioError| blame(name, overrides, error);
    let file: ScenarioFile = deserialize(root).map_err(|problem| blamed(problem.into()))?;
    let loaded = of_file((name, overrides), file, folder, server)?;
    check_replicas(root, &loaded.scenario).map_err(|problem| blamed(problem.into()))?;
    Ok(loaded)
}

/// Resolves a scenario that was put together in code; its paths are relative to the folder. Nothing is assumed of
/// servers of which it says nothing.
///
/// # Errors
/// Every rule that it breaks, and files that cannot be read.
pub fn resolved(file: ScenarioFile, folder: &Path) -> Result<Scenario, LoadError> {
    resolved_for(file, folder, Unstated::Bare)
}

/// As [`resolved`], with servers like this where the scenario says nothing of them.
///
/// # Errors
/// As of [`resolved`].
pub fn resolved_for(
    file: ScenarioFile,
    folder: &Path,
    server: Unstated,
) -> Result<Scenario, LoadError> {
    of_file(("scenario", &[]), file, folder, server).map(|loaded| loaded.scenario)
}

/// A scenario with overrides, read again so that every rule of the file format holds.
pub fn overridden(file: ScenarioFile, overrides: &[Override]) -> Result<ScenarioFile, LoadError> {
    if overrides.is_empty() {
        return Ok(file);
    }
    let mut root = erased::table(&file).map_err(|error| fail(&file.name, error))?;
    put_all(&mut root, overrides)?;
    deserialize(&root).map_err(|problem| blame(&file.name, overrides, problem.into()))
}

fn of_file(
    (name, overrides): (&str, &[Override]),
    file: ScenarioFile,
    folder: &Path,
    server: Unstated,
) -> Result<Loaded, LoadError> {
    let blamed = |error: ScenarioError| blame(name, overrides, error);
    check_measured(&file).map_err(|problem| blamed(problem.into()))?;
    let own = own_files((name, overrides), &file, folder)?;
    let scenario = Scenario::resolve_with(file, &own, server).map_err(blamed)?;
    let mut scenario =
        with_step_times(scenario, folder).map_err(|problem| blamed(problem.into()))?;
    if let Some((path, drafts)) = scenario.acceptance_recording() {
        let accepted = acceptance::read(&folder.join(path), drafts)?;
        scenario = scenario.with_accepted_drafts(accepted).map_err(blamed)?;
    }
    Ok(Loaded { scenario, folder: folder.to_path_buf(), policies: None })
}

/// Reads the models and GPUs that a scenario takes from files.
pub(crate) fn own_files(
    (name, overrides): (&str, &[Override]),
    file: &ScenarioFile,
    folder: &Path,
) -> Result<OwnFiles, LoadError> {
    let blamed = |problem: Problem| blame(name, overrides, problem.into());
    let models = local_models(file, folder).map_err(blamed)?;
    let gpus = local_gpus(file, folder).map_err(blamed)?;
    Ok(OwnFiles { models, gpus })
}

/// Reads the step times that are in files of the user's own.
fn with_step_times(mut scenario: Scenario, folder: &Path) -> Result<Scenario, Problem> {
    for group in &mut scenario.groups {
        if let Some(name) = group.cluster.step_time.file_mut() {
            let path = folder.join(name);
            let text = text::whole(&path, text::SETTINGS_MIB_MAX).map_err(|error| {
                Problem::new(
                    "cluster.step_time.profile",
                    format_args!("{}: {error}", path.display()),
                )
            })?;
            group.step_time_profile = Some(text.into());
        }
    }
    Ok(scenario)
}

/// A number of replicas that is given and not the one that the parts of the cluster make is no default: it is
/// refused also where it is that of a cluster without parts.
fn check_replicas(root: &Table, scenario: &Scenario) -> Result<(), Problem> {
    let cluster = root.get("cluster").and_then(Value::as_table);
    let given = cluster.and_then(|cluster| cluster.get("replicas")).and_then(Value::as_integer);
    let counted = i64::from(scenario.replicas());
    let Some(given) = given.filter(|given| *given != counted) else { return Ok(()) };
    let parts = ["autoscaler", "groups", "disaggregation"];
    let parts = parts.iter().filter(|part| cluster.is_some_and(|it| it.contains_key(**part)));
    let parts: Vec<String> = parts.map(|part| format!("cluster.{part}")).collect();
    let rule = format!("absent, or the {counted} replicas of {}", parts.join(" and "));
    Err(Problem::must_be("cluster.replicas", rule, given))
}

fn check_measured(file: &ScenarioFile) -> Result<(), Problem> {
    let mut metrics = file.measured.iter().flat_map(|measured| measured.metrics.keys());
    let Some(metric) = metrics.find(|metric| MetricKey::parse(metric).is_none()) else {
        return Ok(());
    };
    let rule = "is not a figure of the benchmark JSON, such as mean_ttft_ms, p99_tpot_ms or \
                output_throughput";
    Err(Problem::new(format!("measured.metrics.{metric}"), rule))
}
