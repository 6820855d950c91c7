//! Scenarios whose settings can still be changed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple, PyType};
use servecast::cli::Pasted;
use servecast::load::{
    Cases, Changes, Draft, Drafts, Leaves, Loaded, state_setting, state_step_times,
};
use servecast::metrics::BenchReport;
use servecast::resolved::Unstated;
use toml::Value;

use crate::error::{Failure, argument_error};
use crate::job::{self, Bar, Calls, Job, Notes};
use crate::policy::{Given, Policies};
use crate::run::{Progress, Run};
use crate::{study, value};

/// A scenario with its variants.
#[pyclass(frozen, weakref, module = "servecast")]
#[derive(Clone)]
pub(crate) struct Scenario {
    /// The scenario, and then its variants.
    drafts: Vec<Draft>,
    /// What a study of it varies.
    sweep: Option<Value>,
    /// Policies in Python, which its drafts have.
    policies: Policies,
}

/// Servers among those like them, by their word.
fn server(word: &str) -> PyResult<Unstated> {
    let known = [Unstated::TYPICAL, Unstated::SLOW, Unstated::FAST];
    let known = known.map(|server| (server.word().unwrap_or_default(), server));
    study::word("servers", word, &known)
}

/// Simulates what is loaded; its report may be changed. With `point`, and where policies in Python would hear of requests of
/// other runs, typical servers alone.
fn simulate(
    py: Python<'_>,
    calls: Calls,
    (steps, point): (bool, bool),
    progress: Option<Bound<'_, PyAny>>,
    load: impl FnOnce() -> Result<Loaded, Failure> + Send,
    change: impl FnOnce(&mut BenchReport) -> Result<(), Failure> + Send,
) -> PyResult<Run> {
    let notes = Notes::default();
    let listener = notes.listener();
    let job = Job { calls, bar: progress.map(|callback| Bar::new(callback.unbind())) };
    let recording = job::run(py, &job, || {
        let loaded = load()?;
        state_setting(&loaded.scenario, &listener);
        let case = Cases::told(&listener).of(loaded, Leaves::Records)?;
        state_step_times(&case.scenario, case.costs(), &listener);
        let mut progress = job.bar.as_ref().map(|bar| Progress::of(bar, &case.scenario));
        let mut recording = case.record(case.cluster()?, steps, &mut progress)?;
        if !point && calls == Calls::Nothing {
            recording.run.tails = case.tails()?;
        }
        change(&mut recording.run.report)?;
        Ok(recording)
    })?;
    let run = Run::of(recording, &notes);
    notes.tell(py)?;
    Ok(run)
}

/// Simulates what a command of a benchmark tool asks for.
#[pyfunction]
#[pyo3(signature = (words, steps, router, admission, autoscaler, scheduler, progress))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn bench(
    py: Python<'_>,
    words: Vec<OsString>,
    steps: bool,
    router: Option<Bound<'_, PyAny>>,
    admission: Option<Bound<'_, PyAny>>,
    autoscaler: Option<Bound<'_, PyAny>>,
    scheduler: Option<Bound<'_, PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let given = Given { router, admission, autoscaler, scheduler };
    let pasted = Pasted::read(words).map_err(|text| argument_error(py, &text))?;
    if let Some(flag) = pasted.writes_files() {
        let text = format!("{flag}: the command writes files; what a run returns has all of them");
        return Err(argument_error(py, &text));
    }
    let mut loaded = pasted.loaded().clone();
    let mut calls = Calls::Nothing;
    let policies = Policies::default().with(&given)?;
    if policies.is_any() {
        loaded.policies = Some(Arc::new(policies.shared()));
        calls = Calls::Python;
    }
    for notice in pasted.notices() {
        py.import("servecast._errors")?.call_method1("inform", (notice,))?;
    }
    let dress = |report: &mut BenchReport| pasted.dress(report).map_err(Failure::Other);
    simulate(py, calls, (steps, pasted.is_point()), progress, || Ok(loaded), dress)
}

