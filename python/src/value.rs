//! Python values as settings.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use servecast::load::Override;
use toml::{Table, Value};

/// A value of a setting at this path: texts, numbers, booleans, paths, and lists and dicts of them. Scalars of numpy are
/// numbers too.
pub(crate) fn setting(at: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Err(PyTypeError::new_err(format!("{at}: is None; leave the key out")));
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let whole = value.extract::<i64>().map_err(|_| {
            PyValueError::new_err(format!("{at}: must be a whole number below 2^63, got {value}"))
        })?;
        return Ok(Value::Integer(whole));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Value::Float(value.value()));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(Value::String(value.to_str()?.to_owned()));
    }
    if let Ok(value) = value.cast::<PyDict>() {
        return table(at, value).map(Value::Table);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.enumerate();
        let items = items.map(|(place, item)| setting(&format!("{at}[{place}]"), &item?));
        return items.collect::<PyResult<Vec<Value>>>().map(Value::Array);
    }
    if value.hasattr("__fspath__")? {
        let path: String = value.call_method0("__fspath__")?.extract()?;
        return Ok(Value::String(path));
    }
    // A scalar of numpy.
    if value.hasattr("item")? && value.hasattr("dtype")? {
        return setting(at, &value.call_method0("item")?);
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{at}: must be a text, a number, a boolean, a path, or a list or dict of them, got {kind}"
    )))
}

/// A dict as a table of settings.
pub(crate) fn table(at: &str, dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        let Ok(key) = key.cast::<PyString>() else {
            let place = if at.is_empty() { String::new() } else { format!("{at}: ") };
            return Err(PyTypeError::new_err(format!("{place}keys must be texts, got {key:?}")));
        };
        let key = key.to_str()?;
        let path = if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        table.insert(key.to_owned(), setting(&path, &value)?);
    }
    Ok(table)
}

/// Settings by their paths.
pub(crate) fn overrides(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Override>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let mut overrides = Vec::with_capacity(given.len());
    for (path, value) in given {
        let path = path.cast::<PyString>().map_err(|_| {
            PyTypeError::new_err(format!("overrides: paths must be texts, got {path:?}"))
        })?;
        let path = path.to_str()?;
        overrides.push(Override::new(path, setting(path, &value)?));
    }
    Ok(overrides)
}
