//! A running server from its address to its parameters.

use std::path::Path;
use std::time::Duration;

use super::drive::Driver;
use super::fit::{ProbeError, ProbeFit, fit_points};
use super::law::Law;
use super::plan::{Limits, Plan};
use super::point::{Answer, Point};
use crate::calibrate::Estimate;
use crate::calibration::{CalibrationFile, MadeOn};
use crate::catalogue::engine_defaults;
use crate::cost::{CapturedSizes, StepTime};
use crate::io::openai::{Offered, Server, ServerError};
use crate::load::{self, Listener, LoadError, Note, Origin};
use crate::problem::Problem;
use crate::scenario::{EngineConfig, SglangConfig};

/// Which server is asked, and how far.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its address, `http://HOST:PORT`.
    pub url: String,
    /// The model to ask for; the only one that it offers where none is given.
    pub model: Option<String>,
    /// Its GPU, whose step times are calibrated; an affine law is fitted where none is given.
    pub gpu: Option<String>,
    /// Name of the model in the catalogue, or its `config.json`, where the server's name is neither.
    pub config: Option<String>,
    /// GPUs that share the model.
    pub tensor_parallel_size: u32,
    /// How far the probe goes; the server's own limit of context counts if it is lower.
    pub limits: Limits,
    /// Its key, sent as `Authorization: Bearer KEY`.
    pub api_key: Option<String>,
    /// Names and values of headers that are sent with every request.
    pub headers: Vec<(String, String)>,
    /// After which a request counts as failed.
    pub timeout: Duration,
    /// Seed of the prompts; another each time if absent, so that none is in the server's cache.
    pub seed: Option<u64>,
}

