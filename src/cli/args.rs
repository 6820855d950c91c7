//! Arguments that several commands have, and those of commands with few.

use super::failure::{Failure, overrides};
use super::servers::ServersArgument;
use crate::load::Changes;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::io::timeline::Window;

/// `servecast run`.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
    servecast run\n  \
    servecast run scenarios/azure-conversation.toml --set cluster.replicas=4\n  \
    servecast run my.toml --seed 7 --output-dir out/my --format json\n  \
    servecast run scenarios/faults.toml --only crashes --no-files\n  \
    servecast run my.toml --servers slow")]
pub(super) struct RunArguments {
    /// Scenario file in TOML, YAML or JSON; a built-in scenario if absent
    pub(super) scenario: Option<PathBuf>,
    /// Run only the scenario or variants of this name, in which `*` stands for any text; may be repeated
    #[arg(long, value_name = "NAME", alias = "variant")]
    pub(super) only: Vec<String>,
    #[command(flatten)]
    pub(super) changes: ChangeArguments,
    /// Also run N other seeds and print how far the figures vary; each draws calibrated parameters, or servers
    /// of the same class
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=100_000))]
    pub(super) seeds: Option<u32>,
    #[command(flatten)]
    pub(super) servers: ServersArgument,
    /// Simulate typical servers alone where the scenario does not describe them: no ranges where slow and fast ones
    /// are simulated for these, and none drawn with `--seeds`
    #[arg(long, conflicts_with = "servers")]
    pub(super) point: bool,
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
    /// Text, for people
    #[default]
    Table,
    /// JSON, for programs
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
#[command(
    after_help = "Prints each recording that comes out differently, with its first step that does.\n\n\
    Exit codes: 0 every step is the same, 1 one is not, 2 bad arguments or input.\n\n\
    Example:\n  \
    servecast conformance recordings/"
)]
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
