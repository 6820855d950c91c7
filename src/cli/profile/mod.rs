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
use crate::catalogue::{self, CatalogueError, InMemory, Kind, LayoutEngine, LayoutQuestion};
use crate::model::KvDtype;
use crate::units::Bytes;
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
    servecast profile show Qwen/Qwen3-32B --gpu H100 --tp 2\n  \
    servecast profile show config.json --engine vllm --gpu B200 --tp 8 --kv-memory 40GiB\n  \
    servecast profile show config.json --engine vllm --gpu B200 --speculative mtp:1")]
struct ShowArguments {
    /// Name or alias of a model, GPU or table of step times, or a local config.json
    name: String,
    /// Adds what the model costs on this GPU
    #[arg(long)]
    gpu: Option<String>,
    /// GPUs that share the model
    #[arg(long = "tensor-parallel-size", visible_alias = "tp", value_name = "GPUS", requires = "gpu",
          default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    tp: u32,
    /// Shows how this engine lays out a local config.json in memory: weights, KV blocks or pools, states
    #[arg(long, value_enum, requires = "gpu")]
    engine: Option<EngineName>,
    /// Layouts: number format of the KV cache
    #[arg(long, value_enum, requires = "engine", default_value_t, value_name = "FORMAT")]
    kv_cache_dtype: KvName,
    /// Layouts: tokens that the model's own layers for it draft in each step (multi-token prediction), such as mtp:1
    #[arg(long, requires = "engine", value_parser = drafted, default_value = "none", value_name = "none|mtp:N")]
    speculative: u32,
    /// Layouts: memory for caches on each GPU, such as 40GiB [default: 40GiB and 100GiB]
    #[arg(long, requires = "engine", value_parser = memory, value_name = "SIZE")]
    kv_memory: Option<Bytes>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// vLLM 0.33
    Vllm,
    /// SGLang 0.5.23
    Sglang,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum KvName {
    /// What the checkpoint says, else 16 bits
    #[default]
    Auto,
    /// 8 bits
    Fp8,
}

/// An amount of memory: a number and GiB or GB.
fn memory(text: &str) -> Result<Bytes, String> {
    let split = text.find(|sign: char| sign.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "GiB" => f64::from(1 << 30),
        "GB" => 1e9,
        _ => return Err("must be a number with GiB or GB, such as 40GiB".to_owned()),
    };
    let amount = number.trim().parse::<f64>().ok().filter(|amount| *amount > 0.0 && *amount < 1e6);
    let amount = amount.ok_or("must be above 0 and below 1,000,000")?;
    Ok(Bytes((amount * unit) as u64))
}

/// Drafted tokens: `none`, or `mtp:` and how many.
fn drafted(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1000;
    if text == "none" {
        return Ok(0);
    }
    let count = text.strip_prefix("mtp:").and_then(|count| count.parse().ok());
    count.filter(|count| (1..=MOST).contains(count)).ok_or_else(|| {
        format!("must be none, or mtp: and a whole number from 1 to {MOST}, such as mtp:1")
    })
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
    if let (Some(engine), Some(gpu)) = (arguments.engine, arguments.gpu.as_deref()) {
        let question = LayoutQuestion {
            engine: match engine {
                EngineName::Vllm => LayoutEngine::Vllm,
                EngineName::Sglang => LayoutEngine::Sglang,
            },
            gpu,
            tp: arguments.tp,
            kv_cache_dtype: match arguments.kv_cache_dtype {
                KvName::Auto => KvDtype::Auto,
                KvName::Fp8 => KvDtype::Fp8,
            },
            draft_tokens: arguments.speculative,
            kv_memory: arguments.kv_memory,
        };
        let layout = InMemory::of(&arguments.name, question)?;
        return print_as(arguments.format, &layout, layout.json());
    }
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
