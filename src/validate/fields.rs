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
            let is_apart = value.as_str().is_some_and(|text| text.contains("disaggregation"));
            return Err(if is_apart {
                skip::DISAGGREGATION
            } else {
                Skip::Field(format!("{section}{key}"))
            });
        }
    }
    Ok(())
}
