//! What a first scenario is made of: options, answers and defaults, each checked.

use std::path::{Path, PathBuf};

use super::ask::{Asker, above_zero, count};
use super::{EngineName, InitArguments, text};
use crate::cli::failure::Failure;
use crate::io::traces::{self, TraceOptions};
use crate::load::{self, Changes};
use crate::model::Format;
use crate::problem::Problem;
use crate::profiles;

/// Tensor-parallel sizes that are tried: those of a node.
const SIZES: [u32; 4] = [1, 2, 4, 8];

/// What the scenario says.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    /// As the scenario has it: a name of the catalogue, or a path.
    pub(super) model: String,
    /// As the scenario has it: a name of the catalogue, or a path.
    pub(super) gpu: String,
    pub(super) quantization: Quantization,
    pub(super) engine: EngineName,
    pub(super) tp: u32,
    /// Tensor-parallel sizes of a node that hold the model.
    pub(super) sizes: Vec<u32>,
    pub(super) replicas: u32,
    pub(super) traffic: Traffic,
    /// SLO in ms.
    pub(super) ttft: f64,
    /// SLO in ms.
    pub(super) tpot: f64,
}

/// What the matrices of the model are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantization {
    /// As in the checkpoint, of which nobody asked.
    Own,
    /// As in the checkpoint, which is what was asked for.
    Known(Format),
    /// In another format.
    Other(Format),
}

/// The requests.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Traffic {
    /// Drawn: requests per second, mean tokens of prompts and answers.
    Drawn { rate: f64, input_len: u32, output_len: u32 },
    /// Those of a trace, with what it takes to read it, and requests per second where it has no times.
    Trace { path: PathBuf, options: TraceOptions, rate: Option<f64> },
}

impl Traffic {
    /// The file that is replayed, if one is.
    pub(super) fn trace(&self) -> Option<&Path> {
        match self {
            Self::Drawn { .. } => None,
            Self::Trace { path, .. } => Some(path),
        }
    }

    /// Requests per second, where arrivals are drawn.
    pub(super) fn rate(&self) -> Option<f64> {
        match self {
            Self::Drawn { rate, .. } => Some(*rate),
            Self::Trace { rate, .. } => *rate,
        }
    }
}

