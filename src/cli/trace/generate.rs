//! `servecast trace generate`: the requests of a workload, drawn and written without any engine.

use std::path::{Path, PathBuf};

use super::args::GenerateArguments;
use super::{name_of, state, target_error};
use crate::cli::failure::{Failure, overrides};
use crate::cli::replace;
use crate::cli::terminal::{listener, say};
use crate::io::traces::WriteOptions;
use crate::load::{self, Draw, LoadError, WorkloadFile};
use crate::rng::Seed;

/// A name for messages, and a workload with the folder of its paths.
type Source = (String, (WorkloadFile, PathBuf));

pub(super) fn generate(arguments: &GenerateArguments) -> Result<(), Failure> {
    let target = &arguments.target;
    let (name, source) = if arguments.workload.dataset_name.is_some() {
        of_flags(arguments)?
    } else {
        of_scenario(arguments)?
    };
    let draw = Draw::of(&name, source, &listener())?;
    replace::check(&target.output)?;
    let options =
        WriteOptions { existing: target.existing(), epoch_nanos: arguments.epoch.unwrap_or(0) };
    let written = draw.write(&target.output, target.to, arguments.hash_block_tokens, &options);
    let written = written.map_err(|error| match error {
        LoadError::Trace(error) => target_error(error),
        other => other.into(),
    })?;
    state(target, &written)
}

fn of_flags(arguments: &GenerateArguments) -> Result<Source, Failure> {
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
    let seed = Seed(u64::from(arguments.workload.tool_seed(arguments.workload.tool()?)));
    let file = WorkloadFile { seed, trace: requests.trace, workload: requests.workload };
    Ok(("flags".to_owned(), (file, PathBuf::new())))
}

fn of_scenario(arguments: &GenerateArguments) -> Result<Source, Failure> {
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
    let workload = load::workload(path, &overrides(&arguments.overrides)?, seed)?;
    Ok((name_of(path), workload))
}
