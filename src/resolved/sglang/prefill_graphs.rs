//! Whether SGLang captures prefill batches by itself.
//!
//! It began to in 0.5.10, and each version since has excepted other servers (0.5.9 to 0.5.23,
//! `sglang/srt/server_args.py`, `_handle_piecewise_cuda_graph` and `_disable_…_if_incompatible`; from 0.5.20
//! `sglang/srt/arg_groups/cuda_graph_hook.py`). Exceptions by flags that nothing here models are left out.

use crate::hardware::GpuSpec;
use crate::model::{ComputeRate, EngineVersion, Generation, ModelSpec, Packing};

/// The first that captures prefill batches, in pieces that are compiled.
const FIRST: EngineVersion = EngineVersion::patched(0, 5, 10);
/// Drafts are no exception any more.
const WITH_DRAFTS: EngineVersion = EngineVersion::patched(0, 5, 11);
/// Nor are sparse attention and experts whose kernels route.
const WITH_SPARSE_ATTENTION: EngineVersion = EngineVersion::patched(0, 5, 13);
/// Graphs are not compiled in pieces any more, but broken where they have to be ("breakable").
const BREAKABLE: EngineVersion = EngineVersion::patched(0, 5, 15);
/// The first known to do so with latent attention, adapters and several ranks (0.5.16 does not).
const BREAKABLE_WITH_ALL: EngineVersion = EngineVersion::patched(0, 5, 18);
/// The first known to except Kimi Delta Attention, and to capture longer batches of latent attention (0.5.18 does
/// neither).
const LONGER: EngineVersion = EngineVersion::patched(0, 5, 20);

/// Models of images and text are excepted, but for these from a version on.
const IMAGES: [(&str, EngineVersion); 6] = [
    ("Cohere2VisionForConditionalGeneration", LONGER),
    ("KimiK25ForConditionalGeneration", EngineVersion::patched(0, 5, 16)),
    ("KimiK3ForConditionalGeneration", BREAKABLE_WITH_ALL),
    ("MiniMaxM3SparseForConditionalGeneration", EngineVersion::patched(0, 5, 16)),
    ("Qwen3_5ForConditionalGeneration", EngineVersion::patched(0, 5, 16)),
    ("Qwen3_5MoeForConditionalGeneration", EngineVersion::patched(0, 5, 16)),
];
/// Of these SGLang serves the language model alone unless told otherwise.
const WITHOUT_IMAGES: [&str; 3] = [
    "Gemma3ForConditionalGeneration",
    "Llama4ForConditionalGeneration",
    "Step3VLForConditionalGeneration",
];
const KIMI_DELTA: [&str; 2] = ["KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"];
const NEVER_COMPILED: [&str; 2] = ["Qwen3NextForCausalLM", "BailingMoeV2_5ForCausalLM"];

/// What of a server decides it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefillGraphs<'a> {
    pub(crate) version: EngineVersion,
    pub(crate) model: &'a ModelSpec,
    pub(crate) gpu: &'a GpuSpec,
    /// Stages of its pipeline.
    pub(crate) stages: u32,
    /// Ranks that attend each to requests of its own.
    pub(crate) ranks: u32,
    pub(crate) has_adapters: bool,
    pub(crate) drafts: bool,
    /// Whether prompts are prefilled by other servers than those that decode.
    pub(crate) is_disaggregated: bool,
}

