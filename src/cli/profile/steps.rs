//! Step times of a model on a GPU, as one source of them or another says: compared and drawn.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::pair::engine_defaults;
use crate::cli::args::Format;
use crate::cli::{Failure, print};
use crate::cost::{CostModel, Coverage, StepProfile, StepShape, StepTime};
use crate::io::text;
use crate::load;
use crate::profiles;
use crate::scenario::{Calibration, Communication, Sampler, StepTimeConfig};

const SEQUENCES: [u32; 5] = [1, 8, 32, 128, 256];
const CONTEXTS: [u32; 3] = [512, 4096, 32_768];
const PROMPTS: [u32; 5] = [128, 512, 2048, 8192, 16_384];

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
    #[arg(long, visible_alias = "tensor-parallel-size", value_name = "GPUS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    tp: u32,
}

/// Step times of one source.
struct Priced {
    name: String,
    cost: StepTime,
}

impl Priced {
    fn of(source: &str, of: &OfArguments, other: &str) -> Result<Self, Failure> {
        let gpu_of = |name: &str| {
            let operators = profiles::operator_table(name).map(|table| table.gpu());
            operators.or(profiles::step_table(name).map(|table| table.gpu)).map(str::to_owned)
        };
        let gpu = of.gpu.clone().or_else(|| gpu_of(source)).or_else(|| gpu_of(other));
        let gpu = gpu.ok_or_else(|| {
            Failure::input(format!("--gpu: is needed, `{source}` does not say which GPU it is of"))
        })?;
        let (sampler, communication) = (Sampler::default(), Communication::default());
        let calibration = Calibration::default();
        let step_time = if source == "roofline" {
            StepTimeConfig::Roofline { sampler, communication, calibration }
        } else if profiles::step_table(source).is_some() || is_step_profile(source) {
            StepTimeConfig::StepTable { profile: Some(source.to_owned()) }
        } else {
            StepTimeConfig::OperatorTable {
                profile: Some(source.to_owned()),
                engine_version: None,
                sampler,
                communication,
                calibration,
            }
        };
        let mut file = engine_defaults(&of.model, &gpu, of.tp);
        file.cluster.step_time = step_time;
        let scenario = load::resolved(file, Path::new(""))?;
        let group = scenario.first();
        let cost = crate::sim::step_time(group).map_err(|e| Failure::Input(e.into()))?;
        let (model, gpu) = (&group.model.name, &group.gpu.name);
        Ok(Self { name: format!("{source}: {model} on {}x{gpu}", of.tp), cost })
    }

    fn ms(&self, shape: &StepShape) -> f64 {
        self.cost.step_duration(shape).as_millis_f64()
    }
}

/// Whether a file holds times of whole steps.
fn is_step_profile(path: &str) -> bool {
    text::whole(Path::new(path), text::SETTINGS_MIB_MAX)
        .is_ok_and(|text| StepProfile::parse(&text).is_ok())
}

fn decode(sequences: u32, context: u32) -> StepShape {
    let mut shape = StepShape::default();
    shape.add_decodes(sequences, u64::from(sequences) * u64::from(context), context);
    shape
}

fn prefill(tokens: u32) -> StepShape {
    let mut shape = StepShape::default();
    shape.add_prefill(tokens, 0, true);
    shape
}

pub(super) fn diff(arguments: &DiffArguments) -> Result<(), Failure> {
    let a = Priced::of(&arguments.a, &arguments.of, &arguments.b)?;
    let b = Priced::of(&arguments.b, &arguments.of, &arguments.a)?;
    let decodes = CONTEXTS.iter().flat_map(|context| {
        SEQUENCES.map(|n| (format!("decode {n} at {context} tokens"), decode(n, *context)))
    });
    let prompts = PROMPTS.map(|tokens| (format!("prefill {tokens} tokens"), prefill(tokens)));
    let shapes: Vec<(String, StepShape)> = decodes.chain(prompts).collect();
    match arguments.format {
        Format::Table => print(&diff_table(&a, &b, &shapes)),
        Format::Json => print(&format!("{:#}\n", diff_json(&a, &b, &shapes))),
    }
}

fn diff_table(a: &Priced, b: &Priced, shapes: &[(String, StepShape)]) -> String {
    let mut text = format!("A  {}\nB  {}\n\n", a.name, b.name);
    // A string can always be written to.
    let _ = writeln!(text, "{:<32}{:>12}{:>12}{:>10}", "step", "A ms", "B ms", "B / A");
    for (name, shape) in shapes {
        let (x, y) = (a.ms(shape), b.ms(shape));
        let beyond = [a, b].iter().any(|p| p.cost.coverage(shape) == Coverage::Extrapolated);
        let mark = if beyond { "  extrapolated" } else { "" };
        let _ = writeln!(text, "{name:<32}{x:>12.3}{y:>12.3}{:>10.3}{mark}", y / x);
    }
    text
}

fn diff_json(a: &Priced, b: &Priced, shapes: &[(String, StepShape)]) -> Value {
    let extrapolates = |p: &Priced, s: &StepShape| p.cost.coverage(s) == Coverage::Extrapolated;
    let step = |(name, shape): &(String, StepShape)| {
        json!({
            "step": name,
            "a_ms": a.ms(shape),
            "b_ms": b.ms(shape),
            "a_extrapolated": extrapolates(a, shape),
            "b_extrapolated": extrapolates(b, shape),
        })
    };
    json!({ "a": a.name, "b": b.name, "steps": shapes.iter().map(step).collect::<Vec<_>>() })
}

#[cfg(feature = "plot")]
pub(super) fn plot(arguments: &PlotArguments) -> Result<(), Failure> {
    use std::io::Write;

    use crate::cli::{replace, say};
    use crate::plot::{StepCurve, step_time_figure};

    replace::check(&arguments.output)?;
    let table = Priced::of(&arguments.profile, &arguments.of, "")?;
    let gpu = arguments.of.gpu.clone();
    let of = OfArguments { model: arguments.of.model.clone(), gpu, tp: arguments.of.tp };
    let roofline = Priced::of("roofline", &of, &arguments.profile)?;
    let batches = (0..=32).map(|step| 2_f64.powf(f64::from(step) / 4.0).round() as u32);
    let batches: Vec<u32> = batches.collect();
    let lengths: Vec<u32> =
        (0..=28).map(|step| (128.0 * 2_f64.powf(f64::from(step) / 4.0)) as u32).collect();
    let curve = |name: String, shapes: Vec<(u32, StepShape)>| StepCurve {
        name,
        measured: shapes.iter().map(|(x, shape)| (f64::from(*x), table.ms(shape))).collect(),
        roofline: shapes.iter().map(|(x, shape)| (f64::from(*x), roofline.ms(shape))).collect(),
    };
    let decodes = CONTEXTS.map(|context| {
        let shapes = batches.iter().map(|n| (*n, decode(*n, context))).collect();
        curve(format!("{context} tokens of context"), shapes)
    });
    let prompts = lengths.iter().map(|tokens| (*tokens, prefill(*tokens))).collect();
    let figure = step_time_figure(&table.name, &decodes, &curve("one prompt".into(), prompts));
    replace::replace(&arguments.output, |file| Ok(file.write_all(figure.svg.as_bytes())?))?;
    say(&format!("figure in {}", arguments.output.display()));
    Ok(())
}

#[cfg(not(feature = "plot"))]
pub(super) fn plot(_: &PlotArguments) -> Result<(), Failure> {
    Err(Failure::input("this servecast draws no figures: build it with the feature `plot`"))
}
