//! `servecast profile`: the catalogue of models, GPUs and measured step times, and what a model
//! costs on a GPU.

mod import;
mod import_layers;
mod pair;
mod probe;
mod sheet;
mod steps;

use std::fmt::Write as _;
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::args::Format;
use super::{Failure, print};
use crate::load;
use crate::profiles;
use import::ImportArguments;
use pair::Pair;
use sheet::Sheet;
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
    kind: Option<Kind>,
    /// How they are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
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
    let shows = |kind: Kind| arguments.kind.is_none_or(|asked| asked == kind);
    let mut parts = Vec::new();
    let mut object = serde_json::Map::new();
    if shows(Kind::Models) {
        parts.push(models_table());
        object.insert("models".to_owned(), models_json());
    }
    if shows(Kind::Gpus) {
        parts.push(gpus_table());
        object.insert("gpus".to_owned(), gpus_json());
    }
    if shows(Kind::Cost) {
        parts.push(cost_table());
        object.insert("cost".to_owned(), cost_json());
    }
    match arguments.format {
        Format::Table => print(&parts.join("\n")),
        Format::Json => print(&format!("{:#}\n", Value::Object(object))),
    }
}

fn models_table() -> String {
    let mut text = format!(
        "{:<54}{:>10}{:>10}{:>12}{:>11}\n",
        "model", "10^9 par.", "active", "weights", "context"
    );
    for profile in profiles::models() {
        let spec = &profile.spec;
        // A string can always be written to.
        let _ = writeln!(
            text,
            "{:<54}{:>10.1}{:>10.1}{:>12}{:>11}",
            spec.name,
            spec.params_total() as f64 / 1e9,
            spec.params_active() as f64 / 1e9,
            spec.weight_bytes(1).to_string(),
            spec.max_position
        );
    }
    text
}

fn models_json() -> Value {
    let one = |profile: &profiles::Profile<crate::model::ModelSpec>| {
        json!({
            "name": profile.spec.name,
            "aliases": profile.aliases,
            "params_total": profile.spec.params_total(),
            "params_active": profile.spec.params_active(),
            "weights_bytes": profile.spec.weight_bytes(1),
            "max_position": profile.spec.max_position,
        })
    };
    profiles::models().map(one).collect()
}

fn gpus_table() -> String {
    let mut text = format!(
        "{:<34}{:>11}{:>10}{:>13}{:>9}  {}\n",
        "gpu", "memory", "GB/s", "bf16 TFLOP/s", "link", "short names"
    );
    for profile in profiles::gpus() {
        let spec = &profile.spec;
        // A string can always be written to.
        let _ = writeln!(
            text,
            "{:<34}{:>11}{:>10.0}{:>13.0}{:>9.0}  {}",
            spec.name,
            spec.memory().to_string(),
            spec.memory_bandwidth_gb_s,
            spec.bf16_tflops,
            spec.link_gb_s,
            profile.aliases.join(", ")
        );
    }
    text
}

fn gpus_json() -> Value {
    let one = |profile: &profiles::Profile<crate::hardware::GpuSpec>| {
        json!({
            "name": profile.spec.name,
            "aliases": profile.aliases,
            "memory_bytes": profile.spec.memory_bytes,
            "memory_bandwidth_gb_s": profile.spec.memory_bandwidth_gb_s,
            "bf16_tflops": profile.spec.bf16_tflops,
            "link_gb_s": profile.spec.link_gb_s,
        })
    };
    profiles::gpus().map(one).collect()
}

fn cost_table() -> String {
    let mut text = format!("{:<52}{:<9}{:<9}\n", "step times", "engine", "version");
    for table in profiles::operator_tables() {
        // A string can always be written to.
        let _ = writeln!(text, "{:<52}{:<9}{}", table.name, table.engine(), table.version());
    }
    for table in profiles::step_tables() {
        let _ = writeln!(text, "{:<52}whole steps of {}", table.name, table.model);
    }
    text
}

fn cost_json() -> Value {
    let one = |table: &profiles::CostProfile| json!({ "name": table.name, "engine": table.engine(), "version": table.version() });
    let steps = |table: &profiles::ModelTable| {
        json!({
            "name": table.name,
            "model": table.model,
            "gpu": table.gpu,
            "tensor_parallel_size": table.tensor_parallel_size,
        })
    };
    let operators = profiles::operator_tables().iter().map(one);
    operators.chain(profiles::step_tables().iter().map(steps)).collect()
}

