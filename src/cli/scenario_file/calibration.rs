//! Calibrations in scenarios.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::file::fail;
use super::settings::set;
use crate::calibrate::{CalibrationFile, Parameter};
use crate::cli::Failure;

pub(super) fn read_calibration(path: &Path) -> Result<CalibrationFile, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| fail(&name, &error.to_string()))?;
    parse_calibration(&name, &text)
}

pub(super) fn parse_calibration(name: &str, text: &str) -> Result<CalibrationFile, Failure> {
    let file: CalibrationFile = toml::from_str(text)
        .map_err(|error| fail(name, &format!("is no calibration: {}", error.message())))?;
    file.check().map_err(|problem| fail(name, &problem))?;
    Ok(file)
}

/// Sets the parameters that all runs have.
pub(super) fn put_calibration(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), Failure> {
    put(name, root, calibration, |parameter| parameter.runs.is_none())
}

/// Sets the parameters that some runs have, if this is one of them.
pub(super) fn put_calibration_of_run(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), Failure> {
    let run = root.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has = |parameter: &Parameter| parameter.runs.is_some() && parameter.concerns(&run);
    put(name, root, calibration, has)
}

fn put(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
    has: impl Fn(&Parameter) -> bool,
) -> Result<(), Failure> {
    for found in calibration.parameters.iter().filter(|found| has(&found.parameter)) {
        set(root, &found.parameter.path, Value::Float(found.value))
            .map_err(|problem| fail(name, &format!("calibration: {problem}")))?;
    }
    Ok(())
}
