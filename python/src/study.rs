//! Studies of many runs: the library's questions, and its answers as JSON and tables.
//!
//! `servecast/_studies.py` puts the questions and gives the answers attributes.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use servecast::calibrate::{Calibration, Question, Servers};
use servecast::check as checks;
use servecast::check::{Purpose, Suite};
use servecast::compare::Pairing;
use servecast::explain::Metric;
use servecast::load::{Changes, Draft, Listener};
use servecast::plan::{LayoutKind, PriceList, Seeks, WarmUp};
use servecast::scenario::Offer;
use servecast::sweep::{Axis, BrokenRule, DesignName, Levels, Shard, Sweep, Vary, Watch};
use servecast::validate as measured;
use servecast::validate::{Published, judge};
use servecast::{Compare, Explain, Plan};

use crate::error::{Failure, broken_rule};
use crate::job::{self, Bar, Calls, Job, Notes};
use crate::policy::{Given, Policies};
use crate::scenario::Scenario;
use crate::table::Table;
use crate::value;

/// Does a study, and tells what should be heard of it.
pub(crate) fn study<R: Send>(
    py: Python<'_>,
    job: &Job,
    work: impl FnOnce(Listener) -> Result<R, Failure> + Send,
) -> PyResult<R> {
    let notes = Notes::default();
    let listener = notes.listener();
    told(py, job, &notes, || work(listener))
}

/// Does a part of a study whose notes are kept by who asks for it, and tells them.
pub(crate) fn told<R: Send>(
    py: Python<'_>,
    job: &Job,
    notes: &Notes,
    work: impl FnOnce() -> Result<R, Failure> + Send,
) -> PyResult<R> {
    let done = job::run(py, job, work)?;
    notes.tell(py)?;
    Ok(done)
}

/// Settings with the values they take: a list, or text as `--vary` takes it.
fn axes(vary: &Bound<'_, PyDict>) -> PyResult<Vec<Axis>> {
    let wrong = |rule: BrokenRule| broken_rule(vary.py(), &rule);
    let mut axes = Vec::with_capacity(vary.len());
    for (path, values) in vary {
        let path: String = path.extract()?;
        axes.push(match value::setting(&path, &values)? {
            toml::Value::Array(values) => Axis { path, levels: Levels::List(values) },
            toml::Value::String(text) => format!("{path}={text}").parse().map_err(wrong)?,
            one => Axis { path, levels: Levels::List(vec![one]) },
        });
    }
    Ok(axes)
}

/// One of a few words.
pub(crate) fn word<T: Copy>(what: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == given.replace('-', "_"));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        PyValueError::new_err(format!("{what}: must be one of {}, got {given:?}", names.join(", ")))
    })
}

pub(crate) fn calls<'a>(drafts: impl IntoIterator<Item = &'a Draft>) -> Calls {
    let own = drafts.into_iter().any(|draft| draft.policies().is_some());
    if own { Calls::Python } else { Calls::Nothing }
}

/// What a sweep varies.
pub(crate) fn question(
    vary: &Bound<'_, PyDict>,
    design: Option<&str>,
    points: Option<u32>,
    seeds: Option<u32>,
) -> PyResult<Vary> {
    let known = [
        ("grid", DesignName::Grid),
        ("zip", DesignName::Zip),
        ("random", DesignName::Random),
        ("latin_hypercube", DesignName::LatinHypercube),
    ];
    let design = design.map(|name| word("design", name, &known)).transpose()?;
    Ok(Vary { axes: axes(vary)?, design, points, seeds })
}

/// Runs a scenario at many points; what its points show as JSON, and a row per run.
#[pyfunction]
#[pyo3(signature = (scenario, vary, design, points, seeds, folder, shard, progress))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn sweep(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    vary: &Bound<'_, PyDict>,
    design: Option<&str>,
    points: Option<u32>,
    seeds: Option<u32>,
    folder: Option<PathBuf>,
    shard: Option<(u32, u32)>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Table, u32)> {
    let vary = question(vary, design, points, seeds)?;
    let shard = shard.map(|(index, count)| Shard { index, count });
    if shard.is_some_and(|shard| !(1..=shard.count).contains(&shard.index)) {
        return Err(PyValueError::new_err("shard: must be (I, N) with I from 1 to N"));
    }
    if shard.is_some() && folder.is_none() {
        return Err(PyValueError::new_err("shard: a part is kept in a folder; give one"));
    }
    let drafts = scenario.get().drafts();
    let bar = progress.map(|callback| Bar::new(callback.unbind()));
    let job = Job { calls: calls(&drafts.each), bar: bar.clone() };
    study(py, &job, move |listener| {
        let sweep = Sweep::of(drafts, &vary)?;
        let tell = |done: u32, of: u32| {
            if let Some(bar) = &bar {
                bar.of.store(of.into(), Ordering::Relaxed);
                bar.done.fetch_max(done.into(), Ordering::Relaxed);
            }
        };
        let watch = Watch { listener: listener.clone(), progress: Some(&tell), words: None };
        let results = match &folder {
            Some(folder) => sweep.run_in(folder, shard, &watch)?,
            None => sweep.run(&watch)?,
        };
        results.warnings().iter().for_each(|note| listener.tell(note));
        results.verdict()?;
        let json = results.report().json().to_string();
        Ok((json, Table::of(results.columns()), results.reused()))
    })
}

