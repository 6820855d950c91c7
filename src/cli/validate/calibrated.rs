//! Published runs with parameters fitted to other published runs of servers like theirs.

use crate::load::{self, Override};
use std::collections::{BTreeMap, BTreeSet};

use super::super::Failure;
use super::super::calibrate::short;
use super::alike::{Fit, Known, Server};
use crate::calibrate::{Run, fit};
use crate::calibration::{Expected, Parameter};
use crate::metrics::bench::Tool;
use crate::profiles;
use crate::resolved::Scenario;
use crate::scenario::{ScenarioFile, StepTimeConfig};
use crate::validate::{Plan, Record, figures};

/// How far servers of one kind differ, as a share: other hosts, versions and drivers.
const SCATTER: f64 = 0.25;

/// Values of settings, by their paths.
type Found = BTreeMap<String, f64>;

/// Parameters by server.
#[derive(Debug, Default)]
pub(super) struct Calibrated {
    servers: BTreeMap<Server, Found>,
}

impl Calibrated {
    /// Fits what differs between servers to the runs of `records`, for each server of `wanted`.
    pub(super) fn on(
        records: &[Record],
        wanted: &[Record],
        overrides: &[Override],
        mut tell: impl FnMut(&str),
    ) -> Result<Self, Failure> {
        let plans: Vec<(Known, Plan)> = records.iter().filter_map(plan).collect();
        let (known, plans): (Vec<Known>, Vec<Plan>) = plans.into_iter().unzip();
        let asked: BTreeSet<Server> =
            wanted.iter().filter_map(plan).map(|(known, _)| known.server).collect();
        let mut done: BTreeMap<String, Found> = BTreeMap::new();
        let mut calibrated = Self::default();
        for server in asked {
            let mut found = Found::new();
            let fits = server.fits(&known);
            for step in &fits {
                if !done.contains_key(&step.name) {
                    let values = fitted(step, &plans, &found, overrides, &mut tell)?;
                    done.insert(step.name.clone(), values);
                }
                found.extend(done[&step.name].clone());
            }
            if fits.is_empty() {
                tell(&format!("{server}: no run to calibrate on"));
            }
            calibrated.servers.insert(server, found);
        }
        Ok(calibrated)
    }

    /// The scenario of a run of this family with the parameters of its server, if there are some.
    pub(super) fn adjusted(
        &self,
        file: ScenarioFile,
        family: &str,
    ) -> Result<ScenarioFile, String> {
        match self.servers.get(&Server::of(&file, family)) {
            Some(found) if file.cluster.lora.is_none() => {
                let has = |path: &str| concerns(path, &file);
                let found = found.iter().filter(|(path, _)| has(path));
                let settings: Vec<Override> =
                    found.map(|(path, value)| setting(path, *value)).collect();
                load::overridden(file, &settings).map_err(|error| Failure::from(error).to_string())
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
            !matches!(scenario.file.cluster.step_time, StepTimeConfig::LayerTable(_))
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
    mut tell: impl FnMut(&str),
) -> Result<Found, Failure> {
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
    let fit = fit(&parameters, &runs).map_err(|error| Failure::Input(error.into()))?;
    let found: Found = fit
        .estimates
        .iter()
        .map(|estimate| (estimate.parameter.path.clone(), estimate.value))
        .collect();
    let values: Vec<String> =
        found.iter().map(|(path, value)| setting(path, *value).to_string()).collect();
    tell(&format!("{}, fitted to {} runs: {}", step.name, runs.len(), values.join(" ")));
    Ok(found)
}

/// A record that can be simulated without adapters, whose constants are their own.
fn plan(record: &Record) -> Option<(Known, Plan)> {
    let plan = Plan::of(record).ok().filter(|plan| plan.scenario.cluster.lora.is_none())?;
    let server = Server::of(&plan.scenario, &record.family);
    Some((Known { server, family: record.family.clone() }, plan))
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
