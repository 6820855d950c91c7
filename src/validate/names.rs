//! Models and GPUs as people write them.

use super::gpu_names;
use super::record::{HardwareFields, ModelFields};
use super::skip::Skip;
use crate::hardware::GpuSpec;
use crate::model::{ModelSpec, Scheme};
use crate::profiles;

/// Models with layers that are not modelled, by the beginning of their names in lower case.
const OTHER_LAYERS: [(&str, &str); 12] = [
    ("qwen3.5", LINEAR_ATTENTION),
    ("qwen3-next", LINEAR_ATTENTION),
    ("nvidia-nemotron-3", "state-space layers"),
    ("deepseek-v3.2", SPARSE_ATTENTION),
    ("deepseek-math-v2", SPARSE_ATTENTION),
    ("glm-5", SPARSE_ATTENTION),
    ("gemma-3", "attention of two kinds of heads"),
    ("gemma-4", "attention of two kinds of heads"),
    ("minimax-m1", LINEAR_ATTENTION),
    ("kimi-linear", LINEAR_ATTENTION),
    ("bloom", "attention with linear biases"),
    ("falcon-h1", "state-space layers"),
];

const LINEAR_ATTENTION: &str = "linear attention";
const SPARSE_ATTENTION: &str = "sparse attention";

/// A GPU of the catalogue, and whether its form factor had to be assumed.
pub(super) fn gpu(hardware: &HardwareFields) -> Result<(GpuSpec, bool), Skip> {
    let name = hardware.gpu.as_deref().ok_or(Skip::Gpu(None))?;
    gpu_names::find(name).ok_or_else(|| Skip::Gpu(Some(name.to_owned())))
}

/// A model of the catalogue in the number format of the record.
pub(super) fn model(fields: &ModelFields) -> Result<ModelSpec, Skip> {
    let written = named(fields.name.as_deref().ok_or(Skip::Model(None))?);
    let written = written.as_str();
    if written.to_lowercase().contains("lora") {
        return Err(super::skip::LORA);
    }
    let short = written.rsplit('/').next().unwrap_or(written);
    let lower = short.to_lowercase();
    if let Some((_, what)) = OTHER_LAYERS.iter().find(|(start, _)| lower.starts_with(start)) {
        return Err(Skip::Layers { model: short.to_owned(), what });
    }
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
    let mut known = spellings.iter().filter_map(|name| profiles::model(name)).peekable();
    if known.peek().is_none() {
        return Err(Skip::Model(Some(written.to_owned())));
    }
    known.find(|spec| precision.is_none_or(|precision| is_in(spec, precision))).ok_or_else(|| {
        Skip::Precision {
            model: written.to_owned(),
            precision: precision.unwrap_or_default().to_owned(),
        }
    })
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
    // Activations may be in another format than the weights.
    let lower = precision.to_lowercase();
    let parts = lower.split([',', ';', '+']).filter(|part| !part.contains("activation"));
    let precision = parts.collect::<Vec<_>>().join(",");
    let scheme = spec.weights.quantization.as_ref().map(|quantization| quantization.scheme);
    let says = |words: &[&str]| words.iter().any(|word| precision.contains(word));
    match scheme {
        None => {
            says(&["bf16", "fp16", "bfloat16", "float16", "half"])
                && !says(&["fp8", "fp4", "int4", "int8", "awq", "gptq", "w8a8", "w4a16"])
        }
        Some(Scheme::Fp8 { .. }) => says(&["fp8"]),
        Some(Scheme::Mxfp4) => says(&["mxfp4", "fp4"]) && !says(&["nvfp4"]),
        Some(Scheme::Nvfp4) => says(&["nvfp4"]),
        Some(Scheme::IntGroups { .. }) => says(&["awq", "gptq", "int4"]),
        Some(Scheme::Int8) => says(&["w8a8", "int8"]),
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
        model(&fields).ok().map(|spec| spec.name)
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
}