/// Joins the parts of a sweep.
#[pyfunction]
#[pyo3(signature = (parts, folder, partial))]
pub(crate) fn merge(
    py: Python<'_>,
    parts: Vec<PathBuf>,
    folder: PathBuf,
    partial: bool,
) -> PyResult<(String, Table, u32)> {
    use servecast::sweep::Missing;
    let missing = if partial { Missing::LeftOut } else { Missing::Refused };
    study(py, &Job::default(), move |listener| {
        let results = servecast::sweep::merge(&parts, &folder, missing, &listener)?;
        results.warnings().iter().for_each(|note| listener.tell(note));
        let json = results.report().json().to_string();
        Ok((json, Table::of(results.columns()), results.reused()))
    })
}

/// Finds the layouts that meet SLOs; as JSON, and in words.
#[pyfunction]
#[pyo3(signature = (scenario, slo, gpu, tensor_parallel, vary, layout, offer, prices, price_file, all, max_gpus, rate,
    resamples, point, window_s, nic_gb_per_s, warm_up))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn plan(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    slo: Vec<String>,
    gpu: Vec<String>,
    tensor_parallel: Vec<u32>,
    vary: &Bound<'_, PyDict>,
    layout: Vec<String>,
    offer: Option<&str>,
    prices: Vec<(String, f64)>,
    price_file: Option<PathBuf>,
    all: bool,
    max_gpus: u32,
    rate: bool,
    resamples: u32,
    point: bool,
    window_s: f64,
    nic_gb_per_s: Option<f64>,
    warm_up: &str,
) -> PyResult<(String, String)> {
    let mut plan = Plan::new(scenario.get().draft().clone());
    plan.slos = slo;
    plan.gpus = gpu;
    plan.tensor_parallel = tensor_parallel;
    plan.vary = axes(vary)?;
    let kinds = [("mixed", LayoutKind::Mixed), ("disaggregated", LayoutKind::Disaggregated)];
    let kinds = layout.iter().map(|name| word("layout", name, &kinds));
    plan.kinds = kinds.collect::<PyResult<_>>()?;
    let offers = [("low", Offer::Low), ("high", Offer::High)];
    plan.offer = offer.map(|name| word("price", name, &offers)).transpose()?;
    plan.prices = prices;
    let list = price_file.as_deref().map(PriceList::read).transpose();
    plan.price_list = list.map_err(|error| Failure::from(error).raise(py))?;
    plan.all = all;
    plan.max_gpus = max_gpus;
    plan.seeks = if rate { Seeks::HighestRate } else { Seeks::FewestReplicas };
    plan.resamples = resamples;
    plan.point = point;
    plan.window_s = window_s;
    plan.nic_gb_per_s = nic_gb_per_s;
    let warm_ups = [("auto", None), ("counts", Some(WarmUp::Counts)), ("cut", Some(WarmUp::Mser5))];
    plan.warm_up = word("warm_up", warm_up, &warm_ups)?;
    let job = Job { calls: Calls::of(&plan.draft), bar: None };
    study(py, &job, move |listener| {
        plan.listener = listener;
        let answer = plan.read()?.answer()?;
        Ok((answer.json().to_string(), answer.to_string()))
    })
}

/// What a comparison is asked.
pub(crate) fn comparison(
    scenarios: &[Bound<'_, Scenario>],
    seeds: (u32, u32),
    confidence: f64,
    within: f64,
    metrics: Vec<String>,
    (paired, point): (bool, bool),
) -> Compare {
    let drafts = scenarios.iter().map(|one| one.get().draft().clone());
    let mut compare = Compare::new(drafts.collect());
    compare.seeds = [seeds.0, seeds.1];
    compare.confidence = confidence;
    compare.within = within;
    compare.metrics = metrics;
    compare.pairing = if paired { Pairing::Paired } else { Pairing::Independent };
    compare.point = point;
    compare
}

/// Compares scenarios with the first; as JSON, in words, and a row per run.
#[pyfunction]
#[pyo3(signature = (scenarios, seeds, confidence, within, metrics, paired, point))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn compare(
    py: Python<'_>,
    scenarios: Vec<Bound<'_, Scenario>>,
    seeds: (u32, u32),
    confidence: f64,
    within: f64,
    metrics: Vec<String>,
    paired: bool,
    point: bool,
) -> PyResult<(String, String, Table)> {
    let ways = (paired, point);
    let mut compare = comparison(&scenarios, seeds, confidence, within, metrics, ways);
    let job = Job { calls: calls(&compare.drafts), bar: None };
    study(py, &job, move |listener| {
        compare.listener = listener;
        let compared = compare.read()?.run()?;
        let table = Table::of(compared.columns());
        Ok((compared.json().to_string(), compared.to_string(), table))
    })
}

