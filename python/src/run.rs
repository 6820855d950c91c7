//! A run that ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use serde_json::json;
use servecast::io::tables;
use servecast::metrics::{Losses, ReplicaKind};
use servecast::resolved::Scenario;
use servecast::sim::{Lane, Observer, Occurrence, Separable};
use servecast::study::Recording;
use servecast::units::SimTime;

use crate::job::{Bar, Notes};
use crate::table::Table;

/// A run: its summary, its figures, and its tables, which are made when they are asked for.
#[pyclass(frozen, weakref, module = "servecast")]
pub(crate) struct Run {
    /// Nothing of one that was pickled: all its tables are made.
    recording: Option<Recording>,
    json: String,
    figures: Vec<(String, f64)>,
    report: String,
    resolved: OnceLock<String>,
    requests: OnceLock<Table>,
    steps: OnceLock<Option<Table>>,
    series: OnceLock<Table>,
    plots: OnceLock<Vec<(String, String)>>,
    summary: PyOnceLock<Py<PyAny>>,
}

impl Run {
    /// Of a recording; what should be heard of it is added to the notes.
    pub(crate) fn of(recording: Recording, notes: &Notes) -> Self {
        for text in recording.warnings.texts() {
            notes.warn(text);
        }
        let counts = &recording.run.counts;
        if counts.stuck > 0 {
            notes.warn(format!(
                "{} requests could never be served: the engine has nothing left to do and cannot admit \
                 them; they are `unfinished`",
                counts.stuck
            ));
        }
        if let Some(losses) = Losses::of(counts) {
            notes.warn(losses.to_string());
        }
        let figures = recording.run.figures();
        Self {
            json: format!("{:#}", json!(recording.summary())),
            figures: figures.iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            report: recording.run.report.text(),
            recording: Some(recording),
            resolved: OnceLock::new(),
            requests: OnceLock::new(),
            steps: OnceLock::new(),
            series: OnceLock::new(),
            plots: OnceLock::new(),
            summary: PyOnceLock::new(),
        }
    }

    /// The recording; it is there as long as something is made of it.
    fn recording(&self) -> &Recording {
        self.recording.as_ref().expect("what was pickled is whole")
    }

    fn all_plots(&self) -> &[(String, String)] {
        self.plots.get_or_init(|| {
            let run = &self.recording().run;
            let kinds = ReplicaKind::of(&run.scenario);
            let figures = servecast::plot::run_figures(&run.scenario.name, &run.recorder, &kinds);
            let named = figures
                .into_iter()
                .map(|figure| (figure.file_name.trim_end_matches(".svg").to_owned(), figure.svg));
            named.collect()
        })
    }
}

#[pymethods]
impl Run {
    /// All that is said of it, with attributes.
    #[getter]
    fn summary(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let summary = self.summary.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
            let class = py.import("servecast._summary")?.getattr("Summary")?;
            Ok(class.call1((&self.json, self.figures(py)?))?.unbind())
        })?;
        Ok(summary.clone_ref(py))
    }

    /// Its figures by name.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, value) in &self.figures {
            all.set_item(name, value)?;
        }
        Ok(all)
    }

    /// The block that the benchmark tool prints.
    #[getter]
    fn report(&self) -> &str {
        &self.report
    }

    /// The scenario with every default filled in, in TOML.
    #[getter]
    fn resolved_toml(&self) -> &str {
        self.resolved.get_or_init(|| self.recording().run.scenario.text())
    }

    /// A row per request.
    #[getter]
    fn requests(&self, py: Python<'_>) -> Table {
        let make = || {
            let run = &self.recording().run;
            Table::of(tables::requests(&run.recorder, &run.scenario))
        };
        py.detach(|| self.requests.get_or_init(make).clone())
    }

    /// A row per step, where they are kept.
    #[getter]
    fn steps(&self, py: Python<'_>) -> Option<Table> {
        let make = || {
            let steps = self.recording().steps.as_ref();
            steps.map(|log| Table::of(tables::steps(&log.steps)))
        };
        py.detach(|| self.steps.get_or_init(make).clone())
    }

    /// Queues, memory and throughput over time.
    #[getter]
    fn series(&self, py: Python<'_>) -> Table {
        let make = || Table::of(tables::series(&self.recording().run.recorder));
        py.detach(|| self.series.get_or_init(make).clone())
    }

    /// Its figures as drawings in SVG, by name.
    #[getter]
    fn plots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        py.detach(|| self.all_plots());
        for (name, svg) in self.all_plots() {
            all.set_item(name, svg)?;
        }
        Ok(all)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.summary(py)?.bind(py).repr()?.extract()
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let summary = self.summary(py)?;
        let html: String = summary.bind(py).call_method0("_repr_html_")?.extract()?;
        let shown = ["latency_ttft_e2e", "queue_memory"];
        let drawn = self.all_plots().iter().filter(|(name, _)| shown.contains(&name.as_str()));
        let drawn: String = drawn.map(|(_, svg)| svg.as_str()).collect();
        Ok(format!("{html}<div style=\"max-width:860px\">{drawn}</div>"))
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
        let run = slf.get();
        let texts = (run.json.clone(), run.report.clone(), run.resolved_toml().to_owned());
        let tables = (run.requests(py), run.steps(py), run.series(py));
        let state = (texts, run.figures.clone(), tables, run.all_plots().to_vec());
        Ok((slf.get_type().getattr("_read")?, state.into_pyobject(py)?))
    }

    /// A run that was pickled.
    #[classmethod]
    fn _read(
        _class: &Bound<'_, PyType>,
        texts: (String, String, String),
        figures: Vec<(String, f64)>,
        tables: (Bound<'_, Table>, Option<Bound<'_, Table>>, Bound<'_, Table>),
        plots: Vec<(String, String)>,
    ) -> Self {
        let (json, report, resolved) = texts;
        let (requests, steps, series) = tables;
        Self {
            recording: None,
            json,
            figures,
            report,
            resolved: resolved.into(),
            requests: requests.get().clone().into(),
            steps: steps.map(|steps| steps.get().clone()).into(),
            series: series.get().clone().into(),
            plots: plots.into(),
            summary: PyOnceLock::new(),
        }
    }
}

/// Counts the requests of a run that have left, for who watches.
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Of a run of this scenario.
    pub(crate) fn of(bar: &Bar, scenario: &Scenario) -> Self {
        let count = scenario.workload.num_requests.unwrap_or(0);
        bar.of.store(count.into(), Ordering::Relaxed);
        Self(bar.done.clone())
    }
}

impl Observer for Progress {
    #[inline]
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Left(..) | Occurrence::Refused(..) | Occurrence::TurnedAway(..) = what {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Separable for Progress {
    type Lane = Self;
    type Aside = ();

    fn lane(&mut self, _: Lane) -> Self {
        Self(self.0.clone())
    }

    fn join(&mut self, _: Vec<Self>) {}
}