impl Answers {
    /// Options where there are, else what is asked, else defaults.
    ///
    /// # Errors
    /// When a name is not known, the trace cannot be read, or the model does not fit.
    pub(super) fn of(given: &InitArguments, asker: &mut Asker<'_>) -> Result<Self, Failure> {
        let model = match &given.model {
            Some(name) => model(name).map_err(|problem| at("--model", &problem))?,
            None => asker.ask("Model", "Qwen/Qwen3-8B".to_owned(), "Qwen/Qwen3-8B", |name| {
                model(name).map_err(|problem| problem.to_string())
            })?,
        };
        let gpu = match &given.gpu {
            Some(name) => gpu(name).map_err(|problem| at("--gpu", &problem))?,
            None => asker.ask("GPU", "H100".to_owned(), "H100", |name| {
                gpu(name).map_err(|problem| problem.to_string())
            })?,
        };
        let quantization = quantization(&model, given, asker)?;
        let engine = match given.engine {
            Some(engine) => engine,
            None => asker.ask("Engine, vllm or sglang", EngineName::Vllm, "vllm", engine)?,
        };
        let mut draft = Self {
            model,
            gpu,
            quantization,
            engine,
            tp: 1,
            sizes: Vec::new(),
            replicas: 1,
            traffic: Traffic::Drawn { rate: 4.0, input_len: 1024, output_len: 128 },
            ttft: 500.0,
            tpot: 50.0,
        };
        draft.sizes = SIZES.into_iter().filter(|tp| draft.fits(*tp).is_ok()).collect();
        let tp = draft.tensor_parallel_size(given, asker)?;
        let replicas = match given.replicas {
            Some(replicas) => replicas,
            None => asker.ask("Replicas", 1, "1", count)?,
        };
        let traffic = traffic(given, asker)?;
        let ms = |given: Option<f64>, question, default: f64, asker: &mut Asker<'_>| match given {
            Some(ms) => Ok(ms),
            None => asker.ask(question, default, &default.to_string(), above_zero),
        };
        let ttft = ms(given.ttft, "SLO of the time to first token, in ms", 500.0, asker)?;
        let tpot = ms(given.tpot, "SLO of the time per output token, in ms", 50.0, asker)?;
        let answers = Self { tp, replicas, traffic, ttft, tpot, ..draft };
        let answers = answers.seen_from(&given.file)?;
        answers.check(&given.file)?;
        Ok(answers)
    }

    /// One line that says what is simulated, in whatever size: that is what is changed next.
    pub(super) fn title(&self) -> String {
        let Self { model, gpu, .. } = self;
        let engine = match self.engine {
            EngineName::Vllm => "vLLM",
            EngineName::Sglang => "SGLang",
        };
        let model = match self.quantization {
            Quantization::Own => model.clone(),
            Quantization::Known(format) | Quantization::Other(format) => {
                format!("{model} in {}", words(format))
            }
        };
        format!("{model} on {gpu}, {engine}")
    }

    /// The size that was given, if it fits; else the smallest that does, which may be asked.
    fn tensor_parallel_size(
        &self,
        given: &InitArguments,
        asker: &mut Asker<'_>,
    ) -> Result<u32, Failure> {
        let smallest = self.sizes.first().copied();
        if let Some(tp) = given.tp {
            let fits = self.fits(tp);
            let holds =
                |tp| format!("; --tp {tp} holds the model and one sequence of its full length");
            let advice = smallest.map_or_else(String::new, holds);
            let refused = |problem| Failure::input(format!("--tp: {problem}{advice}"));
            return fits.map(|()| tp).map_err(refused);
        }
        let Some(smallest) = smallest else {
            let problem = self.fits(8).err().unwrap_or_default();
            return Err(Failure::input(format!("--gpu: {problem}")));
        };
        asker.ask(
            "Tensor parallelism, GPUs of a replica",
            smallest,
            &smallest.to_string(),
            |text| {
                let tp = count(text)?;
                self.fits(tp).map(|()| tp)
            },
        )
    }

    /// Why a replica of so many GPUs does not hold the model, if it does not.
    fn fits(&self, tp: u32) -> Result<(), String> {
        Self { tp, ..self.clone() }.longest("scenario").map(drop).map_err(|error| match error {
            load::LoadError::Settings(broken) => match broken.0.into_iter().next() {
                Some(first) => Problem { at: String::new(), ..first.problem }.to_string(),
                None => String::new(),
            },
            other => other.to_string(),
        })
    }

    /// Paths are relative to the scenario file: they are made absolute where it is in another folder.
    fn seen_from(mut self, file: &Path) -> Result<Self, Failure> {
        if file.parent().is_none_or(|folder| folder.as_os_str().is_empty()) {
            return Ok(self);
        }
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| Failure::Input(anyhow::Error::new(error)))
        };
        if load::model_file(Path::new(&self.model)).is_some() {
            self.model = absolute(Path::new(&self.model))?.display().to_string();
        }
        if load::is_gpu_file(&self.gpu) {
            self.gpu = absolute(Path::new(&self.gpu))?.display().to_string();
        }
        if let Traffic::Trace { path, .. } = &mut self.traffic {
            *path = absolute(path)?;
        }
        Ok(self)
    }

    /// Everything that a run checks before it begins.
    fn check(&self, file: &Path) -> Result<(), Failure> {
        let longest = self.longest(&file.display().to_string())?;
        let Traffic::Drawn { input_len, .. } = self.traffic else { return Ok(()) };
        if f64::from(input_len) * (1.0 + text::RANGE_RATIO) < f64::from(longest) {
            return Ok(());
        }
        Err(Failure::input(format!(
            "--input-len: {input_len} tokens and up to {:.0} % more must be below the longest sequence of {}, {longest} tokens",
            100.0 * text::RANGE_RATIO,
            self.model
        )))
    }

    /// Tokens of the longest sequence that its replicas take, once everything is resolved.
    fn longest(&self, name: &str) -> Result<u32, load::LoadError> {
        let drafts = Changes::default().of_text(name, &text::scenario(self))?;
        drafts.each.iter().try_fold(u32::MAX, |least, draft| {
            let scenario = draft.resolve()?.scenario;
            Ok(least.min(scenario.groups[0].settings.max_model_len()))
        })
    }
}