/// Says why a request was slow; as JSON, in words, and in words with all changes.
#[pyfunction]
#[pyo3(signature = (scenario, request, metric, percentile, seeds, confidence, point))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn explain(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    request: Option<u32>,
    metric: Option<&str>,
    percentile: f64,
    seeds: u32,
    confidence: f64,
    point: bool,
) -> PyResult<(String, String, String)> {
    let mut explain = Explain::new(scenario.get().draft().clone());
    explain.request = request;
    let metrics = [("ttft", Metric::Ttft), ("tpot", Metric::Tpot), ("e2e", Metric::E2e)];
    explain.metric = metric.map(|name| word("metric", name, &metrics)).transpose()?;
    explain.percentile = percentile;
    explain.seeds = seeds;
    explain.confidence = confidence;
    explain.point = point;
    let job = Job { calls: Calls::of(&explain.draft), bar: None };
    study(py, &job, move |listener| {
        explain.listener = listener;
        let found = explain.run()?;
        let json = serde_json::to_string(&found);
        let json = json.map_err(|error| Failure::Other(error.to_string()))?;
        Ok((json, found.to_string(), found.full_text()))
    })
}

/// Fits parameters to measured runs; what was found as JSON, and as a calibration file.
#[pyfunction]
#[pyo3(signature = (runs, hold_out, server, data, overrides, within))]
pub(crate) fn calibrate(
    py: Python<'_>,
    runs: Vec<PathBuf>,
    hold_out: Vec<PathBuf>,
    server: Option<PathBuf>,
    data: Option<PathBuf>,
    overrides: Option<&Bound<'_, PyAny>>,
    within: f64,
) -> PyResult<(String, String)> {
    let overrides = value::overrides(overrides)?;
    let parameters = Vec::new();
    let question = Question { runs, hold_out, server, data, overrides, parameters };
    study(py, &Job::default(), move |listener| {
        let answer = Calibration::of(&question, &listener)?.fit()?;
        let json = answer.json(&answer.verdict(within)).to_string();
        Ok((json, answer.file.text()))
    })
}

/// Simulates measured runs again; how near they are as JSON, in words, and as CSV.
#[pyfunction]
#[pyo3(signature = (experiment, runs, calibrate_on, family, engine, calibration, data, overrides))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn validate(
    py: Python<'_>,
    experiment: Option<PathBuf>,
    runs: Option<PathBuf>,
    calibrate_on: Option<PathBuf>,
    family: Option<String>,
    engine: Option<String>,
    calibration: Option<PathBuf>,
    data: Option<PathBuf>,
    overrides: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let overrides = value::overrides(overrides)?;
    study(py, &Job::default(), move |listener| {
        if let Some(path) = &runs {
            let runs = Published::read(path, &listener)?;
            let runs = runs.only(family.as_deref(), engine.as_deref())?.with(&overrides)?;
            let servers = match &calibrate_on {
                Some(path) => {
                    Servers::fitted(&Published::read(path, &listener)?, &runs, &listener)?
                }
                None => Servers::default(),
            };
            let validation = runs.validate(&|run, file| servers.adjusted(run, file));
            return Ok((validation.json(), validation.text()));
        }
        let cases = match &experiment {
            Some(folder) if folder.is_dir() => measured::host_runs(folder, &overrides, &listener)?,
            Some(path) => {
                let changes = Changes { calibration, overrides, seed: None };
                measured::experiments(path, &changes, data.as_deref())?
            }
            None => measured::reference_runs(&overrides, &listener)?,
        };
        let verdict = judge(&cases);
        Ok((verdict.validation.json(), verdict.text()))
    })
}

/// Simulates the scenarios of a suite, and compares with what is recorded of them; as JSON.
#[pyfunction]
#[pyo3(signature = (folder, pattern, router, admission, autoscaler, scheduler))]
pub(crate) fn check(
    py: Python<'_>,
    folder: Option<PathBuf>,
    pattern: Option<String>,
    router: Option<Bound<'_, PyAny>>,
    admission: Option<Bound<'_, PyAny>>,
    autoscaler: Option<Bound<'_, PyAny>>,
    scheduler: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let given = Given { router, admission, autoscaler, scheduler };
    let policies = Policies::default().with(&given)?;
    let calls = if policies.is_any() { Calls::Python } else { Calls::Nothing };
    let policies = policies.shared();
    study(py, &Job { calls, bar: None }, move |listener| {
        let suite = match &folder {
            Some(folder) => checks::folder(folder, Purpose::Check, &listener)?,
            None => Suite::built_in(),
        };
        let pattern = pattern.as_deref().unwrap_or("*");
        let suite = suite.like(pattern);
        if suite.members.is_empty() {
            return Err(Failure::Other(format!("{pattern}: no scenario has such a name")));
        }
        let outcomes = suite.check(&policies)?;
        Ok(checks::json(&outcomes, &suite.forgotten).to_string())
    })
}
