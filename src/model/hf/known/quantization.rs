//! Keys of what says how weights are quantised.

use crate::model::hf::keys::Known;
use crate::model::hf::keys::Rule::{Any, Off, OneOf};

/// Keys of `quantization_config` that change neither the bytes of weights nor the types they are multiplied in.
pub(in crate::model) const QUANTIZATION: &[Known] = &[
    // How the checkpoint was made.
    Known {
        rule: Any,
        keys: &[
            "backend",
            "batch_size",
            "block_name_to_quantize",
            "cache_block_size",
            "checkpoint_format",
            "damp_auto_increment",
            "damp_percent",
            "dataset",
            "desc_act",
            "exllama_config",
            "global_compression_ratio",
            "max_input_length",
            "meta",
            "model_file_base_name",
            "model_name_or_path",
            "model_seqlen",
            "module_name_preceding_first_block",
            "pack_dtype",
            "pad_token_id",
            "producer",
            "quantization_status",
            "quantizer",
            "static_groups",
            "sym",
            "tokenizer",
            "true_sequential",
            "use_cuda_fp16",
            "use_exllama",
            "version",
            "zero_point",
        ],
    },
    // Scales of activations and the way scales are rounded.
    Known { rule: Any, keys: &["activation_scale_ub", "scale_fmt"] },
    Known { rule: OneOf(&["dynamic", "static"]), keys: &["activation_scheme"] },
    Known { rule: OneOf(&["e4m3", "float8_e4m3fn"]), keys: &["fmt"] },
    Known {
        rule: OneOf(&[
            "float-quantized",
            "int-quantized",
            "mxfp4-pack-quantized",
            "naive-quantized",
            "nvfp4-pack-quantized",
            "pack-quantized",
        ]),
        keys: &["format"],
    },
    Known { rule: Off("quantisation of single layers"), keys: &["dynamic", "quantized_layers"] },
    Known { rule: Off("a quantised head"), keys: &["lm_head"] },
    Known { rule: Off("transformed weights"), keys: &["transform_config"] },
];

/// Keys of a group of quantised tensors.
pub(in crate::model) const QUANTIZED_GROUP: &[Known] = &[
    Known { rule: Any, keys: &["format", "input_activations"] },
    Known { rule: Off("quantised outputs"), keys: &["output_activations"] },
];

/// Keys of one kind of quantised tensors.
pub(in crate::model) const QUANTIZED_TENSOR: &[Known] = &[Known {
    rule: Any,
    keys: &[
        "actorder",
        "dynamic",
        "group_size",
        "observer",
        "observer_kwargs",
        "scale_dtype",
        "strategy",
        "symmetric",
        "zp_dtype",
    ],
}];
