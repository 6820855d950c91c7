//! Which families are read, which keys of `config.json` only describe, and which show what is not
//! modelled.
//!
//! To read another family: a line in [`FAMILIES`], in the reader what differs from its kin, here those
//! of its keys that change neither memory nor time, and its parameter count in the tests.

mod parts;
mod quantization;

use super::keys::Known;
use super::keys::Rule::{Any, Off, OneOf};
pub(in crate::model) use parts::{BLOCK, LINEAR_ATTENTION, ROPE, SPARSE_BLOCKS, VISION};
pub(in crate::model) use quantization::{QUANTIZATION, QUANTIZED_GROUP, QUANTIZED_TENSOR};

/// A family of models whose layers are those of a [`ModelSpec`](crate::model::ModelSpec).
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// The entry of `architectures`.
    pub(super) architecture: &'static str,
    /// What `model_type` may be beside it; the first is the one the reader knows the family by.
    pub(super) types: &'static [&'static str],
    /// Which optional parts its layers have. Keys of other parts are refused.
    pub(super) parts: Parts,
    /// Whether most of its layers are gated delta nets.
    pub(super) has_states: bool,
}

impl Family {
    /// The same, most of whose layers are gated delta nets.
    const fn with_states(self) -> Self {
        Self { has_states: true, ..self }
    }

    /// Whether this is the family that the reader knows by this type.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.types[0] == kind
    }
}

/// Parts that the layers of a family may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// Grouped attention and a gated MLP.
    Dense,
    /// Grouped attention and a mixture of experts, perhaps not in all layers.
    Experts,
    /// Latent attention and a mixture of experts.
    LatentExperts,
}

const fn family(
    architecture: &'static str,
    types: &'static [&'static str],
    parts: Parts,
) -> Family {
    Family { architecture, types, parts, has_states: false }
}

/// The families that are read. Types that end in `_text` are the language models of multimodal
/// checkpoints, as these name them in `text_config`.
pub(super) const FAMILIES: [Family; 19] = [
    family("DeepseekV2ForCausalLM", &["deepseek_v2"], Parts::LatentExperts),
    family("DeepseekV3ForCausalLM", &["deepseek_v3", "kimi_k2"], Parts::LatentExperts),
    family("GemmaForCausalLM", &["gemma"], Parts::Dense),
    family("Glm4MoeForCausalLM", &["glm4_moe"], Parts::Experts),
    family("GptOssForCausalLM", &["gpt_oss"], Parts::Experts),
    family("GraniteForCausalLM", &["granite"], Parts::Dense),
    family("Llama4ForCausalLM", &["llama4_text"], Parts::Experts),
    family("LlamaForCausalLM", &["llama"], Parts::Dense),
    family("MiMoForCausalLM", &["mimo"], Parts::Dense),
    family("MiniMaxM2ForCausalLM", &["minimax_m2"], Parts::Experts),
    family("MistralForCausalLM", &["mistral"], Parts::Dense),
    family("MixtralForCausalLM", &["mixtral"], Parts::Experts),
    family("Qwen2ForCausalLM", &["qwen2"], Parts::Dense),
    family("Qwen2MoeForCausalLM", &["qwen2_moe"], Parts::Experts),
    family("Qwen3ForCausalLM", &["qwen3", "qwen3_vl_text"], Parts::Dense),
    family("Qwen3MoeForCausalLM", &["qwen3_moe", "qwen3_vl_moe_text"], Parts::Experts),
    family("Qwen3NextForCausalLM", &["qwen3_next"], Parts::Experts).with_states(),
    family("Qwen3_5ForCausalLM", &["qwen3_5_text"], Parts::Dense).with_states(),
    family("Qwen3_5MoeForCausalLM", &["qwen3_5_moe_text"], Parts::Experts).with_states(),
];

