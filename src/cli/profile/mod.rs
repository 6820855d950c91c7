//! `servecast profile`: the catalogue of models, GPUs and measured step times, and what a model
//! costs on a GPU.

mod import;
mod import_layers;
mod probe;
mod steps;

use clap::{Args, Subcommand, ValueEnum};

use super::args::Format;
use super::failure::Failure;
use super::terminal::print;
use crate::catalogue::{self, CatalogueError, Kind};
use import::ImportArguments;
use steps::{DiffArguments, PlotArguments};

/// `servecast profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArguments {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// Names and main figures of all models, GPUs and measured step times
    List(ListArguments),
    /// Every figure of a model, GPU or table of step times, and of a model on a GPU
    Show(ShowArguments),
    /// How two sources of step times differ for a model
    Diff(DiffArguments),
    /// A figure of step times beside the roofline
    Plot(PlotArguments),
    /// Measured step times of other projects, reduced to a profile
    Import(ImportArguments),
    /// Step times of a running server, from what its clients see
    Probe(probe::ProbeArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Which ones; all if absent
    #[arg(value_enum)]
    kind: Option<KindName>,
    /// How they are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// Models
    Models,
    /// GPUs
    Gpus,
    /// Measured step times
    Cost,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast profile show H100\n  \
    servecast profile show Qwen/Qwen3-32B --gpu H100 --tp 2")]
struct ShowArguments {
    /// Name or alias of a model, GPU or table of step times, or a local config.json
    name: String,
    /// Adds what the model costs on this GPU
    #[arg(long)]
    gpu: Option<String>,
    /// GPUs that share the model
    #[arg(long, visible_alias = "tensor-parallel-size", value_name = "GPUS", requires = "gpu",
          default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tp: u32,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn profile(arguments: &ProfileArguments) -> Result<(), Failure> {
    match &arguments.command {
        ProfileCommand::List(arguments) => list(arguments),
        ProfileCommand::Show(arguments) => show(arguments),
        ProfileCommand::Diff(arguments) => steps::diff(arguments),
        ProfileCommand::Plot(arguments) => steps::plot(arguments),
        ProfileCommand::Import(arguments) => import::import(arguments),
        ProfileCommand::Probe(arguments) => probe::probe(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let kind = arguments.kind.map(|kind| match kind {
        KindName::Models => Kind::Models,
        KindName::Gpus => Kind::Gpus,
        KindName::Cost => Kind::Cost,
    });
    let listing = catalogue::list(kind);
    print_as(arguments.format, &listing, listing.json())
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let on = arguments.gpu.as_deref().map(|gpu| (gpu, arguments.tp));
    let sheet = catalogue::show(&arguments.name, on)?;
    print_as(arguments.format, &sheet, sheet.json())
}

fn print_as(
    format: Format,
    text: &impl std::fmt::Display,
    json: &serde_json::Value,
) -> Result<(), Failure> {
    match format {
        Format::Table => print(&text.to_string()),
        Format::Json => print(&format!("{json:#}\n")),
    }
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Self {
        match error {
            CatalogueError::Name(problem) => problem.into(),
            CatalogueError::Load(error) => error.into(),
        }
    }
}
