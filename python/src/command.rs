//! The command `servecast`, as the package installs it.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs a command line, of which the first word is the name of the command, and gives its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| servecast::cli::run(arguments))
}
