//! `servecast profile import`: measured step times of other projects as a profile.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::import_layers::{self, LayerArguments};
use crate::cli::failure::Failure;
use crate::cli::replace;
use crate::cli::terminal::{print, say};
use crate::io::import::{
    ImportError, SplitwiseRuns, SplitwiseSelection, aiconfigurator, import_steps,
};
use crate::io::output;

/// `servecast profile import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast profile import --from aiconfigurator systems/data --gpu h100_sxm \\\n    \
    --engine vllm --version 0.14.0 --output h100-vllm-0.14.0.toml\n  \
    servecast run --set cluster.step_time.type=operator_table \\\n    \
    --set cluster.step_time.profile=h100-vllm-0.14.0.toml\n\n  \
    servecast profile import --from llmservingsim perf/RTX4090/meta-llama/Llama-3.1-8B/bf16 \\\n    \
    --output llama-4090.toml\n  \
    servecast run --set cluster.step_time.type=layer_table \\\n    \
    --set cluster.step_time.profile=llama-4090.toml\n\n  \
    servecast profile import --from splitwise data/perf_model.csv --model llama2-70b \\\n    \
    --gpu h100-80gb --tp 4 --output llama-h100.toml\n  \
    servecast run --set cluster.step_time.type=step_table \\\n    \
    --set cluster.step_time.profile=llama-h100.toml")]
pub(super) struct ImportArguments {
    /// Where the measurements come from
    #[arg(long, value_enum)]
    from: ImportSource,
    /// Folder of the measurements; for splitwise the table
    folder: PathBuf,
    /// Operator tables: folder name of the GPU. Step tables: its name in the table. Layer tables of
    /// vidur: its name, where the folder's path does not tell
    #[arg(long, required_if_eq_any([("from", "aiconfigurator"), ("from", "splitwise")]))]
    gpu: Option<String>,
    /// Operator tables: engine whose kernels were measured [default: vllm]
    #[arg(long)]
    engine: Option<String>,
    /// Operator tables: version of the engine
    #[arg(long, required_if_eq("from", "aiconfigurator"))]
    version: Option<String>,
    /// Step tables: name of the model in the table. Layer tables of vidur: its name, where the
    /// folder's path does not tell
    #[arg(long, required_if_eq("from", "splitwise"))]
    model: Option<String>,
    /// Layer and step tables: GPUs that share the model [default: 1]
    #[arg(long = "tensor-parallel-size", visible_alias = "tp", value_name = "GPUS",
          value_parser = clap::value_parser!(u32).range(1..))]
    tp: Option<u32>,
    #[command(flatten)]
    layers: LayerArguments,
    /// File to write, which must not exist; standard output if absent
    #[arg(long, short)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportSource {
    /// Operator tables of ai-dynamo/aiconfigurator (systems/data)
    Aiconfigurator,
    /// Layer tables of casys-kaist/LLMServingSim (the folder of meta.yaml, tp1, tp2, …)
    Llmservingsim,
    /// Layer tables of microsoft/vidur (compute/GPU/ORGANISATION/MODEL)
    Vidur,
    /// Times of whole steps of Mutinifni/splitwise-sim (the table of its performance model)
    Splitwise,
}

use ImportSource::{Aiconfigurator, Llmservingsim, Splitwise, Vidur};

pub(super) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    refuse_foreign(arguments)?;
    if let Some(path) = &arguments.output {
        check_new(path)?;
    }
    let text = match arguments.from {
        Aiconfigurator => operators(arguments)?,
        Llmservingsim => layers(arguments)?,
        Vidur => layers_of_vidur(arguments)?,
        Splitwise => steps(arguments)?,
    };
    let Some(path) = &arguments.output else { return print(&text) };
    replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
    say(&format!("{} kB in {}", text.len().div_ceil(1000), path.display()));
    Ok(())
}

/// A file that is there is not replaced; one that could not be written is found before the work.
pub(super) fn check_new(path: &Path) -> Result<(), Failure> {
    if output::occupied(path).is_some_and(|there| there.is_file()) {
        return Err(Failure::input(format!("--output: {}: exists already", path.display())));
    }
    replace::check(path)
}

/// Flags that say nothing of these measurements.
fn refuse_foreign(arguments: &ImportArguments) -> Result<(), Failure> {
    let flags: [(&str, bool, &[ImportSource]); 6] = [
        ("--gpu", arguments.gpu.is_some(), &[Aiconfigurator, Vidur, Splitwise]),
        ("--engine", arguments.engine.is_some(), &[Aiconfigurator]),
        ("--version", arguments.version.is_some(), &[Aiconfigurator]),
        ("--model", arguments.model.is_some(), &[Vidur, Splitwise]),
        ("--tp", arguments.tp.is_some(), &[Llmservingsim, Vidur, Splitwise]),
        ("--all-reduce", arguments.layers.has_all_reduces(), &[Vidur]),
    ];
    let layers = arguments
        .layers
        .given()
        .map(|(flag, is_given)| (flag, is_given, &[Llmservingsim, Vidur][..]));
    let foreign = flags
        .into_iter()
        .chain(layers)
        .find(|(_, is_given, of)| *is_given && !of.contains(&arguments.from));
    let Some((flag, _, of)) = foreign else { return Ok(()) };
    let names = of.iter().filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
    Err(Failure::input(format!("{flag}: is only for --from {}", names.join(", "))))
}

fn operators(arguments: &ImportArguments) -> Result<String, Failure> {
    let selection = aiconfigurator::Selection {
        system: arguments.gpu.as_deref().unwrap_or_default(),
        engine: arguments.engine.as_deref().unwrap_or("vllm"),
        version: arguments.version.as_deref().unwrap_or_default(),
    };
    let profile = aiconfigurator::import(&arguments.folder, &selection);
    let profile = profile.map_err(|error: ImportError| Failure::Input(error.into()))?;
    Ok(aiconfigurator::to_toml(&profile))
}

fn layers(arguments: &ImportArguments) -> Result<String, Failure> {
    let tp = arguments.tp.unwrap_or(1);
    let (text, note) = import_layers::import(&arguments.folder, tp, &arguments.layers)?;
    say(&note);
    Ok(text)
}

fn layers_of_vidur(arguments: &ImportArguments) -> Result<String, Failure> {
    let ImportArguments { folder, gpu, model, layers, .. } = arguments;
    let tp = arguments.tp.unwrap_or(1);
    let names = [gpu.clone(), model.clone()];
    let (text, note) = import_layers::import_of_vidur(folder, names, tp, layers)?;
    say(&note);
    Ok(text)
}

fn steps(arguments: &ImportArguments) -> Result<String, Failure> {
    let selection = SplitwiseSelection {
        model: arguments.model.as_deref().unwrap_or_default(),
        hardware: arguments.gpu.as_deref().unwrap_or_default(),
        tensor_parallel_size: arguments.tp.unwrap_or(1),
    };
    let imported = import_steps(&arguments.folder, &selection);
    let (profile, kept) = imported.map_err(|error| Failure::Input(error.into()))?;
    let SplitwiseRuns { runs, used, in_parts } = kept;
    let note = format!("medians of {used} of {runs} runs; {in_parts} did not run as one batch");
    say(&note);
    let SplitwiseSelection { model, hardware, tensor_parallel_size: tp } = selection;
    Ok(format!(
        "# Step profile: servecast profile import --from splitwise --model {model} --gpu {hardware} \
         --tp {tp}\n# Times of whole steps in us.\n# {note}.\n{}",
        profile.to_toml()
    ))
}
