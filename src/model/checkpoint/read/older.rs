//! Models of the years before 2024: `LayerNorm`, MLPs of two matrices, and names of their own for most sizes.

use super::families::Family;
use super::layers::count;
use super::mixers;
use crate::model::checkpoint::{DenseMlp, GroupedAttention, Layer, Mixer};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

/// What the layers of a family look like.
struct Shape {
    /// KV heads.
    kv_heads: u32,
    /// Whether attention has biases.
    attention_bias: bool,
    /// Width of the MLP.
    width: u32,
    /// Whether the MLP has biases.
    mlp_bias: bool,
    /// Norms, weights and biases each counted.
    norms: u32,
}

/// The layers of GPT-2, GPT-J, `StarCoder`, OPT, BLOOM and Falcon.
pub(super) fn read(
    keys: &Keys<'_>,
    family: &Family,
    hidden: u32,
) -> Result<Vec<Layer>, ModelError> {
    let count = count(keys)?;
    let heads = keys.required(&["num_attention_heads", "n_head"])?;
    if !hidden.is_multiple_of(heads) {
        let problem = format!("must divide the hidden size, {hidden}, got {heads}");
        return Err(keys.error("num_attention_heads", problem));
    }
    let four = hidden.checked_mul(4).ok_or_else(|| keys.error("hidden_size", "is too large"))?;
    let shape = match family.types[0] {
        "falcon" => falcon(keys, heads, four)?,
        "opt" => opt(keys, heads, four)?,
        "gpt_bigcode" => bigcode(keys, heads, four)?,
        "gptj" => Shape {
            kv_heads: heads,
            attention_bias: false,
            width: keys.optional(&["n_inner"])?.unwrap_or(four),
            mlp_bias: true,
            norms: 2,
        },
        _ => Shape {
            kv_heads: heads,
            attention_bias: true,
            width: keys.optional(&["n_inner"])?.unwrap_or(four),
            mlp_bias: true,
            norms: 4,
        },
    };
    activation(keys)?;
    let attention = GroupedAttention {
        qkv_bias: shape.attention_bias,
        output_bias: shape.attention_bias,
        ..mixers::plain(heads, shape.kv_heads, hidden / heads)
    };
    let dense = DenseMlp { width: shape.width, gated: false, bias: shape.mlp_bias };
    let layer = Layer {
        mixer: Some(Mixer::Grouped(attention)),
        dense: Some(dense),
        experts: None,
        norms: shape.norms,
    };
    Ok(vec![layer; count as usize])
}

fn falcon(keys: &Keys<'_>, heads: u32, four: u32) -> Result<Shape, ModelError> {
    let is_new = keys.flag(&["new_decoder_architecture"])?.unwrap_or(false);
    let is_parallel = keys.flag(&["parallel_attn"])?.unwrap_or(true);
    let shares = keys.flag(&["multi_query"])?.unwrap_or(true);
    let kv_heads = keys.optional(&["num_kv_heads", "n_head_kv"])?.unwrap_or(heads);
    let kv_heads = match (is_new, shares) {
        (true, _) => kv_heads,
        (false, true) => 1,
        (false, false) => heads,
    };
    let usual = if is_new { 2 } else { 1 };
    let norms = keys.optional(&["num_ln_in_parallel_attn"])?.unwrap_or(usual);
    let norms = if is_new || is_parallel { norms } else { 2 };
    let bias = keys.flag(&["bias"])?.unwrap_or(false);
    Ok(Shape {
        kv_heads,
        attention_bias: bias,
        width: keys.optional(&["ffn_hidden_size"])?.unwrap_or(four),
        mlp_bias: bias,
        norms: 2 * norms,
    })
}

fn opt(keys: &Keys<'_>, heads: u32, four: u32) -> Result<Shape, ModelError> {
    let hidden = keys.required(&["hidden_size"])?;
    if keys.optional(&["word_embed_proj_dim"])?.is_some_and(|width| width != hidden) {
        return Err(keys.error("word_embed_proj_dim", format!("must be the hidden size, {hidden}")));
    }
    for name in ["do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"] {
        if keys.flag(&[name])? == Some(false) {
            return Err(keys.error(name, "must be true"));
        }
    }
    Ok(Shape {
        kv_heads: heads,
        attention_bias: true,
        width: keys.optional(&["ffn_dim"])?.unwrap_or(four),
        mlp_bias: true,
        norms: 4,
    })
}

fn bigcode(keys: &Keys<'_>, heads: u32, four: u32) -> Result<Shape, ModelError> {
    let shares = keys.flag(&["multi_query"])?.unwrap_or(true);
    let kv_heads = if shares { 1 } else { heads };
    if keys.optional(&["num_key_value_heads"])?.is_some_and(|count| count != kv_heads) {
        return Err(keys.error("num_key_value_heads", format!("must be {kv_heads}")));
    }
    Ok(Shape {
        kv_heads,
        attention_bias: true,
        width: keys.optional(&["n_inner"])?.unwrap_or(four),
        mlp_bias: true,
        norms: 4,
    })
}

/// Activations of MLPs of two matrices, which take as long as one another.
fn activation(keys: &Keys<'_>) -> Result<(), ModelError> {
    let known = ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu"];
    match keys.text(&["activation_function", "activation"])? {
        Some(other) if !known.contains(&other) => {
            let problem = format!("must be one of {}, got {other}", known.join(", "));
            Err(keys.error("activation_function", problem))
        }
        _ => Ok(()),
    }
}
