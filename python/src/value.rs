//! Python values as settings.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyRange, PyString, PyTuple};
use servecast::load::Override;
use toml::{Table, Value};

/// Lists and dicts in each other.
const DEPTH_MAX: u32 = 64;

/// A value of a setting at this path: texts, numbers, booleans, paths, and lists and dicts of them. Scalars of numpy are
/// numbers too.
pub(crate) fn setting(at: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(at, value, 0)
}

/// The same of what lies in so many lists and dicts.
fn nested(at: &str, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Value> {
    if depth > DEPTH_MAX {
        let (begin, _) = at.split_at(at.floor_char_boundary(80));
        return Err(PyValueError::new_err(format!(
            "{begin}…: lists and dicts lie in more than {DEPTH_MAX} others, or in themselves"
        )));
    }
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
    if value.is_instance_of::<PyDict>() || value.cast::<PyMapping>().is_ok() {
        return nested_table(at, &dict(value)?, depth).map(Value::Table);
    }
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if is_list || value.is_instance_of::<PyRange>() {
        let items = value.try_iter()?.enumerate();
        let items = items.map(|(place, item)| nested(&format!("{at}[{place}]"), &item?, depth + 1));
        return items.collect::<PyResult<Vec<Value>>>().map(Value::Array);
    }
    if value.hasattr("__fspath__")? {
        let path: String = value.call_method0("__fspath__")?.extract()?;
        return Ok(Value::String(path));
    }
    // A scalar or an array of numpy.
    if value.hasattr("tolist")? && value.hasattr("dtype")? {
        return nested(at, &value.call_method0("tolist")?, depth + 1);
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{at}: must be a text, a number, a boolean, a path, or a list or dict of them, got {kind}"
    )))
}

/// A dict as a table of settings.
pub(crate) fn table(at: &str, dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    nested_table(at, dict, 0)
}

/// A dict, or a copy of another mapping.
pub(crate) fn dict<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = mapping.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    let dict = PyDict::new(mapping.py());
    dict.update(mapping.cast::<PyMapping>().map_err(|_| {
        PyTypeError::new_err(format!(
            "must be a dict, got {}",
            mapping.get_type().name().map_or_else(|_| String::new(), |name| name.to_string())
        ))
    })?)?;
    Ok(dict)
}

fn nested_table(at: &str, dict: &Bound<'_, PyDict>, depth: u32) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        let Ok(key) = key.cast::<PyString>() else {
            let place = if at.is_empty() { String::new() } else { format!("{at}: ") };
            return Err(PyTypeError::new_err(format!("{place}keys must be texts, got {key:?}")));
        };
        let key = key.to_str()?;
        let path = if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        table.insert(key.to_owned(), nested(&path, &value, depth + 1)?);
    }
    Ok(table)
}

/// Settings by their paths.
pub(crate) fn overrides(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Override>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let given = dict(given)?;
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
