//! Parameters of servers, fitted to published runs of servers like them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rayon::prelude::*;

use super::alike::{self, Fit, Known, Server, Witness};
use super::fit::{CalibrationError, Observed, best};
use super::observation::Observation;
use super::response::Response;
use super::short;
use super::transfer::{self, Predicted};
use crate::calibration::{Expected, Parameter};
use crate::load::{self, Listener, Note, Override};
use crate::metrics::bench::MetricKey;
use crate::resolved::Scenario;
use crate::scenario::{ClusterConfig, ScenarioFile, ServerHost, StepTimeConfig};
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
    /// When there are runs, and none tells a latency or a duration.
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
        let mut fits: BTreeMap<Server, Vec<Fit>> =
            asked.into_iter().map(|server| (server.clone(), server.fits(&known))).collect();
        let seen: BTreeSet<usize> =
            fits.values().flatten().flat_map(|fit| &fit.runs).map(|run| run.at).collect();
        tell(format!("{} runs to calibrate on", seen.len()));
        let tells = |at: &usize| !Observation::all(&plans[*at].measured, 0.0).is_empty();
        if !seen.is_empty() && !seen.iter().any(tells) {
            return Err(CalibrationError::NoFigures);
        }
        let told: BTreeMap<usize, Told> = seen
            .into_par_iter()
            .filter_map(|at| Some((at, Told::of(&plans[at], &wanted.overrides)?)))
            .collect();
        for fit in fits.values_mut().flatten() {
            fit.runs.retain(|run| told.contains_key(&run.at));
        }
        // A fit is another one where the same runs are of other servers, or where it begins elsewhere.
        let mut done: Vec<(Fit, Found, Option<Found>)> = Vec::new();
        let mut calibrated = Self::default();
        for (server, fits) in fits {
            let mut found = Found::new();
            let mut taken: Vec<&Fit> = Vec::new();
            for step in &fits {
                let is_same = |(one, before, _): &&(Fit, Found, Option<Found>)| {
                    one == step && *before == found
                };
                let values = if let Some((.., values)) = done.iter().find(is_same) {
                    values.clone()
                } else {
                    let is_taken = predicts_its_servers(step, &taken, &told, &wanted.overrides)?;
                    let values = if is_taken {
                        Some(fitted(step, &told, &found, &wanted.overrides, tell)?)
                    } else {
                        tell(format!(
                            "{}: not fitted, as its servers do not predict each other",
                            step.name
                        ));
                        None
                    };
                    done.push((step.clone(), found.clone(), values.clone()));
                    values
                };
                if let Some(values) = values {
                    found.extend(values);
                    taken.push(step);
                }
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

/// Which parameters a scenario hangs on.
struct Concerns<'a> {
    cluster: &'a ClusterConfig,
    has_experts: bool,
    /// Whether steps are split into reading and multiplying, which measured layers are not.
    is_split: bool,
}

impl<'a> Concerns<'a> {
    fn of(file: &'a ScenarioFile) -> Self {
        let scenario = load::resolved(file.clone(), Path::new("")).ok();
        let group = scenario.as_ref().map(Scenario::first);
        let is_layers =
            |step_time: &StepTimeConfig| matches!(step_time, StepTimeConfig::LayerTable(_));
        Self {
            cluster: &file.cluster,
            has_experts: group.is_some_and(|group| group.model.experts().is_some()),
            is_split: group.is_some_and(|group| !is_layers(&group.cluster.step_time)),
        }
    }

    /// Whether the parameter at this path is one of them.
    fn has(&self, path: &str) -> bool {
        let cluster = self.cluster;
        match path.rsplit('.').next().unwrap_or_default() {
            "experts" => self.has_experts,
            "experts_compute" => self.has_experts && self.is_split,
            "products_compute" => self.is_split,
            "cpu" => cluster.host.is_some_and(|host| host.processes().is_some()),
            "all_reduce" => cluster.tensor_parallel_size.max(cluster.data_parallel_size) > 1,
            _ => true,
        }
    }
}

/// The settings of a scenario that were found, of those that it hangs on.
fn settings<'a>(
    found: impl Iterator<Item = (&'a String, &'a f64)>,
    file: &ScenarioFile,
) -> Vec<Override> {
    let concerns = Concerns::of(file);
    let found = found.filter(|(path, _)| concerns.has(path));
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
    told: &BTreeMap<usize, Told>,
    before: &Found,
    overrides: &[Override],
    tell: impl Fn(String),
) -> Result<Found, CalibrationError> {
    let mut parameters = step.parameters.clone();
    let runs: Vec<(&Told, &Witness)> =
        step.runs.iter().filter_map(|run| Some((told.get(&run.at)?, run))).collect();
    // What was overridden stays.
    let is_overridden = |path: &String| overrides.iter().any(|given| given.path == *path);
    parameters.retain(|one| !is_overridden(&one.path));
    parameters.retain(|one| runs.iter().any(|(told, _)| told.response.has(&one.path)));
    for parameter in &mut parameters {
        let (Expected::Factor { centre, .. } | Expected::Amount { centre, .. }) =
            &mut parameter.expected;
        *centre = before.get(&parameter.path).copied().unwrap_or(*centre);
    }
    if runs.is_empty() || parameters.is_empty() {
        tell(format!("{}: nothing to fit", step.name));
        return Ok(Found::new());
    }
    let runs: Vec<Observed<'_>> =
        runs.into_iter().map(|(told, run)| told.observed(run, &parameters, before)).collect();
    let values = best(&parameters, &runs)?;
    let paths = parameters.iter().map(|one| one.path.clone());
    let found: Found = paths.zip(values).collect();
    let values: Vec<String> =
        found.iter().map(|(path, value)| format!("{path}={}", short(*value))).collect();
    tell(format!("{}, fitted to {} runs: {}", step.name, runs.len(), values.join(" ")));
    Ok(found)
}

