//! Checkpoints that the catalogue has no file of: copies by other organisations, and models in another number format.

use super::catalogue::behind_slash;
use super::model;
use crate::model::{Format, ModelSpec};

/// What stands for a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct StandIn {
    /// The model, in the number format that the checkpoint's name tells.
    pub model: ModelSpec,
    /// That format, where the catalogue has no checkpoint of the model in it; nothing where it has, or where the name tells
    /// none.
    pub format: Option<Format>,
}

/// The model of a checkpoint: that of the catalogue, or what stands for it.
pub fn model_or_stand_in(name: &str) -> Option<ModelSpec> {
    model(name).or_else(|| stand_in(name).map(|found| found.model))
}

/// What stands for a checkpoint that the catalogue does not name: the model of this name whoever published it, as
/// `meta-llama/Llama-3.1-8B-Instruct` for `unsloth/Llama-3.1-8B-Instruct`, or a model of the catalogue in the format that the
/// name ends in, as `meta-llama/Llama-3.1-70B` in `nvfp4` for `nvidia/Llama-3.3-70B-Instruct-FP4`.
pub fn stand_in(name: &str) -> Option<StandIn> {
    let short = behind_slash(name);
    // A path leads to a file of its own or nowhere.
    if name.starts_with(['.', '/', '~']) || name.split('/').count() > 2 {
        return None;
    }
    if let Some(model) = model(short) {
        return Some(StandIn { model, format: None });
    }
    let (base, format) = Format::of_name(short)?;
    if let Some(model) = published(base, format) {
        return Some(StandIn { model, format: None });
    }
    let model = model(base)?.in_format(format);
    Some(StandIn { model, format: Some(format) })
}

/// The checkpoint of a model in a format that the catalogue has: what it leaves in 16 bits is its own.
pub fn published(base: &str, format: Format) -> Option<ModelSpec> {
    let endings: &[&str] = match format {
        Format::Int4 => &["AWQ", "AWQ-INT4", "GPTQ-Int4"],
        Format::Int8 => &["W8A8"],
        Format::None => return None,
        _ => &[format.name()],
    };
    let named = |ending: &&str| model(&format!("{base}-{ending}"));
    endings.iter().find_map(named).filter(|found| Format::of_checkpoint(found) == Some(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Option<(String, Option<Format>)> {
        stand_in(name).map(|found| (found.model.name, found.format))
    }

    #[test]
    fn a_copy_by_another_organisation_is_the_model() {
        let copy = found("somebody/Llama-3.1-8B-Instruct").expect("a model of the catalogue");
        assert_eq!(copy, ("meta-llama/Llama-3.1-8B".to_owned(), None));
    }

    #[test]
    fn a_checkpoint_of_the_catalogue_is_nearer_than_its_model() {
        for (name, expected) in [
            ("amd/Qwen3-32B-FP8-KV", "Qwen/Qwen3-32B-FP8"),
            ("somebody/Qwen3-14B-GPTQ-Int4", "Qwen/Qwen3-14B-AWQ"),
            ("nvidia/Kimi-K2.5-FP4-v2", "nvidia/Kimi-K2.5-NVFP4"),
        ] {
            assert_eq!(found(name), Some((expected.to_owned(), None)), "{name}");
        }
    }

    #[test]
    fn a_model_is_taken_in_the_format_that_the_name_ends_in() {
        for (name, model, format) in [
            ("Qwen/Qwen3-4B-AWQ", "Qwen/Qwen3-4B", Format::Int4),
            ("nvidia/Llama-3.3-70B-Instruct-FP4", "meta-llama/Llama-3.1-70B", Format::Nvfp4),
            ("amd/Llama-3.1-405B-MXFP4-AttnFP8", "meta-llama/Llama-3.1-405B", Format::Mxfp4),
            (
                "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8",
                "meta-llama/Llama-3.1-70B",
                Format::Int8,
            ),
        ] {
            let expected = super::super::model(model).expect(model).in_format(format);
            let told = stand_in(name).unwrap_or_else(|| panic!("{name} is unknown"));
            assert_eq!(told, StandIn { model: expected, format: Some(format) }, "{name}");
        }
    }

    #[test]
    fn nothing_stands_for_what_nobody_knows() {
        for name in [
            "who/Knows-1B-FP8",
            "Qwen/Qwen3-32B-GGUF",
            "Qwen/Qwen3-32B-GPTQ-Int8",
            "AWQ",
            "-fp8",
            "",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
