//! `servecast profile import`: measured step times of other projects as a profile.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::import_layers::{self, LayerArguments};
use crate::cli::{Failure, print, say};
use crate::io::import::{ImportError, aiconfigurator};

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
    --set cluster.step_time.profile=llama-4090.toml")]
pub(super) struct ImportArguments {
    /// Where the measurements come from
    #[arg(long, value_enum)]
    from: ImportSource,
    /// Folder of the measurements
    folder: PathBuf,
    /// Operator tables: folder name of the GPU
    #[arg(long, required_if_eq("from", "aiconfigurator"))]
    gpu: Option<String>,
    /// Operator tables: engine whose kernels were measured [default: vllm]
    #[arg(long)]
    engine: Option<String>,
    /// Operator tables: version of the engine
    #[arg(long, required_if_eq("from", "aiconfigurator"))]
    version: Option<String>,
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
}

pub(super) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let text = match arguments.from {
        ImportSource::Aiconfigurator => operators(arguments)?,
        ImportSource::Llmservingsim => layers(arguments)?,
    };
    let Some(path) = &arguments.output else { return print(&text) };
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::input(format!("--output: {}: {error}", path.display())))?;
    say(&format!("{} kB in {}", text.len() / 1000, path.display()));
    Ok(())
}

fn operators(arguments: &ImportArguments) -> Result<String, Failure> {
    if let Some(flag) = arguments.layers.first_given() {
        return Err(Failure::input(format!("{flag}: is only for --from llmservingsim")));
    }
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
    let foreign = [
        ("--gpu", &arguments.gpu),
        ("--engine", &arguments.engine),
        ("--version", &arguments.version),
    ];
    if let Some((flag, _)) = foreign.iter().find(|(_, value)| value.is_some()) {
        return Err(Failure::input(format!("{flag}: is only for --from aiconfigurator")));
    }
    let (text, note) = import_layers::import(&arguments.folder, &arguments.layers)?;
    say(&note);
    Ok(text)
}
