//! Fields of a record that no other part reads: descriptions, or a reason to skip.

use super::record::{Fields, Record};
use super::skip::{self, Skip};

/// Fields that describe a run and change nothing of it.
const DESCRIPTIONS: [&str; 44] = [
    "base",
    "basis",
    "benchmark_command",
    "comment",
    "comments",
    "commit",
    "cpu",
    "cuda",
    "cuda_version",
    "date",
    "description",
    "driver",
    "driver_version",
    "flops",
    "gemm",
    "host",
    "image",
    "instance",
    "interconnect",
    "license",
    "memory_gb",
    "moe",
    "note",
    "notes",
    "os",
    "parameters",
    "params",
    "per_request_arrays",
    "provider",
    "quality",
    "repeat_group",
    "retrieved",
    "revision",
    "same_run_also_shown_as",
    "size",
    "source",
    "stated",
    "tags",
    "title",
    "torch",
    "url",
    "variant",
    "vendor",
    "year",
];

/// Refuses a record with a field that is not known to describe only.
pub(super) fn check(record: &Record) -> Result<(), Skip> {
    let sections: [(&str, &Fields); 4] = [
        ("", &record.others),
        ("engine.", &record.engine.others),
        ("hardware.", &record.hardware.others),
        ("model.", &record.model.others),
    ];
    for (section, fields) in sections {
        for (key, value) in fields {
            let describes = DESCRIPTIONS.contains(&key.as_str()) || key.ends_with("_basis");
            if describes || value.is_null() {
                continue;
            }
            let text = value.as_str().unwrap_or_default();
            let is_apart = text.contains("disaggregation");
            // In turn, as replicas of a role are chosen here.
            let in_turn = key == "router" && text.contains("--policy round_robin");
            if is_apart && in_turn && tells_roles(record) {
                continue;
            }
            return Err(if is_apart {
                skip::DISAGGREGATION
            } else {
                Skip::Field(format!("{section}{key}"))
            });
        }
    }
    Ok(())
}

/// Whether flags tell which replicas prefill and which decode.
fn tells_roles(record: &Record) -> bool {
    record.engine_flags.iter().any(|(flag, told)| flag == "disaggregation" && told.is_object())
}
