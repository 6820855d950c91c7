//! Models and GPUs as people write them.

use super::record::{HardwareFields, ModelFields};
use super::skip::Skip;
use crate::hardware::GpuSpec;
use crate::model::{ModelSpec, Scheme};
use crate::profiles;

/// Spellings of GPUs that are no alias of the catalogue.
const GPUS: [(&str, &str); 14] = [
    ("NVIDIA A100 80GB", "A100-SXM4-80GB"),
    ("NVIDIA A100 SXM 80GB", "A100-SXM4-80GB"),
    ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
    ("NVIDIA H100 SXM 80GB", "H100-SXM5-80GB"),
    ("h100_sxm", "H100-SXM5-80GB"),
    ("NVIDIA H200 SXM 141GB", "H200-SXM-141GB"),
    ("NVIDIA H200 SXM5", "H200-SXM-141GB"),
    ("h200_sxm", "H200-SXM-141GB"),
    ("b200_sxm", "B200-SXM-180GB"),
    ("NVIDIA A10 24GB", "A10"),
    ("NVIDIA RTX 4090 24GB", "RTX-4090"),
    ("NVIDIA RTX PRO 6000 96GB", "RTX-PRO-6000-Blackwell-Server"),
    ("NVIDIA RTX PRO 6000", "RTX-PRO-6000-Blackwell-Server"),
    ("NVIDIA RTX PRO 6000 Blackwell", "RTX-PRO-6000-Blackwell-Server"),
];

/// Names of GPUs that leave the form factor open; the SXM module is assumed.
const OPEN_FORM_FACTOR: [&str; 2] = ["NVIDIA A100 80GB", "NVIDIA A100"];

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
    let known = GPUS.iter().find(|(spelling, _)| *spelling == name);
    let spec = profiles::gpu(known.map_or(name, |(_, catalogue)| catalogue));
    let spec = spec.ok_or_else(|| Skip::Gpu(Some(name.to_owned())))?;
    Ok((spec, OPEN_FORM_FACTOR.contains(&name)))
}

/// A model of the catalogue in the number format of the record.
pub(super) fn model(fields: &ModelFields) -> Result<ModelSpec, Skip> {
    let written = fields.name.as_deref().ok_or(Skip::Model(None))?;
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

/// Whether a checkpoint of the catalogue has the number format that a record states.
fn is_in(spec: &ModelSpec, precision: &str) -> bool {
    let precision = precision.to_lowercase();
    let scheme = spec.weights.quantization.as_ref().map(|quantization| quantization.scheme);
    let says = |words: &[&str]| words.iter().any(|word| precision.contains(word));
    match scheme {
        None => says(&["bf16", "fp16", "bfloat16", "float16"]),
        Some(Scheme::Fp8 { .. }) => says(&["fp8"]),
        Some(Scheme::Mxfp4) => says(&["mxfp4", "fp4"]) && !says(&["nvfp4"]),
        Some(Scheme::Nvfp4) => says(&["nvfp4"]),
        Some(Scheme::IntGroups { .. }) => says(&["awq", "gptq", "int4"]),
        Some(Scheme::Int8) => says(&["w8a8", "int8"]),
    }
}
