//! Which flag a problem of the scenario that was made of flags comes from.

use crate::cli::failure::Failure;
use crate::load::{LoadError, Origin};
use crate::problem::Problem;

/// A refusal of a setting by the flag that it was given with.
pub(super) fn by_flag(error: LoadError, dataset: &str) -> Failure {
    if let LoadError::Settings(broken) = &error
        && let Some(first) = broken.0.first()
        && matches!(first.origin, Origin::File(_))
        && let Some(flag) = flag_of(&first.problem.at, dataset)
    {
        return Failure::input(
            Problem { at: flag.to_owned(), ..first.problem.clone() }.to_string(),
        );
    }
    error.into()
}

/// The flag that a setting of the scenario comes from, for data sets of this name.
fn flag_of(key: &str, dataset: &str) -> Option<&'static str> {
    Some(match (key, dataset) {
        ("workload.num_requests", _) => "--num-prompts",
        ("workload.client.max_concurrency", _) => "--max-concurrency",
        ("workload.arrivals.rate_per_s", _) => "--request-rate",
        ("workload.arrivals.burstiness", _) => "--burstiness",
        ("workload.arrivals.ramp_up.start_rate_per_s", _) => "--ramp-up-start-rps",
        ("workload.arrivals.ramp_up.end_rate_per_s", _) => "--ramp-up-end-rps",
        ("workload.lengths.input_tokens", "random" | "random-ids") => "--random-input-len",
        ("workload.lengths.output_tokens", "random" | "random-ids") => "--random-output-len",
        (
            "workload.lengths.range_ratio" | "workload.lengths.output_range_ratio",
            "random" | "random-ids",
        ) => "--random-range-ratio",
        ("workload.lengths.prefix_tokens", "random") => "--random-prefix-len",
        ("workload.lengths.groups", "generated-shared-prefix") => "--gsp-num-groups",
        ("workload.lengths.prompts_per_group", "generated-shared-prefix") => {
            "--gsp-prompts-per-group"
        }
        ("workload.lengths.system_prompt_tokens", "generated-shared-prefix") => {
            "--gsp-system-prompt-len"
        }
        ("workload.lengths.question_tokens", "generated-shared-prefix") => "--gsp-question-len",
        ("workload.lengths.output_tokens", "generated-shared-prefix") => "--gsp-output-len",
        ("workload.lengths.range_ratio", "generated-shared-prefix") => "--gsp-range-ratio",
        ("workload.lengths.group_distribution.exponent", "generated-shared-prefix") => {
            "--gsp-zipf-alpha"
        }
        ("workload.lengths.prefix_tokens", "prefix_repetition") => "--prefix-repetition-prefix-len",
        ("workload.lengths.suffix_tokens", "prefix_repetition") => "--prefix-repetition-suffix-len",
        ("workload.lengths.prefixes", "prefix_repetition") => "--prefix-repetition-num-prefixes",
        ("workload.lengths.output_tokens", "prefix_repetition") => "--prefix-repetition-output-len",
        _ => return None,
    })
}
