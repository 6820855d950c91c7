//! Sweeps and comparisons whose runs are done by other processes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use servecast::Compare;
use servecast::compare::{CompareError, Contest, One, Pairing, Wanted};
use servecast::load::{Draft, Listener};
use servecast::sweep::{Entry, Kept, Sweep, Worker};

use crate::error::Failure;
use crate::job::{self, Calls, Job, Notes};
use crate::scenario::Scenario;
use crate::study::{comparison, question, study, told};
use crate::table::Table;

/// A sweep, as its driver and its workers have it.
#[pyclass(frozen, module = "servecast._servecast")]
pub(crate) struct SweepJob {
    worker: Worker,
    /// What should be heard of what its runs read.
    notes: Notes,
}

/// The folder of a sweep that waits for its runs.
#[pyclass(frozen, module = "servecast._servecast")]
pub(crate) struct KeptSweep {
    /// Nothing once it is finished.
    kept: Mutex<Option<Kept>>,
}

#[pymethods]
impl SweepJob {
    #[new]
    #[pyo3(signature = (scenario, vary, design, points, seeds))]
    fn new(
        py: Python<'_>,
        scenario: &Bound<'_, Scenario>,
        vary: &Bound<'_, PyDict>,
        design: Option<&str>,
        points: Option<u32>,
        seeds: Option<u32>,
    ) -> PyResult<Self> {
        let vary = question(vary, design, points, seeds)?;
        let drafts = scenario.get().drafts();
        let notes = Notes::default();
        let listener = notes.listener();
        let worker = told(py, &Job::default(), &notes, move || {
            Ok(Worker::new(Sweep::of(drafts, &vary)?, &listener)?)
        })?;
        Ok(Self { worker, notes })
    }

    /// How many runs it has.
    #[getter]
    fn runs(&self) -> u32 {
        self.worker.sweep().runs()
    }

    /// Simulates these runs, and gives a line for each.
    fn compute(&self, py: Python<'_>, runs: Vec<u32>) -> PyResult<Vec<String>> {
        if let Some(run) = runs.iter().find(|run| **run >= self.runs()) {
            return Err(PyValueError::new_err(format!("run {run} is none of the sweep")));
        }
        told(py, &Job::default(), &self.notes, || {
            Ok(self.worker.simulate(&runs)?.iter().map(Entry::line).collect())
        })
    }

    /// Opens its folder.
    fn open(&self, py: Python<'_>, folder: PathBuf) -> PyResult<KeptSweep> {
        let kept = study(py, &Job::default(), |listener| {
            Ok(self.worker.sweep().kept_in(&folder, &listener)?)
        })?;
        Ok(KeptSweep { kept: Mutex::new(Some(kept)) })
    }
}

impl KeptSweep {
    fn with<R>(&self, work: impl FnOnce(&mut Kept) -> PyResult<R>) -> PyResult<R> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_mut().ok_or_else(|| PyValueError::new_err("the sweep is finished"))?;
        work(kept)
    }
}

#[pymethods]
impl KeptSweep {
    /// The runs that are missing.
    fn missing(&self) -> PyResult<Vec<u32>> {
        self.with(|kept| Ok(kept.missing()))
    }

    /// Keeps runs that were done elsewhere.
    fn keep(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        self.with(|kept| {
            for line in &lines {
                let entry = Entry::parse(line.trim_end().as_bytes());
                let entry =
                    entry.ok_or_else(|| PyValueError::new_err("the line of a run is torn"))?;
                kept.keep(&entry).map_err(|error| Failure::from(error).raise(py))?;
            }
            Ok(())
        })
    }

    /// Writes the tables; what the points show as JSON, a row per run, and how many were kept before.
    fn finish(&self, py: Python<'_>) -> PyResult<(String, Table, u32)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let kept = kept.ok_or_else(|| PyValueError::new_err("the sweep is finished"))?;
        study(py, &Job::default(), move |listener| {
            let results = kept.finish()?;
            results.warnings().iter().for_each(|note| listener.tell(note));
            results.verdict()?;
            let json = results.report().json().to_string();
            Ok((json, Table::of(results.columns()), results.reused()))
        })
    }

