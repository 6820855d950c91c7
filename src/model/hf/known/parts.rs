//! Keys of objects within a config: positions, single layers, kinds of attention, towers.

use crate::model::hf::keys::Known;
use crate::model::hf::keys::Rule::{Any, Off};

/// Keys of `rope_scaling` and `rope_parameters` beside those that say how far positions reach.
pub(in crate::model) const ROPE: &[Known] = &[Known {
    rule: Any,
    keys: &[
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "extrapolation_factor",
        "high_freq_factor",
        "long_factor",
        "long_mscale",
        "low_freq_factor",
        "mrope_interleaved",
        "mrope_section",
        "mscale",
        "mscale_all_dim",
        "partial_rotary_factor",
        "rope_theta",
        "short_factor",
        "short_mscale",
        "truncate",
    ],
}];

/// Keys of a layer of Nemotron-NAS that are off in all that are read.
pub(in crate::model) const BLOCK: &[Known] = &[
    Known {
        rule: Off("layers of another kind"),
        keys: &["replace_with_linear", "sparsify", "window_length"],
    },
    Known {
        rule: Off("attention sinks"),
        keys: &["num_sink_tokens", "unshifted_sink", "use_prefill_window_in_sink_attention"],
    },
];

/// Keys of `linear_attn_config` (Kimi) that change neither memory nor time.
pub(in crate::model) const LINEAR_ATTENTION: &[Known] =
    &[Known { rule: Any, keys: &["gate_lower_bound"] }];

/// Keys of `sparse_attention_config` (MiniMax-M3) that change neither memory nor time.
pub(in crate::model) const SPARSE_BLOCKS: &[Known] = &[Known {
    rule: Any,
    keys: &[
        "sparse_attention_type",
        "sparse_disable_index_value",
        "sparse_init_block",
        "sparse_local_block",
        "sparse_score_type",
    ],
}];

/// Keys of `vision_config` that change no weights.
pub(in crate::model) const VISION: &[Known] = &[Known {
    rule: Any,
    keys: &[
        "default_output_length",
        "mlp_type",
        "norm_type",
        "pooling_kernel_size",
        "position_embedding_type",
        "rope_mode",
        "standardize",
        "video_seq_length",
        "vision_segment_max_frames",
        "max_position_embeddings",
        "rope_parameters",
        "image_size",
        "activation_func",
        "architectures",
        "deepstack_visual_indexes",
        "dtype",
        "initializer_factor",
        "merge_type",
        "mm_projector_type",
        "num_heads",
        "pos_emb_interpolation_mode",
        "pos_emb_type",
        "projector_ln_eps",
        "torch_dtype",
        "video_attn_type",
    ],
}];
