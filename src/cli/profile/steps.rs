//! Step times of a model on a GPU, as one source of them or another says: compared and drawn.

use std::path::PathBuf;

use clap::Args;

use super::print_as;
use crate::catalogue::{self, On};
use crate::cli::args::Format;
use crate::cli::failure::Failure;

/// `servecast profile diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast profile diff h100-sxm5-80gb/vllm-0.14.0 roofline --model llama-3.1-8b\n  \
    servecast profile diff h100-sxm5-80gb/vllm-0.14.0 a100-sxm4-80gb/vllm-0.14.0 \\\n    \
    --model llama-3.1-8b")]
pub(super) struct DiffArguments {
    /// Operator or step table, file of one, or `roofline`
    a: String,
    /// What to compare it with
    b: String,
    #[command(flatten)]
    of: OfArguments,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// `servecast profile plot`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    servecast profile plot h100-sxm5-80gb/vllm-0.14.0 --model llama-3.1-8b --output steps.svg")]
pub(super) struct PlotArguments {
    /// Operator or step table, or file of one
    profile: String,
    #[command(flatten)]
    of: OfArguments,
    /// File to write
    #[arg(long, short)]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct OfArguments {
    /// Name of a model, or a local config.json
    #[arg(long)]
    model: String,
    /// GPU; that of the table if absent
    #[arg(long)]
    gpu: Option<String>,
    /// GPUs that share the model
    #[arg(long = "tensor-parallel-size", visible_alias = "tp", value_name = "GPUS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    tp: u32,
}

impl OfArguments {
    fn on(&self) -> On {
        let (model, gpu) = (self.model.clone(), self.gpu.clone());
        On { model, gpu, tensor_parallel_size: self.tp }
    }
}

pub(super) fn diff(arguments: &DiffArguments) -> Result<(), Failure> {
    let DiffArguments { a, b, of, format } = arguments;
    let difference = catalogue::difference(a, b, &of.on())?;
    print_as(*format, &difference, &difference.json())
}

#[cfg(feature = "plot")]
pub(super) fn plot(arguments: &PlotArguments) -> Result<(), Failure> {
    use std::io::Write;

    use crate::cli::replace;
    use crate::cli::terminal::say;

    replace::check(&arguments.output)?;
    let figure = catalogue::figure(&arguments.profile, &arguments.of.on())?;
    replace::replace(&arguments.output, |file| Ok(file.write_all(figure.svg.as_bytes())?))?;
    say(&format!("figure in {}", arguments.output.display()));
    Ok(())
}

#[cfg(not(feature = "plot"))]
pub(super) fn plot(_: &PlotArguments) -> Result<(), Failure> {
    Err(Failure::input("this servecast draws no figures: build it with the feature `plot`"))
}
