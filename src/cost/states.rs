//! What layers with linear attention take beside their matrices.
//!
//! A sequence that decodes reads and writes its state, whatever its context; a prompt is computed in chunks, its time
//! in proportion to its tokens. Shares and fixed times are of kernels of gated delta nets measured by `AIConfigurator`
//! (`gdn_perf`, vLLM 0.24.0 and SGLang 0.5.14, convolution included, with 16 to 48 value heads): decodes of 64 and more
//! reach 0.7 to 0.9 of the memory bandwidth on H100, H200, B200, L40S and RTX PRO 6000; prompts of 1,000 and more
//! tokens 0.02 to 0.1 of the multiplications in 16 bits.

use super::StepShape;
use super::shares::{DELTA_DECODE_BANDWIDTH, KIMI_DECODE_BANDWIDTH};
use crate::hardware::GpuSpec;
use crate::model::{Mixer, ModelSpec};

/// Seconds of a layer's kernels for the first sequence that decodes.
const DECODE_SECS: f64 = 7e-6;
/// Share of the multiplications in 16 bits that prompts reach.
const PREFILL_COMPUTE: f64 = 0.05;
/// Seconds of a layer's kernels for the first token of prompts.
const PREFILL_SECS: f64 = 3e-5;

/// Seconds of all layers of a model that keep states; none of other models.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct States {
    decodes: f64,
    decode: f64,
    prefills: f64,
    prefill_token: f64,
}

impl States {
    /// Of layers with these mixers, so many of each, on one of `tp` GPUs; those with keys and values keep none.
    pub(super) fn of_mixers(mixers: &[(Mixer, u32)], gpu: &GpuSpec, tp: u32) -> Self {
        let mut states = Self::default();
        for (mixer, count) in mixers.iter().filter(|(mixer, _)| !mixer.has_kv()) {
            let layers = f64::from(*count);
            let bandwidth = match mixer {
                Mixer::KimiDelta(_) => KIMI_DECODE_BANDWIDTH,
                _ => DELTA_DECODE_BANDWIDTH,
            };
            let moved = 2.0 * layers * ModelSpec::state_of(mixer, tp, 0, false) as f64;
            let flops = layers * mixer.state_flops_per_token(tp) as f64;
            states.decodes += layers * DECODE_SECS;
            states.decode += moved / (bandwidth * gpu.memory_bandwidth());
            states.prefills += layers * PREFILL_SECS;
            states.prefill_token += flops / (PREFILL_COMPUTE * gpu.bf16_tflops * 1e12);
        }
        states
    }

    pub(super) fn secs(&self, shape: &StepShape) -> f64 {
        let (decodes, tokens) = (shape.decode_seqs, shape.prefill_tokens);
        let mut secs = 0.0;
        if decodes > 0 {
            secs += self.decodes + f64::from(decodes) * self.decode;
        }
        if tokens > 0 {
            secs += self.prefills + f64::from(tokens) * self.prefill_token;
        }
        secs
    }

    /// For the provenance of a cost model.
    pub(super) fn said(model: &ModelSpec) -> String {
        match model.state_layers() {
            0 => String::new(),
            layers => format!("; states in {layers} layers at shares of the rates"),
        }
    }
}
