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
    /// State space and grouped attention side by side, behind them a dense MLP (Falcon-H1).
    FalconH1,
    /// State space or grouped attention, and a mixture of experts or a dense MLP (Granite 4).
    GraniteHybrid,
    /// Mamba or grouped attention, and an MLP or a mixture of experts (Jamba).
    Jamba,
    /// Short convolutions or grouped attention (LFM2).
    ShortConv,
    /// Twice latent attention and a dense MLP, beside them a mixture of experts (LongCat-Flash).
    Longcat,
    /// Grouped attention and an MLP of two matrices, of the years before 2024.
    Older,
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

    /// Whether its class takes the embedding table for the output head where the config says nothing.
    pub(super) fn ties_by_default(&self) -> bool {
        self.is(&[
            "bloom",
            "falcon",
            "gpt2",
            "gpt_bigcode",
            "granite_swa",
            "opt",
            "cohere",
            "cohere2",
            "cohere2_moe",
            "ernie4_5",
            "ernie4_5_moe",
            "gemma",
            "gemma2",
            "gemma3_text",
            "gemma4_text",
            "lfm2",
            "lfm2_moe",
            "minicpm",
            "minicpm3",
            "smollm3",
            "starcoder2",
            "vaultgemma",
        ])
    }

    /// Whether the two norms of its layers have biases.
    pub(super) fn has_biased_norms(&self) -> bool {
        self.is(&[
            "gpt_neox",
            "jais2",
            "nemotron",
            "phimoe",
            "phimoe_native",
            "stablelm",
            "starcoder2",
        ])
    }

    /// Whether its MLPs are an up and a down projection without a gate.
    pub(super) fn has_plain_mlps(&self) -> bool {
        self.is(&["apertus", "arcee", "gpt_neox", "jais2", "nemotron", "phi", "starcoder2"])
    }

    /// Entries of the list of layers that one layer of its checkpoints is.
    pub(super) fn entries_per_layer(&self) -> usize {
        if self.is(&["falcon_h1", "longcat_flash"]) { 2 } else { 1 }
    }

    /// What its modules are called that hold MLPs and experts.
    pub(super) fn parents(&self) -> Parents {
        let (mlp, moe) = match self.types[0] {
            "deepseek_v4" => ("ffn", "ffn"),
            "gemma4_text" | "step3p5" => ("mlp", "moe"),
            "kimi_linear" | "minimax_m2" | "minimax_m3" | "mixtral" => ("mlp", "block_sparse_moe"),
            "llama4_text" | "falcon_h1" | "jamba" | "lfm2" | "lfm2_moe" => {
                ("feed_forward", "feed_forward")
            }
            "granitemoe" | "granitemoe_swa" | "granitemoehybrid" | "granitemoeshared"
            | "phimoe" => ("shared_mlp", "block_sparse_moe"),
            "nemotron_h" => ("mixer", "mixer"),
            _ => ("mlp", "mlp"),
        };
        Parents { mlp, moe }
    }
}

