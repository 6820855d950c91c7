//! Parameters of servers, fitted to published runs of servers like them.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::{Fit, Known, Server};
use super::fit::{CalibrationError, Run, fit};
use super::short;
use crate::calibration::{Expected, Parameter};
use crate::load::{self, Listener, Note, Override};
use crate::metrics::bench::Tool;
use crate::profiles;
use crate::resolved::Scenario;
use crate::scenario::{Calibration, ScenarioFile, StepTimeConfig};
use crate::validate::{Plan, Published, Record, figures};

/// How far servers of one kind differ, as a share: other hosts, versions and drivers.
const SCATTER: f64 = 0.25;

/// Values of settings, by their paths.
type Found = BTreeMap<String, f64>;

/// Parameters by server; of none by default.
#[derive(Debug, Default)]
pub struct Servers(BTreeMap<Server, Found>);

impl Servers {
    /// Fits what differs between servers to runs of those with the same engine, source, GPU and model, from far to
    /// near, for each server of `wanted`, whose overrides are in every scenario. The listener hears of every
    /// fit.
    ///
    /// # Errors
    /// When no run tells a latency or a duration, or none can be simulated.
    pub fn fitted(
        runs: &Published,
        wanted: &Published,
        listener: &Listener,
    ) -> Result<Self, CalibrationError> {
        let plans: Vec<(Known, Plan)> = runs.records.iter().filter_map(plan).collect();
        let (known, plans): (Vec<Known>, Vec<Plan>) = plans.into_iter().unzip();
        let asked: BTreeSet<Server> =
            wanted.records.iter().filter_map(plan).map(|(known, _)| known.server).collect();
        let tell = |text: String| listener.tell(&Note::Remark(text));
        let mut done: BTreeMap<String, Found> = BTreeMap::new();
        let mut calibrated = Self::default();
        for server in asked {
            let mut found = Found::new();
            let fits = server.fits(&known);
            for step in &fits {
                if !done.contains_key(&step.name) {
                    let values = fitted(step, &plans, &found, &wanted.overrides, tell)?;
                    done.insert(step.name.clone(), values);
                }
                found.extend(done[&step.name].clone());
            }
            if fits.is_empty() {
                tell(format!("{server}: no run to calibrate on"));
            }
            calibrated.0.insert(server, found);
        }
        Ok(calibrated)
    }

    /// The scenario of a run with the parameters of its server, if there are some: what
    /// [`Published::validate`] asks.
    ///
    /// # Errors
    /// When it has no place for one, in words.
    pub fn adjusted(&self, run: &Record, mut file: ScenarioFile) -> Result<ScenarioFile, String> {
        match self.0.get(&Server::of(&file, &run.family)) {
            Some(found) if file.cluster.lora.is_none() && !found.is_empty() => {
                plain(&mut file);
                let has = |path: &str| concerns(path, &file);
                let found = found.iter().filter(|(path, _)| has(path));
                let settings: Vec<Override> =
                    found.map(|(path, value)| setting(path, *value)).collect();
                load::overridden(file, &settings).map_err(|error| error.told())
            }
            _ => Ok(file),
        }
    }
}

/// Whether a scenario hangs on a parameter.
fn concerns(path: &str, file: &ScenarioFile) -> bool {
    let part = path.rsplit('.').next().unwrap_or_default();
    let has_experts = || profiles::model(&file.cluster.model).is_some_and(|m| m.moe.is_some());
    // Measured layers are not split into reading and multiplying.
    let is_split = || {
        Scenario::resolve(file.clone(), None).is_ok_and(|scenario| {
            !matches!(scenario.first().cluster.step_time, StepTimeConfig::LayerTable(_))
        })
    };
    match part {
        "experts" => has_experts(),
        "experts_compute" => has_experts() && is_split(),
        "products_compute" => is_split(),
        "all_reduce" => file.cluster.tensor_parallel_size.max(file.cluster.data_parallel_size) > 1,
        _ => true,
    }
}

fn setting(path: &str, value: f64) -> Override {
    let text = format!("{path}={}", short(value));
    text.parse().expect("a number is a value")
}

/// What is found when parameters that are expected where they were found before are fitted to some runs.
fn fitted(
    step: &Fit,
    plans: &[Plan],
    before: &Found,
    overrides: &[Override],
    tell: impl Fn(String),
) -> Result<Found, CalibrationError> {
    let mut parameters = step.parameters.clone();
    let plans: Vec<&Plan> = step.runs.iter().map(|&at| &plans[at]).collect();
    parameters.retain(|one| plans.iter().any(|plan| concerns(&one.path, &plan.scenario)));
    for parameter in &mut parameters {
        let (Expected::Factor { centre, .. } | Expected::Amount { centre, .. }) =
            &mut parameter.expected;
        *centre = before.get(&parameter.path).copied().unwrap_or(*centre);
    }
    // What was found before and is not looked for now holds as it is.
    let is_free = |path: &String| step.parameters.iter().any(|one| one.path == *path);
    let kept = before.iter().filter(|(path, _)| !is_free(path));
    let kept: Vec<Override> = kept.map(|(path, value)| setting(path, *value)).collect();
    let overrides = [overrides, &kept].concat();
    let runs = plans.iter().filter_map(|plan| run(plan, &parameters, &overrides));
    let runs: Vec<Run<'_>> = runs.collect();
    if runs.is_empty() {
        return Ok(Found::new());
    }
    let fit = fit(&parameters, &runs)?;
    let found: Found = fit
        .estimates
        .iter()
        .map(|estimate| (estimate.parameter.path.clone(), estimate.value))
        .collect();
    let values: Vec<String> =
        found.iter().map(|(path, value)| setting(path, *value).to_string()).collect();
    tell(format!("{}, fitted to {} runs: {}", step.name, runs.len(), values.join(" ")));
    Ok(found)
}

/// A record that can be simulated without adapters, whose constants are their own.
fn plan(record: &Record) -> Option<(Known, Plan)> {
    let mut plan = Plan::of(record).ok().filter(|plan| plan.scenario.cluster.lora.is_none())?;
    plain(&mut plan.scenario);
    let server = Server::of(&plan.scenario, &record.family);
    Some((Known { server, family: record.family.clone() }, plan))
}

/// Leaves out what is expected of servers of which nothing was measured: what is fitted holds the way to the
/// scheduler, and factors of kernels.
fn plain(file: &mut ScenarioFile) {
    file.cluster.host = None;
    if let Some(calibration) = file.cluster.step_time.calibration_mut() {
        *calibration = Calibration::default();
    }
}

/// A record as a run to fit; nothing where it cannot be simulated.
fn run<'a>(plan: &'a Plan, parameters: &'a [Parameter], overrides: &[Override]) -> Option<Run<'a>> {
    let file = load::overridden(plan.scenario.clone(), overrides).ok()?;
    let concerned: Vec<bool> = parameters.iter().map(|one| concerns(&one.path, &file)).collect();
    let simulate = move |values: &[f64]| {
        let values = parameters.iter().zip(values).zip(&concerned);
        let settings: Vec<Override> = values
            .filter(|(_, concerned)| **concerned)
            .map(|((parameter, value), _)| Override::new(&parameter.path, *value))
            .collect();
        let file = load::overridden(file.clone(), &settings).ok()?;
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
