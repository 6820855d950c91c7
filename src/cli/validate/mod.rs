//! `servecast validate`: measured runs, simulated again and compared.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::args::DataArguments;
use super::failure::{Failure, overrides};
use super::terminal::{listener, print, print_text, say};
#[cfg(feature = "calibrate")]
use crate::calibrate::Servers;
use crate::load::{Changes, Override};
use crate::validate::{self, Case, MemoryStudy, Part, Published, Validation, judge};

/// `servecast validate`.
#[derive(Debug, Args)]
#[command(after_help = "Without arguments, the built-in reference runs.\n\
    Exit codes: 0 within the limits, 1 not, 2 bad arguments or input.\n\n\
    Examples:\n  \
    servecast validate\n  \
    servecast validate --server server.toml bench-2rps.json bench-4rps.json\n  \
    servecast validate my-experiment.toml\n  \
    servecast validate my-experiment.toml --calibration my-gpu.toml\n  \
    servecast validate --runs runs.jsonl --family 'gpustack/*'\n  \
    servecast validate --runs runs.jsonl --calibrate-on others.jsonl\n  \
    servecast validate --runs runs.jsonl --engine vllm --format json\n  \
    servecast validate --memory starts.jsonl --models configs/ --given weights,activation")]
pub(super) struct ValidateArguments {
    /// Experiment file: an engine, its requests and their measured times. Or a folder: a run of a
    /// real server on a GPU of known step time (`meta.json`, `requests.csv.gz`), or several of them.
    /// With --server, what benchmark tools printed or wrote
    #[arg(conflicts_with = "runs")]
    experiment: Vec<PathBuf>,
    /// Scenario of the server that the results are of: its model, GPU, engine and requests. The results tell how many
    /// requests were sent, and how fast
    #[arg(long, value_name = "SCENARIO", requires = "experiment")]
    server: Option<PathBuf>,
    /// Published runs, one JSON record a line
    #[arg(long, value_name = "FILE")]
    runs: Option<PathBuf>,
    /// Only runs of these families; `*` stands for any text, `?` for one letter
    #[arg(long, value_name = "GLOB", requires = "runs")]
    family: Option<String>,
    /// Only runs of this engine, as the records name it, in any capitals
    #[arg(long, value_name = "NAME", requires = "runs")]
    engine: Option<String>,
    /// Published runs to calibrate on: what differs between servers is fitted to those of this
    /// file with the same engine, source, GPU and model, from far to near
    #[cfg(feature = "calibrate")]
    #[arg(long, value_name = "FILE", requires = "runs")]
    calibrate_on: Option<PathBuf>,
    /// Parameters that `servecast calibrate --output` wrote, for the experiment
    #[arg(long, value_name = "FILE", requires = "experiment")]
    calibration: Option<PathBuf>,
    /// Memory lines of server starts, one JSON record a line: what is predicted of KV memory beside what was logged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "experiment", "overrides"])]
    memory: Option<PathBuf>,
    /// Folder of models beside the catalogue's, each a file `owner--name.config.json`
    #[arg(long, value_name = "FOLDER", requires = "memory")]
    models: Option<PathBuf>,
    /// Parts that are taken from the logs where these state them, in place of what is predicted
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',', requires = "memory")]
    given: Vec<GivenPart>,
    #[command(flatten)]
    data: DataArguments,
    /// Override a value of every scenario, as in `cluster.api_delay_ms=7`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
    /// Threads; all processors if absent. The result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// Errors by family, or of every case
    #[default]
    Table,
    /// Errors by family, and every run
    Json,
    /// Every run and metric
    Csv,
}

/// A part of GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GivenPart {
    /// That of the GPU; of SGLang what is free before weights are loaded
    Memory,
    /// Weights
    Weights,
    /// The peak of activations
    Activation,
    /// What is outside the tensor library: modules of kernels, communicators
    #[value(name = "non_torch", alias = "non-torch")]
    NonTorch,
    /// What is taken off for captured graphs
    Graphs,
}

impl From<GivenPart> for Part {
    fn from(part: GivenPart) -> Self {
        match part {
            GivenPart::Memory => Self::Memory,
            GivenPart::Weights => Self::Weights,
            GivenPart::Activation => Self::Activation,
            GivenPart::NonTorch => Self::NonTorch,
            GivenPart::Graphs => Self::Graphs,
        }
    }
}

