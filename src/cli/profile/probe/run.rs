//! The probe from its arguments to its report.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use super::ProbeArguments;
use super::drive::Driver;
use super::report::{self, Report};
use crate::calibrate::probe::{Law, Limits, Plan, Point, fit_points};
use crate::calibration::MadeOn;
use crate::cli::profile::import::check_new;
use crate::cli::profile::pair::engine_defaults;
use crate::cli::{Failure, print, progress, replace, say};
use crate::cost::{CapturedSizes, StepTime};
use crate::io::openai::{Offered, Server, ServerError};
use crate::load;
use crate::scenario::{EngineConfig, SglangConfig};

pub(in crate::cli::profile) fn probe(arguments: &ProbeArguments) -> Result<(), Failure> {
    if !(arguments.timeout > 0.0 && arguments.timeout <= 86_400.0) {
        let problem =
            format!("--timeout: must be above 0 s, got {}", crate::plain::shown(arguments.timeout));
        return Err(Failure::input(problem));
    }
    if let Some(path) = &arguments.output {
        check_new(path)?;
    }
    let timeout = Duration::from_secs_f64(arguments.timeout);
    let server = reached(arguments, Server::new(&arguments.url, timeout).map_err(failure)?)?;
    say(&format!("asking {} for its models", arguments.url));
    let offered = chosen(server.models().map_err(failure)?, arguments)?;
    let base = arguments.gpu.as_deref().map(|gpu| Base::of(&offered, gpu, arguments));
    let base = base.transpose()?;
    let server_limit = offered.max_model_len.unwrap_or(u32::MAX);
    let plan = Plan::new(&Limits {
        prompt_tokens: arguments.max_prompt_tokens,
        context_tokens: arguments.max_context_tokens.min(server_limit),
        streams: arguments.max_concurrency,
        repetitions: arguments.repetitions,
    });
    say(&format!(
        "{} at {}: {} requests, {} prompt tokens, {} output tokens, at most {} at once",
        offered.id,
        arguments.url,
        plan.requests(),
        plan.prompt_tokens(),
        plan.output_tokens(),
        arguments.max_concurrency
    ));
    if arguments.dry_run {
        return print(&report::plan(&plan));
    }
    let driver = Driver::new(&server, &offered.id, arguments.seed);
    let bar = std::io::stderr().is_terminal().then(|| progress::of_requests(plan.requests()));
    let asked = |count: u32| bar.iter().for_each(|bar| bar.inc(count.into()));
    let repetitions = driver.measure(&plan, asked).map_err(failure)?;
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let mut points = Vec::new();
    for (round, answers) in plan.rounds.iter().zip(&repetitions) {
        match Point::of(round, answers) {
            Some(point) => points.push(point),
            None => say(&format!(
                "{}: left out, its streams hardly decoded together",
                report::round(round)
            )),
        }
    }
    let law = base.as_ref().map_or(Law::Affine, |base| base.law(&mut points));
    let fit = fit_points(law, &points).map_err(|error| Failure::Input(error.into()))?;
    let report = Report { points: &points, fit: &fit, is_affine: base.is_none() };
    if let Some(base) = &base {
        say(&format!("step times before the fit: {}", base.cost.provenance()));
    }
    print(&report.text())?;
    let Some(path) = &arguments.output else { return Ok(()) };
    let text = report.file(
        &offered,
        &arguments.url,
        base.as_ref().map(|base| (&*base.name, &base.made_on)),
    );
    replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
    say(&format!("parameters in {}", path.display()));
    Ok(())
}

/// The server with the headers that it wants.
fn reached(arguments: &ProbeArguments, mut server: Server) -> Result<Server, Failure> {
    let key = arguments.api_key.clone().or_else(|| std::env::var("OPENAI_API_KEY").ok());
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        let with_key = server.with_header("authorization", &format!("Bearer {key}"));
        server = with_key.map_err(|problem| Failure::input(format!("--api-key: {problem}")))?;
    }
    for header in &arguments.header {
        let parts = header.split_once('=').ok_or_else(|| {
            Failure::input("--header: must be NAME=VALUE, as in --header X-Tenant=test")
        })?;
        let with_header = server.with_header(parts.0.trim(), parts.1);
        server = with_header.map_err(|problem| Failure::input(format!("--header: {problem}")))?;
    }
    Ok(server)
}

fn failure(error: ServerError) -> Failure {
    Failure::Input(error.into())
}

/// The model asked for, or the only one.
fn chosen(offered: Vec<Offered>, arguments: &ProbeArguments) -> Result<Offered, Failure> {
    let names: Vec<String> = offered.iter().map(|model| format!("`{}`", model.id)).collect();
    let names = names.join(", ");
    match &arguments.model {
        Some(name) => offered.into_iter().find(|model| model.id == *name).ok_or_else(|| {
            Failure::input(format!("--model: the server offers no `{name}`; it offers {names}"))
        }),
        None if offered.len() == 1 => Ok(offered.into_iter().next().expect("there is one")),
        None if offered.is_empty() => Err(Failure::input("--url: the server offers no model")),
        None => Err(Failure::input(format!("--model: is needed, the server offers {names}"))),
    }
}

/// The step times that are calibrated.
struct Base {
    name: String,
    cost: StepTime,
    graphs: CapturedSizes,
    made_on: MadeOn,
}

impl Base {
    fn of(offered: &Offered, gpu: &str, arguments: &ProbeArguments) -> Result<Self, Failure> {
        let folder = Path::new("");
        let names = [arguments.config.as_ref(), Some(&offered.id), offered.root.as_ref()];
        let mut names = names.into_iter().flatten();
        let known =
            names.find(|name| matches!(load::model("cluster.model", name, folder), Ok(Some(_))));
        let told = arguments.config.as_ref().filter(|name| known != Some(name));
        if let Some(name) = told {
            let problem = format!("--config: `{name}` is neither in the catalogue nor a file");
            return Err(Failure::input(problem));
        }
        let Some(model) = known else {
            let problem = format!("--config: is needed, `{}` is not in the catalogue", offered.id);
            return Err(Failure::input(problem));
        };
        let mut file = engine_defaults(model, gpu, arguments.tensor_parallel_size);
        if offered.owned_by.as_deref() == Some("sglang") {
            file.cluster.engine = EngineConfig::Sglang(SglangConfig::default());
        }
        let scenario = load::resolved(file, folder)?;
        let group = scenario.first();
        let cost = crate::sim::step_time(group).map_err(|e| Failure::Input(e.into()))?;
        let sizes = match &group.cluster.engine {
            EngineConfig::VllmV1(engine) => engine.cudagraph_capture_sizes.clone(),
            EngineConfig::Sglang(engine) => engine.cuda_graph_bs_decode.clone(),
            _ => None,
        };
        let graphs = CapturedSizes::new(sizes.into_iter().flatten());
        let name = format!("{} on {}x{}", group.model.name, arguments.tensor_parallel_size, gpu);
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
