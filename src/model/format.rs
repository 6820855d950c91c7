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
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Fp8, Self::Nvfp4, Self::Mxfp4];

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fp8 => "fp8",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
        }
    }

    /// What most quantised matrices of a checkpoint are stored in; nothing of formats that have no name here, such as
    /// groups of integers.
    pub fn of_checkpoint(model: &ModelSpec) -> Option<Self> {
        match model.main_packing() {
            None => model.quantization.is_none().then_some(Self::None),
            Some(Packing::Fp8 | Packing::Fp8Blocks { .. }) => Some(Self::Fp8),
            Some(Packing::Nvfp4) => Some(Self::Nvfp4),
            Some(Packing::Mxfp4) => Some(Self::Mxfp4),
            Some(Packing::Mxfp8 | Packing::Int8 | Packing::IntGroups { .. }) => None,
        }
    }

    /// The scheme and the modules that it converts in a model.
    ///
    /// In 4 bits, mixtures of experts and models with latent attention keep the projections of attention as
    /// they are computed, as the published checkpoints do (`nvidia/DeepSeek-R1-FP4`,
    /// `nvidia/Qwen3-235B-A22B-NVFP4`, `openai/gpt-oss-120b`); dense models convert them too
    /// (`nvidia/Llama-3.3-70B-Instruct-FP4`).
    fn of(self, model: &ModelSpec) -> Option<QuantizedWeights> {
        let scheme = match self {
            Self::None => return None,
            Self::Fp8 => Scheme::Fp8 { block: model.experts().map(|_| [128, 128]) },
            Self::Nvfp4 => Scheme::Nvfp4,
            Self::Mxfp4 => Scheme::Mxfp4,
        };
        let is_plain = model.experts().is_none() && !model.is_latent();
        let converts =
            |module: &Module| self == Self::Fp8 || is_plain || *module != Module::Attention;
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
