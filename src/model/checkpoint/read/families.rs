//! The families that are read.
//!
//! To read another one: a line here, in the readers what differs from its kin, in the lists of known keys those that
//! change neither memory nor time, and its parameters in the tests.

use crate::model::checkpoint::quantized::Parents;

/// What the layers of a family are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layers {
    /// Grouped attention and a dense MLP.
    Dense,
    /// Grouped attention and a mixture of experts, perhaps not in all layers.
    Experts,
    /// Latent attention and a mixture of experts.
    Latent,
    /// Latent attention over chosen tokens and a mixture of experts.
    Sparse,
    /// Compressed latent attention (DeepSeek-V4).
    Compressed,
    /// Gated delta nets, every fourth layer grouped attention.
    Delta,
    /// Kimi delta attention, every fourth layer latent attention.
    KimiDelta,
    /// One of state space, attention, MLP or experts.
    NemotronH,
    /// Each of its own shape (`block_configs`).
    Deci,
}

/// A family of models.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// The entry of `architectures` of its language model.
    pub(super) architecture: &'static str,
    /// What `model_type` may be beside it; the first is the one the readers know the family by.
    pub(super) types: &'static [&'static str],
    /// What its layers are made of.
    pub(super) layers: Layers,
}

const fn family(
    architecture: &'static str,
    types: &'static [&'static str],
    layers: Layers,
) -> Family {
    Family { architecture, types, layers }
}

impl Family {
    /// Whether it is one of those that the readers know by these types.
    pub(super) fn is(&self, kinds: &[&str]) -> bool {
        kinds.contains(&self.types[0])
    }

    /// What its modules are called that hold MLPs and experts.
    pub(super) fn parents(&self) -> Parents {
        let (mlp, moe) = match self.types[0] {
            "deepseek_v4" => ("ffn", "ffn"),
            "gemma4_text" | "step3p5" => ("mlp", "moe"),
            "kimi_linear" | "minimax_m2" | "minimax_m3" | "mixtral" => ("mlp", "block_sparse_moe"),
            "llama4_text" => ("feed_forward", "feed_forward"),
            "nemotron_h" => ("mixer", "mixer"),
            _ => ("mlp", "mlp"),
        };
        Parents { mlp, moe }
    }
}

/// By architecture. Types that end in `_text` are language models of multimodal checkpoints.
pub(super) const FAMILIES: [Family; 34] = [
    family("Cohere2ForCausalLM", &["cohere2"], Layers::Dense),
    family("DeciLMForCausalLM", &["nemotron-nas"], Layers::Deci),
    family("DeepseekV2ForCausalLM", &["deepseek_v2"], Layers::Latent),
    family("DeepseekV32ForCausalLM", &["deepseek_v32"], Layers::Sparse),
    family("DeepseekV3ForCausalLM", &["deepseek_v3", "kimi_k2"], Layers::Latent),
    family("DeepseekV4ForCausalLM", &["deepseek_v4", "deepseek_ref"], Layers::Compressed),
    family("Exaone4ForCausalLM", &["exaone4"], Layers::Dense),
    family("Gemma4ForCausalLM", &["gemma4_text"], Layers::Experts),
    family("Gemma3ForCausalLM", &["gemma3_text"], Layers::Dense),
    family("GemmaForCausalLM", &["gemma"], Layers::Dense),
    family("Glm4MoeForCausalLM", &["glm4_moe"], Layers::Experts),
    family("GlmMoeDsaForCausalLM", &["glm_moe_dsa"], Layers::Sparse),
    family("GptOssForCausalLM", &["gpt_oss"], Layers::Experts),
    family("GraniteForCausalLM", &["granite"], Layers::Dense),
    family("KimiLinearForCausalLM", &["kimi_linear"], Layers::KimiDelta),
    family("Llama4ForCausalLM", &["llama4_text"], Layers::Experts),
    family("LlamaForCausalLM", &["llama"], Layers::Dense),
    family("MiMoForCausalLM", &["mimo"], Layers::Dense),
    family("MiMoV2FlashForCausalLM", &["mimo_v2_flash"], Layers::Experts),
    family("MiniMaxM2ForCausalLM", &["minimax_m2"], Layers::Experts),
    family("MiniMaxM3SparseForCausalLM", &["minimax_m3"], Layers::Experts),
    family("MistralForCausalLM", &["mistral", "ministral"], Layers::Dense),
    family("MixtralForCausalLM", &["mixtral"], Layers::Experts),
    family("NemotronHForCausalLM", &["nemotron_h"], Layers::NemotronH),
    family("Olmo2ForCausalLM", &["olmo2"], Layers::Dense),
    family("Olmo3ForCausalLM", &["olmo3"], Layers::Dense),
    family("Qwen2ForCausalLM", &["qwen2"], Layers::Dense),
    family("Qwen2MoeForCausalLM", &["qwen2_moe"], Layers::Experts),
    family("Qwen3ForCausalLM", &["qwen3", "qwen3_vl_text"], Layers::Dense),
    family("Qwen3MoeForCausalLM", &["qwen3_moe", "qwen3_vl_moe_text"], Layers::Experts),
    family("Qwen3NextForCausalLM", &["qwen3_next"], Layers::Delta),
    family("Qwen3_5ForCausalLM", &["qwen3_5_text", "qwen3_5_moe_text"], Layers::Delta),
    family("SeedOssForCausalLM", &["seed_oss"], Layers::Dense),
    family("Step3p5ForCausalLM", &["step3p5", "step3p7"], Layers::Experts),
];

/// Classes and types that are other families under another name.
pub(super) const ALIASES: [(&str, &str); 8] = [
    ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    ("Qwen3_5MoeForCausalLM", "Qwen3_5ForCausalLM"),
    ("Step3p7FlashForCausalLM", "Step3p5ForCausalLM"),
    ("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"),
    ("Llama4ForConditionalGeneration", "Llama4ForCausalLM"),
    ("Qwen3VLForConditionalGeneration", "Qwen3ForCausalLM"),
    ("Qwen3VLMoeForConditionalGeneration", "Qwen3MoeForCausalLM"),
    ("MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3SparseForCausalLM"),
];
