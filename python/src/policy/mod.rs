//! Policies in Python: a router, an order of admission, an autoscaler, a scheduler.
//!
//! Each is a class with one method, an object of one, or a function. Each run, and of schedulers and orders of admission
//! each replica, has an object of its own: of a class a new one, of an object a copy. So runs do not learn from each other,
//! and equal runs give equal results. A function is called as it is.
//!
//! What a policy is given is what a policy of the library is given: never the length of an answer.

mod admission;
mod autoscaler;
mod request;
mod router;
mod scheduler;

use std::sync::Arc;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};
use servecast::cluster::Router;
use servecast::study;

use crate::job;

pub(crate) use admission::Engine;
pub(crate) use autoscaler::{Fleet, ScaledReplica};
pub(crate) use request::Request;
pub(crate) use router::Replica;
pub(crate) use scheduler::{EngineRequest, Step};

/// What Python gave.
pub(crate) struct Given<'py> {
    pub(crate) router: Option<Bound<'py, PyAny>>,
    pub(crate) admission: Option<Bound<'py, PyAny>>,
    pub(crate) autoscaler: Option<Bound<'py, PyAny>>,
    pub(crate) scheduler: Option<Bound<'py, PyAny>>,
}

/// Policies that stand in for those of a scenario.
#[derive(Clone, Default)]
pub(crate) struct Policies {
    router: Option<Arc<Policy>>,
    admission: Option<Arc<Policy>>,
    autoscaler: Option<Arc<Policy>>,
    scheduler: Option<Arc<Policy>>,
}

/// A policy, of which each run has a copy.
#[derive(Debug)]
pub(crate) struct Policy {
    object: Py<PyAny>,
    kind: Kind,
    /// Its method.
    method: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Class,
    Object,
    Function,
}

impl Policy {
    fn new(
        role: &str,
        method: &'static str,
        given: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Self>> {
        let Some(given) = given else { return Ok(None) };
        let is_class = given.is_instance_of::<PyType>();
        let kind = match given.hasattr(method)? {
            true if is_class => Kind::Class,
            true => Kind::Object,
            false if given.is_callable() && !is_class => Kind::Function,
            false => {
                let got = if is_class { given.str()? } else { given.get_type().str()? };
                return Err(PyTypeError::new_err(format!(
                    "{role}: must have a method `{method}`, or be a function, got {got}"
                )));
            }
        };
        Ok(Some(Self { object: given.clone().unbind(), kind, method }))
    }

    /// A new object of it, and its method.
    fn start(self: &Arc<Self>, py: Python<'_>) -> PyResult<Started> {
        let object = match self.kind {
            Kind::Class => self.object.call0(py)?,
            // A function has no state; the object of a method, and one that is called, is copied.
            Kind::Object | Kind::Function => copied(py, &self.object)?,
        };
        self.with(py, object)
    }

    fn with(self: &Arc<Self>, py: Python<'_>, object: Py<PyAny>) -> PyResult<Started> {
        let method = match self.kind {
            Kind::Function => object.clone_ref(py),
            Kind::Class | Kind::Object => object.getattr(py, self.method)?,
        };
        Ok(Started { policy: self.clone(), object, method, is_used: false })
    }

    /// The same in a job.
    fn started(self: &Arc<Self>) -> Started {
        job::call(|py| self.start(py)).unwrap_or_else(|error| job::end(error))
    }
}

fn copied(py: Python<'_>, object: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    let copy = py.import("copy")?.call_method1("deepcopy", (object,));
    copy.map(Bound::unbind).map_err(|error| {
        let text = "each run has a copy of a policy, and this one cannot be copied; give its class";
        let told = PyTypeError::new_err(text);
        told.set_cause(py, Some(error));
        told
    })
}

/// A whole number that Python code chose; no boolean.
fn whole(chosen: &Bound<'_, PyAny>) -> PyResult<u32> {
    if chosen.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("a boolean"));
    }
    chosen.extract()
}

/// The object of a run or a replica.
#[derive(Debug)]
pub(crate) struct Started {
    policy: Arc<Policy>,
    object: Py<PyAny>,
    method: Py<PyAny>,
    is_used: bool,
}

impl Started {
    /// Calls its method.
    fn call<'py>(
        &mut self,
        py: Python<'py>,
        arguments: impl PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.is_used = true;
        self.method.bind(py).call1(arguments)
    }

    /// Another one as it is now.
    fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        if !self.is_used {
            return self.policy.start(py);
        }
        let copy = self.policy.with(py, copied(py, &self.object)?)?;
        Ok(Self { is_used: true, ..copy })
    }

    /// Another one, which has seen nothing.
    fn anew(&self, py: Python<'_>) -> PyResult<Self> {
        self.policy.start(py)
    }

    /// An attribute of its object or class; nothing where it has none.
    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.object.bind(py).getattr_opt(name)
    }
}

impl Policies {
    /// These, and what Python gave in place of those of the same role.
    pub(crate) fn with(&self, given: &Given<'_>) -> PyResult<Self> {
        let of = |role, method, given: &Option<Bound<'_, PyAny>>, before: &Option<Arc<Policy>>| {
            let policy = Policy::new(role, method, given.as_ref())?.map(Arc::new);
            PyResult::Ok(policy.or_else(|| before.clone()))
        };
        let policies = Self {
            router: of("router", "choose", &given.router, &self.router)?,
            admission: of("admission", "choose", &given.admission, &self.admission)?,
            autoscaler: of("autoscaler", "decide", &given.autoscaler, &self.autoscaler)?,
            scheduler: of("scheduler", "schedule", &given.scheduler, &self.scheduler)?,
        };
        if policies.admission.is_some() && policies.scheduler.is_some() {
            return Err(PyTypeError::new_err(
                "admission stands before the engine's scheduler: give one of admission and scheduler",
            ));
        }
        Ok(policies)
    }

    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        let Self { router, admission, autoscaler, scheduler } = self;
        [router, admission, autoscaler, scheduler].into_iter().any(Option::is_some)
    }

    /// As the library takes them; what Python code raises ends the job.
    pub(crate) fn shared(&self) -> study::Policies<'static> {
        let Self { router, admission, autoscaler, scheduler } = self.clone();
        let mut policies = study::Policies::shipped();
        if let Some(policy) = router {
            policies = policies.with_router(move |scenario, _| {
                // As the project's routers, one for each model.
                Ok(Router::per_model(scenario.models.len(), scenario.seed, |_| {
                    Router::Custom(Box::new(router::PythonRouter::new(policy.started())))
                }))
            });
        }
        if let Some(policy) = autoscaler {
            policies = policies
                .with_scale(move |_| Ok(Box::new(autoscaler::PythonScale::new(policy.started()))));
        }
        if let Some(policy) = admission {
            policies = policies.with_scheduler(move |_, _, engine| {
                Ok(admission::before(policy.started(), engine))
            });
        }
        if let Some(policy) = scheduler {
            policies = policies
                .with_scheduler(move |_, group, _| scheduler::of_group(group, || policy.started()));
        }
        policies
    }
}
