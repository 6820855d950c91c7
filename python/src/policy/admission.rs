//! Orders of admission in Python.

use std::collections::HashMap;
use std::fmt;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use servecast::engine::scheduler::{Admit, Doorkeeper, Held, Load, Scheduler};
use servecast::units::SimTime;

use super::{Request, Started, whole};
use crate::job;

/// What the engine itself has.
#[pyclass(frozen, module = "servecast", get_all)]
pub(crate) struct Engine {
    /// Requests that it was given and that wait.
    waiting: u32,
    /// Requests admitted.
    running: u32,
    /// Blocks of its KV memory.
    kv_blocks: u32,
    /// Blocks that no request holds.
    kv_blocks_free: u32,
}

/// An order of admission whose `choose` is Python.
struct PythonAdmit {
    started: Started,
    /// Those that were seen waiting.
    seen: HashMap<u32, Py<Request>>,
}

impl fmt::Debug for PythonAdmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonAdmit").field(&self.started).finish()
    }
}

impl Clone for PythonAdmit {
    fn clone(&self) -> Self {
        let started = job::call(|py| self.started.copied(py));
        let started = started.unwrap_or_else(|error| job::end(error));
        Self { started, seen: HashMap::new() }
    }
}

impl PythonAdmit {
    fn choose(
        &mut self,
        py: Python<'_>,
        waiting: &[Held],
        engine: &Load,
        now: SimTime,
    ) -> PyResult<Option<usize>> {
        if self.seen.len() > 2 * waiting.len() + 64 {
            let there: Vec<u32> = waiting.iter().map(|held| held.view().id.0).collect();
            self.seen.retain(|id, _| there.binary_search(id).is_ok() || there.contains(id));
        }
        let list = PyList::empty(py);
        for held in waiting {
            let view = held.view();
            let request = match self.seen.get(&view.id.0) {
                Some(request) => request.clone_ref(py),
                None => Py::new(py, Request::of(&view))?,
            };
            list.append(&request)?;
            self.seen.entry(view.id.0).or_insert(request);
        }
        let engine = Engine {
            waiting: engine.waiting,
            running: engine.running,
            kv_blocks: engine.kv_blocks,
            kv_blocks_free: engine.kv_blocks_free,
        };
        let chosen = self.started.call(py, (&list, engine, now.as_secs_f64()))?;
        if chosen.is_none() {
            return Ok(None);
        }
        let place = match chosen.cast::<Request>() {
            Ok(request) => waiting.iter().position(|held| held.view().id.0 == request.get().id),
            Err(_) => Some(whole(&chosen).map_err(|_| {
                PyTypeError::new_err(format!(
                    "admission: must choose a request, its place, or None, got {chosen}"
                ))
            })? as usize),
        };
        match place.filter(|place| *place < waiting.len()) {
            Some(place) => Ok(Some(place)),
            None => Err(PyValueError::new_err(format!(
                "admission: {} requests wait, and {chosen} is none of them",
                waiting.len()
            ))),
        }
    }
}

impl Admit for PythonAdmit {
    fn next(&mut self, waiting: &[Held], engine: &Load, now: SimTime) -> Option<usize> {
        let chosen = job::call(|py| self.choose(py, waiting, engine, now));
        chosen.unwrap_or_else(|error| job::end(error))
    }
}

/// One before an engine.
pub(super) fn before(started: Started, engine: Scheduler) -> Scheduler {
    Doorkeeper::new(PythonAdmit { started, seen: HashMap::new() }, engine).into()
}
