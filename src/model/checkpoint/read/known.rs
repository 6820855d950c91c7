//! Keys of families that are read as layers only, beside those that both readers know.

use crate::model::hf::keys::Known;
use crate::model::hf::keys::Rule::{Any, Off, OneOf};
use crate::model::hf::known;

/// The keys of a config of a model that nothing is read from.
pub(super) fn descriptions() -> Vec<Known> {
    [OF_FAMILIES, known::DESCRIPTIONS].concat()
}

/// The keys of `rope_scaling` and `rope_parameters` that nothing is read from.
pub(super) fn rope() -> Vec<Known> {
    [&[SCALED], known::ROPE].concat()
}

/// Scores of long contexts, as Ministral 3 scales them.
const SCALED: Known =
    Known { rule: Any, keys: &["llama_4_scaling_beta", "max_position_embeddings"] };

/// Keys of single families.
pub(super) const OF_FAMILIES: &[Known] = &[
    // Tokens, training and the choice among experts.
    Known {
        rule: Any,
        keys: &[
            "classifier_dropout",
            "embedding_dropout",
            "embedding_initializer_range",
            "eod_token_id",
            "im_end_id",
            "im_newline_id",
            "im_start_id",
            "input_jitter_noise",
            "moe_dropout_prob",
            "moe_gate",
            "moe_norm_min",
            "org_vocab_size",
            "text_end_id",
            "text_start_id",
            "mm_tokens_per_image",
            "vision_token_id",
            "z_loss_coefficient",
        ],
    },
    // Scalars and choices inside kernels that take as long with any value.
    Known {
        rule: Any,
        keys: &[
            "attention_in_multiplier",
            "attention_out_multiplier",
            "dim_model_base",
            "key_multiplier",
            "layer_rope_theta",
            "linear_a_log_max",
            "linear_a_log_min",
            "linear_allow_neg_eigval",
            "linear_dt_init_floor",
            "linear_dt_max",
            "linear_dt_min",
            "lm_head_multiplier",
            "mlp_multipliers",
            "enable_moe_fp32_combine",
            "moe_routed_scaling_factor",
            "moe_router_logit_softcapping",
            "moe_router_topk_scaling_factor",
            "router_scaling_factor",
            "mup_enabled",
            "norm_epsilon",
            "norm_head",
            "norm_softmax",
            "rotary_emb_base",
            "rotary_pct",
            "route_norm",
            "route_scale",
            "router_dtype",
            "scale_depth",
            "scale_emb",
            "score_func",
            "score_function",
            "ssm_in_multiplier",
            "ssm_multipliers",
            "ssm_out_multiplier",
            "use_parallel_residual",
            "use_rmsnorm",
        ],
    },
    // Which code runs the older families, and how they were trained.
    Known {
        rule: Any,
        keys: &[
            "alibi",
            "apply_residual_connection_post_layernorm",
            "attention_softmax_in_fp32",
            "attn_pdrop",
            "dropout",
            "init_std",
            "layerdrop",
            "reorder_and_upcast_attn",
            "scale_attention_softmax_in_fp32",
            "scale_attn_by_inverse_layer_idx",
            "scale_attn_weights",
            "slow_but_exact",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        ],
    },
    Known { rule: Off("no norm behind the last layer"), keys: &["_remove_final_layer_norm"] },
    // Cohere's first layers have dense MLPs, and windows only if this is not 1.
    Known { rule: OneOf(&["1"]), keys: &["prefix_dense_sliding_window_pattern"] },
    Known { rule: OneOf(&["softmax", "sigmoid"]), keys: &["expert_selection_fn"] },
    Known { rule: OneOf(&["average", "sum"]), keys: &["shared_expert_combination_strategy"] },
    Known { rule: OneOf(&["identity"]), keys: &["zero_expert_type"] },
    Known { rule: OneOf(&["LLLG", "6"]), keys: &["sliding_window_pattern"] },
    Known { rule: OneOf(&["silu"]), keys: &["activation_function"] },
    Known { rule: Off("sinks of windows"), keys: &["swa_attention_sink_enabled"] },
    Known { rule: Off("weights before experts"), keys: &["moe_apply_router_weight_on_input"] },
    Known { rule: Off("clipped queries and keys"), keys: &["clip_qkv"] },
    Known { rule: Off("norms of queries and keys for each head"), keys: &["qk_layernorm"] },
    Known { rule: Off("layers that share a KV cache"), keys: &["use_cla", "cla_share_factor"] },
];