/// The requests: those of a trace, or drawn ones.
fn traffic(given: &InitArguments, asker: &mut Asker<'_>) -> Result<Traffic, Failure> {
    let options = given.columns.options();
    let is_drawn = [given.rate.is_some(), given.input_len.is_some(), given.output_len.is_some()];
    let trace = match &given.trace {
        Some(path) => {
            let times = readable(path, &options)
                .map_err(|problem| Failure::input(format!("--trace: {problem}")))?;
            Some((path.clone(), times))
        }
        None if is_drawn.contains(&true) => None,
        None => asker.ask("Trace to replay, a file", None, "none: draw requests", |path| {
            let times = readable(Path::new(path), &options)?;
            Ok(Some((PathBuf::from(path), times)))
        })?,
    };
    if let Some((path, Times::Recorded)) = &trace
        && given.rate.is_some()
    {
        let path = path.display();
        return Err(Failure::input(format!(
            "--rate: {path} says when its requests come; leave --rate out"
        )));
    }
    if let Some((path, Times::Recorded)) = trace {
        return Ok(Traffic::Trace { path, options, rate: None });
    }
    let rate = match given.rate {
        Some(rate) => rate,
        None => asker.ask("Requests per second", 4.0, "4", above_zero)?,
    };
    if let Some((path, Times::None)) = trace {
        return Ok(Traffic::Trace { path, options, rate: Some(rate) });
    }
    let mut tokens = |given: Option<u32>, question, default: u32| match given {
        Some(tokens) => Ok(tokens),
        None => asker.ask(question, default, &default.to_string(), count),
    };
    let input_len = tokens(given.input_len, "Tokens of a prompt", 1024)?;
    let output_len = tokens(given.output_len, "Tokens of an answer", 128)?;
    Ok(Traffic::Drawn { rate, input_len, output_len })
}

/// Whether a trace says when requests come.
#[derive(Debug, Clone, Copy)]
enum Times {
    Recorded,
    /// It has lengths only.
    None,
}

/// Whether a trace has times; why it cannot be read to its end, if it cannot.
fn readable(path: &Path, options: &TraceOptions) -> Result<Times, String> {
    let read = traces::describe_and_open(path, None, options);
    let (summary, _) = read.map_err(|error| error.to_string())?;
    Ok(if summary.time.is_some() { Times::Recorded } else { Times::None })
}

/// The name of a model that is known.
fn model(name: &str) -> Result<String, Problem> {
    match load::model("", name, Path::new(""))? {
        Some(_) => Ok(name.to_owned()),
        None => {
            Err(load::unknown_model("", name)
                .with_hint("`servecast profile list` names the models"))
        }
    }
}

/// What the matrices are stored in; those of the checkpoint if nobody says.
fn quantization(
    model: &str,
    given: &InitArguments,
    asker: &mut Asker<'_>,
) -> Result<Quantization, Failure> {
    let spec = load::model("", model, Path::new("")).map_err(|problem| at("--model", &problem))?;
    let own = spec.as_ref().and_then(Format::of_checkpoint);
    let shown = match own {
        Some(format) => format!("as in the checkpoint: {}", format.name()),
        None => "as in the checkpoint".to_owned(),
    };
    let asked = match given.quantization {
        Some(format) => Some(format),
        None => asker.ask(
            "Quantization, none, fp8, nvfp4, mxfp4, int8 or int4",
            None,
            &shown,
            |name| format(name).map(Some),
        )?,
    };
    Ok(match asked {
        None => Quantization::Own,
        Some(format) if own == Some(format) => Quantization::Known(format),
        Some(format) => Quantization::Other(format),
    })
}

/// The format of a name.
fn format(name: &str) -> Result<Format, String> {
    let lower = name.to_lowercase();
    let found = Format::ALL.into_iter().find(|format| format.name() == lower);
    found.ok_or_else(|| {
        let near = profiles::closest(&lower, Format::ALL.iter().map(|format| format.name()));
        let rule = format!("must be none, fp8, nvfp4, mxfp4, int8 or int4, got `{name}`");
        Problem::new("", rule).or_near(near).to_string()
    })
}

/// A format in a title.
pub(super) fn words(format: Format) -> &'static str {
    match format {
        Format::None => "16 bits",
        other => other.name(),
    }
}

/// The name of a GPU that is known.
fn gpu(name: &str) -> Result<String, Problem> {
    if load::gpu("", name, Path::new(""))?.is_some() {
        return Ok(name.to_owned());
    }
    let what = format!("`{name}` is neither in the catalogue nor a file ending in .toml");
    let problem = Problem::new("", what).or_near(profiles::closest(name, profiles::gpu_names()));
    Err(problem.with_hint("`servecast profile list` names the GPUs"))
}

fn engine(name: &str) -> Result<EngineName, String> {
    match name {
        "vllm" => Ok(EngineName::Vllm),
        "sglang" => Ok(EngineName::Sglang),
        _ => Err(format!("must be vllm or sglang, got `{name}`")),
    }
}

fn at(option: &str, problem: &Problem) -> Failure {
    Failure::input(format!("{option}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_by_their_names_in_scenarios() {
        for known in Format::ALL {
            let name = toml::Value::try_from(known).expect("a word").to_string();
            assert_eq!(format(name.trim_matches('"')), Ok(known));
        }
        assert_eq!(format("NVFP4"), Ok(Format::Nvfp4));
        let refused = format("fp6").expect_err("there is none");
        assert_eq!(
            refused,
            "must be none, fp8, nvfp4, mxfp4, int8 or int4, got `fp6`; did you mean `fp8`?"
        );
    }
}