/// Keys of the whole file that nothing is read from.
pub(in crate::model) const DESCRIPTIONS: &[Known] = &[
    // Names, versions, and which code reads the file.
    Known {
        rule: Any,
        keys: &[
            "_attn_implementation",
            "_attn_implementation_autoset",
            "_commit_hash",
            "_name_or_path",
            "auto_map",
            "finetuning_task",
            "id2label",
            "label2id",
            "name_or_path",
            "prefix",
            "problem_type",
            "return_dict",
            "task_specific_params",
            "tf_legacy_loss",
            "tokenizer_class",
            "torchscript",
            "transformers_version",
            "unsloth_fixed",
            "unsloth_version",
            "use_bfloat16",
        ],
    },
    // Numbers of special tokens.
    Known {
        rule: Any,
        keys: &[
            "audio_token_id",
            "boa_token_id",
            "boi_token_id",
            "eoa_token_id",
            "eoa_token_index",
            "eoi_token_id",
            "ignore_index",
            "image_placeholder",
            "media_placeholder_token_id",
            "video_placeholder",
            "video_token_index",
            "begin_suppress_tokens",
            "boi_token_index",
            "bos_token_id",
            "cls_token_id",
            "decoder_start_token_id",
            "eoi_token_index",
            "eos_token_id",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "image_token_id",
            "image_token_index",
            "mask_token_id",
            "pad_token_id",
            "sep_token_id",
            "suppress_tokens",
            "unk_token_id",
            "video_token_id",
            "vision_end_token_id",
            "vision_start_token_id",
        ],
    },
    // How text is generated when nobody asks otherwise. Here the workload says how.
    Known {
        rule: Any,
        keys: &[
            "is_decoder",
            "num_logits_to_keep",
            "bad_words_ids",
            "diversity_penalty",
            "do_sample",
            "early_stopping",
            "encoder_no_repeat_ngram_size",
            "exponential_decay_length_penalty",
            "length_penalty",
            "max_length",
            "min_length",
            "no_repeat_ngram_size",
            "num_beam_groups",
            "num_beams",
            "num_return_sequences",
            "output_attentions",
            "output_hidden_states",
            "output_scores",
            "remove_invalid_values",
            "repetition_penalty",
            "return_dict_in_generate",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
            "use_cache",
        ],
    },
    // Training: dropout, initial values, losses, and how the trainer cut the model.
    Known {
        rule: Any,
        keys: &[
            "attention_dropout",
            "aux_loss_alpha",
            "embd_pdrop",
            "ep_size",
            "hidden_dropout",
            "initializer_range",
            "output_router_logits",
            "pretraining_tp",
            "resid_pdrop",
            "residual_dropout",
            "router_aux_loss_coef",
            "router_jitter_noise",
            "seq_aux",
        ],
    },
    // Scalars inside kernels that take as long with any value: norms, positions, the scaling of scores
    // and residuals, the choice among experts.
    Known {
        rule: Any,
        keys: &[
            "activation_situ_beta",
            "activation_situ_linear_beta",
            "attention_value_scale",
            "compress_rope_theta",
            "final_logit_softcapping",
            "gate_lower_bound",
            "hc_eps",
            "hc_sinkhorn_iters",
            "indexer_rope_interleave",
            "layer_norm_epsilon",
            "layernorm_epsilon",
            "mla_use_nope",
            "moe_renormalize",
            "moe_router_activation_func",
            "moe_router_scaling_factor",
            "norm_eps",
            "num_expert_group",
            "output_gate_type",
            "rescale_prenorm_residual",
            "residual_in_fp32",
            "swa_rope_theta",
            "swiglu_alpha",
            "time_step_floor",
            "time_step_limit",
            "time_step_max",
            "time_step_min",
            "use_gemma_norm",
            "use_grouped_topk",
            "use_mamba_kernels",
            "vocab_size_per_layer_input",
            "attention_multiplier",
            "attn_logit_softcapping",
            "attn_scale",
            "attn_temperature_tuning",
            "embedding_multiplier",
            "floor_scale",
            "initial_context_length",
            "layer_norm_eps",
            "logit_scale",
            "logits_scaling",
            "n_group",
            "norm_topk_prob",
            "original_max_position_embeddings",
            "partial_rotary_factor",
            "residual_multiplier",
            "query_pre_attn_scalar",
            "rms_norm_eps",
            "rope_local_base_freq",
            "rope_interleave",
            "rope_theta",
            "rotary_dim",
            "routed_scaling_factor",
            "swiglu_limit",
            "topk_group",
        ],
    },
    // Layers that draft (multi-token prediction). Engines load them only where they speculate with
    // them, and servecast says that drafts cost nothing.
    Known {
        rule: Any,
        keys: &[
            "index_share_for_mtp_iteration",
            "mtp_hybrid_override_pattern",
            "mtp_layers_block_type",
            "mtp_num_hidden_layers",
            "mtp_transformer_layers",
            "mtp_use_dedicated_embeddings",
            "num_mtp_modules",
            "num_nextn_predict_layers",
            "use_mtp",
        ],
    },
    // Activations of a gated MLP. Others belong to MLPs of two matrices.
    Known {
        rule: OneOf(&[
            "silu",
            "swish",
            "gelu",
            "gelu_new",
            "gelu_pytorch_tanh",
            "situ",
            "swigluoai",
        ]),
        keys: &["hidden_act", "hidden_activation"],
    },
    Known { rule: OneOf(&["relu2"]), keys: &["mlp_hidden_act"] },
    Known { rule: OneOf(&["silu"]), keys: &["mamba_hidden_act"] },
    // How images are cut and counted is told by the workload.
    Known {
        rule: Any,
        keys: &[
            "image_grid_pinpoints",
            "image_seq_length",
            "language_model_only",
            "process_image_mode",
            "projector_hidden_act",
            "use_unified_vision_chunk",
            "vision_feature_layer",
            "vision_feature_select_strategy",
            "vision_soft_tokens_per_image",
        ],
    },
    Known { rule: OneOf(&["vision", "false"]), keys: &["use_bidirectional_attention"] },
    Known { rule: Off("embeddings for every layer"), keys: &["hidden_size_per_layer_input"] },
    Known { rule: Off("reward heads"), keys: &["num_reward_heads"] },
    Known { rule: OneOf(&["softmax", "sigmoid", "sqrtsoftplus"]), keys: &["scoring_func"] },
    // States of linear attention.
    Known { rule: OneOf(&["float32"]), keys: &["mamba_ssm_dtype"] },
    Known { rule: OneOf(&["per_layer", "per_head"]), keys: &["qk_norm_type"] },
    Known { rule: Off(TOWERS), keys: &PARTS_OF_SEVERAL },
    Known { rule: Off("linear attention"), keys: &LINEAR },
    Known { rule: Off("state-space layers"), keys: &STATE_SPACE },
    Known { rule: Off("layers of several kinds or shapes"), keys: &SEVERAL_KINDS },
    Known { rule: Off("sparse attention"), keys: &SPARSE },
    Known { rule: Off("attention whose output is gated"), keys: &GATED },
    Known { rule: Off("layers that share a KV cache"), keys: &["num_kv_shared_layers"] },
    Known { rule: Off("an encoder, or attention to one"), keys: &ENCODER },
    Known { rule: Off("biases of MLPs"), keys: &["bias", "mlp_bias", "use_bias"] },
    Known { rule: Off("adapters inside attention"), keys: &["use_mla_lora"] },
    Known { rule: Off("removed heads"), keys: &["pruned_heads"] },
    Known { rule: Off("MLPs cut in chunks"), keys: &["chunk_size_feed_forward"] },
    Known { rule: Off("positions in several dimensions"), keys: &["use_mrope"] },
    Known { rule: Off("shared experts under this name"), keys: &["shared_intermediate_size"] },
];

