//! The command line as clap reads it.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

use super::{Failure, overrides};
use crate::load::Changes;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::bench::BenchArguments;
#[cfg(feature = "calibrate")]
use super::calibrate::CalibrateArguments;
use super::check::CheckArguments;
use super::compare::CompareArguments;
use super::plan::PlanArguments;
use super::profile::ProfileArguments;
use super::report::ReportArguments;
use super::sweep::{MergeArguments, SweepArguments};
use super::trace::TraceArguments;
use super::validate::ValidateArguments;
use crate::io::timeline::Window;

/// Simulate LLM serving: real schedulers, real workloads, the benchmark block you know.
#[derive(Debug, Parser)]
#[command(
    name = "servecast",
    version,
    after_help = "Without a command, `servecast run` simulates a built-in scenario.\n\
                  Exit codes: 0 ok, 1 the run failed, 2 bad arguments or input, 130 interrupted."
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Simulate a scenario and report it like a benchmark tool
    Run(RunArguments),
    /// Simulate a scenario at many points with several seeds; what was interrupted goes on
    Sweep(SweepArguments),
    /// Join the parts of a sweep that several machines computed
    Merge(MergeArguments),
    /// Answer a command of sglang.bench_serving or vllm bench serve
    Bench(Box<BenchArguments>),
    /// Fit parameters to measured runs
    #[cfg(feature = "calibrate")]
    Calibrate(CalibrateArguments),
    /// Find the cheapest layout that meets latency SLOs
    Plan(Box<PlanArguments>),
    /// Compare scenarios over many seeds: which is better, and by how much
    Compare(CompareArguments),
    /// Make one page of what a command left behind, with its figures
    Report(ReportArguments),
    /// Simulate recorded scenarios again and fail if a figure is worse
    Check(CheckArguments),
    /// Describe, convert and generate traces
    Trace(TraceArguments),
    /// List and show models and GPUs
    Profile(ProfileArguments),
    /// Simulate measured runs again and compare
    Validate(ValidateArguments),
    /// Replay recorded schedules of real engines and compare every step
    Conformance(ConformanceArguments),
    /// Print the JSON schema of scenario files
    Schema,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// `servecast run`.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
    servecast run\n  \
    servecast run scenarios/azure-conversation.toml --set cluster.replicas=4\n  \
    servecast run my.toml --seed 7 --output-dir out/my --format json")]
pub(super) struct RunArguments {
    /// Scenario file in TOML, YAML or JSON; a built-in scenario if absent
    pub(super) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(super) changes: ChangeArguments,
    /// Run again N times with other seeds, and parameters drawn from the calibration, and print how
    /// far the figures vary
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=100_000))]
    pub(super) seeds: Option<u32>,
    /// Refused with what may be meant: replicas of the cluster, or seeds.
    #[arg(long, hide = true)]
    pub(super) replicas: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// What is otherwise than a scenario file says.
#[derive(Debug, Default, Args)]
pub(super) struct ChangeArguments {
    /// Override a value of the scenario, as in `cluster.replicas=4`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) overrides: Vec<String>,
    /// Seed of every random stream
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Parameters that `servecast calibrate --output` wrote
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,
}

/// Where results go.
#[derive(Debug, Default, Args)]
pub(super) struct OutputArguments {
    /// Folder for records, summary and figures; a new one below `runs/` if absent
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder, and its timeline
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Write no folder of results: print the report only
    #[arg(long, conflicts_with_all = ["output_dir", "steps"])]
    pub(super) no_files: bool,
    /// Also write a table of every step
    #[arg(long)]
    pub(super) steps: bool,
    /// Also write a timeline for ui.perfetto.dev: a Chrome trace, compressed if FILE ends in .gz
    #[arg(long, value_name = "FILE")]
    pub(super) timeline: Option<PathBuf>,
    /// The part of the run that the timeline shows, in seconds, as in 10..12.5
    #[arg(long, value_name = "START..END", requires = "timeline")]
    pub(super) timeline_window: Option<Window>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Format {
    /// The benchmark block
    #[default]
    Table,
    /// JSON
    Json,
}

/// Where the tables of experiments are.
#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// Folder of the tables that an experiment names and its own folder has not; `SERVECAST_DATA`
    /// if absent
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// `servecast conformance`.
#[derive(Debug, Args)]
pub(super) struct ConformanceArguments {
    /// Folder of recordings (*.jsonl, *.jsonl.gz), searched with its subfolders
    pub(super) folder: PathBuf,
}

impl DataArguments {
    /// That folder, if there is one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.data.clone().or_else(|| std::env::var_os("SERVECAST_DATA").map(Into::into))
    }
}

impl ChangeArguments {
    /// What they change of a scenario file.
    pub(super) fn changes(&self) -> Result<Changes, Failure> {
        let (calibration, seed) = (self.calibration.clone(), self.seed);
        Ok(Changes { calibration, overrides: overrides(&self.overrides)?, seed })
    }
}
