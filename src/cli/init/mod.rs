//! `servecast init`: a first scenario from a few answers.

mod answers;
mod ask;
mod text;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use self::answers::Answers;
use self::ask::Asker;
use super::failure::Failure;
use super::replace;
use super::terminal::print;
use super::trace::ColumnArguments;
use crate::io::output;
use crate::model::Format;

/// `servecast init`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast init\n  \
    servecast init chat.toml --model Qwen/Qwen3-32B --gpu H100 --tp 2 --rate 4\n  \
    servecast init fp8.toml --model Qwen/Qwen3-32B --gpu H100 --quantization fp8\n  \
    servecast init replay.toml --model Qwen/Qwen3-8B --gpu A100-SXM4-80GB --trace log.csv\n\n\
    On a terminal, init asks for what no option says. Otherwise it takes the defaults.\n\
    `servecast profile list` lists models and GPUs.")]
pub(super) struct InitArguments {
    /// Scenario file to write
    #[arg(default_value = "scenario.toml")]
    file: PathBuf,
    /// Replace that file
    #[arg(long)]
    overwrite: bool,
    /// Model of the catalogue, or a local config.json [default: Qwen/Qwen3-8B]
    #[arg(long)]
    model: Option<String>,
    /// GPU of the catalogue, or a TOML file of your own [default: H100]
    #[arg(long)]
    gpu: Option<String>,
    /// What the matrices of the model are stored in [default: as in the checkpoint]
    #[arg(long, value_name = "FORMAT", ignore_case = true)]
    quantization: Option<Format>,
    /// The engine [default: vllm]
    #[arg(long)]
    engine: Option<EngineName>,
    /// Tensor parallelism: GPUs of a replica [default: the fewest of 1, 2, 4 and 8 that hold the model]
    #[arg(long, value_name = "GPUS", visible_alias = "tensor-parallel-size", value_parser = clap::value_parser!(u32).range(1..=1024))]
    tp: Option<u32>,
    /// Replicas behind the router [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicas: Option<u32>,
    /// Requests per second, of all replicas together [default: 4]
    #[arg(long, value_name = "REQ_PER_S", value_parser = ask::above_zero)]
    rate: Option<f64>,
    /// Mean length of prompts, in tokens [default: 1024]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    input_len: Option<u32>,
    /// Mean length of answers, in tokens [default: 128]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    output_len: Option<u32>,
    /// Replay the requests of this trace instead; one without times takes its lengths, and arrivals at --rate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_len", "output_len"])]
    trace: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArguments,
    /// SLO of the time to first token, in ms [default: 500]
    #[arg(long, value_name = "MS", value_parser = ask::above_zero)]
    ttft: Option<f64>,
    /// SLO of the time per output token, in ms [default: 50]
    #[arg(long, value_name = "MS", value_parser = ask::above_zero)]
    tpot: Option<f64>,
}

impl InitArguments {
    /// Refuses to replace the trace by the scenario, wherever it was named, and to name columns of no trace.
    fn check_trace(&self, trace: Option<&Path>) -> Result<(), Failure> {
        let Some(trace) = trace else {
            return match self.columns.first_given() {
                Some(option) => {
                    Err(Failure::input(format!("{option}: needs --trace, whose columns it names")))
                }
                None => Ok(()),
            };
        };
        let same = |path: &Path| path.canonicalize().ok();
        if same(&self.file).is_some_and(|file| same(trace) == Some(file)) {
            return Err(Failure::input(format!(
                "{}: is the trace; choose another name for the scenario",
                self.file.display()
            )));
        }
        Ok(())
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::None => "16 bits",
            Self::Fp8 => "8-bit floats",
            Self::Nvfp4 => "4-bit floats with a scale for 16 weights",
            Self::Mxfp4 => "4-bit floats with a scale for 32 weights",
            Self::Int8 => "8-bit integers for weights and activations",
            Self::Int4 => "4-bit integers with a scale for 128 weights, as of AWQ and GPTQ",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

/// Engines that a first scenario may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// vLLM
    Vllm,
    /// SGLang
    Sglang,
}

pub(super) fn init(arguments: &InitArguments) -> Result<(), Failure> {
    let file = &arguments.file;
    if let Some(there) = output::occupied(file).filter(|_| !arguments.overwrite) {
        return Err(Failure::input(format!(
            "{}: exists already; choose another name, or replace it with --overwrite",
            there.display()
        )));
    }
    // Who names the trace by mistake hears of that first.
    if arguments.trace.is_some() {
        arguments.check_trace(arguments.trace.as_deref())?;
    }
    let is_toml = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    if !is_toml && !output::is_stream(file) {
        return Err(Failure::input(format!(
            "{}: a scenario is written as TOML; give it a name that ends in `.toml`",
            file.display()
        )));
    }
    replace::check(file)?;
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    let watches = stdin.is_terminal() && stderr.is_terminal();
    let mut asker = if watches { Asker::of(stdin.lock(), stderr.lock()) } else { Asker::silent() };
    let answers = Answers::of(arguments, &mut asker)?;
    drop(asker);
    arguments.check_trace(answers.traffic.trace())?;
    let written = text::scenario(&answers);
    replace::replace(file, |file| Ok(file.write_all(written.as_bytes())?))?;
    if output::is_stream(file) {
        return Ok(());
    }
    print(&goes_on(file, &answers))
}

/// What was written, and the commands to go on with.
fn goes_on(file: &Path, answers: &Answers) -> String {
    let name = quoted(&file.display().to_string());
    let varied = match answers.traffic.rate() {
        None => format!("cluster.replicas={}", around(f64::from(answers.replicas))),
        Some(rate) => format!("workload.arrivals.rate_per_s={}", around(rate)),
    };
    let sizes: Vec<String> = answers.sizes.iter().map(u32::to_string).collect();
    let sizes = if sizes.len() > 1 { format!(" --tp {}", sizes.join(",")) } else { String::new() };
    format!(
        "{file}: {title}\n\n\
         Simulate it:\n  servecast run {name}\n\
         Find the cheapest layout that meets the SLOs:\n  \
         servecast plan {name} --slo 'p99_ttft_ms<={ttft}' --slo 'p99_tpot_ms<={tpot}'{sizes}\n\
         See how latencies grow with the load:\n  \
         servecast sweep {name} --vary {varied} --seeds 3 --output-dir out/sweep\n",
        file = file.display(),
        title = answers.title(),
        ttft = answers.ttft,
        tpot = answers.tpot,
    )
}

/// A value, its double and four times as much.
fn around(value: f64) -> String {
    format!("{value},{},{}", 2.0 * value, 4.0 * value)
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_shells_need_it() {
        assert_eq!(quoted("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(quoted("my file.toml"), "'my file.toml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(around(0.5), "0.5,1,2");
    }
}