const TOWERS: &str = "towers for images or sound; where text alone is served, give `text_config` as a file of its own";
const PARTS_OF_SEVERAL: [&str; 9] = [
    "audio_config",
    "img_token_compression_config",
    "language_config",
    "llm_config",
    "speech_config",
    "talker_config",
    "thinker_config",
    "vision_config",
    "vision_tower_config",
];
const LINEAR: [&str; 1] = ["linear_attn_config"];
const STATE_SPACE: [&str; 8] = [
    "mamba_d_state",
    "mamba_num_heads",
    "mamba_expand",
    "mb_per_layer",
    "ssm_cfg",
    "ssm_state_size",
    "state_size",
    "time_step_rank",
];
const SEVERAL_KINDS: [&str; 11] = [
    "altup_num_inputs",
    "attn_layer_offset",
    "attn_layer_period",
    "block_configs",
    "block_types",
    "expert_layer_offset",
    "expert_layer_period",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "layers_block_type",
    "swa_num_key_value_heads",
];
const SPARSE: [&str; 4] =
    ["compress_ratios", "index_topk", "indexer_types", "sparse_attention_config"];
const GATED: [&str; 1] = ["attention_output_gate"];
const ENCODER: [&str; 5] = [
    "add_cross_attention",
    "cross_attention_hidden_size",
    "cross_attention_layers",
    "is_encoder_decoder",
    "tie_encoder_decoder",
];
