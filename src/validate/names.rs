//! Models and GPUs as people write them.

use super::command;
use super::gpu_names;
use super::heading;
use super::record::{ModelFields, Record};
use super::servers;
use super::skip::Skip;
use crate::hardware::GpuSpec;
use crate::model::{Format, ModelSpec, Packing};
use crate::profiles;

/// Models with layers that are not modelled, by the beginning of their names in lower case.
const OTHER_LAYERS: [(&str, &str); 1] = [("minimax-m1", "linear attention")];

/// What a record served, as [`model`] tells: what its name does not tell, the command does, and with it what was made of
/// that name.
pub(super) fn served(record: &Record) -> Result<(ModelSpec, Option<Format>), Skip> {
    let told = model(&ModelFields { precision: precision(record), ..record.model.clone() });
    let command = record.server_command.as_deref().unwrap_or_default();
    let (Err(Skip::Model(_)), Some(name)) = (&told, command::model(command)) else { return told };
    model(&ModelFields { name: Some(name), precision: precision(record), ..ModelFields::default() })
}

/// The precision of a record. Where it says 4-bit floats and no more, GPUs of AMD run those of the Open Compute Project.
fn precision(record: &Record) -> Option<String> {
    let told = record.model.precision.clone()?;
    let told_gpu = || heading::gpu(record).or_else(|| Some(gpu(record).ok()?.0));
    let is_amd = || told_gpu().is_some_and(|gpu| gpu.vendor == "AMD");
    Some(if told.trim().eq_ignore_ascii_case("fp4") && is_amd() {
        "mxfp4".to_owned()
    } else {
        told
    })
}

/// A GPU of the catalogue, and whether its form factor had to be assumed.
pub(super) fn gpu(record: &Record) -> Result<(GpuSpec, bool), Skip> {
    let name = record.hardware.gpu.as_deref().ok_or(Skip::Gpu(None))?;
    let (found, is_open) = gpu_names::find(name).ok_or_else(|| Skip::Gpu(Some(name.to_owned())))?;
    let told = servers::gpu(record).filter(|_| is_open);
    Ok(told.and_then(gpu_names::find).unwrap_or((found, is_open)))
}

/// A model of the catalogue in the number format of the record, and that format where the catalogue has no
/// checkpoint in it.
pub(super) fn model(fields: &ModelFields) -> Result<(ModelSpec, Option<Format>), Skip> {
    let written = named(fields.name.as_deref().ok_or(Skip::Model(None))?);
    let written = written.as_str();
    if written.to_lowercase().contains("lora") {
        return Err(super::skip::LORA);
    }
    let short = written.rsplit('/').next().unwrap_or(written);
    let lower = short.to_lowercase();
    let precision = fields.precision.as_deref();
    let precision = precision.or(fields.precision_inferred_from_checkpoint_name.as_deref());
    // The checkpoint's own format.
    let precision = precision
        .filter(|text| !["auto", "default"].contains(&text.trim().to_lowercase().as_str()));
    let spellings = [
        written.to_owned(),
        short.to_owned(),
        lower.replace("qwen-2.5", "qwen2.5"),
        format!("{written}-FP8"),
    ];
    let known: Vec<ModelSpec> = spellings.iter().filter_map(|name| profiles::model(name)).collect();
    let fits = |spec: &&ModelSpec| precision.is_none_or(|precision| is_in(spec, precision));
    if let Some(found) = known.iter().find(fits) {
        return Ok((found.clone(), None));
    }
    let asks_for_nvfp4 = precision.is_some_and(|text| format_named(text) == Some(Format::Nvfp4));
    if asks_for_nvfp4 && let Some(published) = profiles::published(short, Format::Nvfp4) {
        return Ok((published, None));
    }
    let named = Format::of_name(short);
    let base = known.into_iter().next().or_else(|| profiles::model(named.map_or(short, |it| it.0)));
    let base = base.ok_or_else(|| unknown(written, short))?;
    // The name of a checkpoint is nearer to it than what a record makes of it.
    let told = || precision.and_then(format_named);
    let format = named.map(|it| it.1).or_else(told).ok_or_else(|| Skip::Precision {
        model: written.to_owned(),
        precision: precision.unwrap_or_default().to_owned(),
    })?;
    if named.is_some()
        && let Some(found) = profiles::stand_in(short)
    {
        return Ok((found.model, found.format));
    }
    Ok((base.in_format(format), Some(format)))
}

/// Why a model is not simulated that the catalogue does not have.
fn unknown(written: &str, short: &str) -> Skip {
    let lower = short.to_lowercase();
    match OTHER_LAYERS.iter().find(|(start, _)| lower.starts_with(start)) {
        Some((_, what)) => Skip::Layers { model: short.to_owned(), what },
        None => Skip::Model(Some(written.to_owned())),
    }
}

/// What a precision calls 16-bit floats, and integers of 4 and 8 bits.
const HALVES: [&str; 5] = ["bf16", "fp16", "bfloat16", "float16", "half"];
const INTEGERS: [&str; 6] = ["int4", "int8", "awq", "gptq", "w8a8", "w4a16"];

