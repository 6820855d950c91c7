//! A request as policies may know it.

use std::sync::Arc;

use pyo3::prelude::*;
use servecast::request::{RequestView, Segment};

/// What a policy may know of a request: everything but how long its answer will be.
#[pyclass(frozen, module = "servecast", get_all)]
#[derive(Debug)]
pub(crate) struct Request {
    /// Its number, in the order of arrival.
    pub(crate) id: u32,
    /// When the client wanted to send it, in seconds since the start of the run.
    arrival_s: f64,
    /// Prompt length in tokens.
    prompt_tokens: u32,
    /// The limit that the client asked for, in tokens.
    max_tokens: u32,
    /// Its priority, as the engine reads it.
    priority: i32,
    /// The model it asks for, by its place in the scenario.
    model: u32,
    /// The adapter it needs, if any.
    adapter: Option<u32>,
    /// Its conversation, if it is part of one.
    session: Option<u64>,
    /// Which tokens its prompt is made of: runs of a stream of tokens, each as (stream, start, length). Equal tokens are
    /// equal in stream and place. Empty where it shares nothing with any other.
    content: Content,
}

/// Which tokens a prompt is made of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content(Option<Arc<[Segment]>>);

impl<'py> IntoPyObject<'py> for Content {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let segments = self.0.as_deref().unwrap_or_default().iter();
        let segments: Vec<_> = segments.map(|one| (one.stream, one.start, one.len)).collect();
        segments.into_pyobject(py)
    }
}

impl Request {
    pub(crate) fn of(request: &RequestView<'_>) -> Self {
        Self {
            id: request.id.0,
            arrival_s: request.arrival.as_secs_f64(),
            prompt_tokens: request.prompt_tokens,
            max_tokens: request.max_tokens,
            priority: request.priority,
            model: request.model.index() as u32,
            adapter: request.adapter.map(|adapter| adapter.0),
            session: request.session.map(|session| session.0.into()),
            content: Content(request.content.segments.clone()),
        }
    }
}

#[pymethods]
impl Request {
    fn __repr__(&self) -> String {
        format!("<servecast.Request {}: {} prompt tokens>", self.id, self.prompt_tokens)
    }
}