impl PrefillGraphs<'_> {
    /// Tokens of the largest batch that it captures, where a chunk is no smaller; none if it captures none.
    pub(crate) fn most_tokens(&self) -> Option<u32> {
        self.are_captured().then(|| self.limit())
    }

    /// The same of one that is told to capture them.
    pub(crate) fn limit(&self) -> u32 {
        match self.model.is_latent() {
            true if self.version < LONGER => 2048,
            true => 8192,
            false => u32::MAX,
        }
    }

    pub(crate) fn are_captured(&self) -> bool {
        let architecture = self.model.architecture.as_str();
        let is_common = self.version >= FIRST
            && self.gpu.vendor == "NVIDIA"
            && self.stages == 1
            && !architecture.starts_with("DeepseekV4")
            && !self.has_images(architecture);
        is_common
            && if self.version < BREAKABLE {
                self.are_compiled(architecture)
            } else {
                self.are_breakable(architecture)
            }
    }

    /// Whether it serves images too, in a way that was not made to work with graphs.
    fn has_images(&self, architecture: &str) -> bool {
        let since = IMAGES.iter().find(|(name, _)| *name == architecture).map(|(_, since)| since);
        architecture.ends_with("ForConditionalGeneration")
            && !WITHOUT_IMAGES.contains(&architecture)
            && since.is_none_or(|since| self.version < *since)
    }

    fn are_compiled(&self, architecture: &str) -> bool {
        let is_sparse = self.model.indexed_layers() > 0 || self.routes_in_kernels(architecture);
        self.ranks == 1
            && !self.has_adapters
            && !self.is_disaggregated
            && !NEVER_COMPILED.contains(&architecture)
            && (!self.drafts || self.version >= WITH_DRAFTS)
            && (!is_sparse || self.version >= WITH_SPARSE_ATTENTION)
    }

    fn are_breakable(&self, architecture: &str) -> bool {
        let is_early = self.version < BREAKABLE_WITH_ALL;
        let is_hard = self.model.is_latent() || self.has_adapters || self.ranks > 1;
        // Its attention has no kernel for captured prefills.
        let is_deepseek = architecture == "DeepseekV3ForCausalLM" && self.is_blackwell();
        let is_kimi = KIMI_DELTA.contains(&architecture) && self.version >= LONGER;
        !(is_deepseek || is_kimi || is_early && is_hard)
    }

    /// Whether the kernels of its experts choose them too: those for 8 and 4 bits on Blackwell, but for gpt-oss.
    fn routes_in_kernels(&self, architecture: &str) -> bool {
        let rate = self.model.main_packing().map_or(ComputeRate::Half, Packing::compute);
        self.is_blackwell()
            && self.model.experts().is_some()
            && rate != ComputeRate::Half
            && architecture != "GptOssForCausalLM"
    }

    fn is_blackwell(&self) -> bool {
        self.gpu.card().generation == Generation::Blackwell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles;

    fn most(version: u32, model: &str, gpu: &str) -> Option<u32> {
        let (model, gpu) = (profiles::model(model).expect(model), profiles::gpu(gpu).expect(gpu));
        let server = PrefillGraphs {
            version: EngineVersion::patched(0, 5, version),
            model: &model,
            gpu: &gpu,
            stages: 1,
            ranks: 1,
            has_adapters: false,
            drafts: false,
            is_disaggregated: false,
        };
        let most = server.most_tokens();
        assert_eq!(PrefillGraphs { stages: 2, ..server }.most_tokens(), None);
        let others = [
            PrefillGraphs { ranks: 2, ..server },
            PrefillGraphs { has_adapters: true, ..server },
            PrefillGraphs { is_disaggregated: true, ..server },
        ];
        for other in others {
            assert!(other.most_tokens().is_none_or(|tokens| Some(tokens) == most), "{other:?}");
            assert!(version >= 15 || other.most_tokens().is_none(), "{other:?}");
        }
        most
    }

    #[test]
    fn dense_models_are_captured_from_0_5_10_on() {
        let dense = |version| most(version, "Qwen/Qwen3-8B", "H100");
        assert_eq!(
            [9, 10, 14, 16, 23].map(dense),
            [None, Some(u32::MAX), Some(u32::MAX), Some(u32::MAX), Some(u32::MAX)]
        );
        assert_eq!(most(23, "Qwen/Qwen3-8B", "MI300X"), None);
    }

    #[test]
    fn latent_attention_is_captured_for_short_batches() {
        let latent = |version| most(version, "deepseek-ai/DeepSeek-V3", "H200");
        assert_eq!(
            [9, 10, 14, 16, 18, 23].map(latent),
            [None, Some(2048), Some(2048), None, Some(2048), Some(8192)]
        );
        let on_blackwell = |version| most(version, "deepseek-ai/DeepSeek-V3", "B200");
        assert_eq!([10, 13, 15, 23].map(on_blackwell), [None, Some(2048), None, None]);
        let sparse = |version| most(version, "deepseek-ai/DeepSeek-V3.2", "H200");
        assert_eq!([10, 13, 23].map(sparse), [None, Some(2048), Some(8192)]);
    }

    #[test]
    fn models_of_images_are_captured_where_that_was_tried() {
        let of = |model: &'static str| move |version| most(version, model, "H100").is_some();
        assert_eq!([10, 16, 23].map(of("nvidia/Kimi-K2.6-NVFP4")), [false, false, true]);
        assert_eq!([10, 16, 23].map(of("moonshotai/Kimi-K2.5")), [false, false, true]);
        assert_eq!([10, 14, 23].map(of("moonshotai/Kimi-K2-Thinking")), [true, true, true]);
        assert_eq!([10, 16, 23].map(of("Qwen/Qwen3.5-35B-A3B")), [false, true, true]);
        assert_eq!([10, 23].map(of("google/gemma-4-26B-A4B")), [false, false]);
        assert_eq!([10, 23].map(of("meta-llama/Llama-4-Scout-17B-16E-Instruct")), [true, true]);
        assert_eq!([10, 15].map(of("Qwen/Qwen3-Next-80B-A3B-Instruct")), [false, true]);
        assert_eq!([10, 12].map(of("openai/gpt-oss-120b")), [true, true]);
    }
}
