//! `servecast profile import`: measured step times of other projects as a profile.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{Failure, print, say};
use crate::io::import::{ImportError, aiconfigurator};

/// `servecast profile import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast profile import --from aiconfigurator systems/data --gpu h100_sxm \\\n    \
    --engine vllm --version 0.14.0 --output h100-vllm-0.14.0.toml\n  \
    servecast run --set cluster.step_time.type=operator_table \\\n    \
    --set cluster.step_time.profile=h100-vllm-0.14.0.toml")]
pub(super) struct ImportArguments {
    /// Where the measurements come from
    #[arg(long, value_enum)]
    from: ImportSource,
    /// Folder of the measurements
    folder: PathBuf,
    /// Folder name of the GPU
    #[arg(long)]
    gpu: String,
    /// Engine whose kernels were measured
    #[arg(long, default_value = "vllm")]
    engine: String,
    /// Version of the engine
    #[arg(long)]
    version: String,
    /// File to write; standard output if absent
    #[arg(long, short)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportSource {
    /// Operator tables of ai-dynamo/aiconfigurator (systems/data)
    Aiconfigurator,
}

pub(super) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let ImportSource::Aiconfigurator = arguments.from;
    let selection = aiconfigurator::Selection {
        system: &arguments.gpu,
        engine: &arguments.engine,
        version: &arguments.version,
    };
    let input = |error: ImportError| Failure::Input(error.into());
    let profile = aiconfigurator::import(&arguments.folder, &selection).map_err(input)?;
    let text = aiconfigurator::to_toml(&profile);
    let Some(path) = &arguments.output else { return print(&text) };
    std::fs::write(path, &text).map_err(|error| {
        Failure::Run(anyhow::Error::new(error).context(path.display().to_string()))
    })?;
    say(&format!("{} kB in {}", text.len() / 1000, path.display()));
    Ok(())
}