/// The format that a precision names of weights.
fn format_named(text: &str) -> Option<Format> {
    Format::named(&weights_of(text))
}

/// What a precision says of weights, in small letters: activations may be in another format.
fn weights_of(precision: &str) -> String {
    let lower = precision.to_lowercase();
    let parts = lower.split([',', ';', '+']).filter(|part| !part.contains("activation"));
    parts.collect::<Vec<_>>().join(",")
}

/// The name behind a path: of a folder, of the `config.json` in it, or of a hub's cache.
fn named(written: &str) -> String {
    let path = written.trim().trim_end_matches('/');
    let path = path.strip_suffix("/config.json").unwrap_or(path).trim_end_matches('/');
    let cached = path.split('/').find_map(|part| part.strip_prefix("models--"));
    cached.map_or_else(|| path.to_owned(), |name| name.replacen("--", "/", 1))
}

/// Whether a checkpoint of the catalogue has the number format that a record states.
fn is_in(spec: &ModelSpec, precision: &str) -> bool {
    let precision = weights_of(precision);
    let says = |words: &[&str]| words.iter().any(|word| precision.contains(word));
    match spec.main_packing() {
        None => says(&HALVES) && !says(&["fp8", "fp4"]) && !says(&INTEGERS),
        Some(Packing::Fp8 | Packing::Fp8Blocks { .. } | Packing::Mxfp8) => says(&["fp8"]),
        Some(Packing::Mxfp4) => says(&["mxfp4", "fp4"]) && !says(&["nvfp4"]),
        Some(Packing::Nvfp4) => says(&["nvfp4"]),
        Some(Packing::IntGroups { .. }) => says(&["awq", "gptq", "int4"]),
        Some(Packing::Int8) => says(&["w8a8", "int8"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, precision: Option<&str>) -> Option<String> {
        let fields = ModelFields {
            name: Some(name.to_owned()),
            precision: precision.map(str::to_owned),
            ..ModelFields::default()
        };
        model(&fields).ok().map(|(spec, format)| match format {
            Some(format) => format!("{} in {format:?}", spec.name),
            None => spec.name,
        })
    }

    #[test]
    fn a_path_to_a_model_names_it() {
        let plain = found("Qwen/Qwen3-8B", None);
        assert!(plain.is_some());
        for path in [
            "/models/Qwen3-8B/",
            "/models/Qwen3-8B/config.json",
            "/hub/models--Qwen--Qwen3-8B/snapshots/9c9",
        ] {
            assert_eq!(found(path, Some("auto")), plain, "{path}");
        }
    }

    #[test]
    fn the_format_is_that_of_the_weights() {
        let name = |precision| found("Qwen/Qwen3-8B", Some(precision));
        assert_eq!(name("half"), found("Qwen/Qwen3-8B", None));
        let fp8 = name("fp8");
        assert_ne!(fp8, name("bf16"));
        assert_eq!(name("fp8 weights, bf16 activations"), fp8);
        assert_eq!(name("bf16 weights, fp8 activations"), name("bf16"));
    }

    #[test]
    fn a_known_model_is_read_in_a_format_without_a_checkpoint_of_its_own() {
        let of = |name, precision| found(name, precision).expect("a known model");
        for (name, precision, expected) in [
            ("deepseek-ai/DeepSeek-R1", Some("fp4"), "deepseek-ai/DeepSeek-V3 in Nvfp4"),
            ("moonshotai/Kimi-K2.5", Some("fp4"), "nvidia/Kimi-K2.5-NVFP4"),
            ("nvidia/MiniMax-M2.1-NVFP4", None, "MiniMaxAI/MiniMax-M2 in Nvfp4"),
            ("nvidia/MiniMax-M2.5-NVFP4", None, "nvidia/MiniMax-M2.5-NVFP4"),
            ("amd/MiniMax-M2.5-MXFP4-AttnFP8", Some("mxfp4"), "MiniMaxAI/MiniMax-M2 in Mxfp4"),
            ("openai/gpt-oss-120b", Some("bf16"), "openai/gpt-oss-120b in None"),
            ("meta-llama/Llama-3.1-70B", Some("fp8"), "meta-llama/Llama-3.1-70B in Fp8"),
            ("openai/gpt-oss-120b", Some("fp4"), "openai/gpt-oss-120b"),
            ("meta-llama/Llama-3.1-70B", Some("awq"), "meta-llama/Llama-3.1-70B in Int4"),
            ("Qwen/Qwen3-4B-GPTQ-Int4", Some("int4 (gptq)"), "Qwen/Qwen3-4B in Int4"),
            ("Qwen/Qwen3-14B-GPTQ-Int4", None, "Qwen/Qwen3-14B-AWQ"),
        ] {
            assert_eq!(of(name, precision), expected, "{name} {precision:?}");
        }
        assert_eq!(found("meta-llama/Llama-3.1-70B", Some("gptq-int8")), None);
        assert_eq!(found("who/Knows-1B-FP8", None), None);
    }
}
