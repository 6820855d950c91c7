//! Encoders of Qwen2-VL, Qwen2.5-VL, Gemma 3 and Mistral 3.

use super::{Part, Projector, Split, blocks, linear, vectors};
use crate::model::error::ModelError;
use crate::model::hf::keys::Keys;

const fn plain(count: u64, outputs: u64, inputs: u64, split: Split) -> Part {
    Part { count, outputs, inputs, has_bias: false, split }
}

/// What Qwen's encoders have before their blocks: patches of two frames.
fn patches(keys: &Keys<'_>, hidden: u64) -> Result<Part, ModelError> {
    let patch = u64::from(keys.required(&["patch_size"])?);
    let frames = u64::from(keys.required(&["temporal_patch_size"])?);
    let colours = keys.optional(&["in_channels", "in_chans"])?.map_or(3, u64::from);
    keys.pass("spatial_patch_size");
    keys.pass("in_chans");
    Ok(plain(1, hidden, colours * frames * patch * patch, Split::Whole))
}

/// What they have behind: a norm, and an MLP over the patches that become one.
fn merger(keys: &Keys<'_>, hidden: u64, outside: u64, norm: u64) -> Result<[Part; 3], ModelError> {
    let merged = hidden * u64::from(keys.required(&["spatial_merge_size"])?).pow(2);
    Ok([
        vectors(1, norm),
        linear(1, merged, merged, Split::Columns),
        linear(1, outside, merged, Split::Rows),
    ])
}

/// Qwen2-VL, where `hidden_size` is that of the language model.
pub(super) fn qwen2(keys: &Keys<'_>) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, outside, depth) = (read("embed_dim")?, read("hidden_size")?, read("depth")?);
    // Its MLPs are two matrices, whatever the activation between.
    keys.pass("hidden_act");
    let ratio = keys.optional(&["mlp_ratio"])?.map_or(4, u64::from);
    let mut parts = vec![patches(keys, hidden)?];
    parts.extend(blocks(depth, hidden, ratio * hidden));
    parts.extend(merger(keys, hidden, outside, 2 * hidden)?);
    Ok(parts)
}

/// Qwen2.5-VL: norms without biases, and gated MLPs.
pub(super) fn qwen2_5(keys: &Keys<'_>) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, outside, depth) = (read("hidden_size")?, read("out_hidden_size")?, read("depth")?);
    let width = read("intermediate_size")?;
    // Which blocks see all patches and how large the windows of others are changes no weights.
    for name in ["fullatt_block_indexes", "tokens_per_second", "window_size"] {
        keys.pass(name);
    }
    let mut parts = vec![
        patches(keys, hidden)?,
        vectors(depth, 2 * hidden),
        linear(depth, 3 * hidden, hidden, Split::Columns),
        linear(depth, hidden, hidden, Split::Rows),
        linear(depth, 2 * width, hidden, Split::Columns),
        linear(depth, hidden, width, Split::Rows),
    ];
    parts.extend(merger(keys, hidden, outside, hidden)?);
    Ok(parts)
}

/// `SigLIP` as Gemma 3 has it, and its projection.
pub(super) fn siglip(keys: &Keys<'_>, text: u64) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, layers, width) =
        (read("hidden_size")?, read("num_hidden_layers")?, read("intermediate_size")?);
    let (image, patch) = (read("image_size")?, read("patch_size")?);
    if keys.optional(&["num_channels"])?.is_some_and(|count| count != 3) {
        return Err(keys.error("num_channels", "must be 3"));
    }
    // vLLM builds no head that pools patches, whatever is said.
    keys.pass("vision_use_head");
    let mut parts = vec![
        linear(1, hidden, 3 * patch * patch, Split::Whole),
        vectors(1, (image / patch).pow(2) * hidden),
    ];
    parts.extend(blocks(layers, hidden, width));
    // The norm behind the blocks, and that before the projection.
    parts.push(vectors(1, 2 * hidden + hidden));
    parts.push(plain(1, text, hidden, Split::Whole));
    Ok(parts)
}

/// Pixtral as Mistral 3 has it: no biases, gated MLPs; behind it patches are merged and projected.
pub(super) fn pixtral(
    keys: &Keys<'_>,
    text: u64,
    projector: Projector,
) -> Result<Vec<Part>, ModelError> {
    let read = |name: &'static str| keys.required(&[name]).map(u64::from);
    let (hidden, layers, width) =
        (read("hidden_size")?, read("num_hidden_layers")?, read("intermediate_size")?);
    let patch = read("patch_size")?;
    let heads = read("num_attention_heads")?;
    let inner = keys.optional(&["head_dim"])?.map_or(hidden, |dim| heads * u64::from(dim));
    if keys.optional(&["num_channels"])?.is_some_and(|count| count != 3) {
        return Err(keys.error("num_channels", "must be 3"));
    }
    for name in ["vocab_size", "rope_theta"] {
        keys.pass(name);
    }
    let merged = hidden * u64::from(projector.merged).pow(2);
    let has_bias = projector.has_bias.unwrap_or(false);
    Ok(vec![
        plain(1, hidden, 3 * patch * patch, Split::Whole),
        vectors(2 * layers + 1, hidden),
        plain(layers, 3 * inner, hidden, Split::Columns),
        plain(layers, hidden, inner, Split::Rows),
        plain(layers, 2 * width, hidden, Split::Columns),
        plain(layers, hidden, width, Split::Rows),
        plain(1, hidden, merged, Split::Whole),
        vectors(1, hidden),
        Part { has_bias, ..plain(1, text, hidden, Split::Columns) },
        Part { has_bias, ..plain(1, text, text, Split::Rows) },
    ])
}
