//! Routers in Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use servecast::cluster::{ClusterView, Needs, Outstanding, Route};
use servecast::engine::AdapterPlace;
use servecast::engine::scheduler::Load;
use servecast::ids::InstanceId;
use servecast::request::RequestView;
use servecast::units::SimDuration;

use super::{Request, Started, whole};
use crate::job;

/// What is known of all replicas when a request is routed.
#[derive(Debug, Default)]
struct Known {
    outstanding: Vec<Outstanding>,
    signals: Vec<Load>,
    signals_age: SimDuration,
    /// Tokens of the prompt that each cache holds.
    cached: Vec<u32>,
    /// Where each holds the adapter of the request.
    adapters: Vec<AdapterPlace>,
}

/// A replica, as the router may know it while it chooses.
#[pyclass(frozen, module = "servecast")]
#[derive(Debug)]
pub(crate) struct Replica {
    /// Its number among those that serve the model of the request.
    #[pyo3(get)]
    index: u32,
    known: Arc<Mutex<Known>>,
}

impl Replica {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outstanding(&self) -> Outstanding {
        self.known().outstanding.get(self.index as usize).copied().unwrap_or_default()
    }

    fn load(&self) -> PyResult<Load> {
        let load = self.known().signals.get(self.index as usize).copied();
        load.ok_or_else(|| unread("reports of engines are", "reports_every_s"))
    }
}

fn unread(what: &str, attribute: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "{what} not kept for this router: set its attribute `{attribute}` to the seconds after which it takes \
         new ones, 0 for those of the moment"
    ))
}

#[pymethods]
impl Replica {
    /// Requests that were sent to it and have not left.
    #[getter]
    fn outstanding_requests(&self) -> u32 {
        self.outstanding().requests
    }

    /// Prompt tokens of these requests.
    #[getter]
    fn outstanding_tokens(&self) -> u64 {
        self.outstanding().prompt_tokens
    }

    /// Requests admitted by its engine, as it reported.
    #[getter]
    fn running(&self) -> PyResult<u32> {
        Ok(self.load()?.running)
    }

    /// Requests that wait in its engine, as it reported.
    #[getter]
    fn waiting(&self) -> PyResult<u32> {
        Ok(self.load()?.waiting)
    }

    /// The share of its KV memory that requests hold, as it reported.
    #[getter]
    fn kv_utilization(&self) -> PyResult<f64> {
        Ok(self.load()?.kv_utilization())
    }

    /// Blocks of KV memory that no request holds, as it reported.
    #[getter]
    fn kv_blocks_free(&self) -> PyResult<u32> {
        Ok(self.load()?.kv_blocks_free)
    }

    /// How old the report is, in seconds.
    #[getter]
    fn report_age_s(&self) -> PyResult<f64> {
        self.load()?;
        Ok(self.known().signals_age.as_secs_f64())
    }

    /// How many tokens of the request's prompt its cache holds.
    #[getter]
    fn cached_tokens(&self) -> PyResult<u32> {
        let cached = self.known().cached.get(self.index as usize).copied();
        cached.ok_or_else(|| unread("caches are", "caches_every_s"))
    }

    /// Where it holds the adapter of the request.
    #[getter]
    fn adapter_place(&self) -> PyResult<&'static str> {
        let place = self.known().adapters.get(self.index as usize).copied();
        let place = place.ok_or_else(|| unread("adapters are", "adapters_every_s"))?;
        Ok(match place {
            AdapterPlace::Slot => "gpu",
            AdapterPlace::Host => "host",
            AdapterPlace::Disk => "disk",
        })
    }

    fn __repr__(&self) -> String {
        format!("<servecast.Replica {}>", self.index)
    }
}

/// A router whose `choose` is Python.
#[derive(Debug)]
pub(super) struct PythonRouter {
    started: Started,
    needs: Needs,
    known: Arc<Mutex<Known>>,
    all: Vec<Py<Replica>>,
    /// Those that requests may be sent to, and those that were down then.
    up: Py<PyTuple>,
    down: Vec<InstanceId>,
}