    /// Lets the folder go; what is kept stays.
    fn close(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A comparison, as its driver and its workers have it.
#[pyclass(frozen, module = "servecast._servecast")]
pub(crate) struct CompareJob {
    question: Question,
    /// For the runs that are done here.
    contest: Contest,
    /// What should be heard of them.
    notes: Notes,
}

/// What is asked.
struct Question {
    drafts: Vec<Draft>,
    seeds: [u32; 2],
    confidence: f64,
    within: f64,
    metrics: Vec<String>,
    pairing: Pairing,
    point: bool,
}

impl Question {
    fn read(&self, listener: Listener) -> Result<Contest, CompareError> {
        let mut compare = Compare::new(self.drafts.clone());
        compare.seeds = self.seeds;
        compare.confidence = self.confidence;
        compare.within = self.within;
        compare.metrics.clone_from(&self.metrics);
        compare.pairing = self.pairing;
        compare.point = self.point;
        compare.listener = listener;
        compare.read()
    }
}

#[pymethods]
impl CompareJob {
    #[new]
    #[pyo3(signature = (scenarios, seeds, confidence, within, metrics, paired, point))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        scenarios: Vec<Bound<'_, Scenario>>,
        seeds: (u32, u32),
        confidence: f64,
        within: f64,
        metrics: Vec<String>,
        paired: bool,
        point: bool,
    ) -> PyResult<Self> {
        let asked = comparison(&scenarios, seeds, confidence, within, metrics, (paired, point));
        let Compare { drafts, seeds, confidence, within, metrics, pairing, .. } = asked;
        let question = Question { drafts, seeds, confidence, within, metrics, pairing, point };
        let notes = Notes::default();
        let listener = notes.listener();
        // What breaks a rule is told before anything is sent away.
        let contest = told(py, &Job::default(), &notes, || Ok(question.read(listener)?))?;
        Ok(Self { question, contest, notes })
    }

    /// Does some of the runs, each given in JSON, and gives what came of each in JSON.
    fn compute(&self, py: Python<'_>, wanted: Vec<String>) -> PyResult<Vec<String>> {
        let parse = |text: &String| serde_json::from_str::<Wanted>(text).map_err(wrong);
        let wanted = wanted.iter().map(parse).collect::<PyResult<Vec<Wanted>>>()?;
        if wanted.iter().any(|one| one.of >= self.question.drafts.len()) {
            return Err(PyValueError::new_err("the comparison has no such scenario"));
        }
        told(py, &Job::default(), &self.notes, || {
            let done = self.contest.some(&wanted)?;
            let text = |one| serde_json::to_string(one).expect("a run is JSON");
            Ok(done.iter().map(text).collect())
        })
    }

    /// Compares, where a callable of Python has runs done: it is given runs in JSON and gives what came of each.
    fn run(&self, py: Python<'_>, does: Bound<'_, PyAny>) -> PyResult<(String, String, Table)> {
        let does = does.unbind();
        study(py, &Job { calls: Calls::Python, bar: None }, |listener| {
            let compared = self.question.read(listener)?.run_elsewhere(|wanted| {
                let text = |one| serde_json::to_string(one).expect("a run is JSON");
                let texts: Vec<String> = wanted.iter().map(text).collect();
                let done = job::call(|py| -> PyResult<Vec<One>> {
                    let done: Vec<String> = does.call1(py, (texts,))?.extract(py)?;
                    if done.len() != wanted.len() {
                        return Err(PyValueError::new_err("not as many runs came as were wanted"));
                    }
                    let parse = |text: &String| serde_json::from_str(text).map_err(wrong);
                    done.iter().map(parse).collect()
                });
                Ok(done.unwrap_or_else(|error| job::end(error)))
            })?;
            let table = Table::of(compared.columns());
            Ok((compared.json().to_string(), compared.to_string(), table))
        })
    }
}

fn wrong(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("a run of the comparison: {error}"))
}
