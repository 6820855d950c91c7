//! `servecast profile import`: measured step times of other projects as a profile.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::import_layers::{self, LayerArguments};
use crate::cli::{Failure, print, say};

/// `servecast profile import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
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
    #[command(flatten)]
    layers: LayerArguments,
    /// File to write, which must not exist; standard output if absent
    #[arg(long, short)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportSource {
    /// Layer tables of casys-kaist/LLMServingSim (the folder of meta.yaml, tp1, tp2, …)
    Llmservingsim,
}

pub(super) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let ImportSource::Llmservingsim = arguments.from;
    let (text, note) = import_layers::import(&arguments.folder, &arguments.layers)?;
    say(&note);
    let Some(path) = &arguments.output else { return print(&text) };
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::input(format!("--output: {}: {error}", path.display())))?;
    say(&format!("{} kB in {}", text.len() / 1000, path.display()));
    Ok(())
}
