//! Experiments from files, with the tables that they name.

use std::path::{Path, PathBuf};

use super::{Experiment, Sent};
use crate::io::columns;
use crate::load::{Changes, Draft, LoadError, fail};
use crate::resolved::Unstated;
use crate::validate::Case;

/// An experiment with its requests, and the scenario of it that can still be changed.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) experiment: Experiment,
    pub(crate) sent: Sent,
    pub(crate) draft: Draft,
}

/// Reads an experiment and its variants. Tables that it names lie in its own folder, else in `data`.
///
/// # Errors
/// What is wrong with the file or a table, and every rule that a scenario breaks.
pub fn experiments(
    path: &Path,
    changes: &Changes,
    data: Option<&Path>,
) -> Result<Vec<Case>, LoadError> {
    let case = |file: &Draft| {
        let Loaded { experiment, sent, draft } = Loaded::of(file, data)?;
        let is_measured = file.is_calibrated();
        let draft = if is_measured { draft } else { draft.of_server(Unstated::TYPICAL) };
        Ok(experiment.case(sent, draft.resolve()?.scenario))
    };
    changes.load(Some(path))?.each.iter().map(case).collect()
}

impl Loaded {
    /// Reads the tables of an experiment.
    pub(crate) fn of(file: &Draft, data: Option<&Path>) -> Result<Self, LoadError> {
        let experiment: Experiment = file.read()?;
        let paths = experiment.requests.files.iter();
        let tables = paths.map(|name| columns::read(&find(name, file.folder(), data)));
        let tables = tables.collect::<Result<Vec<_>, _>>();
        let tables = tables.map_err(|error| fail(&error.path, &error.problem))?;
        let sent = experiment.sent(&tables).map_err(|error| fail(file.name(), error))?;
        let scenario = experiment.scenario_file(sent.requests.len());
        let draft = Draft::of(&experiment.name, &scenario, file.folder())?;
        Ok(Self { experiment, sent, draft })
    }
}

fn find(name: &str, folder: &Path, data: Option<&Path>) -> PathBuf {
    let own = folder.join(name);
    match data {
        Some(data) if !own.exists() => data.join(name),
        _ => own,
    }
}
