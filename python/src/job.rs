//! Work of the library on behalf of Python: without the GIL, on threads of its own, ended by Ctrl-C.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use servecast::load::{Draft, Listener, Note};
use servecast::threads::{Stop, Stopped};

use crate::error::{Failure, of_class};

/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// An exception that Python code raised ends the job that called it.
pub(crate) fn end(error: PyErr) -> ! {
    servecast::threads::end_because(error)
}

/// What should be heard of a job.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    /// Keeps what is told, each thing once.
    pub(crate) fn listener(&self) -> Listener {
        let notes = self.0.clone();
        Listener::new(move |note| {
            let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(note, Note::Progress(_)) && !notes.contains(note) {
                notes.push(note.clone());
            }
        })
    }

    /// Adds a warning.
    pub(crate) fn warn(&self, text: String) {
        self.listener().tell(&Note::Warning(text));
    }

    /// Tells Python: warnings as warnings, everything else to the log.
    pub(crate) fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let notes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if notes.is_empty() {
            return Ok(());
        }
        let module = py.import("servecast._errors")?;
        for note in notes {
            match note {
                Note::Warning(text) => module.call_method1("warn", (text,))?,
                other => module.call_method1("inform", (other.to_string().trim(),))?,
            };
        }
        Ok(())
    }
}

thread_local! {
    /// Whether Python code that a job called runs on this thread.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Calls Python code from a job.
pub(crate) fn call<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IN_CALL.set(self.0);
        }
    }
    Python::attach(|py| {
        let _before = Before(IN_CALL.replace(true));
        let _calling = Calling::of_thread(py);
        work(py)
    })
}

/// Threads, as Python numbers them, on which Python code that a job called runs, and what ends that job.
static CALLING: Mutex<Vec<(u64, Stop)>> = Mutex::new(Vec::new());

/// This thread is one of them.
struct Calling(u64);

impl Calling {
    fn of_thread(py: Python<'_>) -> Self {
        thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        if NUMBER.get() == 0 {
            let ident = || py.import("threading")?.call_method0("get_ident")?.extract::<u64>();
            NUMBER.set(ident().unwrap_or_default());
        }
        let stop = Stop::current().unwrap_or_default();
        CALLING.lock().unwrap_or_else(PoisonError::into_inner).push((NUMBER.get(), stop));
        Self(NUMBER.get())
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let mut calling = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = calling.iter().rposition(|(number, _)| *number == self.0) {
            calling.swap_remove(place);
        }
    }
}

/// Whether a job calls Python code: it then keeps the state that Python has of its thread.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Calls {
    /// It does.
    Python,
    /// It does not.
    #[default]
    Nothing,
}

impl Calls {
    /// Whether simulations of a scenario do.
    pub(crate) fn of(draft: &Draft) -> Self {
        if draft.policies().is_some() { Self::Python } else { Self::Nothing }
    }
}

/// A callable of Python that is told how far a job is: what is done, and of how much; 0 where that is not known.
#[derive(Clone)]
pub(crate) struct Bar {
    callback: Arc<Py<PyAny>>,
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) of: Arc<AtomicU64>,
}

impl Bar {
    pub(crate) fn new(callback: Py<PyAny>) -> Self {
        Self { callback: Arc::new(callback), done: Arc::default(), of: Arc::default() }
    }

    /// Tells it, if there is more than when it was told before.
    fn tell(&self, py: Python<'_>, before: &mut Option<u64>) -> PyResult<()> {
        let (done, of) = (self.done.load(Ordering::Relaxed), self.of.load(Ordering::Relaxed));
        if *before != Some(done) {
            *before = Some(done);
            self.callback.call1(py, (done, of))?;
        }
        Ok(())
    }
}

/// How a job is done.
#[derive(Clone, Default)]
pub(crate) struct Job {
    pub(crate) calls: Calls,
    /// Who is told how far it is.
    pub(crate) bar: Option<Bar>,
}