/// Reads a scenario.
#[pyfunction]
#[pyo3(signature = (source = None, overrides = None, *, seed = None, calibration = None))]
pub(crate) fn load(
    py: Python<'_>,
    source: Option<&Bound<'_, PyAny>>,
    overrides: Option<&Bound<'_, PyAny>>,
    seed: Option<u64>,
    calibration: Option<PathBuf>,
) -> PyResult<Scenario> {
    let changes = Changes { calibration, overrides: value::overrides(overrides)?, seed };
    let read = |drafts: Result<Drafts, servecast::load::LoadError>| {
        drafts.map_err(|error| Failure::from(error).raise(py))
    };
    let drafts = match source {
        None => read(changes.load_study(None))?,
        Some(source) => {
            if source.is_instance_of::<PyDict>() || source.cast::<PyMapping>().is_ok() {
                read(changes.of_table("scenario", value::table("", &value::dict(source)?)?))?
            } else if let Ok(scenario) = source.cast::<Scenario>() {
                return scenario.get().changed(py, &changes);
            } else if let Ok(text) = source.cast::<PyString>()
                && text.to_string_lossy().contains('\n')
            {
                read(changes.of_text("scenario", text.to_str()?))?
            } else if let Ok(path) = source.extract::<PathBuf>() {
                read(changes.load_study(Some(&path)))?
            } else {
                let kind = source.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "a scenario is a path, a text in TOML of several lines, or a dict; got {kind}"
                )));
            }
        }
    };
    let policies = Policies::default();
    let scenario = Scenario { drafts: drafts.each, sweep: drafts.sweep, policies };
    // What a study varies need not be a scenario as it stands.
    if scenario.sweep.is_none() {
        for draft in &scenario.drafts {
            draft.resolve().map_err(|error| Failure::from(error).raise(py))?;
        }
    }
    Ok(scenario)
}

impl Scenario {
    /// The scenario alone.
    pub(crate) fn draft(&self) -> &Draft {
        &self.drafts[0]
    }

    /// The scenario, its variants, and what a study varies.
    pub(crate) fn drafts(&self) -> Drafts {
        let (each, sweep) = (self.drafts.clone(), self.sweep.clone());
        Drafts { each, fit: None, calibration: None, sweep }
    }

    fn changed(&self, py: Python<'_>, changes: &Changes) -> PyResult<Self> {
        if changes.calibration.is_some() {
            return Err(PyTypeError::new_err("calibration: is for a scenario that is read anew"));
        }
        let change = |draft: &Draft| -> Result<Draft, Failure> {
            let mut draft = draft.clone();
            for given in &changes.overrides {
                draft = draft.with(&given.path, given.value.clone())?;
            }
            if let Some(seed) = changes.seed {
                draft = draft.with_seed(seed)?;
            }
            if self.sweep.is_none() {
                draft.resolve()?;
            }
            Ok(draft)
        };
        let drafts = self.drafts.iter().map(change).collect::<Result<Vec<_>, _>>();
        let drafts = drafts.map_err(|failure| failure.raise(py))?;
        Ok(Self { drafts, sweep: self.sweep.clone(), policies: self.policies.clone() })
    }

    fn resolve(&self, py: Python<'_>) -> PyResult<Loaded> {
        self.draft().resolve().map_err(|error| Failure::from(error).raise(py))
    }
}

#[pymethods]
impl Scenario {
    /// Its title.
    #[getter]
    fn name(&self) -> &str {
        self.draft().title()
    }

    /// The seed of its random streams.
    #[getter]
    fn seed(&self) -> u64 {
        self.draft().seed().0
    }

    /// Its variants, as scenarios.
    #[getter]
    fn variants(&self) -> Vec<Self> {
        let variants = self.drafts[1..].iter();
        let policies = || self.policies.clone();
        variants
            .map(|draft| Self { drafts: vec![draft.clone()], sweep: None, policies: policies() })
            .collect()
    }

    /// The same with other values of settings, by their paths.
    #[pyo3(signature = (overrides = None, *, seed = None))]
    fn with_overrides(
        &self,
        py: Python<'_>,
        overrides: Option<&Bound<'_, PyAny>>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let overrides = value::overrides(overrides)?;
        self.changed(py, &Changes { calibration: None, overrides, seed })
    }

    /// The same whose servers are like this where it says nothing of them.
    fn with_servers(&self, py: Python<'_>, servers: &str) -> PyResult<Self> {
        let server = server(servers)?;
        let drafts = self.drafts.iter().map(|draft| draft.clone().with_servers(server));
        let drafts = drafts.collect::<Result<Vec<_>, _>>();
        let drafts = drafts.map_err(|error| Failure::from(error).raise(py))?;
        Ok(Self { drafts, sweep: self.sweep.clone(), policies: self.policies.clone() })
    }

