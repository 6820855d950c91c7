//! The built-in reference runs: scenarios with measured figures, compiled in.

use super::case::{Case, Limits};
use crate::load::{self, Listener, LoadError, Note, Override};
use crate::metrics::measured;

/// A scenario with the calibration that was fitted to its runs, those held out apart.
macro_rules! calibrated {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../profiles/reference-runs/", $name, ".toml")),
            Some(include_str!(concat!("../../profiles/calibrations/", $name, ".toml"))),
        )
    };
}

/// Name, text and calibration of the files in `profiles/reference-runs/`.
const FILES: [(&str, &str, Option<&str>); 10] = [
    calibrated!("vllm-a10-sonnet"),
    calibrated!("vllm-mooncake-a10"),
    calibrated!("deepseek-v3-flashinfer"),
    calibrated!("deepseek-v3-triton"),
    calibrated!("qwen2.5-0.5b-burst"),
    calibrated!("qwen3-coder-480b"),
    calibrated!("mooncake-h800-1p1d"),
    calibrated!("dstack-gpt-oss-120b-h200"),
    (
        "sglang-multi-lora",
        include_str!("../../profiles/reference-runs/sglang-multi-lora.toml"),
        None,
    ),
    (
        "sglang-multi-lora-strides",
        include_str!("../../profiles/reference-runs/sglang-multi-lora-strides.toml"),
        None,
    ),
];

/// The runs that can be simulated, with these settings in every scenario; the listener hears which cannot, and
/// why.
///
/// # Errors
/// When a scenario has no place for a setting.
pub fn reference_runs(overrides: &[Override], listener: &Listener) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for (family, text, calibration) in FILES {
        match load::load_built_in(family, text, calibration, overrides)? {
            Ok(loaded) => cases.extend(loaded.into_iter().map(|one| case(family, one))),
            Err(reason) => {
                listener.tell(&Note::Remark(format!("{family}: not simulated: {reason}")));
            }
        }
    }
    Ok(cases)
}

fn case(family: &str, loaded: load::Loaded) -> Case {
    let is_held_out = loaded.scenario.measured.as_ref().is_some_and(|measured| measured.hold_out);
    Case {
        id: loaded.scenario.name.clone(),
        family: format!("reference-runs/{family}"),
        measured: measured(&loaded.scenario).map(|(_, figures)| figures).unwrap_or_default(),
        requests: None,
        // What was fitted to is no evidence.
        limits: if is_held_out { Limits::goals() } else { Limits::default() },
        assumed: vec![if is_held_out {
            "parameters were fitted to other runs of this server"
        } else {
            "parameters were fitted to this run"
        }],
        scenario: loaded.scenario,
    }
}
