//! `servecast trace generate`: the requests of a workload, drawn and written without any engine.

use std::path::Path;

use super::args::GenerateArguments;
use super::identity::Identity;
use super::{name_of, state, target_error};
use crate::cli::overrides;
use crate::cli::run::{notice_text, said};
use crate::cli::{Failure, replace, say};
use crate::io::traces::{self, TraceError, TraceFormat, WriteOptions};
use crate::load;
use crate::rng::Seed;
use crate::scenario::{TraceConfig, WorkloadConfig};
use crate::workload::Workload;

/// What is drawn.
struct Drawn {
    name: String,
    folder: std::path::PathBuf,
    seed: Seed,
    trace: Option<TraceConfig>,
    workload: WorkloadConfig,
}

pub(super) fn generate(arguments: &GenerateArguments) -> Result<(), Failure> {
    let target = &arguments.target;
    let mut drawn = if arguments.workload.dataset_name.is_some() {
        of_flags(arguments)?
    } else {
        of_scenario(arguments)?
    };
    if drawn.workload.warm_up.take().is_some() {
        say("notice: workload.warm_up is left out: a trace has the requests that count");
    }
    check(&drawn)?;
    replace::check(&target.output)?;
    let rows = match &drawn.trace {
        None => None,
        Some(trace) => Some(said(load::open_rows(trace, &drawn.folder, drawn.seed)?)),
    };
    let unusable = |error| Failure::Input(error);
    let mut workload = Workload::open(&drawn.workload, drawn.seed, rows)
        .map_err(|error| unusable(anyhow::anyhow!("{}: workload.{error}", drawn.name)))?;
    let mut identity = Identity::new(arguments.hash_block_tokens, ids(target.to));
    let rows = std::iter::from_fn(|| {
        let request = workload.next()?;
        Some(request.map(|request| identity.row(&request)).map_err(TraceError::from))
    });
    let options =
        WriteOptions { existing: target.existing(), epoch_nanos: arguments.epoch.unwrap_or(0) };
    let written = traces::write(&target.output, target.to, rows, &options).map_err(target_error)?;
    for notice in workload.notices() {
        say(&format!("notice: {}", notice_text(notice)));
    }
    state(target, &written)
}

/// Which prompts get hash ids.
fn ids(format: TraceFormat) -> super::identity::Ids {
    match format {
        TraceFormat::Mooncake => super::identity::Ids::OfAll,
        _ => super::identity::Ids::OfSharing,
    }
}

fn of_flags(arguments: &GenerateArguments) -> Result<Drawn, Failure> {
    if let Some(scenario) = &arguments.scenario {
        return Err(Failure::input(format!(
            "--dataset-name: the workload of {} is used; give a scenario or workload flags, not \
             both",
            scenario.display()
        )));
    }
    if let Some(text) = arguments.overrides.first() {
        return Err(Failure::input(format!(
            "--set: `{text}`: workload flags make no scenario; give a scenario or workload flags, \
             not both"
        )));
    }
    let model = match &arguments.model {
        None => None,
        Some(name) => {
            let model = load::model("--model", name, Path::new(""))?;
            Some(model.ok_or_else(|| load::unknown_model("--model", name))?)
        }
    };
    let mut requests = arguments.workload.requests(model.as_ref())?;
    // The tool warms servers up, and a trace has none.
    requests.workload.warm_up = None;
    for notice in &requests.notices {
        say(&format!("notice: {notice}"));
    }
    Ok(Drawn {
        name: "flags".to_owned(),
        folder: std::path::PathBuf::new(),
        seed: Seed(u64::from(arguments.workload.tool_seed(arguments.workload.tool()?))),
        trace: requests.trace,
        workload: requests.workload,
    })
}

fn of_scenario(arguments: &GenerateArguments) -> Result<Drawn, Failure> {
    let flags = &arguments.workload;
    let is_given = flags.num_prompts.is_some()
        || flags.request_rate.is_some()
        || flags.max_concurrency.is_some()
        || flags.dataset_path.is_some()
        || arguments.model.is_some();
    if is_given {
        return Err(Failure::input(
            "--dataset-name: is needed beside workload flags; without them the scenario is used, \
             and --set changes it",
        ));
    }
    let path = arguments.scenario.as_deref();
    let seed = flags.seed.map(u64::from);
    let (file, folder) = load::workload(path, &overrides(&arguments.overrides)?, seed)?;
    Ok(Drawn {
        name: name_of(path),
        folder,
        seed: file.seed,
        trace: file.trace,
        workload: file.workload,
    })
}

/// Refuses what has no times before it is served.
fn check(drawn: &Drawn) -> Result<(), Failure> {
    let problems = drawn.workload.validate();
    if !problems.is_empty() {
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("{}: workload.{problem}", drawn.name)).collect();
        return Err(Failure::input(lines.join("\n       ")));
    }
    if drawn.workload.sessions.is_some() {
        return Err(Failure::input(format!(
            "{}: workload.sessions: later turns are sent when answers are complete, which takes an \
             engine; leave sessions out",
            drawn.name
        )));
    }
    if !drawn.workload.classes.is_empty() {
        return Err(Failure::input(format!(
            "{}: workload.classes: no format of traces that are written has a place for classes; \
             leave them out",
            drawn.name
        )));
    }
    if drawn.workload.reads_trace() && drawn.trace.is_none() {
        let name = &drawn.name;
        return Err(Failure::input(format!(
            "{name}: trace: the workload reads a trace, none is given"
        )));
    }
    if drawn.workload.client.max_concurrency.is_some() {
        say("notice: the trace has arrivals, --max-concurrency holds requests back after them");
    }
    Ok(())
}