/// By architecture. Types that end in `_text` are language models of multimodal checkpoints.
pub(super) const FAMILIES: &[Family] = &[
    family("AfmoeForCausalLM", &["afmoe"], Layers::Experts),
    family("ApertusForCausalLM", &["apertus"], Layers::Dense),
    family("ArceeForCausalLM", &["arcee"], Layers::Dense),
    family("BailingMoeForCausalLM", &["bailing_moe"], Layers::Experts),
    family("BailingMoeV2ForCausalLM", &["bailing_moe_v2", "bailing_moe"], Layers::Experts),
    family("BloomForCausalLM", &["bloom"], Layers::Older),
    family("Cohere2MoeForCausalLM", &["cohere2_moe"], Layers::Experts),
    family("Cohere2ForCausalLM", &["cohere2"], Layers::Dense),
    family("CohereForCausalLM", &["cohere"], Layers::Dense),
    family("CwmForCausalLM", &["cwm"], Layers::Dense),
    family("DeciLMForCausalLM", &["nemotron-nas"], Layers::Deci),
    family("DeepseekV2ForCausalLM", &["deepseek_v2"], Layers::Latent),
    family("DeepseekV32ForCausalLM", &["deepseek_v32"], Layers::Sparse),
    family("DeepseekV3ForCausalLM", &["deepseek_v3", "kimi_k2"], Layers::Latent),
    family("DeepseekV4ForCausalLM", &["deepseek_v4", "deepseek_ref"], Layers::Compressed),
    family("Ernie4_5_MoeForCausalLM", &["ernie4_5_moe"], Layers::Experts),
    family("Ernie4_5ForCausalLM", &["ernie4_5"], Layers::Dense),
    family("Exaone4ForCausalLM", &["exaone4"], Layers::Dense),
    family("ExaoneForCausalLM", &["exaone"], Layers::Dense),
    family("ExaoneMoeForCausalLM", &["exaone_moe"], Layers::Experts),
    family("FalconForCausalLM", &["falcon"], Layers::Older),
    family("FalconH1ForCausalLM", &["falcon_h1"], Layers::FalconH1),
    family("FlexOlmoForCausalLM", &["flex_olmo"], Layers::Experts),
    family("Gemma2ForCausalLM", &["gemma2"], Layers::Dense),
    family("Gemma3ForCausalLM", &["gemma3_text"], Layers::Dense),
    family("Gemma4ForCausalLM", &["gemma4_text"], Layers::Experts),
    family("GemmaForCausalLM", &["gemma"], Layers::Dense),
    family("Glm4ForCausalLM", &["glm4"], Layers::Dense),
    family("Glm4MoeForCausalLM", &["glm4_moe"], Layers::Experts),
    family("Glm4MoeLiteForCausalLM", &["glm4_moe_lite"], Layers::Latent),
    family("GlmForCausalLM", &["glm"], Layers::Dense),
    family("GlmMoeDsaForCausalLM", &["glm_moe_dsa"], Layers::Sparse),
    family("GPT2LMHeadModel", &["gpt2"], Layers::Older),
    family("GPTBigCodeForCausalLM", &["gpt_bigcode"], Layers::Older),
    family("GPTJForCausalLM", &["gptj"], Layers::Older),
    family("GPTNeoXForCausalLM", &["gpt_neox"], Layers::Dense),
    family("GptOssForCausalLM", &["gpt_oss"], Layers::Experts),
    family("GraniteForCausalLM", &["granite"], Layers::Dense),
    family("GraniteMoeForCausalLM", &["granitemoe"], Layers::Experts),
    family("GraniteMoeHybridForCausalLM", &["granitemoehybrid"], Layers::GraniteHybrid),
    family("GraniteMoeSharedForCausalLM", &["granitemoeshared"], Layers::Experts),
    family("GraniteMoeSWAForCausalLM", &["granitemoe_swa"], Layers::Experts),
    family("GraniteSWAForCausalLM", &["granite_swa"], Layers::Dense),
    family("HeliumForCausalLM", &["helium"], Layers::Dense),
    family("HYV3ForCausalLM", &["hy_v3"], Layers::Experts),
    family("HunYuanDenseV1ForCausalLM", &["hunyuan_v1_dense"], Layers::Dense),
    family("HunYuanMoEV1ForCausalLM", &["hunyuan_v1_moe"], Layers::Experts),
    family("InternLM2ForCausalLM", &["internlm2"], Layers::Dense),
    family("InternLM3ForCausalLM", &["internlm3"], Layers::Dense),
    family("Jais2ForCausalLM", &["jais2"], Layers::Dense),
    family("JambaForCausalLM", &["jamba"], Layers::Jamba),
    family("KimiLinearForCausalLM", &["kimi_linear"], Layers::KimiDelta),
    family("LagunaForCausalLM", &["laguna"], Layers::Experts),
    family("Lfm2ForCausalLM", &["lfm2"], Layers::ShortConv),
    family("Lfm2MoeForCausalLM", &["lfm2_moe"], Layers::ShortConv),
    family("Llama4ForCausalLM", &["llama4_text"], Layers::Experts),
    family("LlamaForCausalLM", &["llama"], Layers::Dense),
    family("LongcatFlashForCausalLM", &["longcat_flash"], Layers::Longcat),
    family("MellumForCausalLM", &["mellum"], Layers::Experts),
    family("MiMoForCausalLM", &["mimo"], Layers::Dense),
    family("MiMoV2FlashForCausalLM", &["mimo_v2_flash"], Layers::Experts),
    family("MiniCPM3ForCausalLM", &["minicpm3"], Layers::Latent),
    family("MiniCPMForCausalLM", &["minicpm"], Layers::Dense),
    family("MiniMaxM2ForCausalLM", &["minimax_m2"], Layers::Experts),
    family("MiniMaxM3SparseForCausalLM", &["minimax_m3"], Layers::Experts),
    family("Ministral3ForCausalLM", &["ministral3"], Layers::Dense),
    family("MistralForCausalLM", &["mistral", "ministral"], Layers::Dense),
    family("MixtralForCausalLM", &["mixtral"], Layers::Experts),
    family("NemotronForCausalLM", &["nemotron"], Layers::Dense),
    family("NemotronHForCausalLM", &["nemotron_h"], Layers::NemotronH),
    family("Olmo2ForCausalLM", &["olmo2"], Layers::Dense),
    family("Olmo3ForCausalLM", &["olmo3"], Layers::Dense),
    family("OlmoeForCausalLM", &["olmoe"], Layers::Experts),
    family("OlmoForCausalLM", &["olmo"], Layers::Dense),
    family("OlmoHybridForCausalLM", &["olmo_hybrid"], Layers::Delta),
    family("OPTForCausalLM", &["opt"], Layers::Older),
    family("Phi3ForCausalLM", &["phi3"], Layers::Dense),
    family("PhiForCausalLM", &["phi"], Layers::Dense),
    family("PhiMoEForCausalLM", &["phimoe"], Layers::Experts),
    family("PhimoeForCausalLM", &["phimoe_native", "phimoe"], Layers::Experts),
    family(
        "Qwen2ForCausalLM",
        &["qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
        Layers::Dense,
    ),
    family("Qwen2MoeForCausalLM", &["qwen2_moe"], Layers::Experts),
    family("Qwen3_5ForCausalLM", &["qwen3_5_text", "qwen3_5_moe_text"], Layers::Delta),
    family("Qwen3ForCausalLM", &["qwen3", "qwen3_vl_text"], Layers::Dense),
    family("Qwen3MoeForCausalLM", &["qwen3_moe", "qwen3_vl_moe_text"], Layers::Experts),
    family("Qwen3NextForCausalLM", &["qwen3_next"], Layers::Delta),
    family("SeedOssForCausalLM", &["seed_oss"], Layers::Dense),
    family("SmolLM3ForCausalLM", &["smollm3"], Layers::Dense),
    family("SolarOpenForCausalLM", &["solar_open"], Layers::Experts),
    family("StableLmForCausalLM", &["stablelm"], Layers::Dense),
    family("Starcoder2ForCausalLM", &["starcoder2"], Layers::Dense),
    family("Step3p5ForCausalLM", &["step3p5", "step3p7"], Layers::Experts),
    family("VaultGemmaForCausalLM", &["vaultgemma"], Layers::Dense),
];

/// Classes and types that are other families under another name.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    ("Qwen3_5MoeForCausalLM", "Qwen3_5ForCausalLM"),
    ("Step3p7FlashForCausalLM", "Step3p5ForCausalLM"),
    ("Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"),
    ("Mistral3ForConditionalGeneration", "MistralForCausalLM"),
    ("Qwen2VLForConditionalGeneration", "Qwen2ForCausalLM"),
    ("Qwen2_5_VLForConditionalGeneration", "Qwen2ForCausalLM"),
    ("ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"),
    ("LLaMAForCausalLM", "LlamaForCausalLM"),
    ("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"),
    ("Llama4ForConditionalGeneration", "Llama4ForCausalLM"),
    ("Qwen3VLForConditionalGeneration", "Qwen3ForCausalLM"),
    ("Qwen3VLMoeForConditionalGeneration", "Qwen3MoeForCausalLM"),
    ("MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3SparseForCausalLM"),
];
