//! Policies in Python: a router, an order of admission, an autoscaler, a scheduler.
//!
//! Each is a class with one method, an object of one, or the method alone as a function. Each run, and of schedulers and
//! orders of admission each replica, has an object of its own: of a class a new one, of an object a copy. So runs do not
//! learn from each other, and equal runs give equal results.
//!
//! What a policy is given is what a policy of the library is given: never the length of an answer.

mod admission;
mod autoscaler;
mod request;
mod router;
mod scheduler;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
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

impl Given<'_> {
    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        let Self { router, admission, autoscaler, scheduler } = self;
        [router, admission, autoscaler, scheduler].into_iter().any(Option::is_some)
    }
}

/// Policies that stand in for those of a scenario.
pub(crate) struct Policies {
    router: Option<Policy>,
    admission: Option<Policy>,
    autoscaler: Option<Policy>,
    scheduler: Option<Policy>,
}

/// A policy, of which each run has a copy.
pub(crate) struct Policy {
    object: Py<PyAny>,
    kind: Kind,
    /// Its method.
    method: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
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
    fn start(&self, py: Python<'_>) -> PyResult<Started> {
        let object = match self.kind {
            Kind::Function => {
                let method = self.object.clone_ref(py);
                return Ok(Started { object: method.clone_ref(py), method, name: None });
            }
            Kind::Class => self.object.call0(py)?,
            Kind::Object => copied(py, &self.object)?,
        };
        let method = object.getattr(py, self.method)?;
        Ok(Started { object, method, name: Some(self.method) })
    }
}

impl Policy {
    /// The same in a job.
    fn started(&self) -> Started {
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

/// The object of a run or a replica.
#[derive(Debug)]
pub(crate) struct Started {
    object: Py<PyAny>,
    method: Py<PyAny>,
    /// The name of the method; of a function none.
    name: Option<&'static str>,
}

impl Started {
    /// Another one as it is now.
    fn copied(&self, py: Python<'_>) -> PyResult<Self> {
        let Some(name) = self.name else {
            let (object, method) = (self.object.clone_ref(py), self.method.clone_ref(py));
            return Ok(Self { object, method, name: None });
        };
        let object = copied(py, &self.object)?;
        let method = object.getattr(py, name)?;
        Ok(Self { object, method, name: Some(name) })
    }

    /// An attribute of its object or class; nothing where it has none.
    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.object.bind(py).getattr_opt(name)
    }
}

impl Policies {
    /// Reads what Python gave.
    pub(crate) fn new(given: &Given<'_>) -> PyResult<Self> {
        if given.admission.is_some() && given.scheduler.is_some() {
            return Err(PyTypeError::new_err(
                "admission stands before the engine's scheduler: give one of admission and scheduler",
            ));
        }
        Ok(Self {
            router: Policy::new("router", "choose", given.router.as_ref())?,
            admission: Policy::new("admission", "choose", given.admission.as_ref())?,
            autoscaler: Policy::new("autoscaler", "decide", given.autoscaler.as_ref())?,
            scheduler: Policy::new("scheduler", "schedule", given.scheduler.as_ref())?,
        })
    }

    /// As the library takes them; what Python code raises ends the job.
    pub(crate) fn shared(self) -> study::Policies<'static> {
        let Self { router, admission, autoscaler, scheduler } = self;
        let mut policies = study::Policies::shipped();
        if let Some(policy) = router {
            policies = policies.with_router(move |_, _| {
                let router = router::PythonRouter::new(policy.started());
                Ok(Router::Custom(Box::new(router)))
            });
        }
        if let Some(policy) = autoscaler {
            policies = policies.with_scale(move |_| {
                let rule = autoscaler::PythonScale::new(policy.started());
                Ok(Box::new(rule))
            });
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