/// Whether the servers of a fit predict each other: each is predicted by the fits that were taken before, and by them and
/// this one, all of them without its own runs. One server alone has nothing to say of that.
fn predicts_its_servers(
    step: &Fit,
    taken: &[&Fit],
    told: &BTreeMap<usize, Told>,
    overrides: &[Override],
) -> Result<bool, CalibrationError> {
    let servers = step.servers();
    if servers.len() < 2 {
        return Ok(true);
    }
    let predicted = |(server, runs): (Option<&str>, Vec<usize>)| {
        let mut before = Found::new();
        for earlier in taken {
            let values = fitted(&earlier.without(server), told, &before, overrides, |_| {})?;
            before.extend(values);
        }
        let mut after = before.clone();
        after.extend(fitted(&step.without(server), told, &before, overrides, |_| {})?);
        let runs = runs.iter().filter_map(|at| told.get(at));
        Ok(runs.flat_map(|run| run.predicted(&before, &after)).collect())
    };
    let predicted: Result<Vec<Vec<Predicted>>, CalibrationError> =
        servers.into_par_iter().map(predicted).collect();
    Ok(transfer::holds(&predicted?))
}

/// A measured run, and what it would be at other values of the parameters.
struct Told {
    name: String,
    measured: Vec<(MetricKey, f64)>,
    response: Response,
}

impl Told {
    /// Nothing where it cannot be simulated, or tells no latency and no duration.
    fn of(plan: &Plan, overrides: &[Override]) -> Option<Self> {
        let file = load::overridden(plan.scenario.clone(), overrides).ok()?;
        let keys: Vec<MetricKey> =
            Observation::all(&plan.measured, 0.0).iter().map(|one| one.key).collect();
        if keys.is_empty() {
            return None;
        }
        let concerns = Concerns::of(&file);
        let mut parameters = alike::all();
        parameters.retain(|one| {
            concerns.has(&one.path) && !overrides.iter().any(|given| given.path == one.path)
        });
        // Factors are of what is expected.
        let factors: Vec<f64> =
            parameters.iter().map(|one| expected(&one.path, &plan.scenario)).collect();
        let paths: Vec<String> = parameters.iter().map(|one| one.path.clone()).collect();
        let simulate = |values: &[f64]| {
            let values = values.iter().zip(&factors).map(|(value, factor)| value * factor);
            let settings: Vec<Override> =
                paths.iter().zip(values).map(|(path, value)| Override::new(path, value)).collect();
            let file = load::overridden(file.clone(), &settings).ok()?;
            let scenario = load::resolved(file, Path::new("")).ok()?;
            let summary = plan.figures(&scenario).ok()?;
            keys.iter().map(|key| summary.metric(*key)).collect::<Option<Vec<f64>>>()
        };
        Some(Self {
            name: plan.scenario.name.clone(),
            measured: plan.measured.clone(),
            response: Response::new(parameters, &simulate)?,
        })
    }

    /// Its figures with what was found before a fit, and after it.
    fn predicted(&self, before: &Found, after: &Found) -> Vec<Predicted> {
        let with = |found: &Found| self.response.at(&|path| found.get(path).copied());
        let observations = Observation::all(&self.measured, 0.0);
        let both = with(before).into_iter().zip(with(after));
        let predicted = |(one, (before, after)): (Observation, (f64, f64))| Predicted {
            key: one.key,
            measured: one.measured,
            before,
            after,
        };
        observations.into_iter().zip(both).map(predicted).collect()
    }

    /// The run in a fit of some parameters, where others stay as they were found before.
    fn observed<'a>(
        &'a self,
        witness: &Witness,
        parameters: &'a [Parameter],
        before: &'a Found,
    ) -> Observed<'a> {
        // The figures of another server are off together, so that all of them tell as much as one.
        let alike = if witness.stranger.is_some() { self.response.figures().max(1) } else { 1 };
        let scatter = witness.scatter * (alike as f64).sqrt();
        let figures = move |values: &[f64]| {
            let of = |path: &str| {
                let free = parameters.iter().position(|one| one.path == path);
                free.map(|index| values[index]).or_else(|| before.get(path).copied())
            };
            Some(self.response.at(&of).into_iter().map(Some).collect())
        };
        Observed {
            name: self.name.clone(),
            observations: Observation::all(&self.measured, scatter),
            stranger: witness.stranger.clone(),
            figures: Box::new(figures),
        }
    }
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
    let Ok(scenario) = load::resolved(told, Path::new("")) else { return };
    let class = scenario.first().server_class;
    if let Some((class, calibration)) = class.zip(file.cluster.step_time.calibration_mut()) {
        *calibration = class.prior().factors;
    }
}