impl PythonRouter {
    pub(super) fn new(started: Started) -> Self {
        let needs = job::call(|py| needs(py, &started)).unwrap_or_else(|error| job::end(error));
        let up = job::call(|py| PyTuple::empty(py).unbind());
        let (known, all, down) = (Arc::default(), Vec::new(), Vec::new());
        Self { started, needs, known, all, up, down }
    }

    /// Takes over what is known.
    fn look(
        &mut self,
        py: Python<'_>,
        request: RequestView<'_>,
        view: &ClusterView<'_>,
    ) -> PyResult<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.outstanding.clear();
        known.outstanding.extend_from_slice(view.outstanding);
        if self.needs.signals.is_some() {
            known.signals.clear();
            known.signals.extend_from_slice(view.signals);
            known.signals_age = view.signals_age;
        }
        let ids = || (0..view.instances).map(InstanceId);
        if self.needs.caches.is_some() {
            known.cached.clear();
            known.cached.extend(ids().map(|id| view.caches.tokens(id, request)));
        }
        if self.needs.adapters.is_some() {
            known.adapters.clear();
            known.adapters.extend(ids().map(|id| match request.adapter {
                Some(adapter) => view.adapters.place(id, adapter),
                None => AdapterPlace::Slot,
            }));
        }
        drop(known);
        for index in self.all.len() as u32..view.instances {
            self.all.push(Py::new(py, Replica { index, known: self.known.clone() })?);
        }
        let count = view.count_up() as usize;
        if self.down != view.down || self.up.bind(py).len() != count {
            let up = view.up().map(|id| self.all[id.index()].clone_ref(py));
            self.up = PyTuple::new(py, up.collect::<Vec<_>>())?.unbind();
            self.down = view.down.to_vec();
        }
        Ok(())
    }

    fn choose(
        &mut self,
        py: Python<'_>,
        request: RequestView<'_>,
        view: &ClusterView<'_>,
    ) -> PyResult<InstanceId> {
        self.look(py, request, view)?;
        let chosen = self.started.call(py, (Request::of(&request), &self.up))?;
        let index = match chosen.cast::<Replica>() {
            Ok(replica) => replica.get().index,
            Err(_) => whole(&chosen).map_err(|_| {
                PyTypeError::new_err(format!(
                    "router: must choose a replica or the number of one, got {}",
                    chosen.repr().map_or_else(|_| String::new(), |text| text.to_string())
                ))
            })?,
        };
        let id = InstanceId(index);
        if index < view.instances && view.is_up(id) {
            return Ok(id);
        }
        let up: Vec<String> = view.up().map(|id| id.0.to_string()).collect();
        Err(PyValueError::new_err(format!(
            "router: requests may be sent to {}, not to replica {index}",
            up.join(", ")
        )))
    }
}

/// What it reads of the cluster, by its attributes.
fn needs(py: Python<'_>, started: &Started) -> PyResult<Needs> {
    let every = |name: &str| -> PyResult<Option<SimDuration>> {
        let Some(value) = started.attribute(py, name)?.filter(|value| !value.is_none()) else {
            return Ok(None);
        };
        let seconds = value.extract::<f64>().map_err(|_| {
            PyTypeError::new_err(format!("router: {name} must be seconds or None, got {value}"))
        })?;
        if !(0.0..=1e6).contains(&seconds) {
            let rule = format!("router: {name} must be within 0 and 1e6 seconds, got {seconds}");
            return Err(PyValueError::new_err(rule));
        }
        Ok(Some(SimDuration::from_secs_f64(seconds)))
    };
    Ok(Needs {
        signals: every("reports_every_s")?,
        caches: every("caches_every_s")?,
        adapters: every("adapters_every_s")?,
        ..Needs::OUTSTANDING
    })
}

impl Route for PythonRouter {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let chosen = job::call(|py| self.choose(py, request, view));
        chosen.unwrap_or_else(|error| job::end(error))
    }

    fn needs(&self) -> Needs {
        self.needs
    }
}