    /// The same with policies in Python in place of its own.
    #[pyo3(signature = (*, router = None, admission = None, autoscaler = None, scheduler = None))]
    fn with_policies(
        &self,
        router: Option<Bound<'_, PyAny>>,
        admission: Option<Bound<'_, PyAny>>,
        autoscaler: Option<Bound<'_, PyAny>>,
        scheduler: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let given = Given { router, admission, autoscaler, scheduler };
        let policies = self.policies.with(&given)?;
        let mut drafts = self.drafts.clone();
        if policies.is_any() {
            let shared = Arc::new(policies.shared());
            drafts = drafts.into_iter().map(|one| one.with_policies(shared.clone())).collect();
        }
        Ok(Self { drafts, sweep: self.sweep.clone(), policies })
    }

    /// The scenario with every default filled in, in TOML.
    #[getter]
    fn resolved_toml(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.resolve(py)?.text())
    }

    /// Simulates it.
    #[pyo3(signature = (*, seed = None, servers = None, point = false, steps = false, router = None,
        admission = None, autoscaler = None, scheduler = None, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        servers: Option<&str>,
        point: bool,
        steps: bool,
        router: Option<Bound<'_, PyAny>>,
        admission: Option<Bound<'_, PyAny>>,
        autoscaler: Option<Bound<'_, PyAny>>,
        scheduler: Option<Bound<'_, PyAny>>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Run> {
        let given = Given { router, admission, autoscaler, scheduler };
        let policies = self.policies.with(&given)?;
        let mut draft = self.draft().clone();
        if let Some(seed) = seed {
            draft = draft.with_seed(seed).map_err(|error| Failure::from(error).raise(py))?;
        }
        if let Some(servers) = servers {
            let servers = draft.with_servers(server(servers)?);
            draft = servers.map_err(|error| Failure::from(error).raise(py))?;
        }
        if policies.is_any() {
            draft = draft.with_policies(Arc::new(policies.shared()));
        }
        let calls = Calls::of(&draft);
        simulate(py, calls, (steps, point), progress, || Ok(draft.resolve()?), |_| Ok(()))
    }

    fn __repr__(&self) -> String {
        let name = self.name();
        match self.drafts.len() {
            1 => format!("<servecast.Scenario {name:?}>"),
            2 => format!("<servecast.Scenario {name:?} with a variant>"),
            all => format!("<servecast.Scenario {name:?} with {} variants>", all - 1),
        }
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// It never changes.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, memo: Bound<'py, PyAny>) -> Bound<'py, Self> {
        let _ = memo;
        slf
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let written = |value: Result<String, toml::ser::Error>| {
            value.map_err(|error| PyValueError::new_err(error.to_string()))
        };
        let Self { drafts, sweep, policies } = slf.get();
        if policies.is_any() {
            return Err(PyTypeError::new_err(
                "a scenario with policies in Python is not pickled: pickle it without, and add them where it is read",
            ));
        }
        let drafts = drafts.iter().map(|draft| written(toml::to_string(draft)));
        let drafts = drafts.collect::<PyResult<Vec<String>>>()?;
        let sweep = sweep.as_ref().map(|sweep| written(toml::to_string(sweep))).transpose()?;
        Ok((slf.get_type().getattr("_read")?, (drafts, sweep).into_pyobject(py)?))
    }

    /// A scenario that was pickled.
    #[classmethod]
    fn _read(
        _class: &Bound<'_, PyType>,
        drafts: Vec<String>,
        sweep: Option<String>,
    ) -> PyResult<Self> {
        let wrong = |error: toml::de::Error| PyValueError::new_err(format!("scenario: {error}"));
        let drafts = drafts.iter().map(|text| toml::from_str(text).map_err(wrong));
        let drafts = drafts.collect::<PyResult<Vec<Draft>>>()?;
        let sweep = sweep.map(|text| toml::from_str(&text).map_err(wrong)).transpose()?;
        if drafts.is_empty() {
            return Err(PyValueError::new_err("scenario: was pickled without settings"));
        }
        Ok(Self { drafts, sweep, policies: Policies::default() })
    }
}
