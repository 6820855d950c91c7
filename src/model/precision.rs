//! Number formats of weights and KV caches, and the bytes they take.
//!
//! A quantised checkpoint converts some modules and leaves others in its 16-bit type; embeddings,
//! output head, routers, norms and biases are always left, as vLLM and SGLang serve them.

use serde::{Deserialize, Serialize};

/// The type of weights that are not quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 16 bits, eight of them exponent.
    #[default]
    Bfloat16,
    /// 16 bits, five of them exponent.
    Float16,
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bfloat16 | Self::Float16 => 2,
        }
    }
}

/// The type of the KV cache (`--kv-cache-dtype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KvDtype {
    /// 16 bits, the type the model computes in.
    #[default]
    Auto,
    /// 8 bits.
    Fp8,
}

impl KvDtype {
    /// Whether it is the type the model computes in.
    pub const fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Auto => 2,
            Self::Fp8 => 1,
        }
    }
}

/// A part of the model that a checkpoint quantises or not as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// Projections of attention.
    Attention,
    /// MLPs of dense layers.
    Mlp,
    /// Routed experts.
    Experts,
    /// Experts that every token visits.
    SharedExperts,
    /// The choice of experts.
    Router,
    /// The table of input embeddings.
    Embedding,
    /// The projection to the vocabulary.
    LmHead,
}

impl Module {
    /// The parts a quantised checkpoint may convert.
    pub const CONVERTIBLE: [Self; 4] =
        [Self::Attention, Self::Mlp, Self::Experts, Self::SharedExperts];
}

/// How weights are stored, and so how fast they are read and multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Scheme {
    /// Integers with a 16-bit scale and an integer zero point per group of inputs, multiplied in
    /// 16 bits after conversion: GPTQ, AWQ, and `pack-quantized` compressed tensors.
    IntGroups {
        /// Bits per weight, 4 or 8.
        bits: u32,
        /// Inputs that share a scale.
        group: u32,
    },
    /// 8-bit floats, multiplied in 8 bits where the GPU can.
    Fp8 {
        /// Outputs and inputs that share a 32-bit scale; one scale per output if absent.
        block: Option<[u32; 2]>,
    },
    /// 8-bit integers for weights and activations, one 32-bit scale per output.
    Int8,
    /// 4-bit floats, an 8-bit scale per 32 weights, multiplied in 16 bits after conversion
    /// (OCP MX specification 1.0).
    Mxfp4,
    /// 4-bit floats, an 8-bit scale per 16 weights, multiplied in 4 bits where the GPU can.
    Nvfp4,
}

/// The rate of the GPU that bounds a matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeRate {
    /// Products of 16-bit floats.
    Half,
    /// Products of 8-bit floats.
    Fp8,
    /// Products of 8-bit integers.
    Int8,
    /// Products of 4-bit floats.
    Fp4,
}

impl Scheme {
    /// Bytes of a matrix of `outputs` × `inputs` weights, scales included.
    pub fn bytes(self, outputs: u64, inputs: u64) -> u64 {
        let weights = outputs * inputs;
        match self {
            Self::IntGroups { bits, group } => {
                let (bits, group) = (u64::from(bits), u64::from(group.max(1)));
                let groups = outputs * inputs.div_ceil(group);
                (weights * bits).div_ceil(8) + groups * 2 + (groups * bits).div_ceil(8)
            }
            Self::Fp8 { block: Some([rows, columns]) } => {
                let scales = outputs.div_ceil(u64::from(rows.max(1)))
                    * inputs.div_ceil(u64::from(columns.max(1)));
                weights + 4 * scales
            }
            Self::Fp8 { block: None } | Self::Int8 => weights + 4 * outputs,
            Self::Mxfp4 => weights.div_ceil(2) + weights.div_ceil(32),
            Self::Nvfp4 => weights.div_ceil(2) + weights.div_ceil(16),
        }
    }

    /// The rate at which products with these weights run, if the GPU has it.
    pub const fn compute(self) -> ComputeRate {
        match self {
            Self::IntGroups { .. } | Self::Mxfp4 => ComputeRate::Half,
            Self::Fp8 { .. } => ComputeRate::Fp8,
            Self::Int8 => ComputeRate::Int8,
            Self::Nvfp4 => ComputeRate::Fp4,
        }
    }
}

/// A scheme and the modules it converts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantization {
    /// How converted weights are stored.
    pub scheme: Scheme,
    /// The modules converted.
    pub modules: Vec<Module>,
}

/// The number formats of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightFormat {
    /// The type of weights that are not quantised.
    pub dtype: Dtype,
    /// The quantisation, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
}

impl WeightFormat {
    /// The scheme a module is stored in; `None` when it keeps the 16-bit type.
    pub fn scheme(&self, module: Module) -> Option<Scheme> {
        let quantization = self.quantization.as_ref()?;
        quantization.modules.contains(&module).then_some(quantization.scheme)
    }

    /// Bytes of a matrix of `outputs` × `inputs` weights of a module.
    pub fn bytes(&self, module: Module, outputs: u64, inputs: u64) -> u64 {
        match self.scheme(module) {
            Some(scheme) => scheme.bytes(outputs, inputs),
            None => outputs * inputs * self.dtype.bytes(),
        }
    }

    /// The rate at which products with a module's weights run.
    pub fn compute(&self, module: Module) -> ComputeRate {
        self.scheme(module).map_or(ComputeRate::Half, Scheme::compute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_counted_with_the_weights() {
        let int4 = Scheme::IntGroups { bits: 4, group: 128 };
        // 256·512 weights of 4 bits; 256·4 groups of a 16-bit scale and a 4-bit zero.
        assert_eq!(int4.bytes(256, 512), 65_536 + 2048 + 512);
        let fp8 = Scheme::Fp8 { block: Some([128, 128]) };
        assert_eq!(fp8.bytes(256, 512), 131_072 + 4 * 2 * 4);
        assert_eq!(Scheme::Mxfp4.bytes(32, 32), 512 + 32);
    }
}