/// An operator table as lines of name and value, if the name is one's.
fn operator_table(arguments: &ShowArguments) -> Result<Option<(Sheet, Value)>, Failure> {
    let Some(table) = profiles::operator_table(&arguments.name) else { return Ok(None) };
    refuse_gpu(arguments)?;
    let profile = crate::cost::OperatorProfile::parse(table.text);
    let profile = profile.map_err(|error| Failure::Input(error.into()))?;
    let value = json!({
        "cost": table.name,
        "gpu": profile.gpu,
        "engine": profile.engine,
        "version": profile.version,
        "source": profile.source,
        "licence": profile.licence,
        "date": profile.date,
    });
    Ok(Some((Sheet::of_operators(table.name, &profile), value)))
}

/// A table of step times is of one GPU.
fn refuse_gpu(arguments: &ShowArguments) -> Result<(), Failure> {
    match arguments.gpu {
        Some(_) => {
            Err(Failure::input("--gpu: a table of step times is of one GPU; name a model first"))
        }
        None => Ok(()),
    }
}

/// A step table as lines of name and value, if the name is one's.
fn step_table(arguments: &ShowArguments) -> Result<Option<(Sheet, Value)>, Failure> {
    let Some(table) = profiles::step_table(&arguments.name) else { return Ok(None) };
    refuse_gpu(arguments)?;
    let profile = crate::cost::StepProfile::parse(table.text);
    let profile = profile.map_err(|error| Failure::Input(error.into()))?;
    let value = json!({
        "cost": table.name,
        "model": profile.model,
        "gpu": profile.gpu,
        "tensor_parallel_size": profile.tensor_parallel_size,
        "dtype": profile.dtype,
        "engine": profile.engine,
        "version": profile.engine_version,
        "source": profile.source,
        "licence": profile.licence,
        "date": profile.measured,
    });
    Ok(Some((Sheet::of_steps(table.name, &profile), value)))
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let table = match operator_table(arguments)? {
        None => step_table(arguments)?,
        found => found,
    };
    if let Some((sheet, value)) = table {
        return match arguments.format {
            Format::Table => print(&sheet.to_string()),
            Format::Json => print(&format!("{value:#}\n")),
        };
    }
    let name = &arguments.name;
    let model = if load::is_gpu_file(name) {
        None
    } else {
        load::model("cluster.model", name, Path::new(""))?
    };
    let (mut sheet, mut value) = match model {
        Some(model) => {
            let profile = profiles::models().find(|profile| profile.spec == model);
            (Sheet::of_model(&model, profile), model_json(&model, profile))
        }
        None => gpu(arguments)?,
    };
    if let Some(gpu) = &arguments.gpu {
        let pair = Pair::of(name, gpu, arguments.tp)?;
        sheet.push_pair(&pair);
        value["on_gpu"] = pair.json();
    }
    match arguments.format {
        Format::Table => print(&sheet.to_string()),
        Format::Json => print(&format!("{value:#}\n")),
    }
}

fn gpu(arguments: &ShowArguments) -> Result<(Sheet, Value), Failure> {
    let name = &arguments.name;
    let Some(spec) = load::gpu("name", name, Path::new(""))? else {
        let tables = profiles::operator_tables().iter().map(|table| table.name);
        let tables = tables.chain(profiles::step_tables().iter().map(|table| table.name));
        let known = profiles::model_names().chain(profiles::gpu_names()).chain(tables);
        let near = profiles::closest(name, known);
        let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
        return Err(Failure::input(format!(
            "`{name}` is no model, GPU or table of the catalogue{hint}; `servecast profile list` names all"
        )));
    };
    if arguments.gpu.is_some() {
        return Err(Failure::input(format!("--gpu: `{name}` is a GPU itself; name a model first")));
    }
    let profile = profiles::gpus().find(|profile| profile.spec == spec);
    let value = with_origin(json!({ "gpu": spec }), profile);
    Ok((Sheet::of_gpu(&spec, profile), value))
}

fn model_json(
    model: &crate::model::ModelSpec,
    profile: Option<&profiles::Profile<crate::model::ModelSpec>>,
) -> Value {
    let value = json!({
        "model": model,
        "params_total": model.params_total(),
        "params_active": model.params_active(),
        "weights_bytes": model.weight_bytes(1),
        "kv_bytes_per_token": model.kv_bytes_per_token(1, crate::model::KvDtype::Auto),
    });
    with_origin(value, profile)
}

/// Adds where the figures come from.
fn with_origin<T>(mut value: Value, profile: Option<&profiles::Profile<T>>) -> Value {
    if let Some(profile) = profile {
        value["aliases"] = json!(profile.aliases);
        value["source"] = json!(profile.source);
        value["licence"] = json!(profile.licence);
        value["confidence"] = json!(profile.confidence);
        value["checked"] = json!(profile.checked);
    }
    value
}
