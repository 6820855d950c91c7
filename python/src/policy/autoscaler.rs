//! Rules of autoscalers in Python.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use servecast::cluster::{Scale, ScaleView};
use servecast::units::SimTime;

use super::{Started, whole};
use crate::job;

/// What a rule may know of a replica that serves.
#[pyclass(frozen, module = "servecast", get_all)]
#[derive(Clone)]
pub(crate) struct ScaledReplica {
    /// Requests that were sent to it and have not left.
    outstanding_requests: u32,
    /// Requests admitted by its engine.
    running: u32,
    /// Requests that wait in its engine.
    waiting: u32,
    /// The share of its KV memory that requests hold.
    kv_utilization: f64,
    /// The share of the time since the last look in which it worked.
    busy: f64,
    /// Whether the gateway knows that it is down.
    is_down: bool,
}

/// What a rule may know when the autoscaler looks.
#[pyclass(frozen, module = "servecast", get_all)]
pub(crate) struct Fleet {
    /// Replicas that serve or start.
    replicas: u32,
    /// Those of them that start.
    starting: u32,
    /// Requests that wait at the gateway.
    at_gateway: u32,
    /// The replicas that serve.
    serving: Vec<ScaledReplica>,
}

/// A rule whose `decide` is Python.
#[derive(Debug)]
pub(super) struct PythonScale {
    started: Started,
}

impl PythonScale {
    pub(super) fn new(started: Started) -> Self {
        Self { started }
    }
}

impl Scale for PythonScale {
    fn decide(&mut self, view: ScaleView<'_>, now: SimTime) -> u32 {
        let serving = view.serving.iter().zip(view.busy).map(|(report, busy)| ScaledReplica {
            outstanding_requests: report.outstanding,
            running: report.load.running,
            waiting: report.load.waiting,
            kv_utilization: report.load.kv_utilization(),
            busy: *busy,
            is_down: report.is_down,
        });
        let fleet = Fleet {
            replicas: view.replicas,
            starting: view.starting,
            at_gateway: view.at_gateway,
            serving: serving.collect(),
        };
        let decided = job::call(|py| -> PyResult<u32> {
            let decided = self.started.call(py, (fleet, now.as_secs_f64()))?;
            whole(&decided).map_err(|_| {
                PyTypeError::new_err(format!(
                    "autoscaler: must decide on a whole number of replicas from 0, got {decided}"
                ))
            })
        });
        decided.unwrap_or_else(|error| job::end(error))
    }

    fn fresh(&self) -> Box<dyn Scale> {
        let started = job::call(|py| self.started.anew(py));
        Box::new(Self::new(started.unwrap_or_else(|error| job::end(error))))
    }
}
