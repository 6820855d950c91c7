//! Published runs with parameters fitted to other published runs on the same GPU and engine.

use std::collections::{BTreeMap, BTreeSet};

use super::super::calibrate::short;
use super::super::{Failure, scenario_file};
use crate::calibrate::{Estimate, Parameter, Run, fit};
use crate::metrics::bench::Tool;
use crate::scenario::{EngineConfig, Scenario, ScenarioFile};
use crate::validate::{Plan, Record, figures};

/// Runs that a fit looks at, spread evenly over those there are: more tell little more.
const RUNS: usize = 16;
/// With fewer runs on a GPU, only the host is fitted, to runs on all GPUs.
const OWN_RUNS: usize = 8;
/// How far servers of one GPU and engine differ, as a share: other hosts, versions and drivers.
const SCATTER: f64 = 0.25;

/// A GPU and an engine.
type Kind = (String, &'static str);

/// Parameters by GPU and engine, as overrides of a scenario.
#[derive(Debug, Default)]
pub(super) struct Calibrated {
    kinds: BTreeMap<Kind, Vec<String>>,
}

impl Calibrated {
    /// Fits what differs between servers to the runs of `records`, for each GPU and engine of
    /// `wanted`.
    pub(super) fn on(
        records: &[Record],
        wanted: &[Record],
        overrides: &[String],
        mut tell: impl FnMut(&str),
    ) -> Result<Self, Failure> {
        let asked: BTreeSet<Kind> =
            wanted.iter().filter_map(plan).map(|p| kind(&p.scenario)).collect();
        let plans: Vec<Plan> = records.iter().filter_map(plan).collect();
        let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut calibrated = Self::default();
        for (gpu, engine) in asked {
            let of_engine = plans.iter().filter(|plan| kind(&plan.scenario).1 == engine);
            let own: Vec<&Plan> =
                of_engine.clone().filter(|plan| plan.scenario.cluster.gpu == gpu).collect();
            let values = if own.len() >= OWN_RUNS {
                let parameters = [host(), kernels()].concat();
                fitted(&own, &parameters, overrides, &format!("{engine} on {gpu}"), &mut tell)?
            } else {
                if !hosts.contains_key(engine) {
                    let all: Vec<&Plan> = of_engine.collect();
                    let name = format!("{engine} on any GPU");
                    hosts.insert(engine, fitted(&all, &host(), overrides, &name, &mut tell)?);
                }
                hosts[engine].clone()
            };
            calibrated.kinds.insert((gpu, engine), values);
        }
        Ok(calibrated)
    }

    /// A scenario with the parameters of its GPU and engine, if there are some.
    pub(super) fn adjusted(&self, file: ScenarioFile) -> Result<ScenarioFile, String> {
        match self.kinds.get(&kind(&file)) {
            Some(values) if file.cluster.lora.is_none() => scenario_file::overridden(file, values),
            _ => Ok(file),
        }
    }
}

/// Parameters fitted to some of these runs, as overrides; none where there is no run.
fn fitted(
    plans: &[&Plan],
    parameters: &[Parameter],
    overrides: &[String],
    name: &str,
    mut tell: impl FnMut(&str),
) -> Result<Vec<String>, Failure> {
    let count = plans.len().min(RUNS);
    let spread = (0..count).map(|index| plans[index * plans.len() / count]);
    let runs: Vec<Run<'_>> = spread.filter_map(|plan| run(plan, parameters, overrides)).collect();
    if runs.is_empty() {
        tell(&format!("{name}: no run to calibrate on"));
        return Ok(Vec::new());
    }
    let found = fit(parameters, &runs).map_err(|error| Failure::Input(error.into()))?;
    let value =
        |estimate: &Estimate| format!("{}={}", estimate.parameter.path, short(estimate.value));
    let values: Vec<String> = found.estimates.iter().map(value).collect();
    tell(&format!("{name}, fitted to {} runs: {}", runs.len(), values.join(" ")));
    Ok(values)
}

/// A record that can be simulated without adapters, whose constants are their own.
fn plan(record: &Record) -> Option<Plan> {
    Plan::of(record).ok().filter(|plan| plan.scenario.cluster.lora.is_none())
}

fn kind(file: &ScenarioFile) -> Kind {
    let engine = match file.cluster.engine {
        EngineConfig::Sglang(_) => "SGLang",
        EngineConfig::VllmV0(_) => "vLLM (V0)",
        _ => "vLLM",
    };
    (file.cluster.gpu.clone(), engine)
}

/// What differs between servers: the way to the engine, and the host's time.
fn host() -> Vec<Parameter> {
    vec![
        Parameter::amount("cluster.api_delay_ms", 20.0),
        Parameter::amount("cluster.api_per_request_ms", 1.0),
        Parameter::amount("cluster.step_time.calibration.per_step_us", 2000.0),
        Parameter::amount("cluster.step_time.calibration.per_prefill_step_us", 5000.0),
        Parameter::amount("cluster.step_time.calibration.per_sequence_us", 30.0),
    ]
}

/// What differs between GPUs of one kind and kernels of one engine.
fn kernels() -> Vec<Parameter> {
    let factor =
        |part: &str| Parameter::factor(format!("cluster.step_time.calibration.{part}"), 0.2);
    ["products", "experts", "decode_attention"].map(factor).to_vec()
}

/// A record as a run to fit; nothing where it cannot be simulated.
fn run<'a>(plan: &'a Plan, parameters: &'a [Parameter], overrides: &[String]) -> Option<Run<'a>> {
    let file = scenario_file::overridden(plan.scenario.clone(), overrides).ok()?;
    let simulate = move |values: &[f64]| {
        let values = parameters.iter().zip(values);
        let texts: Vec<String> =
            values.map(|(parameter, value)| format!("{}={value:?}", parameter.path)).collect();
        let file = scenario_file::overridden(file.clone(), &texts).ok()?;
        let scenario = Scenario::resolve(file, None).ok()?;
        figures(&scenario, plan.requests.clone()).ok()
    };
    let centre: Vec<f64> = parameters.iter().map(|p| p.expected.value(0.0)).collect();
    simulate(&centre)?;
    Some(Run {
        name: plan.scenario.name.clone(),
        tool: Tool::Vllm,
        measured: plan.measured.clone(),
        scatter: SCATTER,
        simulate: Box::new(simulate),
    })
}
