//! The built-in reference runs: scenarios with measured figures, compiled in.

use crate::cli::{Failure, say};
use crate::load::{self, Override};
use crate::metrics::bench::MetricKey;
use crate::validate::{Case, Limits};

/// A scenario with the calibration that was fitted to its runs, those held out apart.
macro_rules! calibrated {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../profiles/reference-runs/", $name, ".toml")),
            Some(include_str!(concat!("../../../profiles/calibrations/", $name, ".toml"))),
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
        include_str!("../../../profiles/reference-runs/sglang-multi-lora.toml"),
        None,
    ),
    (
        "sglang-multi-lora-strides",
        include_str!("../../../profiles/reference-runs/sglang-multi-lora-strides.toml"),
        None,
    ),
];

/// The runs that can be simulated; says which cannot, and why.
pub(super) fn cases(overrides: &[Override]) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for (family, text, calibration) in FILES {
        match load::load_built_in(family, text, calibration, overrides)? {
            Ok(loaded) => cases.extend(loaded.into_iter().map(|one| case(family, one))),
            Err(reason) => say(&format!("{family}: not simulated: {reason}")),
        }
    }
    Ok(cases)
}

fn case(family: &str, loaded: load::Loaded) -> Case {
    let file = &loaded.scenario.file;
    let is_held_out = file.measured.as_ref().is_some_and(|measured| measured.hold_out);
    let told = file.measured.iter().flat_map(|measured| &measured.metrics);
    let mut measured: Vec<(MetricKey, f64)> =
        told.filter_map(|(name, value)| Some((MetricKey::parse(name)?, *value))).collect();
    measured.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    Case {
        id: file.name.clone(),
        family: format!("reference-runs/{family}"),
        measured,
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
