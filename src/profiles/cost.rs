//! The measured step times of the catalogue: files of `profiles/cost`.

use std::cmp::Ordering;

/// A file of measured times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostProfile {
    /// GPU, engine and version: `h100-sxm5-80gb/vllm-0.14.0`.
    pub name: &'static str,
    /// What the file says.
    pub text: &'static str,
}

macro_rules! operators {
    ($($name:literal),* $(,)?) => {
        &[$(CostProfile {
            name: $name,
            text: include_str!(concat!("../../profiles/cost/operators/", $name, ".toml")),
        }),*]
    };
}

const OPERATORS: &[CostProfile] = operators![
    "a100-sxm4-80gb/sglang-0.5.10",
    "a100-sxm4-80gb/vllm-0.14.0",
    "b200-sxm-180gb/sglang-0.5.14",
    "b200-sxm-180gb/vllm-0.24.0",
    "b300-sxm/sglang-0.5.14",
    "b300-sxm/vllm-0.24.0",
    "gb200/sglang-0.5.14",
    "gb200/vllm-0.24.0",
    "gb300/sglang-0.5.14",
    "gb300/vllm-0.24.0",
    "h100-sxm5-80gb/sglang-0.5.14",
    "h100-sxm5-80gb/vllm-0.14.0",
    "h100-sxm5-80gb/vllm-0.24.0",
    "h200-sxm-141gb/sglang-0.5.14",
    "h200-sxm-141gb/vllm-0.24.0",
    "l40s/sglang-0.5.14",
    "l40s/vllm-0.14.0",
    "l40s/vllm-0.24.0",
    "rtx-pro-6000-blackwell-server/sglang-0.5.14",
    "rtx-pro-6000-blackwell-server/vllm-0.24.0",
];

/// The operator tables, by GPU, engine and version.
pub fn operator_tables() -> &'static [CostProfile] {
    OPERATORS
}

/// The operator table of this name.
pub fn operator_table(name: &str) -> Option<CostProfile> {
    OPERATORS.iter().find(|profile| profile.name.eq_ignore_ascii_case(name)).copied()
}

/// The operator table of a GPU (by its name in the catalogue) and an engine: the version nearest
/// below `version`, or the oldest above where there is none below; the newest without `version`.
pub fn operator_table_for(gpu: &str, engine: &str, version: Option<&str>) -> Option<CostProfile> {
    let fits = |profile: &&CostProfile| {
        profile.gpu().eq_ignore_ascii_case(gpu) && profile.engine() == engine
    };
    let mut found: Vec<CostProfile> = OPERATORS.iter().filter(fits).copied().collect();
    found.sort_by(|a, b| compare_versions(a.version(), b.version()));
    let Some(version) = version else { return found.pop() };
    let is_newer = |profile: &CostProfile| compare_versions(profile.version(), version).is_gt();
    let newer = found.iter().position(is_newer).unwrap_or(found.len());
    found.get(newer.saturating_sub(1)).copied()
}

impl CostProfile {
    /// The GPU, in small letters.
    pub fn gpu(&self) -> &'static str {
        self.name.split_once('/').map_or(self.name, |(gpu, _)| gpu)
    }

    /// The engine whose kernels were measured.
    pub fn engine(&self) -> &'static str {
        self.engine_and_version().0
    }

    /// Its version.
    pub fn version(&self) -> &'static str {
        self.engine_and_version().1
    }

    fn engine_and_version(&self) -> (&'static str, &'static str) {
        let file = self.name.split_once('/').map_or("", |(_, file)| file);
        file.split_once('-').unwrap_or((file, ""))
    }
}

/// Versions by their numbers, `0.9.2` before `0.14.0`.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u32> {
        let part = |part: &str| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or(0)
        };
        version.trim_start_matches('v').split('.').map(part).collect()
    };
    numbers(a).cmp(&numbers(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_one_of_a_gpu_of_the_catalogue() {
        for profile in operator_tables() {
            assert!(crate::profiles::gpu(profile.gpu()).is_some(), "{}", profile.name);
            assert!(["vllm", "sglang"].contains(&profile.engine()), "{}", profile.name);
        }
    }

    #[test]
    fn the_table_nearest_below_the_served_version_is_taken() {
        let version = |served| {
            operator_table_for("H100-SXM5-80GB", "vllm", served).map(|profile| profile.version())
        };
        assert_eq!(version(Some("0.15.1")), Some("0.14.0"));
        assert_eq!(version(Some("0.14.0")), Some("0.14.0"));
        assert_eq!(version(Some("0.9.2")), Some("0.14.0"), "the oldest where none is below");
        assert_eq!(
            version(None),
            operator_tables()
                .iter()
                .filter(|profile| {
                    profile.gpu() == "h100-sxm5-80gb" && profile.engine() == "vllm"
                })
                .map(CostProfile::version)
                .max_by(|a, b| compare_versions(a, b))
        );
        assert_eq!(operator_table_for("A10", "vllm", None), None);
        assert!(compare_versions("0.9.2", "0.14.0").is_lt());
    }
}
