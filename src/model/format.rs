//! A model in another number format than its checkpoint's own.

use serde::{Deserialize, Serialize};

use super::checkpoint::{Checkpoint as ModelSpec, Packing, QuantizedWeights};
use super::precision::{Module, Scheme};

/// What the matrices of a model are stored in (vLLM's and SGLang's `--quantization`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The 16-bit type that the model computes in.
    None,
    /// 8-bit floats, with a scale for blocks of 128 by 128 weights in mixtures of experts and for each output else.
    Fp8,
    /// 4-bit floats with a scale for 16 weights, multiplied in 4 bits where the GPU can.
    Nvfp4,
    /// 4-bit floats with a scale for 32 weights, multiplied in 16 bits.
    Mxfp4,
    /// 8-bit integers for weights and activations, with a scale for each output, multiplied in 8 bits.
    Int8,
    /// 4-bit integers with a scale for 128 weights, multiplied in 16 bits: the groups that AWQ (`q_group_size` of `AutoAWQ`),
    /// GPTQ (`group_size` of `GPTQModel`) and compressed tensors (llm-compressor's `W4A16`) make unless told otherwise.
    Int4,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Fp8, Self::Nvfp4, Self::Mxfp4, Self::Int8, Self::Int4];

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fp8 => "fp8",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// The format that a text names, as people write it (`FP8`, `awq`, `W8A8`); the narrowest where it names several, as
    /// attention is often wider than the rest.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match () {
            () if says(&["mxfp4"]) => Some(Self::Mxfp4),
            () if says(&["fp4"]) => Some(Self::Nvfp4),
            () if says(&["fp8"]) => Some(Self::Fp8),
            // No words for integers of 8 bits that are multiplied in 16, or of 4 in 8.
            () if says(&["gptq"]) && says(&["int8", "8bit"]) => None,
            () if says(&["w8a16", "w4a8"]) => None,
            () if says(&["int4", "awq", "gptq", "w4a16"]) => Some(Self::Int4),
            () if says(&["int8", "w8a8"]) => Some(Self::Int8),
            () => says(&["bf16", "fp16", "bfloat16", "float16", "half"]).then_some(Self::None),
        }
    }

    /// The name of a model and the format of its weights, of a checkpoint whose name ends in one: `Qwen3-4B` and
    /// [`Format::Int4`] of `Qwen3-4B-AWQ`.
    pub fn of_name(checkpoint: &str) -> Option<(&str, Self)> {
        const FORMATS: [&str; 12] = [
            "fp8", "attnfp8", "fp4", "nvfp4", "mxfp4", "bf16", "awq", "gptq", "int4", "int8",
            "w4a16", "w8a8",
        ];
        // What names say beside the format.
        const BESIDE: [&str; 8] =
            ["kv", "dynamic", "static", "pertensor", "block", "quantized", "v1", "v2"];
        let mut base = checkpoint;
        let mut left = checkpoint;
        while let Some((before, word)) = left.rsplit_once(['-', '_', '.']) {
            let word = word.to_lowercase();
            let is_format = FORMATS.contains(&word.as_str());
            if !is_format && !BESIDE.contains(&word.as_str()) {
                break;
            }
            left = before;
            if is_format || base.len() < checkpoint.len() {
                base = before;
            }
        }
        let format = Self::named(&checkpoint[base.len()..])?;
        (!base.is_empty()).then_some((base, format))
    }

    /// What most quantised matrices of a checkpoint are stored in; nothing of formats that have no name here, such as
    /// groups of integers of another size.
    pub fn of_checkpoint(model: &ModelSpec) -> Option<Self> {
        match model.main_packing() {
            None => model.quantization.is_none().then_some(Self::None),
            Some(Packing::Fp8 | Packing::Fp8Blocks { .. }) => Some(Self::Fp8),
            Some(Packing::Nvfp4) => Some(Self::Nvfp4),
            Some(Packing::Mxfp4) => Some(Self::Mxfp4),
            Some(Packing::Int8) => Some(Self::Int8),
            Some(Packing::IntGroups { bits: 4, group: 128, .. }) => Some(Self::Int4),
            Some(Packing::Mxfp8 | Packing::IntGroups { .. }) => None,
        }
    }

    /// The scheme and the modules that it converts in a model.
    ///
    /// In 4-bit floats, mixtures of experts and models with latent attention keep the projections of attention as
    /// they are computed, as the published checkpoints do (`nvidia/DeepSeek-R1-FP4`,
    /// `nvidia/Qwen3-235B-A22B-NVFP4`, `openai/gpt-oss-120b`); dense models convert them too
    /// (`nvidia/Llama-3.3-70B-Instruct-FP4`), and so does what stores integers (`Qwen/Qwen3-30B-A3B-GPTQ-Int4`).
    fn of(self, model: &ModelSpec) -> Option<QuantizedWeights> {
        let scheme = match self {
            Self::None => return None,
            Self::Fp8 => Scheme::Fp8 { block: model.experts().map(|_| [128, 128]) },
            Self::Nvfp4 => Scheme::Nvfp4,
            Self::Mxfp4 => Scheme::Mxfp4,
            Self::Int8 => Scheme::Int8,
            Self::Int4 => Scheme::IntGroups { bits: 4, group: 128 },
        };
        let is_plain = model.experts().is_none() && !model.is_latent();
        let converts_all = is_plain || !matches!(self, Self::Nvfp4 | Self::Mxfp4);
        let converts = |module: &Module| converts_all || *module != Module::Attention;
        let modules: Vec<Module> = Module::CONVERTIBLE.into_iter().filter(converts).collect();
        Some(QuantizedWeights::of_modules(scheme, &modules))
    }
}

impl ModelSpec {
    /// The same model with its matrices stored in a format; embeddings, head, router and norms stay as they are.
    #[must_use]
    pub fn in_format(&self, format: Format) -> Self {
        let mut model = self.clone();
        model.quantization = format.of(self);
        model
    }

    /// The same model with these modules stored in a scheme, the others in 16 bits.
    #[must_use]
    pub fn quantized(&self, scheme: Scheme, modules: &[Module]) -> Self {
        let quantization = Some(QuantizedWeights::of_modules(scheme, modules));
        Self { quantization, ..self.clone() }
    }
}
