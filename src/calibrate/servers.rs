//! Parameters of servers, fitted to published runs of servers like them.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::{Fit, Known, Server, Witness};
use super::fit::{CalibrationError, Run, best};
use super::observation::noise;
use super::short;
use crate::calibration::{Expected, Parameter};
use crate::load::{self, Listener, Note, Override};
use crate::metrics::bench::Tool;
use crate::profiles;
use crate::resolved::Scenario;
use crate::scenario::{ScenarioFile, ServerHost, StepTimeConfig};
use crate::validate::{self, Plan, Published, Record};

/// Values of settings by their paths, as factors of what is expected of a server where something is.
type Found = BTreeMap<String, f64>;

/// Parameters by server; of none by default.
#[derive(Debug, Default)]
pub struct Servers(BTreeMap<Server, Found>);

impl Servers {
    /// Fits by how much servers differ from what is expected of them to runs of those with the same engine, source, GPU
    /// and model, from far to near, for each server of `wanted`, whose overrides are in every scenario. The listener
    /// hears of every fit. Of a server whose source has no runs, what is expected holds.
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
        // A fit is another one where the same runs are of other servers, or where it begins elsewhere.
        let mut done: Vec<(Fit, Found, Found)> = Vec::new();
        let mut calibrated = Self::default();
        for server in asked {
            let mut found = Found::new();
            let fits = server.fits(&known);
            for step in &fits {
                let is_same =
                    |(one, before, _): &&(Fit, Found, Found)| one == step && *before == found;
                let values = if let Some((.., values)) = done.iter().find(is_same) {
                    values.clone()
                } else {
                    let values = fitted(step, &plans, &found, &wanted.overrides, tell)?;
                    done.push((step.clone(), found.clone(), values.clone()));
                    values
                };
                found.extend(values);
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
                state(run, &mut file);
                let settings = settings(found.iter(), &file);
                load::overridden(file, &settings).map_err(|error| error.told())
            }
            _ => Ok(file),
        }
    }
}

/// Whether a scenario hangs on a parameter.
fn concerns(path: &str, file: &ScenarioFile) -> bool {
    let part = path.rsplit('.').next().unwrap_or_default();
    let has_experts =
        || profiles::model(&file.cluster.model).is_some_and(|m| m.experts().is_some());
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
        "cpu" => file.cluster.host.is_some_and(|host| host.processes().is_some()),
        "all_reduce" => file.cluster.tensor_parallel_size.max(file.cluster.data_parallel_size) > 1,
        _ => true,
    }
}

/// The settings of a scenario that were found, of those that it hangs on.
fn settings<'a>(
    found: impl Iterator<Item = (&'a String, &'a f64)>,
    file: &ScenarioFile,
) -> Vec<Override> {
    let found = found.filter(|(path, _)| concerns(path, file));
    found.map(|(path, value)| Override::new(path, value * expected(path, file))).collect()
}

