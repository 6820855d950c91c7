//! Calibrations in scenarios.

use std::path::Path;

use toml::{Table, Value};

use super::error::{LoadError, fail};
use super::settings::set;
use super::words::toml_problem;
use crate::calibration::{CalibrationFile, Parameter};
use crate::io::text;
use crate::problem::Problem;

pub(super) fn read_calibration(path: &Path) -> Result<CalibrationFile, LoadError> {
    let name = path.display().to_string();
    let text = text::whole(path, text::SETTINGS_MIB_MAX).map_err(|error| fail(&name, error))?;
    parse_calibration(&name, &text)
}

pub(super) fn parse_calibration(name: &str, text: &str) -> Result<CalibrationFile, LoadError> {
    let file: CalibrationFile = toml::from_str(text).map_err(|error| {
        fail(name, format_args!("is not a calibration: {}", toml_problem(text, &error)))
    })?;
    file.check().map_err(|problem| fail(name, problem))?;
    Ok(file)
}

/// Sets the parameters that all runs have.
pub(super) fn put_calibration(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), LoadError> {
    put(name, root, calibration, |parameter| parameter.runs.is_none())
}

/// Sets the parameters that some runs have, if this is one of them.
pub(super) fn put_calibration_of_run(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
) -> Result<(), LoadError> {
    let run = root.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has = |parameter: &Parameter| parameter.runs.is_some() && parameter.concerns(&run);
    put(name, root, calibration, has)
}

fn put(
    name: &str,
    root: &mut Table,
    calibration: &CalibrationFile,
    has: impl Fn(&Parameter) -> bool,
) -> Result<(), LoadError> {
    for found in calibration.parameters.iter().filter(|found| has(&found.parameter)) {
        put_parameter(root, &found.parameter.path, found.value)
            .map_err(|problem| fail(name, format_args!("calibration: {problem}")))?;
    }
    Ok(())
}

/// Sets a parameter of the cluster, in groups of replicas too that have settings of their own where it
/// is, unless those are of another type: such a model has other parameters, or the same of another engine.
pub(super) fn put_parameter(root: &mut Table, path: &str, value: f64) -> Result<(), Problem> {
    set(root, path, Value::Float(value))?;
    let Some((key, rest)) = path.strip_prefix("cluster.").and_then(|rest| rest.split_once('.'))
    else {
        return Ok(());
    };
    let cluster = root.get("cluster");
    let kind = |table: &Value| table.get(key).and_then(|own| own.get("type")).cloned();
    let shared = cluster.and_then(kind);
    let groups = cluster.and_then(|cluster| cluster.get("groups"));
    let groups = groups.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let takes = |group: &Value| group.get(key).is_some() && kind(group) == shared;
    let own: Vec<usize> = (0..groups.len()).filter(|at| takes(&groups[*at])).collect();
    for at in own {
        set(root, &format!("cluster.groups[{at}].{key}.{rest}"), Value::Float(value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_of_the_cluster_is_one_of_its_groups() {
        let text = "[cluster]\nstep_time = { type = 'roofline' }\n\
                    [[cluster.groups]]\nreplicas = 2\n[[cluster.groups]]\nreplicas = 3\n\
                    step_time = { type = 'roofline', calibration = { head = 2.0 } }\n\
                    [[cluster.groups]]\nreplicas = 1\nstep_time = { type = 'operator_table' }";
        let mut root: Table = toml::from_str(text).expect("it is TOML");
        let path = "cluster.step_time.calibration.per_step_us";
        put_parameter(&mut root, path, 7.0).expect("it is there");
        put_parameter(&mut root, "cluster.api_delay_ms", 3.0).expect("it is there");
        let cluster = &root["cluster"];
        let per_step = |table: &Value| table["step_time"]["calibration"]["per_step_us"].as_float();
        let groups = cluster["groups"].as_array().expect("a list");
        assert_eq!(per_step(cluster), Some(7.0));
        assert!(groups[0].get("step_time").is_none(), "it inherits");
        assert_eq!(per_step(&groups[1]), Some(7.0));
        assert!(groups[2]["step_time"].get("calibration").is_none(), "another type");
        assert_eq!(groups[1]["step_time"]["calibration"]["head"].as_float(), Some(2.0));
        assert_eq!(cluster["api_delay_ms"].as_float(), Some(3.0));
    }
}