/// Why a server tells no parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerProbeError {
    /// It gives no answer that can be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// It is not what the question says, or its step times cannot be looked up.
    #[error(transparent)]
    Question(#[from] LoadError),
    /// Its answers show nothing.
    #[error(transparent)]
    Points(#[from] ProbeError),
}

/// A server that was found, with the requests that it is going to be sent.
#[derive(Debug)]
pub struct Probe {
    /// The requests.
    pub plan: Plan,
    url: String,
    seed: Option<u64>,
    server: Server,
    offered: Offered,
    base: Option<Base>,
    listener: Listener,
}

/// What a server's answers say.
#[derive(Debug, Clone, PartialEq)]
pub struct Probed {
    /// What was measured.
    pub points: Vec<Point>,
    /// What was found.
    pub fit: ProbeFit,
    /// Whether the parameters are those of an affine law.
    pub is_affine: bool,
    /// The parameters as scenarios take them.
    pub file: CalibrationFile,
}

impl Probe {
    /// Asks the server for its models, and for nothing else; the listener hears of what it is about to be sent.
    ///
    /// # Errors
    /// When it does not answer, does not offer the model, or the model does not go on the GPU.
    pub fn of(question: &Question, listener: &Listener) -> Result<Self, ServerProbeError> {
        let tell = |text: String| listener.tell(&Note::Remark(text));
        let Question { url, seed, .. } = question;
        let server = reached(question, Server::new(url, question.timeout)?)?;
        tell(format!("asking {url} for its models"));
        let offered = chosen(server.models()?, question.model.as_ref())?;
        let base = question.gpu.as_deref().map(|gpu| Base::of(&offered, gpu, question));
        let base = base.transpose()?;
        let mut limits = question.limits;
        limits.context_tokens =
            limits.context_tokens.min(offered.max_model_len.unwrap_or(u32::MAX));
        let plan = Plan::new(&limits);
        tell(format!(
            "{} at {url}: {} requests, {} prompt tokens, {} output tokens, at most {} at once",
            offered.id,
            plan.requests(),
            plan.prompt_tokens(),
            plan.output_tokens(),
            limits.streams
        ));
        let (url, seed, listener) = (url.clone(), *seed, listener.clone());
        Ok(Self { plan, url, seed, server, offered, base, listener })
    }

    /// Sends the requests: all repetitions of each round. `asked` is told how many have been answered since.
    ///
    /// # Errors
    /// When one fails.
    pub fn measure(&self, asked: impl Fn(u32)) -> Result<Vec<Vec<Vec<Answer>>>, ServerProbeError> {
        let driver = Driver::new(&self.server, &self.offered.id, self.seed);
        Ok(driver.measure(&self.plan, asked)?)
    }

    /// The parameters that fit these answers best; the listener hears of rounds that are left out.
    ///
    /// # Errors
    /// When no round shows the time of a step.
    pub fn fit(&self, rounds: &[Vec<Vec<Answer>>]) -> Result<Probed, ServerProbeError> {
        let tell = |text: String| self.listener.tell(&Note::Remark(text));
        let mut points = Vec::new();
        for (round, answers) in self.plan.rounds.iter().zip(rounds) {
            match Point::of(round, answers) {
                Some(point) => points.push(point),
                None => {
                    tell(format!("{round}: left out, its streams hardly decoded together"));
                }
            }
        }
        let law = self.base.as_ref().map_or(Law::Affine, |base| base.law(&mut points));
        let fit = fit_points(law, &points)?;
        if let Some(base) = &self.base {
            tell(format!("step times before the fit: {}", base.cost.provenance()));
        }
        let file = self.file(&fit);
        Ok(Probed { points, fit, is_affine: self.base.is_none(), file })
    }

    fn file(&self, fit: &ProbeFit) -> CalibrationFile {
        let Self { url, offered, base, .. } = self;
        let engine = offered.owned_by.as_deref().unwrap_or("unknown engine");
        let law = match base {
            Some(base) => format!("step times of {}", base.name),
            None => "affine law".to_owned(),
        };
        let of_model = || MadeOn { models: vec![offered.id.clone()], ..MadeOn::default() };
        CalibrationFile {
            servecast: env!("CARGO_PKG_VERSION").to_owned(),
            fitted_to: vec![format!("probe of {} at {url} ({engine}), {law}", offered.id)],
            held_out: Vec::new(),
            misfit: fit.misfit,
            covariance: fit.covariance.clone(),
            made_on: Some(base.as_ref().map_or_else(of_model, |base| base.made_on.clone())),
            parameters: fit.estimates.iter().map(Estimate::found).collect(),
        }
    }
}

/// The server with the headers that it wants.
fn reached(question: &Question, mut server: Server) -> Result<Server, LoadError> {
    let wrong = |flag, rule: String| Origin::Argument(flag).fail(Problem::new("", rule));
    if let Some(key) = question.api_key.as_ref().filter(|key| !key.is_empty()) {
        let with_key = server.with_header("authorization", &format!("Bearer {key}"));
        server = with_key.map_err(|rule| wrong("--api-key", rule))?;
    }
    for (name, value) in &question.headers {
        server = server.with_header(name, value).map_err(|rule| wrong("--header", rule))?;
    }
    Ok(server)
}

/// The model asked for, or the only one.
fn chosen(mut offered: Vec<Offered>, model: Option<&String>) -> Result<Offered, LoadError> {
    let names: Vec<String> = offered.iter().map(|model| format!("`{}`", model.id)).collect();
    let names = names.join(", ");
    let wrong = |flag, rule: String| Err(Origin::Argument(flag).fail(Problem::new("", rule)));
    match model {
        Some(name) => match offered.into_iter().find(|model| model.id == *name) {
            Some(model) => Ok(model),
            None => wrong("--model", format!("the server offers no `{name}`; it offers {names}")),
        },
        None if offered.len() == 1 => Ok(offered.swap_remove(0)),
        None if offered.is_empty() => wrong("--url", "the server offers no model".to_owned()),
        None => wrong("--model", format!("is needed, the server offers {names}")),
    }
}

/// The step times that are calibrated.
#[derive(Debug)]
struct Base {
    name: String,
    cost: StepTime,
    graphs: CapturedSizes,
    made_on: MadeOn,
}

impl Base {
    fn of(offered: &Offered, gpu: &str, question: &Question) -> Result<Self, LoadError> {
        let Question { config, tensor_parallel_size, .. } = question;
        let folder = Path::new("");
        let wrong = |rule: String| Err(Origin::Argument("--config").fail(Problem::new("", rule)));
        let names = [config.as_ref(), Some(&offered.id), offered.root.as_ref()];
        let mut names = names.into_iter().flatten();
        let known =
            names.find(|name| matches!(load::model("cluster.model", name, folder), Ok(Some(_))));
        if let Some(name) = config.as_ref().filter(|name| known != Some(name)) {
            return wrong(format!("`{name}` is neither in the catalogue nor a file"));
        }
        let Some(model) = known else {
            return wrong(format!("is needed, `{}` is not in the catalogue", offered.id));
        };
        let mut file = engine_defaults(model, gpu, *tensor_parallel_size);
        if offered.owned_by.as_deref() == Some("sglang") {
            file.cluster.engine = EngineConfig::Sglang(SglangConfig::default());
        }
        let scenario = load::resolved(file, folder)?;
        let group = scenario.first();
        let cost = crate::sim::step_time(group)?;
        let sizes = match &group.cluster.engine {
            EngineConfig::VllmV1(engine) => engine.cudagraph_capture_sizes.clone(),
            EngineConfig::Sglang(engine) => engine.cuda_graph_bs_decode.clone(),
            _ => None,
        };
        let graphs = CapturedSizes::new(sizes.into_iter().flatten());
        let name = format!("{} on {}x{}", group.model.name, tensor_parallel_size, gpu);
        let made_on = MadeOn::of([&scenario]);
        Ok(Self { name, cost, graphs, made_on })
    }

    /// The law, with the steps as the server pads them.
    fn law(&self, points: &mut [Point]) -> Law<'_> {
        for point in points {
            if point.shape.prefill_seqs == 0 {
                point.shape.cuda_graph = self.graphs.pad(point.shape.decode_seqs);
            }
        }
        Law::Calibrated(&self.cost)
    }
}