/// What a factor that was found is of: what is expected of the server.
fn expected(path: &str, file: &ScenarioFile) -> f64 {
    let part = path.rsplit('.').next().unwrap_or_default();
    let host = || file.cluster.host.as_ref().and_then(ServerHost::processes);
    let factor = || {
        let mut config = file.cluster.step_time.clone();
        let entries = config.calibration_mut()?.entries();
        entries.into_iter().find(|(key, _)| *key == part).map(|(_, factor)| factor)
    };
    match part {
        "cpu" => host().map_or(1.0, |host| host.cpu),
        _ if path.starts_with("cluster.step_time.calibration.") && !part.ends_with("_us") => {
            factor().unwrap_or(1.0)
        }
        _ => 1.0,
    }
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
    let plans: Vec<(&Plan, &Witness)> = step.runs.iter().map(|run| (&plans[run.at], run)).collect();
    // What was overridden stays.
    let is_overridden = |path: &String| overrides.iter().any(|given| given.path == *path);
    parameters.retain(|one| !is_overridden(&one.path));
    parameters.retain(|one| plans.iter().any(|(plan, _)| concerns(&one.path, &plan.scenario)));
    for parameter in &mut parameters {
        let (Expected::Factor { centre, .. } | Expected::Amount { centre, .. }) =
            &mut parameter.expected;
        *centre = before.get(&parameter.path).copied().unwrap_or(*centre);
    }
    // What was found before and is not looked for now holds as it is.
    let is_free = |path: &String| step.parameters.iter().any(|one| one.path == *path);
    let kept: Found = before
        .iter()
        .filter(|(path, _)| !is_free(path) && !is_overridden(path))
        .map(|(path, value)| (path.clone(), *value))
        .collect();
    let runs = plans.iter().filter_map(|plan| run(*plan, &parameters, (&kept, overrides)));
    let runs: Vec<Run<'_>> = runs.collect();
    if runs.is_empty() || parameters.is_empty() {
        tell(format!("{}: nothing to fit", step.name));
        return Ok(Found::new());
    }
    let values = best(&parameters, &runs)?;
    let paths = parameters.iter().map(|one| one.path.clone());
    let found: Found = paths.zip(values).collect();
    let values: Vec<String> =
        found.iter().map(|(path, value)| format!("{path}={}", short(*value))).collect();
    tell(format!("{}, fitted to {} runs: {}", step.name, runs.len(), values.join(" ")));
    Ok(found)
}

/// A record that can be simulated without adapters, whose constants are their own.
fn plan(record: &Record) -> Option<(Known, Plan)> {
    let mut plan = Plan::of(record).ok().filter(|plan| plan.scenario.cluster.lora.is_none())?;
    state(record, &mut plan.scenario);
    let server = Server::of(&plan.scenario, &record.family);
    Some((Known { server, family: record.family.clone() }, plan))
}

/// States what is expected of the kernels of a server, of which what is fitted are factors.
fn state(record: &Record, file: &mut ScenarioFile) {
    let mut told = file.clone();
    validate::tell_tuned(record, &mut told);
    let Ok(scenario) = Scenario::resolve(told, None) else { return };
    let class = scenario.first().server_class;
    if let Some((class, calibration)) = class.zip(file.cluster.step_time.calibration_mut()) {
        *calibration = class.prior().factors;
    }
}

/// A record as a run to fit; nothing where it cannot be simulated.
fn run<'a>(
    (plan, witness): (&'a Plan, &Witness),
    parameters: &'a [Parameter],
    (kept, overrides): (&Found, &[Override]),
) -> Option<Run<'a>> {
    let fixed = settings(kept.iter(), &plan.scenario);
    let overridden = [&fixed, overrides].concat();
    let file = load::overridden(plan.scenario.clone(), &overridden).ok()?;
    // Factors are of what is expected, whatever was found before.
    let of_expected =
        |one: &Parameter| concerns(&one.path, &file).then(|| expected(&one.path, &plan.scenario));
    let factors: Vec<Option<f64>> = parameters.iter().map(of_expected).collect();
    let simulate = move |values: &[f64]| {
        let values = parameters.iter().zip(values).zip(&factors);
        let settings: Vec<Override> = values
            .filter_map(|((parameter, value), factor)| {
                Some(Override::new(&parameter.path, value * (*factor)?))
            })
            .collect();
        let file = load::overridden(file.clone(), &settings).ok()?;
        let scenario = Scenario::resolve(file, None).ok()?;
        plan.figures(&scenario).ok()
    };
    let centre: Vec<f64> = parameters.iter().map(|p| p.expected.value(0.0)).collect();
    simulate(&centre)?;
    // The figures of another server are off together, so that all of them tell as much as one.
    let told = || plan.measured.iter().filter(|(key, _)| noise(*key).is_some()).count();
    let alike = if witness.stranger.is_some() { told().max(1) } else { 1 };
    Some(Run {
        name: plan.scenario.name.clone(),
        tool: Tool::Vllm,
        measured: plan.measured.clone(),
        scatter: witness.scatter * (alike as f64).sqrt(),
        stranger: witness.stranger.clone(),
        simulate: Box::new(simulate),
    })
}
