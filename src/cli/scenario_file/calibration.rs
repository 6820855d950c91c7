//! Calibrations in scenarios.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

use super::file::fail;
use super::settings::set;
use crate::calibrate::CalibrationFile;
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

pub(super) fn put_calibration(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), Failure> {
    for found in &calibration.parameters {
        set(root, &found.parameter.path, Value::Float(found.value))
            .map_err(|problem| fail(name, &format!("calibration: {problem}")))?;
    }
    Ok(())
}
