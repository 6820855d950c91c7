//! Experiments: scenarios whose requests were recorded with their times.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use crate::io::columns;
use crate::load::Draft;
use crate::validate::{Experiment, Sent};

/// Where the tables of experiments are.
#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// Folder of the tables that an experiment names and its own folder has not; `SERVECAST_DATA`
    /// if absent
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// An experiment with its requests, and the scenario of it that can still be changed.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) experiment: Experiment,
    pub(super) sent: Sent,
    pub(super) draft: Draft,
}

/// Reads the tables of an experiment.
pub(super) fn load(file: &Draft, data: &DataArguments) -> Result<Loaded, Failure> {
    let experiment: Experiment = file.read()?;
    let data = data.data.clone().or_else(|| std::env::var_os("SERVECAST_DATA").map(Into::into));
    let paths = experiment.requests.files.iter();
    let tables = paths.map(|name| columns::read(&find(name, file.folder(), data.as_deref())));
    let tables = tables.collect::<Result<Vec<_>, _>>();
    let tables = tables.map_err(|error| Failure::Input(error.into()))?;
    let sent = experiment.sent(&tables);
    let sent = sent.map_err(|error| Failure::input(format!("{}: {error}", file.name())))?;
    let scenario = experiment.scenario_file(sent.requests.len());
    let draft = Draft::of(&experiment.name, &scenario, file.folder())?;
    Ok(Loaded { experiment, sent, draft })
}

fn find(name: &str, folder: &Path, data: Option<&Path>) -> PathBuf {
    let own = folder.join(name);
    match data {
        Some(data) if !own.exists() => data.join(name),
        _ => own,
    }
}
