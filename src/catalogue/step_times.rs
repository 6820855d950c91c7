//! Step times of a model on a GPU, as one source of them or another says: compared and drawn.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use super::on_gpu::engine_defaults;
use crate::cost::{CostModel, Coverage, StepProfile, StepShape, StepTime};
use crate::io::text;
use crate::load::{self, LoadError, Origin};
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::{Calibration, Communication, Sampler, StepTimeConfig};

const SEQUENCES: [u32; 5] = [1, 8, 32, 128, 256];
const CONTEXTS: [u32; 3] = [512, 4096, 32_768];
const PROMPTS: [u32; 5] = [128, 512, 2048, 8192, 16_384];

/// What steps are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct On {
    /// Name of a model, or a local `config.json`.
    pub model: String,
    /// The GPU; that of a table where none is given.
    pub gpu: Option<String>,
    /// How many of it share the model.
    pub tensor_parallel_size: u32,
}

/// Step times of one source.
#[derive(Debug)]
pub struct StepTimes {
    name: String,
    cost: StepTime,
}

/// How two sources differ, step by step.
#[derive(Debug)]
pub struct Difference {
    sources: [StepTimes; 2],
    steps: Vec<(String, StepShape)>,
}

impl StepTimes {
    /// Those of an operator or step table, a file of one, or the `roofline`; where neither that nor `on` says which
    /// GPU is meant, the one of the source `other`.
    ///
    /// # Errors
    /// When the GPU is not told, or the source has no times of the model on it.
    pub fn of(source: &str, on: &On, other: &str) -> Result<Self, LoadError> {
        let gpu_of = |name: &str| {
            let operators = profiles::operator_table(name).map(|table| table.gpu());
            operators.or(profiles::step_table(name).map(|table| table.gpu)).map(str::to_owned)
        };
        let gpu = on.gpu.clone().or_else(|| gpu_of(source)).or_else(|| gpu_of(other));
        let gpu = gpu.ok_or_else(|| {
            let rule = format!("is needed, `{source}` does not say which GPU it is of");
            Origin::Argument("--gpu").fail(Problem::new("", rule))
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
        let mut file = engine_defaults(&on.model, &gpu, on.tensor_parallel_size);
        file.cluster.step_time = step_time;
        let scenario = load::resolved(file, Path::new(""))?;
        let group = scenario.first();
        let cost = crate::sim::step_time(group)?;
        let (model, gpu) = (&group.model.name, &group.gpu.name);
        let name = format!("{source}: {model} on {}x{gpu}", on.tensor_parallel_size);
        Ok(Self { name, cost })
    }

    fn extrapolates(&self, shape: &StepShape) -> bool {
        self.cost.coverage(shape) == Coverage::Extrapolated
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

/// Compares two sources over decode steps and prompts of many sizes.
///
/// # Errors
/// When a GPU is not told, or a source has no times of the model on it.
pub fn difference(a: &str, b: &str, on: &On) -> Result<Difference, LoadError> {
    let sources = [StepTimes::of(a, on, b)?, StepTimes::of(b, on, a)?];
    let decodes = CONTEXTS.iter().flat_map(|context| {
        SEQUENCES.map(|n| (format!("decode {n} at {context} tokens"), decode(n, *context)))
    });
    let prompts = PROMPTS.map(|tokens| (format!("prefill {tokens} tokens"), prefill(tokens)));
    Ok(Difference { sources, steps: decodes.chain(prompts).collect() })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.sources;
        writeln!(f, "A  {}\nB  {}\n", a.name, b.name)?;
        writeln!(f, "{:<32}{:>12}{:>12}{:>10}", "step", "A ms", "B ms", "B / A")?;
        for (name, shape) in &self.steps {
            let (first, second) = (a.ms(shape), b.ms(shape));
            let is_beyond = a.extrapolates(shape) || b.extrapolates(shape);
            let mark = if is_beyond { "  extrapolated" } else { "" };
            writeln!(f, "{name:<32}{first:>12.3}{second:>12.3}{:>10.3}{mark}", second / first)?;
        }
        Ok(())
    }
}

impl Difference {
    /// As JSON.
    pub fn json(&self) -> Value {
        let [a, b] = &self.sources;
        let step = |(name, shape): &(String, StepShape)| {
            json!({
                "step": name,
                "a_ms": a.ms(shape),
                "b_ms": b.ms(shape),
                "a_extrapolated": a.extrapolates(shape),
                "b_extrapolated": b.extrapolates(shape),
            })
        };
        json!({ "a": a.name, "b": b.name, "steps": self.steps.iter().map(step).collect::<Vec<_>>() })
    }
}

/// A figure of a source beside the roofline.
///
/// # Errors
/// When the GPU is not told, or the source has no times of the model on it.
#[cfg(feature = "plot")]
pub fn figure(source: &str, on: &On) -> Result<crate::plot::Figure, LoadError> {
    use crate::plot::{StepCurve, step_time_figure};

    let table = StepTimes::of(source, on, "")?;
    let roofline = StepTimes::of("roofline", on, source)?;
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
    Ok(step_time_figure(&table.name, &decodes, &curve("one prompt".into(), prompts)))
}
