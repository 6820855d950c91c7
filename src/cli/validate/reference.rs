//! The built-in reference runs: scenarios with measured figures, compiled in.

use crate::cli::{Failure, say, scenario_file};
use crate::metrics::bench::MetricKey;
use crate::validate::{Case, Limits};

/// Name and text of the files in `profiles/reference-runs/`.
const FILES: [(&str, &str); 5] = [
    ("vllm-a10-sonnet", include_str!("../../../profiles/reference-runs/vllm-a10-sonnet.toml")),
    (
        "sglang-deepseek-v3-tp8",
        include_str!("../../../profiles/reference-runs/sglang-deepseek-v3-tp8.toml"),
    ),
    ("sglang-multi-lora", include_str!("../../../profiles/reference-runs/sglang-multi-lora.toml")),
    (
        "sglang-qwen2.5-0.5b-burst",
        include_str!("../../../profiles/reference-runs/sglang-qwen2.5-0.5b-burst.toml"),
    ),
    (
        "sglang-qwen3-coder-480b",
        include_str!("../../../profiles/reference-runs/sglang-qwen3-coder-480b.toml"),
    ),
];

/// The runs that can be simulated; says which cannot, and why.
pub(super) fn cases(overrides: &[String]) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for (family, text) in FILES {
        match scenario_file::load_built_in(family, text, overrides)? {
            Ok(loaded) => cases.extend(loaded.into_iter().map(|one| case(family, one))),
            Err(reason) => say(&format!("{family}: not simulated: {reason}")),
        }
    }
    Ok(cases)
}

fn case(family: &str, loaded: scenario_file::Loaded) -> Case {
    let file = &loaded.scenario.file;
    let told = file.measured.iter().flat_map(|measured| &measured.metrics);
    let mut measured: Vec<(MetricKey, f64)> =
        told.filter_map(|(name, value)| Some((MetricKey::parse(name)?, *value))).collect();
    measured.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    Case {
        id: file.name.clone(),
        family: format!("reference-runs/{family}"),
        measured,
        requests: None,
        limits: Limits::goals(),
        assumed: Vec::new(),
        scenario: loaded.scenario,
    }
}
