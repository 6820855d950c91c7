//! The Python module `servecast._servecast`: the library's front door, and policies that are written in Python.
//!
//! What Python code sees is in `servecast/__init__.py`; this module is typed in `servecast/_servecast.pyi`.

mod command;
mod elsewhere;
mod error;
mod job;
mod policy;
mod run;
mod scenario;
mod study;
mod table;
mod value;

use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

#[pymodule]
mod _servecast {
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::elsewhere::{CompareJob, KeptSweep, SweepJob};
    #[pymodule_export]
    use crate::policy::{Engine, EngineRequest, Fleet, Replica, Request, ScaledReplica, Step};
    #[pymodule_export]
    use crate::run::Run;
    #[pymodule_export]
    use crate::scenario::{Scenario, bench, load};
    #[pymodule_export]
    use crate::study::{calibrate, check, compare, explain, merge, plan, sweep, validate};
    #[pymodule_export]
    use crate::table::Table;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::in_one_interpreter(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Classes and threads are those of the process: a second interpreter in it is refused.
fn in_one_interpreter(py: Python<'_>) -> PyResult<()> {
    static MODULES: OnceLock<usize> = OnceLock::new();
    // Each interpreter has its own.
    let here = py.import("sys")?.getattr("modules")?.as_ptr() as usize;
    if *MODULES.get_or_init(|| here) == here {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "servecast is loaded in another interpreter of this process; it does not run in a subinterpreter beside it",
    ))
}