/// Does the work; meanwhile looks for signals, and tells how far it is.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    job: &Job,
    work: impl FnOnce() -> Result<R, Failure> + Send,
) -> PyResult<R> {
    if IN_CALL.get() {
        // A policy that simulates itself: its thread is taken already, and ends with the job that called it.
        let stop = Stop::of_part();
        let done = py.detach(|| panic::catch_unwind(AssertUnwindSafe(|| stop.run(work))));
        return ended(py, &stop, done);
    }
    let stop = Stop::default();
    let (mut interrupt, mut told) = (None, None);
    let mut look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        job.bar.as_ref().map_or(Ok(()), |bar| bar.tell(py, &mut told))
    };
    // A policy may wait for another job: it must not wait for a thread of this one.
    let pool = if job.calls == Calls::Python { threads()? } else { pool()? };
    let done = py.detach(|| {
        thread::scope(|scope| {
            let (sender, ended) = mpsc::channel::<()>();
            let (stop, calls) = (&stop, job.calls);
            let worker = scope.spawn(move || {
                let _sender = sender;
                let work = || stop.run(work);
                let attached = || match calls {
                    Calls::Python => Python::attach(|py| py.detach(work)),
                    Calls::Nothing => work(),
                };
                panic::catch_unwind(AssertUnwindSafe(|| pool.install(attached)))
            });
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_none()
                    && let Err(error) = Python::attach(&mut look)
                {
                    interrupt = Some(error);
                    stop.stop();
                }
                if interrupt.is_some() && calls == Calls::Python {
                    Python::attach(interrupt_calls);
                }
            }
            worker.join()
        })
    });
    if let Some(error) = interrupt {
        return Err(error);
    }
    let done = ended(py, &stop, done.and_then(|done| done))?;
    look(py)?;
    Ok(done)
}

/// What work came to.
fn ended<R>(
    py: Python<'_>,
    stop: &Stop,
    done: thread::Result<Result<Result<R, Failure>, Stopped>>,
) -> PyResult<R> {
    match done {
        Ok(Ok(done)) => done.map_err(|failure| failure.raise(py)),
        Ok(Err(stopped)) => {
            let raised = stop.cause::<PyErr>();
            Err(raised.unwrap_or_else(|| PyRuntimeError::new_err(stopped.to_string())))
        }
        Err(cause) => {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
            let text = format!("the simulation broke a law of its own: {}", text.unwrap_or("?"));
            Err(of_class(py, "InternalError", &text))
        }
    }
}

/// Raises `KeyboardInterrupt` in Python code that was called by jobs that are to end, and that does not return.
fn interrupt_calls(py: Python<'_>) {
    let calling = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let there = calling.iter().filter(|(_, stop)| stop.is_stopped()).map(|(number, _)| *number);
    let there: Vec<u64> = there.collect();
    // Python code may begin another call while it is interrupted.
    drop(calling);
    let raise = || -> PyResult<()> {
        let module = py.import("servecast._errors")?;
        for thread in there {
            module.call_method1("interrupt", (thread,))?;
        }
        Ok(())
    };
    // Where it cannot be raised, the code is waited for.
    let _ = raise();
}

/// The threads of this process. Those of a process that forked are not there in its child, which gets others.
fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut known = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::process::id();
    if let Some((process, pool)) = &*known {
        if *process == here {
            return Ok(pool.clone());
        }
        // To drop it would be to wait for threads that are not there.
        std::mem::forget(known.take());
    }
    let pool = threads()?;
    *known = Some((here, pool.clone()));
    Ok(pool)
}

/// As many threads as there are processors.
fn threads() -> PyResult<Arc<ThreadPool>> {
    let pool = ThreadPoolBuilder::new().thread_name(|number| format!("servecast-{number}"));
    let pool = pool.build();
    pool.map(Arc::new).map_err(|error| PyRuntimeError::new_err(format!("threads: {error}")))
}