pub(super) fn validate(arguments: &ValidateArguments) -> Result<(), Failure> {
    set_threads(arguments.threads)?;
    if let Some(path) = &arguments.memory {
        return validate_memory(path, arguments);
    }
    let overrides = overrides(&arguments.overrides)?;
    if let Some(server) = &arguments.server {
        let changes = Changes { calibration: arguments.calibration.clone(), overrides, seed: None };
        let cases = validate::results(server, &arguments.experiment, &changes, &listener())?;
        return validate_cases(&cases, arguments);
    }
    let experiment = match &arguments.experiment[..] {
        [] => None,
        [one] => Some(one),
        [_, other, ..] => {
            let problem = format!("{}: is a second file; several need --server", other.display());
            return Err(Failure::input(problem));
        }
    };
    let cases = match (&arguments.runs, experiment) {
        (Some(runs), _) => return validate_runs(runs, arguments, &overrides),
        (None, Some(folder)) if folder.is_dir() => {
            if arguments.calibration.is_some() {
                return Err(Failure::input(
                    "--calibration: is for an experiment, not for a folder",
                ));
            }
            validate::host_runs(folder, &overrides, &listener())?
        }
        (None, Some(path)) => {
            let calibration = arguments.calibration.clone();
            let changes = Changes { calibration, overrides, seed: None };
            validate::experiments(path, &changes, arguments.data.folder().as_deref())?
        }
        (None, None) => validate::reference_runs(&overrides, &listener())?,
    };
    validate_cases(&cases, arguments)
}

fn validate_memory(path: &Path, arguments: &ValidateArguments) -> Result<(), Failure> {
    let given: Vec<Part> = arguments.given.iter().map(|part| (*part).into()).collect();
    let study = MemoryStudy::read(path, arguments.models.as_deref(), &given, &listener())?;
    match arguments.format {
        Format::Table => print_text(&study.text())?,
        Format::Json => print(&study.json())?,
        Format::Csv => print(&study.csv())?,
    }
    let (predicted, starts) = study.counts();
    say(&format!("{predicted} of {starts} starts predicted"));
    Ok(())
}

fn validate_runs(
    path: &Path,
    arguments: &ValidateArguments,
    overrides: &[Override],
) -> Result<(), Failure> {
    let listener = listener();
    let runs = Published::read(path, &listener)?;
    let runs = runs.only(arguments.family.as_deref(), arguments.engine.as_deref())?;
    let runs = runs.with(overrides)?;
    #[cfg(feature = "calibrate")]
    let validation = {
        let servers = match &arguments.calibrate_on {
            Some(path) => Servers::fitted(&Published::read(path, &listener)?, &runs, &listener)?,
            None => Servers::default(),
        };
        runs.validate(&|run, file| servers.adjusted(run, file))
    };
    #[cfg(not(feature = "calibrate"))]
    let validation = runs.validate(&|_, file| Ok(file));
    print_as(arguments.format, &validation, &validation.text())?;
    let all = &validation.all;
    say(&format!("{} of {} runs simulated", all.ran, all.total));
    Ok(())
}

/// Simulates cases; an error beyond its limit is a failure.
fn validate_cases(cases: &[Case], arguments: &ValidateArguments) -> Result<(), Failure> {
    let verdict = judge(cases);
    print_as(arguments.format, &verdict.validation, &verdict.text())?;
    if verdict.is_positive() {
        return Ok(());
    }
    let (held, limits) = verdict.held;
    let missed = limits - held;
    Err(Failure::Run(anyhow::anyhow!("{missed} of {limits} errors are beyond their limits")))
}

fn print_as(format: Format, validation: &Validation, table: &str) -> Result<(), Failure> {
    match format {
        Format::Table => print_text(table),
        Format::Json => print(&validation.json()),
        Format::Csv => print(&validation.csv()),
    }
}

#[cfg(feature = "parallel")]
fn set_threads(threads: Option<usize>) -> Result<(), Failure> {
    let Some(threads) = threads else { return Ok(()) };
    if threads == 0 {
        return Err(Failure::input("--threads: must be at least 1, got 0"));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|error| Failure::Run(error.into()))
}

#[cfg(not(feature = "parallel"))]
fn set_threads(threads: Option<usize>) -> Result<(), Failure> {
    match threads {
        None | Some(1) => Ok(()),
        Some(threads) => Err(Failure::input(format!(
            "--threads: this build has no threads (feature `parallel`), got {threads}"
        ))),
    }
}
